"""Read a job's resources, and the reason why one of its processes was killed, from /proc and the control groups.

Each read returns at most 64 KiB of a file in one of the kernel's file systems; no subprocess or server is involved. A
value that is absent or cannot be read is None. Sources: `slotkeeper.core.domain.host`, and for out-of-memory kills
"Control Group v2" (`memory.events`, `oom_kill`), "Memory Resource Controller" (v1, `memory.oom_control`) and
"/dev/kmsg" of the kernel's ABI documentation.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from slotkeeper.core.domain.host import LONG, SHORT, STEPS, HostReport, HostSample, over
from slotkeeper.core.domain.report import Identity, JobReport
from slotkeeper.core.domain.text import many
from slotkeeper.core.state.faults import free_bytes

_BYTES = 1 << 16
_PROCESSES, _THREADS = 64, 512
"""Maximum number of processes counted per job, and of threads counted per process; a driver has fewer."""
_RECORDS, _KMSG_SECONDS = 20_000, 0.5
"""Limits of one read of the kernel log, in records and seconds; the log's 1 MiB buffer holds fewer records."""
_LEVELS = 8
"""The number of control groups, from the driver's group upwards, that are searched for a CPU limit."""
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_KILLED = re.compile(r"^\d+,\d+,(\d+),[^;]*;.*[Kk]illed process (\d+)\b", re.MULTILINE)
"""Matches the kernel log record of a killed process: level, number, microseconds since boot, flags, and the text."""
_EARLIER = 60.0
"""Seconds by which the log's clock can be behind the monotonic clock."""
_JAVA = "java"


@dataclass(frozen=True, slots=True)
class Usage:
    """One process of a job: CPU seconds, resident bytes, and the seconds that each thread ran and waited for a CPU."""

    pid: int
    name: str
    cpu: float
    memory: int
    threads: Mapping[int, tuple[float, float]]


@dataclass(slots=True)
class _Threads:
    """The time that all threads of a driver, including ended threads, ran and waited for a CPU."""

    ended: tuple[float, float] = (0.0, 0.0)
    living: Mapping[int, tuple[float, float]] = field(default_factory=dict)

    def all(self, now: Mapping[int, tuple[float, float]]) -> tuple[float | None, float | None]:
        """Return the seconds for which the threads ran and waited until now; None if unknown."""
        for thread, (ran, waited) in self.living.items():
            if thread not in now or now[thread][0] < ran:
                self.ended = self.ended[0] + ran, self.ended[1] + waited
        self.living = now
        if not now:
            return None, None
        every = (self.ended, *now.values())
        return sum(ran for ran, _ in every), sum(waited for _, waited in every)


