"""The agent of a host: what another login writes to a store, or a slow command, does not disturb its other jobs."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from slotkeeper.core.config.handover import environment
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.placement import HostSeen, Order, Placement
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.launch import agent as agents
from slotkeeper.core.launch import hosts, orders
from slotkeeper.core.launch.agent import Agent
from slotkeeper.core.ports.driver import Placements
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sinks.postgres.progress.placement import _order_from, _placement
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring import worker
from tests.support import polling
from tests.support.waiting import until


class Table:
    """A store: its rows, its orders, and the answers to them."""

    def __init__(self) -> None:
        self.rows: list[Placement] = []
        self.orders: list[Order] = []
        self.answers: dict[str, tuple[int, str]] = {}
        self.taken: list[str] = []
        self.reports = 0

    def create(self) -> None: ...

    def read(self) -> tuple[list[Placement], list[HostSeen]]:
        return list(self.rows), []

    def report(self, owner: str, host: str, sources: object, jobs: Sequence[object]) -> list[Order]:
        self.reports += 1
        return [one for one in self.orders if one.id not in self.answers]

    def take(self, order: Order, owner: str) -> bool:
        self.taken.append(order.id)
        return True

    def close_order(self, order: Order, code: int, said: str) -> None:
        self.answers[order.id] = code, said


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def tables() -> dict[str, Table]:
    """The stores of jobs a and b."""
    return {"a": Table(), "b": Table()}


@pytest.fixture
def agent(
    tmp_path: Path, tables: dict[str, Table], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Agent]:
    there = Endpoint("dws1", "127.0.0.1", 1, "d", "u")
    jobs = [polling.job(name, f"{name}_rt", f"ods.{name}", f"mart.{name}") for name in tables]
    jobs[1] = jobs[1].replace('sink = "mart"', 'sink = "other"')
    path = polling.config(tmp_path, there, Endpoint("mart", "127.0.0.1", 1, "d", "u"), *jobs)
    with path.open("a", encoding="utf-8") as file:
        file.write(polling.server("sinks", Endpoint("other", "127.0.0.1", 2, "d", "u")) + '[hosts]\nname = "etl1"\n')
    monkeypatch.setattr(agents, "reaches", lambda *_: True)
    made = Agent(load(path, environment()), StateFolder.open(tmp_path / "state"), said.append)
    of_job = {key: tables[jobs[0].name] for key, jobs in made._shared.stores.items()}
    monkeypatch.setattr(made._shared, "table", lambda key: cast(Placements, of_job[key]))
    yield made
    if not made._leaves.is_set():
        made.close()


def order(id: str, job: str = "a", verb: str = "retry", options: object = None) -> Order:
    return _order_from(id, job, verb, {} if options is None else options, "", "ann", "", "", None, "")


def rounds_until(agent: Agent, true: Callable[[], bool], what: str) -> None:
    def round() -> bool:
        agent.round()
        return true()

    until(round, 10, what)


def test_a_malformed_row_of_one_store_is_answered_or_reported_and_harms_no_other_job(
    agent: Agent, tables: dict[str, Table], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orders, "_run", lambda *_: (0, "ran\n"))
    for number, options in enumerate(([], "x", {"job": 5}, {"job": "a\0b"}, {"job": "\ud800"})):
        tables["a"].orders.append(order(f"m{number}", options=options))
    tables["a"].orders += [order("u1", verb="unknown"), order("f1", job="b"), order("g1")]
    tables["a"].rows.append(_placement("a", "x", *([0] * 3), *([""] * 3), "me", "etl1", 0, 0, 0.0, "", ""))
    rounds_until(agent, lambda: len(tables["a"].answers) == 8, "all answers")
    assert tables["a"].answers.pop("g1") == (0, "ran\n")
    assert all(code == 1 and text.startswith("\fslotkeeper: ") for code, text in tables["a"].answers.values())
    assert said == ["job a is not shared: the desired state 'x' is unknown (start, pause or stop it)"]
    monkeypatch.setattr(tables["a"], "read", lambda: 1 / 0)
    before = tables["b"].reports
    agent.round()
    agent.round()
    assert said[1:] == ["cannot share jobs: unexpected ZeroDivisionError"]
    assert tables["b"].reports == before + 2


def test_a_slow_command_delays_no_act_no_second_order_is_taken_and_the_agent_ends_without_waiting_for_it(
    agent: Agent, tables: dict[str, Table], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = tmp_path / "pid"
    program = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    monkeypatch.setattr(orders, "PROGRAM", (sys.executable, "-c", program))
    tables["a"].orders += [order(f"s{number}") for number in range(5)]
    rounds_until(agent, lambda: pid.exists() and pid.read_text() != "", "the command to run")
    agent.round()
    assert tables["a"].taken == ["s0"]
    assert agent._pool.submit(lambda: True).result(5)
    began = time.monotonic()
    agent.close()
    assert time.monotonic() - began < 10
    assert tables["a"].answers == {}

    command = int(pid.read_text())
    os.kill(command, signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(command, 0)[1]) == signal.SIGKILL, "it was still running"


def test_the_output_of_a_command_is_apart_from_its_notes(
    agent: Agent, tables: dict[str, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import sys; print('{\"a\": 1}'); print('a note', file=sys.stderr); sys.exit(3)"
    monkeypatch.setattr(orders, "PROGRAM", (sys.executable, "-c", program))
    tables["a"].orders.append(order("s0"))
    rounds_until(agent, lambda: bool(tables["a"].answers), "the answer")
    assert tables["a"].answers == {"s0": (3, '{"a": 1}\n\fa note\n')}


def test_stores_that_do_not_answer_are_asked_last_one_in_each_round_and_for_4_s_at_most(
    agent: Agent, tables: dict[str, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    silent = {"a"}

    def read(name: str) -> tuple[list[Placement], list[HostSeen]]:
        asked.append(name)
        if name in silent:
            raise Unreachable("no answer")
        return [], []

    for name, table in tables.items():
        monkeypatch.setattr(table, "read", partial(read, name))
    for _ in range(2):
        agent.round()
    assert asked == ["a", "b", "b", "a"]
    silent.add("b")
    for _ in range(3):
        agent.round()
    assert asked[4:] == ["b", "a", "b", "a"]
    logins: list[Endpoint] = []
    monkeypatch.setattr(worker, "login", lambda endpoint, name: logins.append(endpoint))
    monkeypatch.setattr(sinks, "open", lambda kind: SimpleNamespace(connect=lambda *_: None))
    worker.store_session(agent._loaded.jobs["a"], "", hosts.LIMIT_MS)
    assert [one.connect_timeout_ms for one in logins] == [4_000]
