"""A plan's lines: the same in the shell and on the screen, and without reassuring text if a check fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from slotkeeper.console.actions.menu import LOST, NO_POSITION, reset_targets
from slotkeeper.console.actions.outcome import no_undo
from slotkeeper.console.actions.preview import CHECKS, MEANS, NOT_POSSIBLE, SQL, Preview, preview_from
from slotkeeper.console.actions.record import Said
from slotkeeper.console.commands.reset import print_plan, print_result
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.reset import DONE, ResetPlan, TargetKind, plan_of
from slotkeeper.core.domain.reset_checks import emptied
from slotkeeper.core.slots.reset_apply import Result
from slotkeeper.core.sources.dws.position import POSITIONS, SyncPoints
from tests.tui.planted import lane_move, reset_plan, snapshot_plan

FAILS = [
    {"name": "slot exists", "ok": False, "sentence": "the slot is lost on 4 of 4 DNs"},
    {"name": "sink writable", "ok": True, "sentence": "it is"},
]
BACK = reset_plan(lane_move("dn_1", 88_512_330, 88_120_441, again=7), lane_move("dn_2", 9, 9))
SKIPS = reset_plan(lane_move("dn_1", 5, 9, skipped=4))
COPY = snapshot_plan(
    "replace", 174, 130_881, "replaces 130881 rows of mart.orders", "the next start copies 174 rows, 1s"
)
FAILED = {**BACK, "checks": FAILS}


def shown(plan: Mapping[str, Any]) -> Preview:
    found = preview_from(json.dumps(plan))
    assert found is not None
    return found


def values(plan: Mapping[str, Any]) -> ResetPlan:
    times = {name: datetime.fromisoformat(plan[name]).timestamp() for name in ("made", "expires")}
    return plan_of({**plan, **times}, POSITIONS)


@pytest.mark.parametrize("plan", [BACK, SKIPS, COPY, FAILED], ids=["back", "skips", "copy", "failed"])
def test_the_shell_prints_each_line_that_the_screen_draws(
    plan: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    print_plan(values(plan), "", True)
    printed = " ".join(capsys.readouterr().out.split())
    for section in shown(plan).sections(full=True):
        for _, label, text in section.lines:
            assert f"{label} {text}".strip() in printed, (label, text)
    assert ("--execute --plan" in printed) is (plan is not FAILED)


def test_beside_a_check_that_fails_nothing_is_said_of_what_would_be_done() -> None:
    failed = shown(FAILED)
    (only,) = failed.sections(full=False)
    assert (only.name, only.lines) == (
        NOT_POSSIBLE,
        ((Level.CRITICAL, "FAIL", "slot exists: the slot is lost on 4 of 4 DNs"),),
    )
    assert [one.name for one in failed.sections(full=True)] == [NOT_POSSIBLE, CHECKS]


def test_what_can_be_done_is_said_as_effect_impact_and_undo() -> None:
    means, checks, sql = shown(BACK).sections(full=True)
    assert (means.name, checks.name, sql.name) == (MEANS, CHECKS, SQL)
    assert means.lines[0] == (Level.FINE, "Effect", "7 changes on 1 lane are applied again; none is skipped")
    assert [label for _, label, _ in means.lines] == ["Effect", "Impact", "Undo"]


def test_a_plan_for_a_lost_slot_starts_nowhere_and_promises_no_undo() -> None:
    move = lane_move("dn_1", 10_079, 10_079)
    lost = replace(
        move, seen=replace(move.seen, kept=SyncPoints(0, 0), retained=None), to=emptied(move.to, SyncPoints(0, 0))
    )
    plan = shown(reset_plan(lost, kind=TargetKind.SNAPSHOT))
    assert plan.lanes[0].cells == ("dn_1", "slot lost", "copied again", "-", "-")
    assert plan.undo == "not possible: the slot was lost on 1 of 1 lane: no binlog holds the old positions"


@pytest.mark.parametrize("why", ["", "the slot was lost on 1 of 1 lane"])
def test_the_result_of_a_reset_offers_only_an_undo_that_is_possible(
    why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_result(Result("b1", DONE, "reset to snapshot", {}, why), True)
    assert ("slotkeeper slots undo b1" in capsys.readouterr().out) is not bool(why)
    assert no_undo(Said(json.dumps({"no_undo": why}), "")) == why


def test_what_is_lost_or_replaced_is_a_warning_and_says_what_is_safer() -> None:
    for plan, words in ((SKIPS, "4 changes on 1 lane are SKIPPED"), (COPY, "the target would shrink by 130707 rows")):
        lines = shown(plan).sections(full=False)[0].lines
        assert lines[0][0] is Level.WARNING and lines[0][2].startswith(words)
        assert lines[-1][1] == "Safer"
    assert shown(COPY).copies == "174 rows, 1s"


def job(state: JobState, trouble: str = "") -> JobFacts:
    return JobFacts("orders_rt", Level.FINE, state, trouble=trouble)


@pytest.mark.parametrize(
    ("lost", "facts", "best", "off"),
    [
        (False, None, "earliest", ""),
        (False, job(JobState.STOPPED), "earliest", ""),
        (True, job(JobState.FAILED, "SLOT LOST"), "snapshot", LOST),
        (False, job(JobState.AWAITS_COPY), "snapshot", NO_POSITION),
        (False, job(JobState.FAILED, "TARGET CHANGED"), "snapshot", ""),
        (False, job(JobState.FAILED, "SLOT MOVED"), "earliest", ""),
        (False, job(JobState.RUNNING, "TARGET CHANGED"), "earliest", ""),
    ],
)
def test_the_menu_of_targets_recommends_by_the_trouble_and_says_why_not(
    lost: bool, facts: JobFacts | None, best: str, off: str
) -> None:
    found = reset_targets(lost, facts)
    assert [one.what for one in found if one.best] == [found[0].what] == [best]
    assert {one.what: one.why_not for one in found if one.what in ("earliest", "point", "time", "latest")} == (
        dict.fromkeys(("earliest", "point", "time", "latest"), off)
    )
    assert not [one for one in found if one.what in ("snapshot", "backup") and one.why_not]
