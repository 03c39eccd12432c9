"""Held rows by job: from the sink's count, from the job's report, or unknown; and the selection of entries."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from slotkeeper.console.actions.commands import Origin, Part, entry_words, shell_text
from slotkeeper.console.actions.menu import entry_actions
from slotkeeper.console.actions.outcome import outcome_lines, verdict
from slotkeeper.console.actions.record import Action, Record, Said, Stage
from slotkeeper.console.actions.verbs import NOT_CONFIGURED, EntryVerb
from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local, MonitorState, SinkSeen, sink_of
from slotkeeper.console.views.alerts import alerts
from slotkeeper.console.views.errors import error_rows
from slotkeeper.console.views.overview import trust
from slotkeeper.console.views.quarantine import (
    Choice,
    choice_of,
    entry_lines,
    entry_rows,
    group_lines,
    group_rows,
    number_of,
    other_half,
    quarantine_of,
    value_rows,
    wanted_of,
)
from slotkeeper.console.views.remedies import QUARANTINED_ROWS, Loss, ranked, remedy_for
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.fault import Ack
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.quarantine import EntryState, QuarantineCount, QuarantineEntry
from slotkeeper.core.domain.report import JobReport
from slotkeeper.core.domain.row_counts import Verified
from slotkeeper.core.domain.spec import JobSpec
from tests.tui.filled import NOW
from tests.tui.quarantined import QUARANTINING, entries, entry
from tests.unit.config.samples import SECOND_JOB, VALID
from tests.unit.console.judged import shown, stands
from tests.unit.console.test_status import RUNNING

OLD = NOW - timedelta(hours=1)
COUNT = QuarantineCount("dws1", "ods.orders", "orders_slot", "orders_rt", 3, OLD, 4)


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, JobSpec]:
    config: Path = tmp_path_factory.mktemp("quarantined") / "c.toml"
    text = VALID.replace("[jobs.orders_rt.sink_options]", f"[jobs.orders_rt.sink_options]\n{QUARANTINING}")
    config.write_text(text + SECOND_JOB, encoding="utf-8")
    return dict(load(config, {}).jobs)


def job(name: str = "orders_rt", quarantined: int | None = None, **more: object) -> JobFacts:
    report = JobReport(name, "r", "RUNNING", quarantined=quarantined)
    made = JobFacts(name, Level.FINE, JobState.RUNNING, alive=True, report=report, only_quarantined=bool(quarantined))
    return replace(made, **more)  # type: ignore[arg-type]


def monitor(*facts: JobFacts, **more: object) -> MonitorState:
    return replace(MonitorState(Local(NOW, facts)), **more)  # type: ignore[arg-type]


def seen(spec: JobSpec, *counts: QuarantineCount, fault: str = "", at: object = NOW) -> dict[str, SinkSeen]:
    return {sink_of(spec): SinkSeen(sink_of(spec), at, counts, fault)}  # type: ignore[arg-type]


def test_the_sinks_count_comes_before_what_was_reported(jobs: dict[str, JobSpec]) -> None:
    (found,) = quarantine_of(monitor(job(quarantined=9), sinks=seen(jobs["orders_rt"], COUNT)), jobs)
    assert (found.job, found.number, found.oldest, found.limit) == ("orders_rt", 3, OLD, 100)
    assert found.text == "3 rows in quarantine, oldest 11-21 01:31 UTC, limit 100"
    assert quarantine_of(monitor(job(quarantined=9), sinks=seen(jobs["orders_rt"])), jobs) == [], (
        "the sink counted none"
    )
    (reported,) = quarantine_of(monitor(job(quarantined=9)), jobs)
    assert reported.text == "9 rows in quarantine, as last reported, limit 100"
    assert reported.key == found.key, "the cursor stays on the line after the sink's answer"


def test_tables_of_one_job_are_one_line(jobs: dict[str, JobSpec]) -> None:
    spec = jobs["orders_rt"]
    two = replace(spec, channels=(*spec.channels, replace(spec.channel, source_table="ods.more")))
    more = replace(COUNT, source_table="ods.more", quarantined=4, entries=4, oldest=OLD - timedelta(hours=1))
    (found,) = quarantine_of(monitor(job(), sinks=seen(spec, COUNT, more)), {"orders_rt": two})
    assert (found.number, found.entries, found.oldest, len(found.places)) == (7, 8, more.oldest, 2)
    assert wanted_of(found, False, 10, None).source_table == "" and found.text.endswith("limit 100 per table")
    both = quarantine_of(
        monitor(job(), sinks=seen(spec, replace(COUNT, quarantined=50), replace(more, quarantined=50))),
        {"orders_rt": two},
    )
    assert both[0].level is Level.WARNING, "none of its tables is near the limit"
    (one,) = quarantine_of(monitor(job(), sinks=seen(spec, COUNT)), jobs)
    assert wanted_of(one, True, 10, 5).source_table == "ods.orders" and wanted_of(one, True, 10, 5).states == ()


def test_a_sink_that_cannot_be_asked_is_unknown_only_where_a_job_may_hold_rows(jobs: dict[str, JobSpec]) -> None:
    away = seen(jobs["orders_rt"], fault="refused", at=None)
    (found,) = quarantine_of(monitor(job(), job("second"), sinks=away), jobs)
    assert (found.job, found.number, found.level) == ("orders_rt", None, Level.UNKNOWN)
    assert found.text == "rows in quarantine: unknown; refused"
    (told,) = quarantine_of(monitor(job("second", quarantined=2), sinks=away), {"second": jobs["second"]})
    assert (told.number, told.limit) == (2, None)
    stale = seen(jobs["orders_rt"], COUNT, fault="refused", at=OLD)
    (kept,) = quarantine_of(monitor(job(), sinks=stale), jobs)
    assert kept.number == 3 and "has not answered since 11-21 01:31:07: refused" in group_lines(kept, NOW)[1][1]


@pytest.mark.parametrize(("number", "level"), [(3, Level.WARNING), (89, Level.WARNING), (90, Level.CRITICAL)])
def test_near_the_limit_is_critical(number: int, level: Level, jobs: dict[str, JobSpec]) -> None:
    (found,) = quarantine_of(monitor(job(quarantined=number)), jobs)
    assert found.level is level and group_rows([found], {}, NOW)[0].level is level
    assert RUNNING.report is not None
    view = replace(RUNNING, report=replace(RUNNING.report, quarantined=number), reported_at=NOW)
    (fired,) = alerts(MonitorState(shown(view, now=NOW, limit=100)), NOW)
    assert (fired.rule, fired.level) == ("rows_quarantined", level)
    (without,) = alerts(MonitorState(shown(view, now=NOW)), NOW)
    assert without.level is Level.WARNING, "without a limit, no table can be near it"


def test_an_acknowledgement_covers_one_number_of_rows(jobs: dict[str, JobSpec]) -> None:
    found = quarantine_of(monitor(job(quarantined=3)), jobs)
    acks = {found[0].ack: Ack("li.wei", NOW)}
    assert number_of(found, {}, NOW) == 1 and number_of(found, acks, NOW) == 0
    assert group_rows(found, acks, NOW)[0].cells["state"] == "acked"
    assert number_of(quarantine_of(monitor(job(quarantined=4)), jobs), acks, NOW) == 1


def test_held_rows_are_no_error_rows() -> None:
    local = Local(NOW, (job(quarantined=3),))
    assert error_rows(local, {}, NOW) == []


@pytest.mark.parametrize(
    ("state", "quarantined", "level", "words"),
    [
        (JobState.RUNNING, 3, Level.WARNING, "the target: 3 rows in quarantine"),
        (JobState.RUNNING, 0, Level.FINE, "2 lanes"),
        (JobState.FINISHED, 1, Level.WARNING, "1 row in quarantine when it ended"),
        (JobState.FAILED, 100, Level.CRITICAL, "the target: 100 rows in quarantine when it ended"),
        (JobState.PAUSED, 2, Level.WARNING, "why; the target: 2 rows in quarantine"),
    ],
)
def test_status_counts_rows_in_quarantine(state: JobState, quarantined: int, level: Level, words: str) -> None:
    assert RUNNING.report is not None
    report = replace(RUNNING.report, quarantined=quarantined)
    reason = "why" if state in (JobState.FAILED, JobState.PAUSED) else ""
    found = stands(replace(RUNNING, state=state, reason=reason, report=report), RUNNING.reported_at or NOW)
    assert (found.level, found.quarantined) == (level, quarantined) and words in found.wrong
    assert found.only_quarantined is (level is Level.WARNING and state is not JobState.PAUSED)


def test_targets_are_trusted_apart_from_what_they_lack() -> None:
    equal = Verified("orders_rt", OLD, "equal", 0, 0, 3, 9, 6, 1.0, "me")
    quarantined = job(quarantined=3, level=Level.WARNING, verified=equal)
    level, words = trust([quarantined, job("b")], NOW)
    assert level is Level.WARNING
    assert words == (
        "all targets current except for 3 rows in quarantine (orders_rt); 1 of 2 verified equal, 1h00m ago"
    )
    doubted = job("c", level=Level.WARNING)
    assert trust([quarantined, doubted], NOW)[1].startswith("not verified: c; 3 rows in quarantine (orders_rt); ")


def test_what_is_known_of_them_loses_least_first() -> None:
    assert [one.loses for one in ranked(QUARANTINED_ROWS.options)] == [Loss.NOTHING, Loss.NOTHING, Loss.ROWS]
    full = remedy_for("QUARANTINE FULL", "")
    assert "errors list JOB" in ranked(full.options)[0].do and ranked(full.options)[-1].loses is Loss.ROWS


# -- entries ---------------------------------------------------------------------------------------------------------


def test_the_halves_of_a_changed_key_find_each_other() -> None:
    some = entries()
    assert [row.cells["pair"] for row in entry_rows(some)] == ["#41", "#42", "", "", ""]
    assert other_half(some[0], some) is some[1] and other_half(some[2], some) is None
    assert [row.cells["pair"] for row in entry_rows(some[:1])] == ["?"]
    elsewhere = replace(some[1], source_table="ods.other")
    assert other_half(some[0], [some[0], elsewhere]) is None, "positions of different tables differ"


def test_a_replay_is_described_by_state_and_half() -> None:
    def said(one: QuarantineEntry) -> str:
        return next(words for _, words in entry_lines(one, None, NOW) if words.startswith("replay"))

    assert said(entry(1)).startswith("replay  writes the row into mart.orders")
    assert "removes the row of the old key" in said(entry(1, kind="B"))
    for state in set(EntryState) - {EntryState.QUARANTINED}:
        assert said(entry(1, state=state)) == f"replay  has no effect: the entry is {state.value}"


def test_values_are_hidden_but_not_that_there_is_none() -> None:
    one = entry(1, values=(("a", "secret"), ("amount", "1"), ("n", None)))
    assert [row.cells["value"] for row in value_rows(one, True)] == ["***", "***", "NULL"]
    assert [row.cells["mark"] for row in value_rows(one, False)] == ["", "*", ""]


# -- actions ---------------------------------------------------------------------------------------
# -------------------


def test_a_choice_leaves_out_what_is_over(jobs: dict[str, JobSpec]) -> None:
    (of,) = quarantine_of(monitor(job(), sinks=seen(jobs["orders_rt"], COUNT)), jobs)
    found = choice_of(of, entries(), [12, 40, 42])
    assert (found.ids, found.number, found.total, found.over, found.every) == ((40, 42), 2, 4, 1, False)
    assert of.choice == Choice("orders_rt", (), 4, 4, every=True)
    assert "1 of the selected entries are already resolved" in entry_actions(found, jobs)[0].warns
    none = choice_of(of, entries(), [12])
    assert [one.key for one in entry_actions(none, jobs) if not one.why_not] == ["R", "D"], (
        "an empty selection does not mean all"
    )


def test_a_menu_says_why_not(jobs: dict[str, JobSpec]) -> None:
    assert {one.why_not for one in entry_actions(Choice("gone", (), 3, 3, every=True), jobs)} == {NOT_CONFIGURED}
    unknown = entry_actions(Choice("orders_rt", (), None, None, every=True), jobs)
    assert [one.key for one in unknown] == ["r", "d"] and "is unknown" in unknown[1].why_not
    assert unknown[0].why_not == "", "a replay needs no number"
    assert "no rows are quarantined" in entry_actions(Choice("orders_rt", (), 0, 0, every=True), jobs)[0].why_not


def test_commands_are_those_of_the_command_line() -> None:
    origin = Origin("/c.toml")
    assert shell_text(entry_words(origin, EntryVerb.REPLAY, "a", [3, 4], {Part.REASON: "no more"})) == (
        "slotkeeper --config=/c.toml errors replay --reason='no more' a 3 4"
    )
    typed = {Part.REASON: "x", Part.NAME: "a", Part.ROWS: "7"}
    assert entry_words(origin, EntryVerb.DISCARD, "a", (), typed)[1:] == (
        "errors", "discard", "--json", "--execute", "--reason=x", "--confirm=a", "--rows=7", "--all", "a",
    )  # fmt: skip
    assert entry_words(Origin(), EntryVerb.REPLAY, "-a", [3])[-3:] == ("--", "-a", "3")


def test_the_outcome_of_each_row_is_shown_and_hostile_words_are_text() -> None:
    record = Record("20261121T023108-000001", ("errors",), "replay", "a", "me", True, NOW, ended_at=NOW, code=1)
    out = (
        '{"entries": [{"id": 1, "state": "replayed", "outcome": "replayed"},'
        ' {"id": 2, "state": "quarantined", "outcome": "rejected again: 22003 \\u001b[31m"},'
        ' {"id": 3, "state": "superseded", "outcome": "nothing was done: it was already superseded"}]}'
    )
    action = Action(record, Stage.ENDED)
    lines = outcome_lines(action, Said(out, ""), NOW)
    assert [words for _, words in lines[1:]] == [
        "#2  rejected again: 22003 \\x1b[31m", "#1  replayed", "#3  nothing was done: it was already superseded",
    ]  # fmt: skip
    assert verdict(action, Said(out, ""), NOW) == (
        Level.CRITICAL, "failed: 1 replayed, 1 still rejected, 1 unchanged",
    )  # fmt: skip
    damaged = outcome_lines(action, Said('{"entries": 7}\nnot json', "slotkeeper: gone\n"), NOW)
    assert damaged[0][1].startswith("failed: gone")
