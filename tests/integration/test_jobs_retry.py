"""`slotkeeper jobs retry`: waiting work is retried at once; a refusal names the next action. Both are audited."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.steering import StoredTries
from tests.support.jobs import FAST, SOON, Jobs
from tests.support.printed import typed
from tests.support.waiting import until

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(jobs: Jobs, capfd: pytest.CaptureFixture[str]) -> Call:
    def called(*words: str) -> tuple[int, str, str]:
        return typed(capfd, "jobs", "retry", "--state-dir", str(jobs.store.folder.path), *words)

    return called


def test_a_crashed_driver_is_started_at_once_when_somebody_asks_and_the_audit_says_who(jobs: Jobs, call: Call) -> None:
    first = jobs.start("orders", limits=replace(FAST, backoff_first=600.0, backoff_most=600.0)).driver
    assert first is not None
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: "retrying 1, next in" in jobs.view_of_job("orders").reason, SOON, "it waits ten minutes")
    code, out, err = call("orders", "--reason", "INC-7")
    assert (code, out) == (0, "orders: tried now: its driver\n"), err
    until(lambda: len(jobs.pids("orders")) == 2, SOON, "a second driver")
    until(lambda: jobs.view_of_job("orders").state is JobState.RUNNING, SOON, "it runs again")
    before, after = Audit(jobs.store.folder).read().lines[:2][::-1]
    assert (before.action, before.what, before.reason) == ("jobs retry", "job orders", "INC-7")
    assert after.outcome == "tried now: its driver"
    assert "try asked" in jobs.told("orders")


def test_a_running_job_is_polled_and_one_of_several_tables_answers_for_itself(jobs: Jobs, call: Call) -> None:
    jobs.start("pair", tables=["ods.a", "ods.b"])
    code, out, err = call("pair", "--json")
    found = json.loads(out)
    assert (code, found["polled"], found["table"], found["answered"]) == (0, ["dn_1", "dn_1"], None, True), err
    code, out, err = call("pair", "--table", "ods.b")
    assert (code, out) == (0, "pair ods.b: polled now: 1 lane\n"), err
    code, out, err = call("pair", "--wait", "0s")
    assert (code, out) == (0, "pair: requested; not waiting for the result\n"), err


def test_what_tries_nothing_is_refused_with_what_to_do(jobs: Jobs, call: Call) -> None:
    jobs.start("pair", tables=["ods.a", "ods.b"], fails=["ods.b"])
    for words, refusal in (
        (("pair", "--table", "ods.b"), "`slotkeeper jobs start pair --table ods.b`"),
        (("pair", "--table", "ods.c"), "known: ods.a, ods.b"),
        (("unknown",), "unknown"),
    ):
        code, out, err = call(*words)
        assert (code, out, refusal in err) == (3, "", True), (words, err)
    state = ["--state-dir", str(jobs.store.folder.path)]
    for verb, refusal in (("pause", "`slotkeeper jobs resume pair`"), ("stop", "`slotkeeper jobs start pair`")):
        assert main(["jobs", verb, "pair", *state]) == 0
        code, out, err = call("pair")
        assert (code, out, refusal in err) == (3, "", True), (verb, err)
    assert StoredTries(jobs.store, "pair").last() == 0, "no server was queried"
