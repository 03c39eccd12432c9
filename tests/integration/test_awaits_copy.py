"""A copy that replaces rows starts only with a consent, whatever starts the job; real drivers with threads.

Each test resets a mirror's slot to a snapshot, and counts the unchanged rows of the target.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.console.commands import run as run_command
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.consent import VALID_SECONDS
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.reset import DONE, Goal, TargetKind
from slotkeeper.core.errors import AwaitsCopy
from slotkeeper.core.launch import control
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.launch.launch import Launch, Limits
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.files import StoredConsents
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.warehouse import Warehouse
from tests.support import polling
from tests.support.jobs import FAST
from tests.support.local_driver import LOCAL
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.printed import typed_bare
from tests.support.resetting import Crash, Resetting
from tests.support.standin import run
from tests.support.waiting import until

TABLE, TARGET = "ods.t", "mart.t"
REPLACE, MERGE = (Goal(TargetKind.SNAPSHOT, on_existing=how) for how in ("replace", "merge"))
OLD = f"SELECT count(*) FROM {TARGET} WHERE v = 'old'"
TIMER = Path(__file__).parents[2] / "docs" / "systemd" / "slotkeeper-ensure.service"
SOON = 90.0


@dataclass(frozen=True, slots=True)
class Local(Launch):
    """The driver that the product starts here instead of Spark."""

    command: tuple[str, ...] = LOCAL.command
    limits: Limits = FAST


@dataclass
class Shell:
    """Commands on the job of a mirror; a copy would replace the ten rows of the target."""

    mirror: Mirror
    config: Path
    store: Store
    capfd: pytest.CaptureFixture[str]

    @property
    def name(self) -> str:
        return self.mirror.job.name

    @property
    def state(self) -> JobState:
        return observe(self.store, self.name).state

    @property
    def old(self) -> int:
        return int(self.mirror.query(self.mirror.sink, OLD)[0][0])

    @property
    def consents(self) -> StoredConsents:
        return StoredConsents(self.store.folder, self.name)

    def call(self, *words: str) -> tuple[int, str, str]:
        return typed_bare(self.capfd, *words, "--config", str(self.config))

    def reset(self) -> None:
        """Reset the slot as a user types it; the plan's number of rows is that of equal tables."""
        place = [self.mirror.table, self.mirror.job.slot]
        code, out, err = self.call("slots", "reset", *place, "--to", "snapshot", "--on-existing", "replace")
        assert code == 0, (out, err)
        plan = re.findall(r"--plan (\w+)", out)[0]
        typed = ["--reason", "a test", "--confirm", self.mirror.job.slot]
        code, _, err = self.call("slots", "reset", *place, "--execute", "--plan", plan, *typed)
        assert code == 0, err

    def expire(self) -> None:
        """Make the consents of the job a day old."""
        for one in self.consents.known():
            self.consents.keep(replace(one, at=one.at - VALID_SECONDS - 1))


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'new' FROM generate_series(1, 10) n")
    made = make_mirror(warehouse, TABLE, TARGET)
    made.start().wait_running()
    made.stop()
    made.at_sink(f"UPDATE {TARGET} SET v = 'old'")
    return made


@pytest.fixture
def shell(
    mirror: Mirror, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shell]:
    job = mirror.job
    config = polling.config(tmp_path, job.source, job.sink, polling.job(job.name, job.slot, TABLE, TARGET))
    monkeypatch.setattr(control, "Launch", Local)
    monkeypatch.setattr(run_command, "LAUNCH", Local())
    with Store.open(load(config, {}).state_dir) as store:
        store.register_job(job.name, str(config))
        made = Shell(mirror, config, store, capfd)
        try:
            yield made
        finally:
            if made.state.is_open:
                control.stop(store, job.name, Patience(SOON))


def test_a_start_within_a_day_of_the_reset_copies_and_uses_the_consent_up(shell: Shell) -> None:
    shell.reset()
    assert (shell.state, shell.old) == (JobState.AWAITS_COPY, 10)
    (given,) = shell.consents.known()
    assert (given.name, given.reason, given.table) == (shell.mirror.job.slot, "a test", TABLE)
    code, _, err = shell.call("jobs", "start", shell.name)
    assert (code, shell.state, shell.old) == (0, JobState.RUNNING, 0), err
    assert shell.consents.known() == []


