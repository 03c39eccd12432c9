"""The host's resources for a job, read from the kernel's files within bounds; an absent value is unknown."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.host import LONG, SHORT, HostReport, HostSample, HostShare, over
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import Identity, JobReport
from slotkeeper.core.launch.host import HostReader
from slotkeeper.core.launch.verdict import Crashed, because, judge
from tests.unit.judgement.test_judge import LANE

DRIVER, JAVA, WORKER = 4711, 4720, 4801
WHO = Identity(DRIVER, "boot:1", DRIVER, "r1", "here")
TICKS, PAGE = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")


class Planted:
    """A fake /proc, control groups and a kernel log, as of a driver with Java and a worker."""

    def __init__(self, folder: Path) -> None:
        self.proc, self.groups, self.kmsg = folder / "proc", folder / "groups", folder / "kmsg"
        self.put("proc/loadavg", "80.20 40.00 20.00 81/300 5000\n")
        self.put("proc/meminfo", "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:   2048 kB\n")
        self.group("0::/job.scope\n")
        self.at(0.0)

    def put(self, name: str, text: str) -> None:
        file = self.proc.parent / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def group(self, text: str) -> None:
        self.put(f"proc/{DRIVER}/cgroup", text)

    def process(
        self, pid: int, name: str, cpu: float, pages: int, threads: dict[int, tuple[float, float, str]]
    ) -> None:
        fields = ["S", "1", *["0"] * 9, str(int(cpu * TICKS)), "0", *["0"] * 8, str(pages), "0"]
        self.put(f"proc/{pid}/stat", f"{pid} ({name}) {' '.join(fields)}\n")
        self.put(f"proc/{pid}/status", f"Name:\t{name}\nCpus_allowed_list:\t0-1\n")
        for thread, (ran, waited, children) in threads.items():
            self.put(f"proc/{pid}/task/{thread}/schedstat", f"{ran * 1e9:.0f} {waited * 1e9:.0f} 7\n")
            self.put(f"proc/{pid}/task/{thread}/children", children)

    def at(self, seconds: float) -> None:
        """Set the kernel's counters to their values after `seconds` of a load."""
        for resource, part in {"cpu": 0.99, "memory": 0.5, "io": 0.25}.items():
            some, full = (
                f"{kind} avg10=9.00 avg60=0.00 avg300=0.00 total={seconds * part * 1e6:.0f}"
                for kind in ("some", "full")
            )
            self.put(f"proc/pressure/{resource}", f"{some}\n{full}\n")
        self.process(DRIVER, "python3 -m (x) y", 5 + seconds * 0.11, 100, {
            DRIVER: (1 + seconds * 0.01, 2 + seconds * 0.2, f"{JAVA} "),
            DRIVER + 1: (seconds * 0.02, seconds * 0.3, ""),
        })  # fmt: skip
        self.process(JAVA, "java", 9 + seconds * 0.05, 2_000, {JAVA: (seconds * 0.02, seconds * 0.4, f"{WORKER}")})
        self.process(WORKER, "python3", seconds * 0.01, 50, {WORKER: (0.0, seconds * 0.1, "")})

    def reader(self) -> HostReader:
        return HostReader(self.proc.parent, self.proc, self.groups, self.kmsg)


@pytest.fixture
def host(tmp_path: Path) -> Planted:
    return Planted(tmp_path)


def report(write: float) -> JobReport:
    lane = replace(LANE, read_s=1.0, write_s=write, register_s=0.0)
    return JobReport("orders", "r1", "RUNNING", lanes=(lane,), sink_here=False)


