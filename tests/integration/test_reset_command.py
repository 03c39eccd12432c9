"""`slots reset`, `undo` and `history` as typed: their output, refusals with one clear line, the undo."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from slotkeeper.console.actions.preview import preview_from
from slotkeeper.console.commands import reset as reset_command
from slotkeeper.core.domain.access import Account
from slotkeeper.core.domain.job import RESETTABLE, JobState
from slotkeeper.core.domain.reset import Check, OpenReset
from slotkeeper.core.domain.reset_files import MARKS
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.launch import access
from slotkeeper.core.launch.launch import START_LOCK
from slotkeeper.core.ports.driver import StartStore
from slotkeeper.core.services import reset as reset_service
from slotkeeper.core.slots import reset_plan
from slotkeeper.core.slots.reset_plan import ResetContext
from slotkeeper.core.state.files import ResetFiles, marks
from slotkeeper.core.state.sqlite import Store
from slotkeeper.core.wiring import worker
from slotkeeper.demo.warehouse import Warehouse
from tests.support import polling
from tests.support.mirror import MakeMirror, Mirror, orders, written
from tests.support.printed import typed_bare
from tests.support.resetting import Resetting, replay
from tests.support.standin import Surface, run
from tests.support.waiting import until


@dataclass(frozen=True)
class Shell:
    """A configuration of one stopped mirror, and commands on it."""

    mirror: Mirror
    config: Path
    capfd: pytest.CaptureFixture[str]

    @property
    def place(self) -> list[str]:
        return [self.mirror.table, self.mirror.job.slot]

    @property
    def state_dir(self) -> Path:
        return self.config.parent / "state"

    def call(self, *words: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        return typed_bare(self.capfd, *words, "--config", str(self.config))

    def planned(self, *words: str) -> dict[str, Any]:
        code, out, err = self.call("slots", "reset", *self.place, *words, "--json")
        assert code in (0, 3), err
        return dict(json.loads(out))

    def execute(self, plan: str, *more: str, verb: tuple[str, ...] = ()) -> tuple[int, str, str]:
        words = verb or ("slots", "reset", *self.place)
        given = {"--reason": "a test", "--confirm": self.mirror.job.slot}
        given |= dict(zip(more[::2], more[1::2], strict=True))
        return self.call(
            *words, "--execute", "--plan", plan, *(word for pair in given.items() if pair[1] for word in pair)
        )

    def places(self) -> dict[str, Any]:
        return Resetting(self.mirror, self.state_dir).places()


@pytest.fixture
def shell(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Shell:
    mirror = orders(make_mirror, warehouse, seed)
    mirror.start().wait_running()
    with written(mirror, seed, changes=60):
        pass
    mirror.wait_applied(mirror.booked())
    mirror.stop()
    job = mirror.job
    more = polling.job(job.name, job.slot, mirror.table, job.channel.target)
    return Shell(mirror, polling.config(tmp_path, job.source, job.sink, more), capfd)


def refused(answer: tuple[int, str, str], words: str) -> None:
    code, out, err = answer
    assert (code, out) == (3, ""), (code, out, err)
    first, *rest = err.splitlines()
    assert words in first, err
    assert all(line.startswith("  ") for line in rest) and len(rest) <= 1, "one line, and at most one hint"


def test_a_plan_fits_80_columns_and_says_how_to_carry_it_out(shell: Shell) -> None:
    for words in (("--to", "earliest"), ("--to", "latest"), ("--to", "snapshot")):
        code, out, err = shell.call("slots", "reset", *shell.place, *words)
        assert code == (3 if "snapshot" in words else 0), err
        assert max(map(len, out.splitlines())) <= 80
        for text in ("plan  ", "FROM", "ROWS", "Checks", "pass     job not running: the job was never started here"):
            assert text in out, out
        possible = ("What happens", "Undo", "SQL", "sql  ")
        assert [text in out for text in possible] == [code == 0] * 4, "no reassuring text appears next to a failure"
        assert ("--execute --plan" in out) == (code == 0)
    assert "FAIL     target accepts copy" in out


def test_a_reset_is_carried_out_undone_and_listed(shell: Shell) -> None:
    before = shell.places()
    plan = shell.planned("--to", "earliest")
    assert plan["possible"] and plan["skipped"] == 0
    assert (shell.state_dir / "plans" / f"{plan['id']}.json").stat().st_mode & 0o777 == 0o600
    code, out, _ = shell.execute(plan["id"], "--json", "")
    assert code == 0 and " done: reset to earliest" in out and "requested" in out and "observed" in out
    assert shell.places() != before
    _, out, _ = shell.call("slots", "history", *shell.place, "--json")
    (entry,) = json.loads(out)["resets"]
    assert (entry["target"], entry["step"], entry["reason"]) == ("earliest", "done", "a test")
    code, out, _ = shell.call("slots", "undo", entry["backup"])
    assert code == 0 and "not undone: rows written to the target since then remain" in " ".join(out.split())
    _, out, _ = shell.call("slots", "undo", entry["backup"], "--json")
    plan = json.loads(out)
    verb = ("slots", "undo", entry["backup"])
    refused(shell.execute(plan["id"], verb=verb), f"{plan['skipped']} changes would be skipped")
    code, out, err = shell.execute(plan["id"], "--rows", str(plan["skipped"]), verb=verb)
    assert code == 0, err
    assert shell.places() == before
    copied = "SELECT line FROM slotkeeper_audit ORDER BY written_at"
    lines = [line.as_json() for line in Resetting(shell.mirror, shell.state_dir).lines()]
    assert [line for (line,) in shell.mirror.query(shell.mirror.sink, copied)] == lines, "the sink has a copy"
    assert [line["phase"] for line in lines] == ["intent", "outcome"] * 2
    code, out, _ = shell.call("slots", "history", *shell.place)
    assert code == 0 and f"backup {entry['backup']}"[:20] in out


def test_a_reset_that_replaces_rows_needs_the_approval_of_a_second_account(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with shell.config.open("a", encoding="utf-8") as file:
        file.write("[access]\nsecond_account = true\n")
    plan, before = shell.planned("--to", "snapshot", "--on-existing", "replace"), shell.places()
    rows, approve = ("--rows", str(plan["at_stake"])), ("slots", "approve", plan["id"], "--reason", "INC-1")
    refused(shell.execute(plan["id"], *rows), "needs the approval of a second account")
    assert shell.call(*approve)[0] == 0
    refused(shell.execute(plan["id"], *rows), "the same account cannot execute it")
    assert shell.places() == before
    with monkeypatch.context() as patched:
        patched.setattr(access, "account", lambda: Account(4712, "bob"))
        code, out, _ = shell.call(*approve)
    assert code == 0 and f"plan {plan['id']} of job" in out
    code, _, err = shell.execute(plan["id"], *rows)
    assert code == 0, err
    lines = [line.as_json() for line in Resetting(shell.mirror, shell.state_dir).lines()]
    assert [line["action"] for line in lines if line["phase"] == "intent"][:2] == ["slots approve"] * 2


def test_an_undo_whose_replay_has_started_is_refused_before_anything_is_confirmed(shell: Shell, seed: int) -> None:
    plan = shell.planned("--to", "earliest")
    assert plan["undo"].endswith("until the replay starts")
    assert shell.execute(plan["id"])[0] == 0
    _, out, _ = shell.call("slots", "history", *shell.place, "--json")
    undo = ("slots", "undo", json.loads(out)["resets"][0]["backup"])
    replay(shell.mirror, 0.5, Random(seed))
    before = shell.places()
    code, out, _ = shell.call(*undo)
    assert code == 3 and "--execute --plan" not in out
    said = "the replay has started: start the job to finish it, or reset to a snapshot"
    assert said in " ".join(out.split())
    code, out, _ = shell.call(*undo, "--json")
    plan = json.loads(out)
    assert code == 3 and not plan["possible"]
    assert [check["name"] for check in plan["checks"] if check["ok"] is False] == ["replay not started"]
    shown = preview_from(out)
    assert shown is not None and said in shown.sections(full=True)[0].lines[0][2], "the console reports it first"
    rows = ("--rows", str(plan["skipped"])) if plan["skipped"] else ()
    refused(shell.execute(plan["id"], *rows, verb=undo), said)
    assert shell.places() == before


def test_what_is_not_typed_right_is_refused_with_one_line(shell: Shell) -> None:
    before, plan = shell.places(), shell.planned("--to", "earliest")["id"]
    refused(shell.execute(plan, "--reason", ""), "a reset needs a reason")
    refused(shell.execute(plan, "--confirm", "orders"), "the typed name is not the slot's: 'orders'")
    refused(shell.execute(plan, "--rows", "7"), "0 changes would be skipped, but 7 was typed")
    refused(shell.execute("0123456789ab"), "unknown plan '0123456789ab'")
    refused(shell.call("slots", "reset", *shell.place, "--execute"), "--execute needs --plan")
    refused(shell.call("slots", "reset", "--resume"), "no reset is unfinished here")
    refused(shell.call("slots", "reset", *shell.place, "--resume"), "no unfinished reset")
    refused(shell.call("slots", "undo", "20260101T000000-abcdef"), "unknown backup")
    file = shell.state_dir / "plans" / f"{plan}.json"
    file.write_text(
        file.read_text("utf-8").replace('"skipped"', '"skipped" ', 1).replace("earliest", "latest", 1), "utf-8"
    )
    refused(shell.execute(plan), f"plan {plan} was changed after it was made")
    assert shell.places() == before


def test_after_truncate_the_number_is_typed_and_an_older_proof_is_void(shell: Shell) -> None:
    mirror = shell.mirror
    name = mirror.job.name
    with Store.open(shell.state_dir) as store:
        store.register_job(name, str(shell.config))
        store.set_state(name, JobState.FAILED)
    assert shell.call("verify", name)[0] == 0
    held = mirror.query(mirror.sink, f"SELECT count(*) FROM {mirror.job.channel.target}")[0][0]
    run(mirror.warehouse, f"TRUNCATE {mirror.table}")
    code, out, err = shell.call("slots", "reset", *shell.place, "--to", "snapshot", "--on-existing", "replace")
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 80
    said = " ".join(out.split())
    assert f"the target would shrink by {held} rows: source 0, target {held}" in said
    assert "TRUNCATE at the source is likely" in said
    assert f"--rows {held}" in out
    last = " ".join("".join(out.splitlines(True)[-5:]).split())
    assert f"LOSES the target would shrink by {held} rows: source 0, target {held}; TRUNCATE" in last, (
        "beside the command"
    )
    plan = shell.planned("--to", "snapshot", "--on-existing", "replace")
    assert plan["to_type"]["rows"] == str(held) and plan["at_stake"] == held and plan["skipped"] == 0
    assert (plan["rows"]["source"]["number"], plan["rows"]["target"]["number"]) == (0, held)
    assert (plan["rows"]["fate"], plan["rows"]["truncated"]) == ("shrinks", True)
    refused(shell.execute(plan["id"]), f"the target would shrink by {held} rows")
    assert "verified equal" in shell.call("status")[1]
    code, out, err = shell.execute(plan["id"], "--rows", str(held))
    assert code == 0, err
    assert "reset to snapshot (replace)" in " ".join(out.split())
    assert json.loads(shell.call("jobs", "list", "--json")[1])[0]["verified"]["verdict"] == "void"
    assert " void " in shell.call("jobs", "list")[1]
    for words in (("jobs", "show", name), ("status",)):
        said = " ".join(shell.call(*words)[1].split())
        assert "not verified since the reset" in said and "verified equal" not in said


def test_what_does_not_fit_together_is_a_usage_error(shell: Shell) -> None:
    for words in (
        (),
        ("--to", "point"),
        ("--to", "latest", "--point", "5"),
        ("--to", "latest", "--on-existing", "replace"),
        ("--to", "snapshot", "--on-existing", "refuse"),
        ("--execute", "--plan", "0123456789ab", "--on-existing", "merge"),
        ("--resume", "--on-existing", "merge"),
        ("--to", "point", "--point", "dn_1=x"),
        ("--to", "time", "--time", "2026-01-31T08:30:00"),
        ("--to", "time", "--time", "yesterday"),
        ("--to", "nowhere"),
    ):
        assert shell.call("slots", "reset", *shell.place, *words)[0] == 2, words
    assert shell.call("slots", "reset", "ods.orders", "nobody", "--to", "latest")[0] == 2
    refused(shell.call("slots", "reset", *shell.place, "--to", "latest", "--dn", "dn_9"), "unknown DN dn_9")


def sink_moved(shell: Shell) -> None:
    shell.mirror.at_sink("UPDATE slotkeeper_progress SET position = '1/-1' WHERE shard = 'dn_2'")


def slot_moved(shell: Shell) -> None:
    run(shell.mirror.warehouse, f"UPDATE {shell.mirror.table} SET order_no = order_no")
    run(shell.mirror.warehouse, f"SELECT pgxc_register_full_sync_point('{shell.mirror.table}', '{shell.place[1]}')")


def started(shell: Shell) -> None:
    shell.mirror.start().wait_running()
    shell.mirror.stop()


def purged(shell: Shell) -> None:
    shell.mirror.warehouse.purge()


def test_a_stale_plan_names_what_moved(shell: Shell) -> None:
    for change, words in (
        (started, "dn_1: epoch"),
        (purged, "first retained"),
        (slot_moved, "dn_1: points"),
        (sink_moved, "dn_2: position"),
    ):
        plan = shell.planned("--to", "earliest")["id"] if change is not slot_moved else latest_plan(shell)
        change(shell)
        before = shell.places()
        answer = shell.execute(plan)
        refused(answer, f"plan {plan} is stale; changed: ")
        assert words in answer[2]
        assert shell.places() == before


def latest_plan(shell: Shell) -> str:
    return str(shell.planned("--to", "latest")["id"])


def test_a_plan_that_only_the_newest_point_left_behind_is_carried_out(shell: Shell) -> None:
    plan = shell.planned("--to", "latest")
    run(shell.mirror.warehouse, f"UPDATE {shell.mirror.table} SET order_no = order_no WHERE order_no < 20")
    assert shell.execute(plan["id"])[0] == 0


def test_anothers_lease_is_refused_and_stolen_by_its_id_only(shell: Shell) -> None:
    plan = shell.planned("--to", "earliest")["id"]
    other = worker.open_progress(shell.mirror.job, "elsewhere", worker.who(shell.mirror.job, "run-1"))
    assert other.take_lease()
    refused(shell.execute(plan), f"is held by job {shell.mirror.job.name} run run-1 by")
    refused(shell.execute(plan, "--steal", "run-2"), "--steal run-2 does not match its id")
    code, _, err = shell.execute(plan, "--steal", "run-1")
    assert code == 0, err
    other.close()


def test_only_a_stopped_or_failed_job_is_reset_by_any_entry(shell: Shell) -> None:
    plan, job, before = shell.planned("--to", "earliest")["id"], shell.mirror.job.name, shell.places()
    with Store.open(shell.state_dir) as store:
        store.register_job(job, str(shell.config))
    for state in JobState:
        if state in (*RESETTABLE, JobState.CANCELLED):
            continue
        in_state(shell, state, plan)
    in_state(shell, JobState.FAILED, "")
    code, _, err = shell.execute(plan)
    assert code == 0, err
    with Store.open(shell.state_dir) as store:
        row = store.job(job)
        assert row is not None and row.state is JobState.STOPPED
        assert store.events(job)[0].event == "slot reset"
    assert shell.places() != before
    in_state(shell, JobState.CANCELLED, shell.planned("--to", "earliest")["id"])


def in_state(shell: Shell, state: JobState, plan: str) -> None:
    """Set the state of the job; if a plan is given, no entry changes anything."""
    job, before = shell.mirror.job.name, shell.places()
    with Store.open(shell.state_dir) as store:
        store.set_state(job, state)
    if not plan:
        return
    words = f"job {job} is {state.value}; a reset requires STOPPED, FAILED or AWAITS COPY"
    refused(shell.execute(plan, "--rows", "0"), words)
    words = "no unfinished reset" if state is JobState.DEAD else words  # `jobs ensure` waits for the end of one
    refused(shell.call("slots", "reset", *shell.place, "--resume"), words)
    refused(shell.call("slots", "reset", *shell.place, "--resume", "--json"), words)
    assert shell.planned("--to", "earliest")["possible"] is False
    assert shell.places() == before


def test_a_reset_that_a_server_interrupts_is_finished_by_the_same_command(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, before, left = shell.planned("--to", "earliest")["id"], shell.places(), ["after_rows", "after_compare"]

    def interrupted(point: str) -> None:
        if point in left:
            left.remove(point)
            raise Unreachable("the source restarts", where="source")

    monkeypatch.setattr(reset_service, "probe", interrupted)
    monkeypatch.setattr(reset_command, "RESUME_EVERY", 0.0)
    code, _, err = shell.execute(plan)
    assert code == 0, err
    assert err.count("resuming automatically") == 2 and not left
    assert shell.places() != before and not marks(shell.state_dir)
    left.append("after_rows")
    monkeypatch.setattr(reset_command, "RESUME_WITHIN", 0.0)
    again = shell.planned("--to", "latest")
    code, _, err = shell.execute(again["id"], *(("--rows", str(again["skipped"])) if again["skipped"] else ()))
    assert code == 1, err
    assert "the source restarts" in err
    assert marks(shell.state_dir), "a person resumes it"


def test_a_reset_that_cannot_begin_does_not_resume_the_one_that_another_command_left(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command would say "done" of the other reset; its own plan would not be executed."""
    plan, before = shell.planned("--to", "earliest")["id"], shell.places()
    with Store.open(shell.state_dir) as store:
        left = OpenReset("20260101T000000-aaaaaa", "orders", *shell.place)
        ResetFiles(store.folder).save(MARKS, left.id, left.text)
        with store.folder.locked(shell.mirror.job.name, START_LOCK, 1.0):
            monkeypatch.setattr(reset_command, "LOCK_SECONDS", 0.0)
            code, out, err = shell.execute(plan)
    assert code == 1 and "another command holds the start lock" in err and "resuming" not in err, (out, err)

    def refused(*_: object) -> NoReturn:
        raise Unreachable("the source restarts", where="source")

    monkeypatch.setattr(reset_plan, "see", refused)
    code, out, err = shell.execute(plan)
    assert code == 5 and "the source restarts" in err and "resuming" not in err, (out, err)
    assert [mark.id for mark in marks(shell.state_dir)] == [left.id] and shell.places() == before


