"""Commands that a dry run prints can be pasted unchanged: names with blanks and quotes are quoted correctly."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from typing import Any
from unittest.mock import Mock

import pytest

from slotkeeper.console.commands import slots
from slotkeeper.core.domain.ttl import TimeLeft
from slotkeeper.core.slots import change
from slotkeeper.core.slots.change import Asked, ChangePlan
from slotkeeper.core.slots.status import SlotView, TableSlots
from slotkeeper.core.sources.dws.words import WORDS

ASKED = Asked("dws1", "ods.O'Neil Lines", "s", environment="PROD", words=WORDS)
AS_LITERAL = """('ods."O''Neil Lines"', 's'"""


PLANS: Mapping[str, Callable[[Any, Asked, TimeLeft | None], ChangePlan]] = {
    "create": change.plan_create,
    "drop": change.plan_drop,
    "register": change.plan_register,
}


def planned(verb: str, monkeypatch: pytest.MonkeyPatch) -> ChangePlan:
    there = () if verb == "create" else (SlotView("s", None, True),)
    monkeypatch.setattr(change, "seen", lambda inspector, asked: TableSlots("dws1", asked.table, there))
    inspector = Mock()
    inspector.may_drop.return_value = True
    return PLANS[verb](inspector, ASKED, None)


@pytest.mark.parametrize("verb", PLANS)
def test_a_dry_run_prints_sql_and_a_command_that_can_be_pasted(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned(verb, monkeypatch)
    assert plan.sql and all(AS_LITERAL in text for text in plan.sql)
    slots._say_how(plan, True)
    words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert words[:5] == ["slotkeeper", "slots", verb, ASKED.table, "s"]
    assert words[words.index("--confirm-table") + 1] == ASKED.table
