"""Who is allowed to change a slot, and which words must be typed for it."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.errors import Refused
from slotkeeper.core.slots.change import (
    Asked,
    ChangePlan,
    Consent,
    Owner,
    refuse_unless_at_rest,
    refuse_without_consent,
)
from slotkeeper.core.slots.status import SlotView

OWNER = Owner("orders")
OF_OTHERS = (JobState.ELSEWHERE, JobState.UNKNOWN)
"""The states in which another host may run the job."""


def plan(owner: Owner | None = OWNER, highest: bool = False, rows: int | None = 0) -> ChangePlan:
    before = SlotView("s", "orders" if owner else None, True)
    return ChangePlan("drop", "dws1", "ods.t", "s", owner, highest, before, rows, (), ())


@pytest.mark.parametrize("state", [one for one in JobState if one.is_open or one in OF_OTHERS])
def test_a_slot_is_left_alone_while_its_job_is_meant_to_live(state: JobState) -> None:
    with pytest.raises(Refused, match=state.value):
        refuse_unless_at_rest(Owner("orders", state))


@pytest.mark.parametrize("state", [None, *(one for one in JobState if not one.is_open and one not in OF_OTHERS)])
def test_a_stopped_job_or_one_never_started_does_not_prevent_it(state: JobState | None) -> None:
    refuse_unless_at_rest(Owner("orders", state))
    refuse_unless_at_rest(None)


def test_a_process_that_lives_on_or_elsewhere_is_one() -> None:
    for owner in (Owner("o", JobState.STOPPED, lives=True), Owner("o", JobState.STOPPED, elsewhere=True)):
        with pytest.raises(Refused):
            refuse_unless_at_rest(owner)


def consent(confirm: str = "s", confirm_table: str = "", rows: str = "", reason: str = "r") -> Consent:
    return Consent(True, reason, confirm, confirm_table, rows)


@pytest.mark.parametrize(
    ("wanted", "typed"),
    [
        (plan(), consent()),
        (plan(), consent(rows="0")),
        (plan(rows=7), consent(rows="7")),
        (plan(rows=70), consent(rows=plan(rows=7).rows_to_type)),
        (plan(rows=None), consent(rows="unknown")),
        (plan(None, highest=True), consent(confirm_table="ods.t")),
        (plan(None, highest=True, rows=7), consent(confirm_table="ods.t", rows="7")),
    ],
)
def test_what_was_all_typed_is_done(wanted: ChangePlan, typed: Consent) -> None:
    refuse_without_consent(wanted, typed)


@pytest.mark.parametrize(
    ("wanted", "typed"),
    [
        (plan(), consent(reason=" ")),
        (plan(), consent(confirm="")),
        (plan(), consent(confirm="S")),
        (plan(rows=7), consent()),
        (plan(rows=7), consent(rows="6")),
        (plan(rows=71), consent(rows=plan(rows=7).rows_to_type)),
        (plan(rows=7), consent(rows="unknown")),
        (plan(rows=None), consent(rows="7")),
        (plan(highest=True), consent()),
        (plan(highest=True), consent(confirm_table="ods.other")),
    ],
)
def test_what_was_not_typed_is_refused(wanted: ChangePlan, typed: Consent) -> None:
    with pytest.raises(Refused) as refused:
        refuse_without_consent(wanted, typed)
    assert refused.value.hint.startswith("--")


def test_the_highest_tier_is_for_foreign_slots_and_for_prod() -> None:
    assert Asked("dws1", "t", "s").highest
    assert Asked("dws1", "t", "s", "prod", OWNER).highest
    assert not Asked("dws1", "t", "s", "TEST", OWNER).highest
