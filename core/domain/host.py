"""Host resources available to a job: samples of monotonic counters, and their rates over a window. Pure.

A value that the system does not provide is None, never 0, for example on a kernel without PSI (`psi=0` is the default
of RHEL), in a container, or on a system other than Linux. Sources: Linux kernel documentation, "PSI - Pressure Stall
Information" (system level), "Scheduler Statistics" (`/proc/<pid>/schedstat`), "Control Group v2" (`cpu.stat`,
`memory.events`), "CFS Bandwidth Control" (v1), and proc(5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from slotkeeper.core.domain.field import Moment

SHORT, LONG, STEPS = 10.0, 60.0, 300.0
"""Lengths in seconds of the windows over which shares are computed; PSI's averages use the same lengths."""


@dataclass(frozen=True, slots=True)
class HostSample:
    """One sample of counters, which count from boot, or from the start of the process or control group."""

    at: float
    """Monotonic seconds."""
    cpu_stalled: float | None = None
    """Seconds for which at least one task waited for a CPU (PSI, cpu, some)."""
    memory_stalled: float | None = None
    """Seconds for which all non-idle tasks waited for memory (PSI, memory, full)."""
    io_stalled: float | None = None
    """Seconds for which all non-idle tasks waited for a disk (PSI, io, full)."""
    periods: float | None = None
    """Number of periods of the control group's CPU limit; None without a limit."""
    throttled: float | None = None
    """Number of periods in which that limit throttled the group."""
    driver_cpu: float | None = None
    """CPU seconds of the driver's process."""
    java_cpu: float | None = None
    """CPU seconds of its Java process."""
    ran: float | None = None
    """CPU seconds of all threads of the driver and its child processes."""
    waited: float | None = None
    """Seconds for which these threads were ready to run but had no CPU."""
    read: float | None = None
    """Seconds that the job's steps spent reading from its source."""
    write: float | None = None
    """Seconds that the job's steps spent writing to its sink."""
    register: float | None = None
    """Seconds that the job's steps spent registering positions."""


_COUNTERS = (
    "cpu_stalled", "memory_stalled", "io_stalled", "driver_cpu", "java_cpu", "ran", "waited", "read", "write",
    "register",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostShare:
    """The per-second increase of the counters within a window."""

    seconds: float
    """The length of the window, seconds."""
    cpu_stalled: float | None = None
    """Share of the time in which a task waited for a CPU."""
    memory_stalled: float | None = None
    """Share of the time in which all non-idle tasks waited for memory."""
    io_stalled: float | None = None
    """Share of the time in which all non-idle tasks waited for a disk."""
    throttled: float | None = None
    """Share of periods in which the CPU limit of the driver's control group throttled it; null: no limit known."""
    driver_cpu: float | None = None
    """CPUs used by the driver's process."""
    java_cpu: float | None = None
    """CPUs used by its Java process; null: there is no such process, or the value is unknown."""
    ran: float | None = None
    """CPUs used by all threads of the job."""
    waited: float | None = None
    """Average number of the job's threads that were ready to run and waited for a CPU."""
    read: float | None = None
    """Average number of steps that were reading from the source."""
    write: float | None = None
    """Average number of steps that were writing to the sink."""
    register: float | None = None
    """Average number of steps that were registering positions."""

    @property
    def got(self) -> float | None:
        """The share of time in which the job's threads had a CPU while they were ready to run; None if unknown.

        >>> HostShare(10.0, ran=0.25, waited=0.75).got
        0.25
        """
        if self.ran is None or self.waited is None or self.ran + self.waited <= 0:
            return None
        return self.ran / (self.ran + self.waited)


@dataclass(frozen=True, slots=True)
class HostReport:
    """Measurements of this host and of the job's processes by the job's supervisor."""

    at: Moment
    """Time of the measurement."""
    cpus: int | None = None
    """Number of CPUs that the driver can use."""
    load: float | None = None
    """Load average over a minute: tasks that are running, ready to run, or waiting for a disk."""
    available: int | None = None
    """Memory that is available to programs, bytes (MemAvailable)."""
    free: int | None = None
    """Free space on the disk that holds the state folder, bytes."""
    driver_memory: int | None = None
    """Resident memory of the driver's process, bytes."""
    java_memory: int | None = None
    """Resident memory of its Java process, bytes; null: there is no such process, or the value is unknown."""
    oom_kills: int | None = None
    """Number of processes of the driver's control group that the kernel has killed because memory ran out."""
    oom_kills_new: int | None = None
    """Number of these processes that were killed since the driver started."""
    sink_here: bool | None = None
    """Whether the sink runs on this host and is therefore affected by the same shortages."""
    short: HostShare | None = None
    """The last 10 s; null: fewer than two samples."""
    long: HostShare | None = None
    """The last 60 s; null: fewer than two samples."""
    steps: HostShare | None = None
    """The last 300 s; this window is longer because a step is counted when it is committed, and can take longer than a
    minute; null: fewer than two samples."""


def over(samples: Sequence[HostSample], seconds: float) -> HostShare | None:
    """Return the shares over the last `seconds`; None with fewer than two samples. The oldest sample is first.

    The window starts with the newest sample that is old enough, or else with the oldest sample. If that sample lacks a
    counter, the counter's window starts with the first sample that contains it. A counter that decreased belongs to a
    different process, so its share is unknown.
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
    """Return the increase of a counter per second, from the first sample that contains it to the last sample."""
    first, last = next((one for one in samples if getattr(one, name) is not None), samples[-1]), samples[-1]
    before, after = getattr(first, name), getattr(last, name)
    if before is None or after is None or after < before or first.at >= last.at:
        return None
    return float(round((after - before) / (last.at - first.at), 4))
