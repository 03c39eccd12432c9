"""A disk that is really full: jobs can be stopped, no running process ends, and the messages name the disk."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import doctor
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.launch import control
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.state.faults import FREE_IT, NoRoom, cannot_write, full
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from tests.support.jobs import FAST, SOON, Jobs
from tests.support.waiting import until

REASON = "only root can mount a small disk"


@dataclass(frozen=True)
class Disk:
    """A small separate file system."""

    path: Path

    def fill(self) -> None:
        """Leave no free byte, including bytes that are freed meanwhile."""
        with (self.path / "filler").open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def free(self) -> None:
        (self.path / "filler").unlink()

    @property
    def text(self) -> str:
        return f"the disk at {self.path} is full (0 bytes of 3.0 MiB free)"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    place = tmp_path / "disk"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "slotkeeper-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip(REASON)
    yield Disk(place)
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def jobs(disk: Disk, tmp_path: Path) -> Iterator[Jobs]:
    """Real jobs whose state is on that disk, and the notes of their fake drivers beside it."""
    with Store.open(disk.path / "state") as store:
        made = Jobs(store, tmp_path)
        try:
            yield made
        finally:
            (disk.path / "filler").unlink(missing_ok=True)
            made.end_all()


def takes_nothing(jobs: Jobs) -> bool:
    """Whether a write is rejected for lack of space; until then, free space in the store's own files is used up."""
    try:
        jobs.store.record_event("orders", "probe")
    except NoRoom:
        return True
    return False


def call(jobs: Jobs, *words: str) -> int:
    return main(["jobs", *words, "--state-dir", str(jobs.store.folder.path)])


def test_a_job_is_stopped_on_a_full_disk_and_noted_once_there_is_room(
    jobs: Jobs, disk: Disk, capsys: pytest.CaptureFixture[str]
) -> None:
    view = jobs.start("orders", child=True)
    child = processes.of(jobs.pids("orders", "children")[0])
    disk.fill()
    until(lambda: takes_nothing(jobs), SOON, "the store takes nothing more")
    assert call(jobs, "stop", "orders", "--wait", "30s") == 0
    said = capsys.readouterr()
    assert said.out.startswith("orders: STOPPED (its processes have ended; not recorded: state file ")
    assert disk.text in said.out
    assert "not in the audit" in said.err and disk.text in said.err and "Traceback" not in said.err
    assert not processes.alive(view.supervisor) and not processes.alive(view.driver)
    assert not processes.alive(child)
    assert call(jobs, "list") == 0
    assert "no process found; possibly killed" in capsys.readouterr().out
    disk.fill()
    until(lambda: takes_nothing(jobs), SOON, "the store takes nothing more")
    assert call(jobs, "stop", "orders") == 0, "it has stopped, but this is not recorded yet"
    assert disk.text in capsys.readouterr().out
    disk.free()
    assert call(jobs, "stop", "orders") == 0
    assert jobs.view_of_job("orders").state is JobState.STOPPED
    assert jobs.start("orders").state is JobState.RUNNING


def test_a_running_job_outlives_a_full_disk(jobs: Jobs, disk: Disk) -> None:
    view = jobs.start("orders", limits=replace(FAST, frame_every=0.1, log_bytes=1))
    disk.fill()
    until(lambda: takes_nothing(jobs), SOON, "the store takes nothing more")
    assert jobs.store.job("orders") is not None
    assert processes.alive(view.supervisor) and processes.alive(view.driver)
    disk.free()
    control.pause(jobs.store, "orders", Patience(SOON))
    now = jobs.view_of_job("orders")
    assert (now.supervisor, now.driver, len(jobs.pids("orders"))) == (view.supervisor, view.driver, 1)


def test_a_driver_that_crashes_on_a_full_disk_is_started_again_by_the_same_supervisor(jobs: Jobs, disk: Disk) -> None:
    view = jobs.start("orders", limits=replace(FAST, backoff_first=0.2, backoff_most=0.2, crashes=1_000))
    assert view.driver is not None
    disk.fill()
    until(lambda: takes_nothing(jobs), SOON, "the store takes nothing more")
    processes.kill_members(view.driver)
    disk.free()
    until(lambda: jobs.view_of_job("orders").driver != view.driver, SOON, "another driver is recorded")
    until(lambda: jobs.view_of_job("orders").driver_alive, SOON, "it lives")
    assert jobs.view_of_job("orders").supervisor == view.supervisor


