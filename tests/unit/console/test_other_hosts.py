"""A command that is typed on a host which does not own the job."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.console.cli import select
from slotkeeper.console.commands import job_verbs, reset
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.access import AccessRules
from slotkeeper.core.domain.placement import Order, Placement
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import Refused, SlotkeeperError, Unreachable
from slotkeeper.core.launch import hosts, orders
from slotkeeper.core.redaction import know
from slotkeeper.core.state.sqlite import Store

JOB = cast(JobSpec, SimpleNamespace(name="orders"))


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The commands that were given to host etl1, which owns the job."""
    found: list[Any] = []
    monkeypatch.setattr(job_verbs, "other_owner", lambda *_: "etl1")
    monkeypatch.setattr(job_verbs, "by_owner", lambda *args: found.append(args[3:]))
    return found


def loaded(folder: Path, access: AccessRules | None = None) -> Loaded:
    hosts, path = SimpleNamespace(name="etl2"), folder / "config.toml"
    return cast(Loaded, SimpleNamespace(hosts=hosts, state_dir=folder / "state", path=path, access=access))


def by_owner(found: Loaded, verb: str, options: dict[str, str]) -> bool:
    return reset._by_owner(cast(Any, None), found, JOB, verb, options, "", False)


def test_an_unfinished_reset_is_resumed_by_the_owner_without_a_plan(tmp_path: Path, given: list[Any]) -> None:
    options = {"table": "ods.orders", "slot": "orders_rt", "steal": ""}
    assert by_owner(loaded(tmp_path), "resume", options)
    assert given == [("resume", options, "etl1", "", False, "")]
    with pytest.raises(Refused, match="unknown plan 'p1'"):
        by_owner(loaded(tmp_path), "reset", {**options, "plan": "p1"})


def test_a_rule_of_a_second_account_is_not_left_out_on_another_host(tmp_path: Path, given: list[Any]) -> None:
    ruled = loaded(tmp_path, AccessRules(str(tmp_path / "config.toml"), second_account=True))
    for verb in ("reset", "undo", "resume"):
        with pytest.raises(Refused, match=r"second_account .* owner's host etl1"):
            by_owner(ruled, verb, {"table": "ods.orders", "slot": "orders_rt"})
    assert given == []


@pytest.mark.parametrize("owner", ["another", "this", "", None])
def test_the_row_in_the_store_shows_the_owner_of_a_job_that_never_ran_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: str | None
) -> None:
    row = None if owner is None else Placement("orders", owner=owner, host="etl1")
    found = SimpleNamespace(row=lambda job: row, owner="this", close=lambda: None)
    monkeypatch.setattr(hosts, "shared", lambda *_: found)
    with_job = cast(Loaded, SimpleNamespace(hosts=object(), jobs={"orders": JOB}))
    with Store.open(tmp_path / "state") as store:
        assert job_verbs.other_owner(with_job, store, "orders") == ("etl1" if owner == "another" else "")


class Lost:
    """A store that is lost after it was given an order: `found` is what it answers later, an error while it is away."""

    def __init__(self, found: Order | SlotkeeperError | None, withdraws: bool = False) -> None:
        self.found, self.withdraws, self.given = found, withdraws, list[Order]()

    def create(self) -> None: ...

    def order(self, order: Order) -> None:
        self.given.append(order)
        raise Unreachable("connection lost")

    def ordered(self, order: Order) -> Order | None:
        if isinstance(self.found, SlotkeeperError):
            raise self.found
        return self.found

    def withdraw(self, order: Order) -> bool:
        if isinstance(self.found, SlotkeeperError):
            raise self.found
        return self.withdraws


ORDER = Order("77aa", "orders", "retry", {}, asked_why="because of geheim9")
AWAY, MAY = Unreachable("still away"), r"host etl1 may still carry out the command until \d\d:\d\d:\d\d UTC, order 77aa"


@pytest.mark.parametrize(
    ("table", "what"),
    [
        (Lost(AWAY), MAY),
        (Lost(ORDER), MAY),
        (Lost(None), "^connection lost"),
        (Lost(ORDER, withdraws=True), "^connection lost"),
    ],
)
def test_a_command_whose_store_is_lost_names_its_order_if_it_may_still_be_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: Lost, what: str
) -> None:
    row = Placement("orders", owner="another", host="etl1")
    found = SimpleNamespace(
        table=lambda key: table, key_of=lambda job: 1, row=lambda job: row, owner="this", close=lambda: None
    )
    monkeypatch.setattr(orders, "shared", lambda *_: found)
    know(["geheim9"])
    try:
        with Store.open(tmp_path / "state") as store, pytest.raises(SlotkeeperError, match=what):
            orders.ordered(loaded(tmp_path), store, "jobs retry", ORDER, "etl1", 1.0)
    finally:
        know([])
    assert "geheim9" not in table.given[0].asked_why


@pytest.mark.parametrize("as_json", [True, False])
def test_the_answer_of_the_owner_has_its_output_on_stdout_and_its_notes_on_stderr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    long = json.dumps({"lanes": "x" * 15_000})
    answer = replace(ORDER, code=0, said=f"{long}\n\fslotkeeper: a note\n")
    monkeypatch.setattr(orders, "ordered", lambda *_: answer)
    ctx = cast(Any, SimpleNamespace(find_root=lambda: SimpleNamespace(obj=None), obj=None, params={}))
    monkeypatch.setattr(select, "ascii_only", lambda ctx: True)
    job_verbs.by_owner(ctx, loaded(tmp_path), "orders", "retry", {}, "etl1", "", as_json)
    shown, notes = capsys.readouterr()
    assert (shown == f"{long}\n") is as_json
    assert notes.splitlines()[-1] == "slotkeeper: host etl1: a note"
    monkeypatch.setenv(orders.CHILD, "77aa")
    with pytest.raises(Refused, match="has moved to host etl1"):
        job_verbs.by_owner(ctx, loaded(tmp_path), "orders", "retry", {}, "etl1", "", as_json)