def test_a_command_that_cannot_finish_its_reset_names_it_whatever_failed_last(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = shell.planned("--to", "earliest")["id"]

    def interrupted(point: str) -> None:
        if point == "after_rows":
            monkeypatch.setattr(worker, "store_session", gone)
            raise Unreachable("the source restarts", where="source")

    def gone(*_: object, **__: object) -> NoReturn:
        raise Unreachable("the sink does not answer", where="sink")

    monkeypatch.setattr(reset_service, "probe", interrupted)
    monkeypatch.setattr(reset_command, "RESUME_WITHIN", 0.1)
    monkeypatch.setattr(reset_command, "RESUME_EVERY", 0.05)
    code, _, err = shell.execute(plan)
    (mark,) = marks(shell.state_dir)
    last, hint = err.splitlines()[-2:]
    assert code == 1 and f"reset {mark.id} is unfinished: the sink does not answer" in last, err
    assert "slots reset --resume" in hint and "resuming automatically" not in last


def test_a_reset_is_resumed_although_the_server_still_holds_the_lease_of_its_lost_session(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reset can last longer than the minute in which it is resumed after its first failure."""
    plan, before, now = shell.planned("--to", "earliest")["id"], shell.places(), [0.0]
    lease_check, lost = reset_plan.lease_check, list[StartStore]()

    def interrupted(point: str) -> None:
        if point == "after_rows":
            now[0] += 2 * reset_command.RESUME_WITHIN
            raise Unreachable("the connection was lost", where="sink")

    def checked(ctx: ResetContext) -> Check:
        if now[0] and not lost:
            lost.append(worker.open_progress(shell.mirror.job, "lost", worker.who(shell.mirror.job, "run-1")))
            until(lost[0].take_lease, 20, "the lease of the first attempt")
        found = lease_check(ctx)
        if found.ok is False:
            lost[0].close()
        return found

    monkeypatch.setattr(reset_command, "SystemClock", lambda: SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(reset_command, "RESUME_EVERY", 0.0)
    monkeypatch.setattr(reset_service, "probe", interrupted)
    monkeypatch.setattr(reset_plan, "lease_check", checked)
    code, _, err = shell.execute(plan)
    assert code == 0 and err.count("resuming automatically") == 2 and "'lease' is not met" in err, err
    assert shell.places() != before and not marks(shell.state_dir)


def test_a_plan_makes_no_slot(shell: Shell) -> None:
    surface = Surface(shell.mirror.warehouse)
    surface.rows("SELECT pgxc_binlog_clear_target_slot(%s, %s)", shell.place)
    surface.close()
    for words in (("--to", "earliest"), ("--to", "latest"), ("--to", "snapshot"), ("--to", "point", "--point", "10")):
        assert not shell.planned(*words)["possible"]
    assert not shell.mirror.query(shell.mirror.warehouse.connect, "SELECT FROM dws.slot")
