"""The console requires the same confirmations as the command line: no more, no fewer."""

from __future__ import annotations

from itertools import product

import pytest

from slotkeeper.console.actions.commands import Part, job_wants, missing, slot_wants
from slotkeeper.console.commands import reset, slots
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.reset import Count, Goal, LaneSeen, Move, ResetPlan, TargetKind
from slotkeeper.core.errors import Refused
from slotkeeper.core.slots.change import ChangePlan, Consent, Owner, refuse_without_consent
from slotkeeper.core.slots.status import SlotView
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints, place

ROWS = (0, 7, None)


def plan(rows: int | None, highest: bool) -> ChangePlan:
    return ChangePlan(
        verb="drop",
        source="dws1",
        table="ods.orders",
        slot="orders_rt",
        owner=Owner("orders_rt"),
        highest=highest,
        before=SlotView("orders_rt", "orders_rt", True),
        rows=rows,
        effects=(),
        sql=(),
    )


def consent(parts: dict[Part, str]) -> Consent:
    get = parts.get
    return Consent(True, get(Part.REASON, ""), get(Part.NAME, ""), get(Part.TABLE, ""), get(Part.ROWS, ""))


@pytest.mark.parametrize(("rows", "highest"), list(product(ROWS, (False, True))))
def test_what_is_asked_for_satisfies_the_gate_and_less_does_not(rows: int | None, highest: bool) -> None:
    made = plan(rows, highest)
    wants = slot_wants(slots.to_type(made))
    typed = {want.part: want.answer or "INC-1" for want in wants}
    assert not missing(wants, typed)
    refuse_without_consent(made, consent(typed))
    for left_out in wants:
        less = {part: text for part, text in typed.items() if part is not left_out.part}
        assert missing(wants, less) == [left_out]
        with pytest.raises(Refused):
            refuse_without_consent(made, consent(less))


@pytest.mark.parametrize(
    ("rows", "highest", "asked"),
    [(0, False, set()), (7, False, {Part.ROWS}), (None, False, {Part.ROWS}), (0, True, {Part.TABLE})],
)
def test_lost_rows_an_external_slot_and_prod_ask_for_more(rows: int | None, highest: bool, asked: set[Part]) -> None:
    parts = {want.part for want in slot_wants(slots.to_type(plan(rows, highest)))}
    assert parts - {Part.REASON, Part.NAME} == asked


@pytest.mark.parametrize("skipped", [0, 12_403_118])
def test_a_reset_asks_for_the_number_of_skipped_changes_where_there_are_any(skipped: int) -> None:
    key = LaneKey("dws1", "t", "s1", "dn_1")
    row = ProgressRow(key, 1, "m.t", DwsPosition(5, 0), 1, 0, LaneState.RUNNING, None, None, "c", "i", None)
    move = Move(LaneSeen(row, SyncPoints(5, 5, 1), place(1), place(1), place(9)), row, skipped=Count((("I", skipped),)))
    goal = Goal(TargetKind.LATEST)
    made = ResetPlan("x", "dws", "dws1", "t", "s1", "j", goal, "i", 1, (move,), (), (), (), 0.0, 600.0)
    wants = slot_wants(reset.to_type(made))
    parts = {want.part: want.answer for want in wants}
    assert parts.get(Part.ROWS) == (str(skipped) if skipped else None)
    assert parts[Part.NAME] == "s1" and Part.TABLE not in parts


def test_one_job_takes_a_key_several_take_their_number_and_the_final_verb_a_name() -> None:
    assert job_wants(["a"]) == ()
    assert [(want.part, want.answer) for want in job_wants(["a", "b", "c"])] == [(Part.NUMBER, "3")]
    assert [(want.part, want.answer) for want in job_wants(["a"], final=True)] == [(Part.REASON, ""), (Part.NAME, "a")]


@pytest.mark.parametrize("typed", ["", " ", "7 ", "07", "7.0", "8"])
def test_a_number_is_typed_exactly(typed: str) -> None:
    wants = slot_wants({"confirm": "s", "confirm_table": None, "rows": "7"})
    assert Part.ROWS in [want.part for want in missing(wants, {Part.REASON: "x", Part.NAME: "s", Part.ROWS: typed})]
