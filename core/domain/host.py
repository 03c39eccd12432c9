"""What this host gave a job: samples of counters that only grow, and what they come to over a window. Pure.

A figure that the system does not give is None, never 0: a kernel without PSI (`psi=0` is the default of RHEL), a
container, another system than Linux. Sources: Linux kernel documentation, "PSI - Pressure Stall Information" (system
level), "Scheduler Statistics" (`/proc/<pid>/schedstat`), "Control Group v2" (`cpu.stat`, `memory.events`), "CFS
Bandwidth Control" (v1), and proc(5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slotkeeper.core.domain.field import Moment

SHORT, LONG, STEPS = 10.0, 60.0, 300.0
"""Seconds of the windows over which shares are given, as PSI's own averages have them."""


@dataclass(frozen=True, slots=True)
class HostSample:
    """One reading; seconds and counts since the boot, or since the process or the control group began."""

    at: float
    """Monotonic seconds."""
    cpu_stalled: float | None = None
    """For how long at least one task waited for a CPU (PSI, cpu, some)."""
    memory_stalled: float | None = None
    """For how long all tasks that were not idle waited for memory (PSI, memory, full)."""
    io_stalled: float | None = None
    """For how long all tasks that were not idle waited for a disk (PSI, io, full)."""
    periods: float | None = None
    """Periods of the control group's CPU limit; None without a limit."""
    throttled: float | None = None
    """Periods in which that limit stopped it."""
    driver_cpu: float | None = None
    """CPU seconds of the driver's process."""
    java_cpu: float | None = None
    """CPU seconds of its Java process."""
    ran: float | None = None
    """CPU seconds of all threads of the driver and of the processes below it."""
    waited: float | None = None
    """For how long these threads were ready to run and had no CPU."""
    read: float | None = None
    """Seconds that the job's steps spent reading from its source."""
    write: float | None = None
    """Seconds that they spent writing to its sink."""
    register: float | None = None
    """Seconds that they spent registering."""


_COUNTERS = (
    "cpu_stalled", "memory_stalled", "io_stalled", "driver_cpu", "java_cpu", "ran", "waited", "read", "write",
    "register",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostShare:
    """What the counters grew by in a window, for each of its seconds."""

    seconds: float
    """How long the window was."""
    cpu_stalled: float | None = None
    """Part of the time in which a task waited for a CPU."""
    memory_stalled: float | None = None
    """Part of the time in which all tasks that were not idle waited for memory."""
    io_stalled: float | None = None
    """Part of the time in which all tasks that were not idle waited for a disk."""
    throttled: float | None = None
    """Part of its periods in which the CPU limit of the driver's control group stopped it; null: no limit known."""
    driver_cpu: float | None = None
    """CPUs that the driver's process had."""
    java_cpu: float | None = None
    """CPUs that its Java process had; null: none, or it is not known."""
    ran: float | None = None
    """CPUs that all threads of the job had."""
    waited: float | None = None
    """Threads of the job that were ready to run and waited for a CPU."""
    read: float | None = None
    """Steps that read from the source."""
    write: float | None = None
    """Steps that wrote to the sink."""
    register: float | None = None
    """Steps that registered."""

    @property
    def got(self) -> float | None:
        """The part that the job's threads had of the CPU time that they were ready for; None where that is unknown.

        >>> HostShare(10.0, ran=0.25, waited=0.75).got
        0.25
        """
        if self.ran is None or self.waited is None or self.ran + self.waited <= 0:
            return None
        return self.ran / (self.ran + self.waited)


@dataclass(frozen=True, slots=True)
class HostReport:
    """What a job's supervisor measured of this host and of the job's processes."""

    at: Moment
    """When."""
    cpus: int | None = None
    """CPUs that the driver may run on."""
    load: float | None = None
    """Load over a minute: tasks that run, are ready to, or wait for a disk."""
    available: int | None = None
    """Memory that programs can still get, bytes (MemAvailable)."""
    free: int | None = None
    """Free space of the state folder's disk, bytes."""
    driver_memory: int | None = None
    """Resident memory of the driver's process, bytes."""
    java_memory: int | None = None
    """Resident memory of its Java process, bytes; null: none, or it is not known."""
    oom_kills: int | None = None
    """Processes of the driver's control group that the kernel has killed for lack of memory."""
    oom_kills_new: int | None = None
    """How many of these came since the driver was started."""
    sink_here: bool | None = None
    """Whether the sink runs on this host, and lacks what the host lacks."""
    short: HostShare | None = None
    """The last 10 s; null: two readings are needed."""
    long: HostShare | None = None
    """The last 60 s; null: two readings are needed."""
    steps: HostShare | None = None
    """The last 300 s: a step counts where it was committed, and may take longer than a minute; null: two readings are
    needed."""


def over(samples: Sequence[HostSample], seconds: float) -> HostShare | None:
    """Return the shares over the last seconds, the oldest sample first; None without two samples.

    The window begins with the newest sample that is old enough, else with the oldest, and for a counter that was not
    known then with the first that has it. A counter that became smaller is of another process than before: unknown.
    """
    if len(samples) < 2:
        return None
    last = samples[-1]
    first = next((one for one in reversed(samples[:-1]) if last.at - one.at >= seconds), samples[0])
    length = last.at - first.at
    if length <= 0:
        return None
    within = [one for one in samples if one.at >= first.at]
    found = HostShare(length, **{name: _rate(within, name) for name in _COUNTERS})
    periods, throttled = _rate(within, "periods"), _rate(within, "throttled")
    part = round(throttled / periods, 4) if throttled is not None and periods else None
    return replace(found, throttled=part)


def _rate(samples: Sequence[HostSample], name: str) -> float | None:
    """By how much a counter grew in a second, from the first sample that has it to the last."""
    first, last = next((one for one in samples if getattr(one, name) is not None), samples[-1]), samples[-1]
    before, after = getattr(first, name), getattr(last, name)
    if before is None or after is None or after < before or first.at >= last.at:
        return None
    return float(round((after - before) / (last.at - first.at), 4))
