"""`--table`: one table of a running job is paused, stopped, started and verified separately, and reset."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.console.commands import job_verbs
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.state import steering
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.observed import last
from tests.support import hostile
from tests.support.jobs import Jobs
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.printed import typed_bare
from tests.support.standin import MakeWarehouse, run

JOB, A, B = "orders_rt", "ods.a", "ods.b"
AS_STOP = [pytest.param(f"jobs {verb}", marks=pytest.mark.chaos) for verb in ("pause", "start", "restart")]
"""Verbs that read --table as `jobs stop` does."""


@dataclass(frozen=True)
class Place:
    """A mirror of two tables whose engine runs here, and a FAKE driver that reports its tables."""

    mirror: Mirror
    config: Path
    jobs: Jobs
    capfd: pytest.CaptureFixture[str]

    def call(self, *words: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        return typed_bare(self.capfd, *words, "--config", str(self.config))

    def start(self, *fails: str) -> None:
        self.jobs.start(JOB, tables=[A, B], fails=list(fails))

    def states(self) -> tuple[str, ...]:
        report = self.jobs.view_of_job(JOB).report
        assert report is not None
        return tuple(one.state for one in report.tables)


@pytest.fixture
def place(
    make_warehouse: MakeWarehouse,
    make_mirror: MakeMirror,
    tmp_path: Path,
    jobs: Jobs,
    capfd: pytest.CaptureFixture[str],
) -> Place:
    warehouse = make_warehouse()
    for number, table in enumerate((A, B), 1):
        warehouse.create_table(table, "id bigint NOT NULL, v bigint", ("id",))
        run(warehouse, f"INSERT INTO {table} SELECT n, {number} FROM generate_series(1, 40) n")
    mirror = make_mirror(warehouse, A)
    channels = tuple(ChannelSpec(one, one.replace("ods.", "mart."), create_target=True) for one in (A, B))
    mirror.job = replace(mirror.job, name=JOB, channels=channels)
    written = job(JOB, mirror.job.slot, A, "mart.a", others=[(B, "mart.b")]) + job("one_rt", "other", A, "mart.one")
    return Place(mirror, config(tmp_path, mirror.job.source, mirror.job.sink, written), jobs, capfd)


def test_a_table_is_paused_resumed_stopped_started_and_restarted_while_the_job_runs(place: Place) -> None:
    place.start()
    for verb, state in (
        ("pause", "PAUSED"),
        ("resume", "RUNNING"),
        ("stop", "STOPPED"),
        ("start", "RUNNING"),
        ("restart", "RUNNING"),
    ):
        code, out, err = place.call("jobs", verb, JOB, "--table", B, "--wait", "20s", "--reason", "INC-7")
        assert (code, out) == (0, f"{JOB} {B}: {state}\n"), err
        assert place.states() == ("RUNNING", state)
    assert place.jobs.view_of_job(JOB).state is JobState.RUNNING
    lines = [one for one in reversed(Audit(place.jobs.store.folder).read().lines) if one.what.endswith(B)]
    assert {(one.what, one.reason) for one in lines} == {(f"job {JOB} table {B}", "INC-7")}
    assert [one.outcome for one in lines if one.phase.value == "outcome"] == [
        "PAUSED", "RUNNING", "STOPPED", "RUNNING", "RUNNING",
    ]  # fmt: skip
    code, out, _ = place.call("jobs", "stop", JOB, "--table", A, "--json")
    assert (code, json.loads(out)["state"]) == (0, "STOPPED")


def test_what_makes_no_sense_of_one_table_is_refused_with_what_to_do(place: Place) -> None:
    code, _, err = place.call("jobs", "pause", JOB, "--table", B)
    assert (code, f"unknown job {JOB!r}" in err) == (3, True), err
    place.start(B)
    for words, refusal in (
        (("pause", JOB, "--table", "ods.c"), "known: ods.a, ods.b"),
        (("start", JOB, "--table", A), f"`slotkeeper jobs restart {JOB} --table {A}`"),
        (("resume", JOB, "--table", A), "it is not paused"),
        (("pause", JOB, "--table", B), f"`slotkeeper jobs start {JOB} --table {B}` starts it"),
        (("start", JOB, "--table", B, "--take-over"), "--take-over applies only to a whole job"),
        (("stop", "one_rt", "--table", A), "has only one table: use the command without --table"),
    ):
        code, out, err = place.call("jobs", *words)
        assert (code, out, refusal in err) == (3, "", True), (words, err)
    for verb in ("jobs stop", "jobs restart", "verify"):
        code, out, err = place.call(*verb.split(), JOB, "--table", "")
        assert (code, out, "--table is empty" in err) == (2, "", True), "an unset variable in a script"
    assert place.jobs.view_of_job(JOB).state is JobState.RUNNING
    assert steering.wanted(place.jobs.store, JOB) == {}
    assert place.call("jobs", "stop", JOB)[0] == 0
    code, _, err = place.call("jobs", "stop", JOB, "--table", B)
    assert (code, f"job {JOB} is STOPPED: single tables can be controlled only while it runs" in err) == (3, True), err
    code, _, err = place.call("verify", JOB, "--table", "ods.c")
    assert (code, "known tables: ods.a, ods.b" in err) == (3, True), err


@pytest.mark.parametrize("verb", ["jobs stop", "verify", *AS_STOP])
def test_hostile_names_at_table_are_refused_as_visible_text(verb: str, place: Place, seed: int) -> None:
    if verb != "verify":
        place.start()
    names = [*hostile.texts(60, seed), "ods.%", "ods._", "--json", "x" * 100_000, A.upper(), f"{A}\n", f" {A}"]
    for name in names:
        code, out, err = place.call(*verb.split(), JOB, "--table", name)
        assert (code, out) == (3 if name.strip() else 2, ""), (name[:80], err)
        assert not hostile.RAW.search(err) and len(err) < 3_000, name[:80]
    assert steering.wanted(place.jobs.store, JOB) == {}


def test_a_failed_table_is_reported_everywhere_and_started_alone(place: Place) -> None:
    place.start(B)
    _, out, _ = place.call("jobs", "list")
    assert "1 of 2 tables FAILED" in out
    _, out, _ = place.call("jobs", "show", JOB)
    assert f"`slotkeeper jobs start {JOB} --table {B}`" in " ".join(out.split()) and "SLOT LOST" in out
    _, out, _ = place.call("jobs", "show", JOB, "--json")
    assert [(one["source_table"], one["state"]) for one in json.loads(out)["tables"]] == [(A, "RUNNING"), (B, "FAILED")]
    code, out, _ = place.call("status", "--exit-code")
    assert (code, f"CRITICAL  {JOB}  RUNNING: 1 of 2 tables FAILED: {B}: dn_1: the registered" in out) == (2, True), out
    code, out, err = place.call("jobs", "start", JOB, "--table", B)
    assert (code, out) == (0, f"{JOB} {B}: RUNNING\n"), err
    assert f"OK        {JOB}" in place.call("status")[1]
    assert place.call("jobs", "stop", JOB, "--table", B)[0] == 0
    assert f"WARNING   {JOB}" in place.call("status")[1]


def test_a_whole_start_says_which_tables_stay_as_they_are(place: Place) -> None:
    place.jobs.store.register_job(JOB, "c")
    steering.want(place.jobs.store, JOB, B, WantedState.STOP)
    # the job itself does not start here: Spark is not needed, and the message is the same
    job_verbs.tell_apart(place.jobs.store, load(place.config, {}).jobs[JOB])
    said = place.capfd.readouterr().err
    assert f"1 table stays stopped: {B}; `slotkeeper jobs start {JOB} --table TABLE` starts one" in said


def test_a_start_names_the_table_that_was_taken_out_and_what_its_slot_keeps(place: Place) -> None:
    place.start()
    loaded = load(place.config, {}).jobs[JOB]
    job_verbs.tell_taken_out(place.jobs.store, loaded)
    assert B not in place.capfd.readouterr().err
    job_verbs.tell_taken_out(place.jobs.store, loaded.of(A))
    said = place.capfd.readouterr().err
    assert f"{B} is no longer a table of this job" in said
    assert f"`slotkeeper slots drop {B} {loaded.slot} --source {loaded.source.name}`" in said


def test_a_reset_beside_the_others_is_allowed_once_its_table_is_stopped(place: Place) -> None:
    place.mirror.start().wait_running().wait_equal()
    place.start()
    reset = ("slots", "reset", B, place.mirror.job.slot)
    code, out, _ = place.call(*reset, "--to", "earliest")
    assert (code, f"`slotkeeper jobs stop {JOB} --table {B}`" in " ".join(out.split())) == (3, True), out
    place.mirror.want(B, WantedState.STOP)
    place.mirror.wait_table(B, JobState.STOPPED)
    assert place.call("jobs", "stop", JOB, "--table", B)[0] == 0
    code, out, err = place.call(*reset, "--to", "earliest", "--json")
    assert code == 0, (out, err)
    plan, slot = json.loads(out)["id"], place.mirror.job.slot
    code, out, err = place.call(*reset, "--execute", "--plan", plan, "--confirm", slot, "--reason", "a test")
    assert (code, f"slotkeeper jobs start {JOB} --table {B}" in out) == (0, True), (out, err)
    assert place.jobs.view_of_job(JOB).state is JobState.RUNNING
    assert "slot reset" in place.jobs.told(JOB)
    run(place.mirror.warehouse, f"UPDATE {A} SET v = v + 1", f"UPDATE {B} SET v = v + 1")
    place.mirror.want(B, WantedState.RUN, anew=True)
    place.mirror.wait_table(B, JobState.RUNNING)
    place.mirror.wait_equal()
    place.mirror.stop()


def test_one_table_is_verified_alone_and_kept_only_where_it_differs(place: Place) -> None:
    place.mirror.start().wait_running().wait_equal()
    place.mirror.stop()
    code, out, err = place.call("verify", JOB, "--table", B)
    assert (code, f"{JOB}: equal: dws1 {B}" in out, A in out) == (0, True, False), (out, err)
    assert last(place.jobs.store) == {}
    place.mirror.at_sink("UPDATE mart.b SET v = -1 WHERE id = 7")
    assert place.call("verify", JOB, "--table", A)[0] == 0
    assert place.call("verify", JOB, "--table", B)[0] == 4
    assert last(place.jobs.store)[JOB].verdict == "different"


def test_the_slot_of_a_table_that_was_taken_out_is_listed_until_it_is_dropped_or_put_back(place: Place) -> None:
    place.mirror.start().wait_running().wait_equal()
    place.mirror.stop()
    assert "taken out" not in place.call("slots", "list")[1]
    without = job(JOB, place.mirror.job.slot, A, "mart.a")
    config(place.config.parent, place.mirror.job.source, place.mirror.job.sink, without)
    code, out, err = place.call("slots", "list")
    slot, source = place.mirror.job.slot, place.mirror.job.source.name
    assert (code, f"slot {slot} of {source} {B} retains its changes" in " ".join(out.split())) == (0, True), (out, err)
    (line,) = [line for line in out.splitlines() if "slots drop" in line]
    command = line.split("`")[1]
    assert command == f"slotkeeper slots drop {B} {slot} --source {source}", "on one line, so that it can be pasted"
    found = json.loads(place.call("slots", "list", "--json")[1])["taken_out"]
    assert found == [{"source": source, "table": B, "slot": slot, "job": JOB}]
    code, out, err = place.call(*command.split()[1:])
    assert (code, "loses" in out) == (0, True), (out, err)
    shown = next(line for line in out.splitlines() if "--execute" in line).split()
    code, out, err = place.call(*shown[1:])
    assert (code, "dropped" in out) == (0, True), (out, err)
    assert "taken out" not in place.call("slots", "list")[1]