def test_a_start_a_day_later_needs_the_name_and_a_reason(shell: Shell) -> None:
    shell.reset()
    shell.expire()
    code, out, err = shell.call("jobs", "start", shell.name)
    assert (code, out, shell.state, shell.old) == (3, "", JobState.AWAITS_COPY, 10)
    assert "10 rows of mart.t" in err and f"--confirm {shell.name}" in err
    code, _, err = shell.call("jobs", "start", shell.name, "--confirm", "wrong_rt", "--reason", "why")
    assert code == 3 and f"`wrong_rt` is not `{shell.name}`" in err
    code, _, err = shell.call("jobs", "start", shell.name, "--confirm", shell.name)
    assert code == 3 and "reason" in err
    assert shell.old == 10
    code, _, err = shell.call("jobs", "start", shell.name, "--confirm", shell.name, "--reason", "why")
    assert (code, shell.old) == (0, 0), err
    said = [(line.action, line.reason) for line in Audit(shell.store.folder).read().lines]
    assert said.count(("copy consent", "why")) == 2


def test_a_host_that_knows_of_no_reset_asks_and_then_takes_the_consent(shell: Shell) -> None:
    shell.reset()
    shell.consents.drop(TABLE)
    shell.store.set_state(shell.name, JobState.STOPPED, "as another host knows it")
    code, _, err = shell.call("jobs", "start", shell.name)
    assert (code, shell.state, shell.old) == (3, JobState.AWAITS_COPY, 10), err
    code, _, err = shell.call("jobs", "start", shell.name, "--confirm", shell.name, "--reason", "why")
    assert (code, shell.old) == (0, 0), err


def test_a_restart_gives_no_consent(shell: Shell) -> None:
    shell.reset()
    shell.expire()
    code, _, _ = shell.call("jobs", "restart", shell.name)
    assert (code, shell.state, shell.old) == (3, JobState.AWAITS_COPY, 10)


def test_run_gives_no_consent_and_ends_as_refused(shell: Shell) -> None:
    shell.reset()
    shell.expire()
    assert shell.call("run", shell.name)[0] == 3
    shell.store.set_state(shell.name, JobState.STOPPED, "as another host knows it")
    assert shell.call("run", shell.name)[0] == 3, (
        "the driver asks for consent as well: systemd does not restart it after exit code 3"
    )
    assert (shell.state, shell.old) == (JobState.AWAITS_COPY, 10)


def test_the_timer_leaves_the_job_as_it_is_with_a_warning_even_where_a_consent_is_stored(shell: Shell) -> None:
    shell.reset()
    (line,) = re.findall(r"^ExecStart=(.*)$", TIMER.read_text("utf-8"), re.MULTILINE)
    words = shlex.split(line)
    code, out, err = shell.call(*words[words.index("jobs") :])
    assert (code, shell.state, shell.old) == (0, JobState.AWAITS_COPY, 10), "0, because no desired job was rejected"
    assert "AWAITS COPY" in out and f"warning: job {shell.name} is in state AWAITS COPY" in err


def test_ensure_starts_a_job_that_was_killed_and_its_driver_still_asks(shell: Shell) -> None:
    """The host goes down right after a start; by its return the consent has expired."""
    shell.reset()
    shell.expire()
    assert shell.store.begin_run(shell.name, "killed", Local().text)
    with subprocess.Popen(["sleep", "60"]) as before:
        supervisor = processes.of(before.pid, "killed")
        before.kill()
    shell.store.set_supervisor("killed", supervisor)
    assert shell.state is JobState.DEAD
    code, out, err = shell.call("jobs", "ensure")
    assert code == 0 and "started" in out, (out, err)
    until(lambda: shell.state is JobState.AWAITS_COPY, SOON, "its driver to ask")
    assert shell.old == 10