class HostReader:
    """Reads this host's resources for a job's supervisor; `proc`, `groups` and `kmsg` are paths of kernel files."""

    def __init__(
        self, folder: Path, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup"),
        kmsg: Path = Path("/dev/kmsg"),
    ) -> None:  # fmt: skip
        self._folder, self._proc, self._groups, self._kmsg = folder, proc, groups, kmsg
        self._samples: deque[HostSample] = deque()
        self._driver = 0
        self._pids: set[int] = set()
        """Processes of the current driver that have been seen."""
        self._kills: int | None = None
        """Out-of-memory kills in its control group when the group was first read."""
        self._group = ""
        self._began = 0.0
        self._threads = _Threads()

    def read(self, at: float, monotonic: float, driver: Identity | None, report: JobReport | None) -> HostReport:
        """Take a sample and return the usage shares over the last samples; `at` is in seconds since 1970."""
        pid = 0 if driver is None else driver.pid
        if pid and pid != self._driver:
            self.begins(pid, monotonic)
        found = list(self._processes(pid)) if pid else []
        self._pids |= {one.pid for one in found}
        first = next((one for one in found if one.pid == pid), None)
        java = next((one for one in found if one.name == _JAVA), None)
        self._samples.append(self._sample(monotonic, found, first, java, report))
        while len(self._samples) > 2 and monotonic - self._samples[1].at >= STEPS:
            self._samples.popleft()
        samples = tuple(self._samples)
        kills, free = self._oom_kills(), None
        with suppress(OSError):
            free = free_bytes(self._folder)
        return HostReport(
            at,
            cpus=_listed(self._field(f"{pid or 'self'}/status", "Cpus_allowed_list:")),
            load=_number(self._text("loadavg").partition(" ")[0]),
            available=_kib(self._field("meminfo", "MemAvailable:")),
            free=free,
            driver_memory=first.memory if first else None,
            java_memory=java.memory if java else None,
            oom_kills=kills,
            oom_kills_new=None if kills is None or self._kills is None else kills - self._kills,
            sink_here=report.sink_here if report else None,
            short=over(samples, SHORT),
            long=over(samples, LONG),
            steps=over(samples, STEPS),
        )

    def begins(self, pid: int, monotonic: float) -> None:
        """Set the driver's process; its counters and its group's kills are measured from this time on."""
        self._driver, self._pids, self._began, self._threads = pid, {pid}, monotonic, _Threads()
        self._group = self._text(f"{pid}/cgroup") or self._text("self/cgroup")
        self._kills = self._oom_kills()

    def out_of_memory(self) -> str:
        """Return the evidence that the kernel killed a process of the driver for lack of memory, or "".

        The control group's count covers all its processes, and is reported as such. The kernel log names the pids.
        """
        now = self._oom_kills()
        if now is not None and self._kills is not None and now > self._kills:
            return f"its control group recorded {many(now - self._kills, 'out-of-memory kill')} since its start"
        killed = self._pids & set(self._killed_by_log())
        return f"the kernel log reports an out-of-memory kill of pid {min(killed)}" if killed else ""

    def _sample(
        self, at: float, found: list[Usage], first: Usage | None, java: Usage | None, report: JobReport | None
    ) -> HostSample:
        periods, throttled = self._throttling()
        return HostSample(
            at,
            self._stalled("cpu", "some"),
            self._stalled("memory", "full"),
            self._stalled("io", "full"),
            periods,
            throttled,
            first.cpu if first else None,
            java.cpu if java else None,
            *self._threads.all({thread: its for one in found for thread, its in one.threads.items()}),
            *(
                _sum(getattr(lane, name) for lane in (report.lanes if report else ()))
                for name in ("read_s", "write_s", "register_s")
            ),
        )

    # -- files ---------------------------------------------------------------------------------------------------

    def _text(self, name: str) -> str:
        return _read(self._proc / name)

    def _field(self, name: str, key: str) -> str:
        lines = (line for line in self._text(name).splitlines() if line.startswith(key))
        return next(lines, "")[len(key) :].strip()

    def _stalled(self, resource: str, kind: str) -> float | None:
        line = self._field(f"pressure/{resource}", f"{kind} ")
        micros = _number(line.rpartition("total=")[2]) if "total=" in line else None
        return None if micros is None else micros / 1e6

    def _processes(self, driver: int) -> Iterator[Usage]:
        """Yield the usage of the driver and then of all its descendants; omit processes that end in the meantime."""
        waiting, seen = deque([driver]), {driver}
        while waiting and len(seen) <= _PROCESSES:
            pid = waiting.popleft()
            with suppress(ValueError):
                threads = _threads(self._proc / str(pid) / "task")
                children = [int(child) for one in threads for child in _read(one / "children").split()]
                waiting.extend(child for child in children if child not in seen)
                seen.update(children)
                times = {int(one.name): _read(one / "schedstat").split() for one in threads}
                spent = {tid: (int(its[0]) / 1e9, int(its[1]) / 1e9) for tid, its in times.items() if len(its) >= 2}
                name, _, rest = self._text(f"{pid}/stat").partition("(")[2].rpartition(")")
                fields = rest.split()  # from the third field on: a name can contain blanks and parentheses
                if len(fields) >= 22:
                    cpu, memory = (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE
                    yield Usage(pid, name, cpu, memory, spent)

    # -- control groups --------------------------------------------------------------------------------------------

    def _folders(self, controller: str) -> Iterator[Path]:
        """Yield the group's folder for a controller and the folders above it, from v1 if mounted, else from v2.

        Inside a container, the kernel lists the host's paths, but the container's own group is at the root of the
        mount.
        """
        lines = [line.split(":", 2) for line in self._group.splitlines() if line.count(":") >= 2]
        v1 = next((path for _, names, path in lines if controller in names.split(",")), None)
        names = (controller, "cpu,cpuacct") if controller == "cpu" else (controller,)
        tops = [self._groups / name for name in names] if v1 is not None else [self._groups, self._groups / "unified"]
        path = v1 if v1 is not None else next((path for number, _, path in lines if number == "0"), None)
        top = next((one for one in tops if _is_folder(one)), None)
        if path is None or top is None or ".." in Path(path).parts:
            return
        at = top / path.lstrip("/")
        for folder in [at, *at.parents][:_LEVELS]:
            if _is_folder(folder):
                yield folder
            if folder == top:
                return

    def _throttling(self) -> tuple[float | None, float | None]:
        """Return the number of periods of the nearest CPU limit, and of those in which it throttled the group."""
        for folder in self._folders("cpu"):
            values = _pairs(_read(folder / "cpu.stat"))
            if values.get("nr_periods") and "nr_throttled" in values:
                return values["nr_periods"], values["nr_throttled"]
        return None, None

    def _oom_kills(self) -> int | None:
        for folder in self._folders("memory"):
            for name in ("memory.events", "memory.oom_control"):
                count = _pairs(_read(folder / name)).get("oom_kill")
                if count is not None:
                    return int(count)
            return None
        return None

    def _killed_by_log(self) -> Iterator[int]:
        """Yield the pids that the kernel log reports as killed; none if unreadable. One read returns one record."""
        with suppress(OSError):
            descriptor = os.open(self._kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                end = time.monotonic() + _KMSG_SECONDS
                for _ in range(_RECORDS):
                    with suppress(BrokenPipeError):  # a record was overwritten before it was read
                        record = os.read(descriptor, 8192)
                        if not record or time.monotonic() > end:
                            return
                        for micros, pid in _KILLED.findall(record.decode("utf-8", "replace")):
                            if int(micros) / 1e6 >= self._began - _EARLIER:
                                yield int(pid)
            finally:
                os.close(descriptor)


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a folder above it cannot be searched
        return False


def _threads(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir(), key=lambda one: int(one.name))[:_THREADS]
    except (OSError, ValueError):
        return []


def _read(file: Path) -> str:
    """Return the file's first 64 KiB; "" if it cannot be read."""
    try:
        with file.open("rb") as opened:
            return opened.read(_BYTES).decode("utf-8", "replace")
    except (OSError, ValueError):  # ValueError: the name contains an invalid byte
        return ""


def _pairs(text: str) -> dict[str, float]:
    """Parse lines of a key and a number."""
    words = (line.split() for line in text.splitlines())
    return {one[0]: value for one in words if len(one) == 2 and (value := _number(one[1])) is not None}


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _kib(text: str) -> int | None:
    value = _number(text.removesuffix(" kB"))
    return None if value is None else int(value) * 1024


def _listed(text: str) -> int | None:
    """Return the number of entries in a list in the kernel's format.

    >>> _listed("0-3,8"), _listed("")
    (5, None)
    """
    ends = [part.split("-") for part in text.split(",") if part]
    try:
        return sum(int(one[-1]) - int(one[0]) + 1 for one in ends) or None
    except ValueError:
        return None


def _sum(values: Iterator[float | None]) -> float | None:
    found = list(values)
    return None if None in found or not found else sum(value or 0.0 for value in found)
