"""A job of two hosts: if its owner is killed or cut off, the other host takes over without loss or repeats."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.core.domain.audit import AuditLine, Phase
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.two_hosts import SOON, Host, TwoHosts, two_hosts
from tests.support.waiting import until

TABLE = "ods.orders"
MALFORMED = (
    "INSERT INTO slotkeeper_orders (id, job, verb, options, asked_by, asked_why, asked_at)"
    " VALUES ('{}', 'orders_rt', 'retry', '{}', 'odd', '', now())"
)
ODD_OPTIONS = ("[]", "null", '{"table": 5}', r'{"table": "a\u0000b"}', r'{"table": "\ud800"}')


@pytest.fixture
def pair(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> Iterator[TwoHosts]:
    warehouse.create_table(TABLE, "id bigint NOT NULL, note text", ("id",))
    made = two_hosts(make_mirror(warehouse, TABLE), tmp_path)
    try:
        made.write()
        yield made
    finally:
        made.close()


def begun(pair: TwoHosts) -> int:
    """Start the job on a, with both agents; returns the rows that the copy took."""
    code, said = pair.a.call("jobs", "start", "orders_rt", "--reason", "first")
    assert code == 0, said
    pair.a.serve()
    pair.b.serve()
    until(lambda: pair.b.shows(JobState.ELSEWHERE), SOON, "b knows of the job")
    return pair.written


def test_the_job_of_a_killed_host_runs_on_the_other_which_the_first_then_shows(pair: TwoHosts) -> None:
    base = begun(pair)
    pair.write()
    began = time.monotonic()
    pair.a.kill()
    pair.write()
    until(pair.b.runs, SOON, "b runs the job")
    print(f"RUNNING on b {time.monotonic() - began:.1f} s after a was killed")
    pair.equal(base)
    pair.a.serve()
    until(lambda: pair.a.shows(JobState.ELSEWHERE), SOON, "a shows that b runs it")
    assert [one for one in pair.a.status()["faults"] if one["job"]] == []


def test_a_host_cut_off_from_the_store_loses_the_job_and_neither_starts_anything_while_both_are(pair: TwoHosts) -> None:
    base = begun(pair)
    pair.write()
    code, said = pair.b.call("jobs", "pause", "orders_rt", "--reason", "a check")
    assert code == 0 and "PAUSED" in said, said
    until(lambda: pair.a.shows(JobState.PAUSED), SOON, "a shows that it is paused")
    (line,) = [one for one in audited(pair.a) if one.action == "jobs pause" and one.phase is Phase.OUTCOME]
    assert "a check" in line.reason and "requested by" in line.reason
    assert [one.outcome for one in audited(pair.b) if one.phase is Phase.OUTCOME] == ["PAUSED"]
    code, said = pair.b.call("jobs", "resume", "orders_rt")
    assert code == 0, said

    pair.a.cut_off()
    pair.write()
    until(pair.b.runs, SOON, "b runs the job")
    pair.equal(base)
    pair.b.cut_off()
    pair.write()
    code, said = pair.b.call("jobs", "pause", "orders_rt")
    assert code == 5, said
    assert pair.applied() < pair.written - base, "nothing is written"
    pair.a.rejoin()
    pair.b.rejoin()
    pair.equal(base)
    until(lambda: pair.a.runs() != pair.b.runs(), SOON, "one of them runs it")
    other = pair.b if pair.a.runs() else pair.a
    until(lambda: other.shows(JobState.ELSEWHERE), SOON, "the other says so")
    code, said = other.call("jobs", "stop", "orders_rt")
    assert code == 0, said
    assert not (pair.a.runs() or pair.b.runs())


def test_the_owner_carries_out_another_hosts_retry_and_its_reset_at_most_once(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, note text", ("id",))
    pair = two_hosts(make_mirror(warehouse, TABLE), tmp_path, take_over_after="5m")
    try:
        pair.write()
        begun(pair)
        pair.mirror.at_sink(*(MALFORMED.format(number, text) for number, text in enumerate(ODD_OPTIONS)))
        code, said = pair.b.call("jobs", "retry", "orders_rt", "--reason", "hurry", "--json")
        assert code == 0 and len(json.loads(said.splitlines()[-1])["polled"]) == 4, said
        codes = "SELECT array_agg(code) FROM slotkeeper_orders WHERE asked_by = 'odd'"
        each = [([1] * len(ODD_OPTIONS),)]
        until(lambda: pair.mirror.query(pair.mirror.sink, codes) == each, SOON, "an answer to each malformed order")
        code, said = pair.b.call("jobs", "stop", "orders_rt")
        assert code == 0, said
        until(lambda: "STOPPED" in getattr(pair.b.view(), "reason", ""), SOON, "b shows that it has stopped")
        pair.write()
        pair.a.kill_at("carried out", "agent")  # the command's answer is lost with the agent
        words = pair.plan(pair.b, "reset", TABLE, pair.mirror.job.slot, "--to", "latest")
        asking = threading.Thread(target=lambda: answers.append(pair.b.call(*words)))
        answers: list[tuple[int, str]] = []
        asking.start()
        until(pair.a.ended, SOON, "the agent to be killed")
        pair.a.serve()
        asking.join()
        assert answers == [(0, answers[0][1])] and "reset to latest" in answers[0][1], answers
        (reset,) = [one for one in audited(pair.a) if one.action == "slots reset" and one.phase is Phase.OUTCOME]
        assert "requested by" in reset.reason and "of host b" in reset.reason
        said_on_b = [one.outcome for one in audited(pair.b) if one.action == "slots reset" and one.outcome]
        assert len(said_on_b) == 1 and said_on_b[0].startswith("host a answers: exit code 0"), said_on_b
        code, said = pair.b.call("slots", "history", TABLE, pair.mirror.job.slot, "--json")
        assert [one["step"] for one in json.loads(said)["resets"]] == ["done"], said
    finally:
        pair.close()


def audited(host: Host) -> list[AuditLine]:
    return list(Audit(StateFolder.open(host.folder / "state")).read(100).lines)