def test_a_driver_that_is_started_again_before_its_copy_began_copies_with_the_same_consent(
    mirror: Mirror, tmp_path: Path
) -> None:
    resetting = Resetting(mirror, tmp_path / "state")
    assert resetting.reset(REPLACE).outcome == DONE

    def killed() -> None:
        raise Crash("killed")

    mirror.start(driver_probe=At("after_first_registration", killed))
    assert isinstance(mirror.wait_error(), Crash)
    mirror.start().wait_running().wait_equal()
    mirror.stop()


def test_a_driver_that_is_started_again_after_the_consent_was_taken_back_does_not_copy(
    mirror: Mirror, tmp_path: Path
) -> None:
    assert Resetting(mirror, tmp_path / "state").reset(REPLACE).outcome == DONE

    def killed() -> None:
        raise Crash("killed")

    mirror.start(driver_probe=At("after_first_registration", killed))
    assert isinstance(mirror.wait_error(), Crash)
    assert mirror.consents is not None
    mirror.consents.drop(TABLE)
    assert isinstance(mirror.start().wait_error(), AwaitsCopy)
    assert mirror.query(mirror.sink, OLD) == [(10,)]


def test_a_copy_that_has_begun_continues_without_a_consent_of_its_own(mirror: Mirror, tmp_path: Path) -> None:
    assert Resetting(mirror, tmp_path / "state").reset(REPLACE).outcome == DONE

    def killed() -> None:
        raise Crash("killed")

    mirror.start(driver_probe=At("after_copy_began", killed))
    assert isinstance(mirror.wait_error(), Crash)
    assert mirror.consents is not None
    mirror.consents.drop(TABLE)
    mirror.start().wait_running().wait_equal()
    mirror.stop()


def test_an_undo_takes_the_consent_away_and_a_refused_start_does_not_take_the_undo_away(
    mirror: Mirror, tmp_path: Path
) -> None:
    resetting = Resetting(mirror, tmp_path / "state")
    done = resetting.reset(REPLACE)
    consents = mirror.consents
    assert consents is not None and [one.name for one in consents.known()] == [mirror.job.slot]
    mirror.consents = None
    assert isinstance(mirror.start().wait_error(), AwaitsCopy)
    undone = resetting.undo(done.reset)
    assert undone.outcome == DONE, undone.sentence
    assert list(consents.known()) == []
    mirror.start().wait_running()
    mirror.stop()
    assert mirror.query(mirror.sink, OLD) == [(10,)], "it continues at its position and has replaced nothing"


def test_an_undo_that_leads_back_to_rows_which_await_a_copy_leaves_no_consent_to_it(
    mirror: Mirror, tmp_path: Path
) -> None:
    mirror.job = replace(mirror.job, on_existing="replace")
    resetting = Resetting(mirror, tmp_path / "state")
    assert resetting.reset(REPLACE).outcome == DONE
    assert resetting.undo(resetting.reset(REPLACE).reset).outcome == DONE
    assert isinstance(mirror.start().wait_error(), AwaitsCopy)
    assert mirror.query(mirror.sink, OLD) == [(10,)]


@pytest.mark.parametrize("goal", [REPLACE, MERGE], ids=["empty", "merge"])
def test_a_copy_that_replaces_nothing_needs_no_consent(mirror: Mirror, tmp_path: Path, goal: Goal) -> None:
    if goal is REPLACE:
        mirror.at_sink(f"DELETE FROM {TARGET}")
    assert Resetting(mirror, tmp_path / "state").reset(goal).outcome == DONE
    mirror.consents = None
    mirror.start().wait_running().wait_equal()
    mirror.stop()


def test_a_first_copy_over_rows_does_what_the_configuration_says(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, v text)")
    mirror.at_sink(f"INSERT INTO {TARGET} VALUES (7, 'old')")
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.start().wait_running().wait_equal()
    mirror.stop()


def test_rows_that_a_version_before_has_emptied_are_copied_as_it_said(mirror: Mirror, tmp_path: Path) -> None:
    assert Resetting(mirror, tmp_path / "state").reset(REPLACE).outcome == DONE
    mirror.at_sink("UPDATE slotkeeper_progress SET copying = 'next replace'")
    mirror.consents = None
    mirror.start().wait_running().wait_equal()
    mirror.stop()
