"""A command of another host on the host that owns the job: what is executed, refused, and answered after an end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.config.handover import environment
from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.audit import AuditLine, Phase
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.placement import Order
from slotkeeper.core.domain.reset import OpenReset, ResetPlan, plan_text
from slotkeeper.core.domain.reset import named as with_id
from slotkeeper.core.domain.reset_files import MARKS, PLANS
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch import orders
from slotkeeper.core.redaction import know
from slotkeeper.core.state.audit import Audit, intent, outcome
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import StateFolder
from tests.support import polling

PLACE = {"table": "ods.orders", "slot": "orders_rt"}
ORDER = Order("77aa", "orders", "reset", {**PLACE, "plan": "?"}, asked_by="annabella of host etl2", asked_why="why")
RESUME = replace(ORDER, verb="resume", options=PLACE)


def plan_of(table: str = "ods.orders") -> ResetPlan:
    from slotkeeper.core.domain.reset import Goal, TargetKind

    names = ("dws", "dws1", table, "orders_rt", "orders")
    return with_id(ResetPlan("", *names, Goal(TargetKind.LATEST), "i", 1, (), (), (), (), 0.0, 600.0))


def planned(order: Order = ORDER, table: str = "ods.orders") -> Order:
    plan = plan_of(table)
    return replace(order, options={**order.options, "plan": plan.id}, plan=plan_text(plan))


class Owner:
    """The host that owns job `orders`; `ran` has the commands, each of which ends with code 0 after `during`."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        there = Endpoint("dws1", "127.0.0.1", 1, "d", "u")
        jobs = [
            polling.job("orders", "orders_rt", "ods.orders", "mart.orders"),
            polling.job("items", "items_rt", "ods.items", "mart.items"),
        ]
        self.file = polling.config(folder, there, replace(there, name="mart"), *jobs)
        self.loaded: Loaded = load(self.file, environment())
        self.folder = StateFolder.open(folder / "state")
        self.files, self.audit = ResetFiles(self.folder), Audit(self.folder)
        self.ran: list[list[str]] = []
        self.during: Callable[[], object] = lambda: None
        monkeypatch.setattr(orders, "_run", self._run)

    def _run(self, config: Path, order: Order, *_: Any) -> tuple[int, str]:
        self.ran.append(order.words())
        self.during()
        return 0, "ran\n"

    def carries_out(self, order: Order, again: bool = False) -> tuple[int, str]:
        return orders.carry_out(self.folder, self.loaded, order, again)

    def began(self, order: Order, reset: str) -> AuditLine:
        """The reset of an order has made its audit line and its marker."""
        line = replace(intent("slots reset", "a slot", f"why {order.mark}"), action_id=reset)
        self.audit.append(line)
        self.opens(reset)
        return line

    def opens(self, reset: str) -> None:
        self.files.save(MARKS, reset, OpenReset(reset, "orders", *PLACE.values()).text)


@pytest.fixture
def owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Owner:
    return Owner(tmp_path, monkeypatch)


def test_an_interrupted_resume_is_repeated_only_while_the_reset_that_it_resumed_is_open(owner: Owner) -> None:
    def killed() -> None:
        raise KeyboardInterrupt

    owner.opens("r1")
    owner.during = killed
    with pytest.raises(KeyboardInterrupt):
        owner.carries_out(RESUME)
    owner.during = lambda: None
    assert owner.carries_out(RESUME, again=True)[0] == 0
    assert len(owner.ran) == 2, "r1 is still open"
    owner.files.remove(MARKS, "r1")
    owner.opens("r2")
    line = replace(intent("slots reset", "a slot", "its own reason"), action_id="r1")
    owner.audit.append(outcome(line, "done: reset to latest", {}))
    assert owner.carries_out(RESUME, again=True) == (0, "done: reset to latest\n")
    (shown,) = [one for one in owner.audit.read().lines if "77aa" in one.reason and one.phase is Phase.OUTCOME]
    assert "annabella of host etl2" in shown.reason
    assert owner.carries_out(RESUME, again=True) == (0, "done: reset to latest\n")
    unknown = replace(RESUME, id="88bb")
    assert owner.carries_out(unknown, again=True)[0] == 1, "it had not started"
    assert len(owner.ran) == 2, "r2 is another user's reset"


def test_an_interrupted_reset_is_resumed_only_if_the_open_reset_is_its_own(owner: Owner) -> None:
    retry = replace(ORDER, id="99cc", verb="retry", options={})
    owner.audit.append(intent("jobs retry", "job orders", f"hurry {retry.mark}"))
    owner.opens("r0")
    assert owner.carries_out(retry, again=True) == (1, "interrupted before its first change\n")
    assert owner.ran == []
    know(["annabella"])  # a secret that the mark contains is masked in the audit
    try:
        owner.began(ORDER, "r1")
    finally:
        know([])
    assert ORDER.mark not in owner.audit.read().lines[0].reason
    assert owner.carries_out(ORDER, again=True) == (0, "ran\n")
    assert owner.ran == [["slots", "reset", "--resume", "--", "ods.orders", "orders_rt"]]
    owner.files.remove(MARKS, "r1")
    assert owner.carries_out(ORDER, again=True)[0] == 1
    assert len(owner.ran) == 1


def test_an_order_changes_only_its_own_job_and_executes_only_the_plan_that_it_names(owner: Owner) -> None:
    order = planned()
    assert owner.carries_out(order) == (0, "ran\n")
    assert owner.files.load(PLANS, order.options["plan"]) == order.plan
    for wrong in (
        replace(order, job="items"),
        replace(order, job="unknown"),
        replace(order, options={**order.options, "plan": "0123"}),
        planned(table="ods.items"),
        replace(RESUME, options={**PLACE, "slot": "items_rt"}),
    ):
        with pytest.raises(Refused):
            owner.carries_out(wrong)
    assert len(owner.ran) == 1
    retry = Order("1", "orders", "retry", {"job": "items", "plan": "planted"}, "a plan", asked_by="ann")
    assert owner.carries_out(retry) == (0, "ran\n")
    assert owner.ran[-1][-1] == "orders"
    assert owner.files.load(PLANS, "planted") is None


def test_the_rule_of_a_second_account_applies_as_soon_as_the_file_has_it(owner: Owner) -> None:
    with owner.file.open("a", encoding="utf-8") as file:
        file.write("[access]\nsecond_account = true\n")
    with pytest.raises(Refused, match="second_account"):
        owner.carries_out(planned())
    assert owner.ran == []
