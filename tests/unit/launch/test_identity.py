"""A process is identified by pid, start time and session together, and no other process is ever signalled."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.identity import MARK
from tests.support.waiting import until

SLEEP = [sys.executable, "-c", "print('on', flush=True); import time; time.sleep(600)"]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process that leads its own session."""
    yield from _started({})


@pytest.fixture
def marked() -> Iterator[subprocess.Popen[bytes]]:
    """The same, with the mark of run r1."""
    yield from _started({MARK: "r1"})


@pytest.fixture
def companion() -> Iterator[subprocess.Popen[bytes]]:
    yield from _started({}, new_session=False)


def _started(
    more: dict[str, str], command: list[str] = SLEEP, new_session: bool = True
) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, **more}
    with subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=new_session, env=environment) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            yield child
        finally:
            child.kill()


def test_a_process_is_recognised_and_dead_once_it_has_ended(sleeper: subprocess.Popen[bytes]) -> None:
    seen = processes.of(sleeper.pid, "r1")
    assert (seen.session_id, seen.run_id) == (sleeper.pid, "r1")
    assert processes.alive(seen)
    assert not processes.elsewhere(seen)
    sleeper.kill()
    until(lambda: not processes.alive(seen), 5, "a zombie counts as dead")
    assert sleeper.wait(60) == -signal.SIGKILL


def test_a_reused_pid_is_another_process_and_is_never_signalled(sleeper: subprocess.Popen[bytes]) -> None:
    now = processes.of(sleeper.pid)
    earlier = replace(now, started=now.started + "1")
    assert not processes.alive(earlier)
    assert processes.members(earlier) == []
    processes.terminate(earlier)
    assert processes.end(earlier, 0.0)
    other_session = replace(now, session_id=now.session_id + 1)
    assert processes.end(other_session, 0.0)
    assert processes.alive(now)


def test_only_who_has_a_file_open_is_asked_to_end_where_that_is_what_is_known(
    sleeper: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    file = tmp_path / "lock"
    with file.open("w") as opened:
        (tmp_path / "link").symlink_to(file)
        assert processes.has_open(os.getpid(), tmp_path / "link")
        assert not processes.has_open(sleeper.pid, file)
        its = processes.of(sleeper.pid)
        assert not processes.terminate(its, lambda: processes.has_open(its.pid, file))
        assert processes.alive(its)
        opened.write("x")
    assert not processes.has_open(os.getpid(), file)
    assert not processes.has_open(os.getpid(), tmp_path / "nowhere")
    assert processes.terminate(its) and sleeper.wait(60) == -signal.SIGTERM
    assert not processes.terminate(its)


def test_a_process_of_before_a_reboot_is_dead(sleeper: subprocess.Popen[bytes]) -> None:
    now = processes.of(sleeper.pid)
    assert not processes.alive(replace(now, started="another-boot:" + now.started.split(":", 1)[1]))


def test_another_machine_or_container_cannot_be_seen_from_here(sleeper: subprocess.Popen[bytes]) -> None:
    now = processes.of(sleeper.pid)
    assert processes.elsewhere(replace(now, host="other", started="another-boot:pid:[1]:5"))
    assert not processes.elsewhere(replace(now, host="renamed"))
    assert not processes.elsewhere(None)


def test_what_does_not_lead_its_session_owns_nothing_of_it_but_itself(companion: subprocess.Popen[bytes]) -> None:
    seen = processes.of(companion.pid)
    assert seen.session_id == os.getsid(0)
    assert processes.members(seen) == [companion.pid]


def test_members_of_a_session_whose_leader_died_count_only_with_their_runs_mark(
    marked: subprocess.Popen[bytes], sleeper: subprocess.Popen[bytes]
) -> None:
    gone = replace(processes.of(sleeper.pid, "r1"), pid=2**22 + 1, session_id=2**22 + 1)
    assert processes.members(gone) == [marked.pid]
    assert processes.end(gone, 0.0)
    assert processes.alive(processes.of(sleeper.pid))
    assert marked.wait(60) == -signal.SIGKILL


def test_session_members_are_the_living_processes_of_that_session(sleeper: subprocess.Popen[bytes]) -> None:
    assert processes.session_members(sleeper.pid) == [sleeper.pid]


def test_end_asks_before_it_kills() -> None:
    code = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(12)); print(1, flush=True)"
    for child in _started({}, [sys.executable, "-c", f"{code}; time.sleep(600)"]):
        assert processes.end(processes.of(child.pid), 5.0)
        assert child.wait(60) == 12


def test_the_identity_of_no_process_is_an_error() -> None:
    with pytest.raises(ProcessLookupError):
        processes.of(2**22 + 1)
    assert not processes.alive(None)