def test_what_a_kernel_tells_of_a_host_and_of_a_jobs_processes_is_read(host: Planted) -> None:
    reader = host.reader()
    first = reader.read(100.0, 0.0, WHO, report(3.0))
    assert (first.short, first.long) == (None, None), "shares need two readings"
    host.at(10.0)
    found = reader.read(110.0, 10.0, WHO, report(7.0))
    assert (found.at, found.cpus, found.load, found.available) == (110.0, 2, 80.2, 2 << 20)
    assert (found.driver_memory, found.java_memory) == (100 * PAGE, 2_000 * PAGE)
    assert found.free and found.sink_here is False
    share = found.short
    assert share is not None and share == found.long
    assert (share.seconds, share.cpu_stalled, share.memory_stalled, share.io_stalled) == (10.0, 0.99, 0.5, 0.25)
    assert (share.driver_cpu, share.java_cpu) == pytest.approx((0.11, 0.05), abs=0.01)
    assert (share.ran, share.waited) == pytest.approx((0.05, 1.0), abs=0.01), (
        "all threads of all processes are included"
    )
    assert (share.read, share.write, share.register) == (0.0, 0.4, 0.0)


@pytest.mark.parametrize("gone", ["pressure", "loadavg", "meminfo", f"{DRIVER}", ""])
def test_a_file_that_is_absent_or_cannot_be_read_is_not_known_and_never_zero(host: Planted, gone: str) -> None:
    reader = host.reader()
    reader.read(100.0, 0.0, WHO, None)
    host.at(10.0)
    target = host.proc / gone if gone else host.proc
    target.rename(host.proc.parent / "away")
    found = reader.read(110.0, 10.0, WHO, None)
    share = found.short
    assert share is not None
    unknown = {
        "pressure": (share.cpu_stalled, share.memory_stalled, share.io_stalled),
        "loadavg": (found.load,),
        "meminfo": (found.available,),
        f"{DRIVER}": (found.cpus, found.driver_memory, found.java_memory, share.ran, share.waited, share.driver_cpu),
        "": (found.cpus, found.load, found.available, found.driver_memory, share.cpu_stalled, share.ran),
    }[gone]
    assert set(unknown) == {None}
    assert (share.read, share.throttled, found.oom_kills) == (None, None, None)


def test_files_of_another_shape_are_not_known(host: Planted) -> None:
    for name in ("loadavg", "meminfo", "pressure/cpu", f"{DRIVER}/stat", f"{DRIVER}/status", f"{DRIVER}/cgroup"):
        host.put(f"proc/{name}", "some nonsense\x00 total=x (\n" * 9_000)
    reader = host.reader()
    reader.read(100.0, 0.0, WHO, None)
    found = reader.read(110.0, 10.0, WHO, None)
    assert (found.load, found.available, found.cpus, found.driver_memory) == (None, None, None, None)


def test_what_a_worker_had_stays_counted_when_it_ends(host: Planted) -> None:
    reader = host.reader()
    reader.read(100.0, 0.0, WHO, None)
    host.at(10.0)
    reader.read(110.0, 10.0, WHO, None)
    host.put(f"proc/{JAVA}/task/{JAVA}/children", "")
    share = reader.read(110.0, 11.0, WHO, None).short
    assert share is not None and (share.ran, share.waited) == pytest.approx((0.05, 1.0), rel=0.2)


def test_a_driver_that_was_started_again_is_measured_from_its_own_start(host: Planted) -> None:
    samples = [HostSample(0.0, ran=9.0, waited=1.0), HostSample(10.0, ran=1.0, waited=2.0)]
    share = over(samples, SHORT)
    assert share is not None and (share.ran, share.waited) == (None, 0.1), (
        "a counter that decreased belongs to another process"
    )


def test_a_window_begins_with_the_newest_sample_that_is_old_enough() -> None:
    samples = [HostSample(float(at), cpu_stalled=0.0 if at < 50 else at - 50.0) for at in range(0, 61, 5)]
    assert over(samples, SHORT) == HostShare(10.0, cpu_stalled=1.0)
    assert over(samples, LONG) == HostShare(60.0, cpu_stalled=round(10 / 60, 4))
    assert over(samples[-2:], LONG) == HostShare(5.0, cpu_stalled=1.0), "as far as there are samples"
    assert over(samples[:1], SHORT) is None
    late = [HostSample(0.0), HostSample(5.0, write=1.0), HostSample(10.0, write=3.0)]
    assert over(late, SHORT) == HostShare(10.0, write=0.4), "values that became known later count from then on"