@pytest.mark.parametrize("words", [["pause", "orders"], ["restart", "orders"]], ids=" ".join)
def test_what_has_to_be_stored_is_refused_naming_the_disk(
    jobs: Jobs, disk: Disk, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    view = jobs.start("orders")
    disk.fill()
    until(lambda: takes_nothing(jobs), SOON, "the store takes nothing more")
    if words[0] == "pause":
        assert call(jobs, *words) == 3
        said = capsys.readouterr().err
    else:
        with pytest.raises(NoRoom) as refused:
            control.start(jobs.store, "another", str(jobs.config("another")))
        said = refused.value.message
    assert disk.text in said and "Traceback" not in said
    assert processes.alive(view.supervisor) and processes.alive(view.driver)


def test_files_that_find_no_room_name_the_disk_and_leave_no_half(disk: Disk) -> None:
    with Store.open(disk.path / "state") as store:
        files = ResetFiles(store.folder)
        files.save("plans", "old", "as it was")
        disk.fill()
        acts: list[Callable[[], None]] = [
            lambda: files.save("plans", "old", "x" * 10_000),
            lambda: store.register_job("orders", "c" * 10_000),
        ]
        for act in acts:
            with pytest.raises(NoRoom, match=r"the disk at .* is full") as refused:
                act()
            assert disk.text in refused.value.message and "jobs stop JOB" in refused.value.hint
        assert files.load("plans", "old") == "as it was"
        assert [one.name for one in (store.folder.path / "plans").iterdir()] == ["old.json"]
        disk.free()


def test_a_store_that_cannot_be_opened_for_want_of_room_names_the_disk(disk: Disk) -> None:
    with Store.open(disk.path / "state") as store:
        file = store.file
    assert not file.with_name(f"{file.name}-shm").exists()
    disk.fill()
    with pytest.raises(NoRoom) as refused, Store.open(disk.path / "state") as store:
        store.register_job("orders", "c" * 10_000)
    assert disk.text in refused.value.message


def test_a_disk_without_inodes_is_named(tmp_path: Path) -> None:
    place = tmp_path / "few"
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=3m,nr_inodes=8,mode=0700", "slotkeeper-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip(REASON)
    try:
        folder = StateFolder.open(place / "state")
        with pytest.raises(NoRoom, match=f"the disk at {place} has no inodes left .all 8 in use"):
            for number in range(8):
                os.close(folder.append(folder.log(f"job{number}")))
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_quota_on_a_disk_with_room_is_reported_as_such(tmp_path: Path, number: int) -> None:
    error = cannot_write(tmp_path / "x", OSError(number, os.strerror(number)))
    assert isinstance(error, NoRoom) and "accepts no more data" in error.message and "check quotas" in error.message
    assert full(tmp_path) == ""
    assert not isinstance(cannot_write(tmp_path / "x", OSError(errno.EACCES, "Permission denied")), NoRoom)


# -- processes that get a signal, with a store that cannot be written -----------------------------------------


def refuse_wanted(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def refuse(self: Store, job: str, wanted: WantedState) -> None:
        raise error

    monkeypatch.setattr(Store, "set_wanted", refuse)


@pytest.mark.parametrize("error", [NoRoom("no room"), Busy("locked")], ids=["full", "locked"])
def test_a_stop_that_cannot_be_stored_goes_by_a_signal(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    view = jobs.start("orders")
    refuse_wanted(monkeypatch, error)
    stopped = control.stop(jobs.store, "orders", Patience(SOON))
    assert stopped.state is JobState.STOPPED and not stopped.lives
    assert "SIGTERM" in stopped.reason and not processes.alive(view.driver)


def test_without_a_supervisor_its_driver_is_ended(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.start("orders")
    refuse_wanted(monkeypatch, NoRoom("no room"))
    jobs.kill_supervisor("orders")
    stopped = control.stop(jobs.store, "orders", Patience(SOON))
    assert stopped.state is JobState.STOPPED and not jobs.view_of_job("orders").lives


def test_a_deaf_job_that_is_not_waited_for_is_still_shown_as_it_is(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.start("orders", "deaf", limits=replace(FAST, stop=30.0, grace=30.0))
    refuse_wanted(monkeypatch, NoRoom("no room"))
    assert control.stop(jobs.store, "orders", Patience(0)).lives
    with pytest.raises(Busy, match=r"was signaled to stop, but after 0.2 s its processes are still running") as late:
        control.stop(jobs.store, "orders", Patience(0.2))
    assert "could not be stored: no room" in late.value.hint


def test_a_process_that_does_not_hold_the_lock_is_not_signalled(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user of the folder can write any process of the product's user into the store."""
    view = jobs.start("orders")
    other = jobs.start("other")
    assert other.supervisor is not None and other.driver is not None
    for named in (other.supervisor, other.driver):
        jobs.store.set_supervisor(view.run, replace(named, run_id=view.run))
        with monkeypatch.context() as patched:
            refuse_wanted(patched, NoRoom("no room"))
            with pytest.raises(Refused, match=r"does not hold its lock .* no signal sent"):
                control.stop(jobs.store, "orders", Patience(1))
    assert processes.alive(other.supervisor) and processes.alive(other.driver) and processes.alive(view.driver)
    assert view.supervisor is not None
    jobs.store.set_supervisor(view.run, view.supervisor)


def test_doctor_does_not_call_a_state_folder_fine_that_nothing_can_be_written_to(disk: Disk) -> None:
    folder = disk.path / "state"
    assert doctor.state_folder(folder).level is Level.OK
    disk.fill()
    found = doctor.state_folder(folder)
    assert found.level is Level.FAIL
    assert found.text == f"{folder} cannot be written: {disk.text} ({FREE_IT})"
