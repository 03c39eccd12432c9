"""A consent is read back as stored; damaged, older or unnamed consents, and those of another job, do not count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.consent import VALID_SECONDS, Consent
from slotkeeper.core.state.files import CONSENTS, ResetFiles, StoredConsents
from slotkeeper.core.state.folder import StateFolder

GIVEN = Consent("4f2c", "orders", "ods.orders", "orders_rt", "7 rows", True, "orders_rt", "dba@h1", "INC-1")


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder.open(tmp_path / "state")


def now() -> float:
    return SystemClock().utc().timestamp()


def test_one_that_was_given_holds_for_its_plan_and_its_job_alone(folder: StateFolder) -> None:
    consents = StoredConsents(folder, "orders")
    consents.keep(replace(GIVEN, at=now()))
    assert consents.given("4f2c") and not consents.given("4f2d")
    assert not StoredConsents(folder, "returns").given("4f2c")


@pytest.mark.parametrize(
    "one",
    [
        replace(GIVEN, name=""),
        replace(GIVEN, name="ods.orders"),
        replace(GIVEN, reason=""),
        replace(GIVEN, who=""),
    ],
)
def test_one_without_name_reason_or_account_does_not_hold(folder: StateFolder, one: Consent) -> None:
    consents = StoredConsents(folder, "orders")
    consents.keep(replace(one, at=now()))
    assert not consents.given("4f2c")


@pytest.mark.parametrize("late", [VALID_SECONDS + 1, -3_600.0], ids=["a day old", "from the future"])
def test_one_of_another_day_does_not_hold(folder: StateFolder, late: float) -> None:
    consents = StoredConsents(folder, "orders")
    consents.keep(replace(GIVEN, at=now() - late))
    assert not consents.given("4f2c")


def test_a_damaged_file_gives_no_consent_and_hides_no_other(folder: StateFolder) -> None:
    consents = StoredConsents(folder, "orders")
    for name, text in (("a", "{"), ("b", '{"plan": "b"}'), ("c", "[]")):
        ResetFiles(folder).save(CONSENTS, name, text)
    consents.keep(replace(GIVEN, at=now()))
    assert [one.plan for one in consents.known()] == ["4f2c"]


def test_a_table_forgets_all_but_one(folder: StateFolder) -> None:
    consents = StoredConsents(folder, "orders")
    for plan, table in (("a", "ods.orders"), ("b", "ods.orders"), ("c", "ods.items")):
        consents.keep(replace(GIVEN, plan=plan, table=table))
    consents.drop("ods.orders", but="b")
    assert [one.plan for one in consents.known()] == ["b", "c"]
