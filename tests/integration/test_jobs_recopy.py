"""`slotkeeper jobs recopy`: the request is stored for the driver, and audited; it can be withdrawn, or is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slotkeeper.core.state import steering
from slotkeeper.core.state.audit import Audit
from tests.support.jobs import Jobs
from tests.support.printed import typed

Call = Callable[..., tuple[int, str, str]]
CONFIG = """
[sources.shop]
dialect = "mysql"
host = "127.0.0.1"
port = 3
user = "etl"
password_env = "X"
[sinks.mart]
kind = "postgres"
host = "127.0.0.1"
port = 3
database = "mart"
user = "etl"
password_env = "X"
[jobs.orders]
source = "shop"
sink = "mart"
slot = "orders"
start = "initial"
[[jobs.orders.channels]]
from = "shop.orders"
into = "mart.orders"
[jobs.orders.binlog]
binlog = true
"""


@pytest.fixture
def call(jobs: Jobs, tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.setenv("X", "y")
    jobs.store.register_job("orders", "c.toml")

    def called(*words: str, more: str = "") -> tuple[int, str, str]:
        file = tmp_path / "c.toml"
        state = f'[state]\ndir = "{jobs.store.folder.path}"\n'
        file.write_text(CONFIG + more + state, "utf-8")
        place = ("--config", str(file))
        return typed(capfd, "jobs", "recopy", "orders", *words, *place)

    return called


def test_a_request_is_stored_and_audited_and_can_be_withdrawn(jobs: Jobs, call: Call) -> None:
    code, out, err = call("shop.orders", "--reason", "INC-7")
    assert (code, "requested" in out) == (0, True), err
    requests = steering.StoredAgain(jobs.store, "orders")
    assert list(requests.tables()) == ["shop.orders"] and not requests.is_planned("shop.orders")
    after, before = Audit(jobs.store.folder).read().lines[:2]
    assert (before.action, before.what, before.reason) == ("jobs recopy", "job orders table shop.orders", "INC-7")
    assert after.outcome == "requested"
    requests.planned("shop.orders")
    assert steering.StoredAgain(jobs.store, "orders").is_planned("shop.orders")
    assert not list(steering.StoredAgain(jobs.store, "other").tables())
    code, out, err = call("shop.orders", "--cancel", "--json")
    assert (code, json.loads(out)["requested"]) == (0, False), err
    requests.planned("shop.orders")
    assert not list(steering.StoredAgain(jobs.store, "orders").tables()), "a withdrawn request stays withdrawn"


@pytest.mark.parametrize(
    ("table", "more", "says"),
    [
        ("shop.other", "", "known tables: shop.orders"),
        ("shop.orders", "[jobs.orders.sink_options]\nignore_delete = true\n", "ignore_delete"),
        ("shop.orders", '[jobs.orders.sink_options]\nconflict_strategy = "ignore"\n', "conflict_strategy"),
    ],
)
def test_a_copy_that_could_not_make_the_target_equal_is_refused(
    jobs: Jobs, call: Call, table: str, more: str, says: str
) -> None:
    code, out, err = call(table, more=more)
    assert (code, out, says in err) == (3, "", True), err
    assert not list(steering.StoredAgain(jobs.store, "orders").tables())