@pytest.mark.parametrize(
    ("lines", "file", "text"),
    [
        ("0::/job.scope\n", "groups/job.scope/cpu.stat", "usage_usec 9\nnr_periods {}\nnr_throttled {}\n"),
        ("0::/a.slice/b.scope\n", "groups/a.slice/cpu.stat", "nr_periods {}\nnr_throttled {}\nthrottled_usec 5\n"),
        ("4:cpu,cpuacct:/pod\n", "groups/cpu,cpuacct/pod/cpu.stat", "nr_periods {}\nnr_throttled {}\n"),
        ("4:cpu,cpuacct:/host/path\n", "groups/cpu/cpu.stat", "nr_periods {}\nnr_throttled {}\n"),
    ],
)
def test_periods_of_a_cpu_limit_are_read_of_both_versions_of_control_groups_and_of_those_above(
    host: Planted, lines: str, file: str, text: str
) -> None:
    host.group(lines)
    host.put(file, text.format(100, 4))
    reader = host.reader()
    reader.read(100.0, 0.0, WHO, None)
    host.put(file, text.format(200, 97))
    share = reader.read(110.0, 10.0, WHO, None).short
    assert share is not None and share.throttled == 0.93


def test_a_group_without_a_limit_has_no_periods(host: Planted) -> None:
    host.put("groups/job.scope/cpu.stat", "usage_usec 9\nnr_periods 0\nnr_throttled 0\n")
    reader = host.reader()
    reader.read(100.0, 0.0, WHO, None)
    share = reader.read(110.0, 10.0, WHO, None).short
    assert share is not None and share.throttled is None


KILLED = judge(-9, JobState.RUNNING, stop_wanted=False)


def cause(reader: HostReader) -> str:
    assert isinstance(KILLED, Crashed)
    return because(KILLED, reader.out_of_memory()).text


@pytest.mark.parametrize(
    ("lines", "file"),
    [("0::/job.scope\n", "job.scope/memory.events"), ("7:memory:/pod\n", "memory/pod/memory.oom_control")],
)
def test_an_out_of_memory_kill_is_found_in_the_control_group_that_counts_it_since_the_start(
    host: Planted, lines: str, file: str
) -> None:
    host.group(lines)
    host.put(f"groups/{file}", "low 0\noom 3\noom_kill 3\n")
    reader = host.reader()
    assert reader.read(100.0, 0.0, WHO, None).oom_kills == 3
    assert cause(reader) == "killed by SIGKILL, cause unknown", "those belong to an earlier driver"
    host.put(f"groups/{file}", "low 0\noom 4\noom_kill 4\n")
    told = "killed by SIGKILL, out of memory: its control group recorded 1 out-of-memory kill since its start"
    assert cause(reader) == told
    assert reader.read(105.0, 5.0, WHO, None).oom_kills_new == 1


def test_an_out_of_memory_kill_is_found_in_the_kernels_log_where_no_group_counts(host: Planted) -> None:
    reader = host.reader()
    reader.read(100.0, 500.0, WHO, None)
    text = "Out of memory: Killed process {} (java) total-vm:1kB, anon-rss:2kB"
    for pid, seconds, said in ((JAVA, 520, True), (99, 520, False), (JAVA, 20, False)):
        host.kmsg.write_text(f"3,339,{seconds * 1_000_000},-;{text.format(pid)}\n SUBSYSTEM=memory\n")
        named = f"out of memory: the kernel log reports an out-of-memory kill of pid {pid}"
        assert (named in cause(reader)) == said, (pid, seconds)
    host.kmsg.unlink()
    assert cause(reader) == "killed by SIGKILL, cause unknown"


def test_an_exit_code_alone_is_reported_as_before_and_with_the_kill_of_a_child_process_if_any() -> None:
    ended = judge(1, JobState.RUNNING, stop_wanted=False)
    assert isinstance(ended, Crashed)
    assert because(ended, "") == ended
    assert because(ended, "pid 7").text == "ended with exit code 1, out of memory: pid 7"


def test_a_job_without_a_driver_has_figures_of_its_host_alone(host: Planted) -> None:
    reader = host.reader()
    found = reader.read(100.0, 0.0, None, None)
    assert isinstance(found, HostReport)
    assert (found.load, found.driver_memory, found.sink_here) == (80.2, None, None)
