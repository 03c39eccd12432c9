"""Pause, resume and stop while Doris hangs: with Doris Binlog Load, PAUSE and STOP hung indefinitely (#8143, #9594).

A hang here lasts minutes: loads have their complete time limit.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobEvent, WantedState
from slotkeeper.core.engine.driver.job import JobEnd
from slotkeeper.demo.doris.faults import Call, Fault
from tests.support.pairs import DorisPair
from tests.support.waiting import until

pytestmark = pytest.mark.chaos
HANGS = [(Call.LOAD, Fault.SLOW_FRONTEND), (Call.LOAD, Fault.HANG_MIDWAY), (Call.TWO_PHASE, Fault.HANG)]
ROUND = 20
"""Maximum seconds of a pause, stop or resume: a round has a few seconds to end before its tasks are left behind."""
MANY = 1_000


def hang(pair: DorisPair, call: Call, fault: Fault, key: int) -> None:
    """Make every further call of a kind hang; return once one does."""
    pair.doris.faults.plan(call, *[fault] * MANY)
    before = pair.doris.faults.left()
    pair.write((key, key))
    until(lambda: pair.doris.faults.left() < before, 30, "a call that hangs")


def answer_again(pair: DorisPair) -> None:
    """Make the server answer new calls and end the hung loads."""
    for call, _ in HANGS:
        while pair.doris.faults.next(call) is not Fault.NONE:
            pass
    for one in pair.doris.transactions.running():
        with suppress(Exception):
            pair.doris.transactions.abort(one.database, one.id)


@pytest.mark.parametrize(("call", "fault"), HANGS, ids=[fault.name.lower() for _, fault in HANGS])
def test_pause_resume_and_stop_answer_within_a_round_while_a_doris_hangs(
    doris_pair: DorisPair, call: Call, fault: Fault
) -> None:
    mirror = doris_pair.mirror
    mirror.start().wait_running()
    hang(doris_pair, call, fault, 1)
    mirror.pause(ROUND)
    mirror.wanted = WantedState.RUN
    until(lambda: mirror.heard.events.count(JobEvent.BEGAN) == 2, ROUND, "the job to begin again")
    mirror.wanted = WantedState.STOP
    mirror.join(ROUND)
    assert mirror.end is JobEnd.STOPPED
    assert mirror.heard.events.count(JobEvent.PAUSED) == 1
    answer_again(doris_pair)
    doris_pair.write((2, 2))
    mirror.start()
    doris_pair.wait_equal(120)
    mirror.stop()
    assert doris_pair.repeats() == 0


@pytest.fixture
def silent() -> Iterator[int]:
    """Return a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield int(listening.getsockname()[1])


def test_a_start_at_an_fe_that_never_answers_a_query_is_stopped_within_a_round(
    doris_pair: DorisPair, silent: int
) -> None:
    mirror = doris_pair.mirror
    mirror.start().wait_running()
    mirror.stop()
    there = mirror.job
    mirror.job = replace(there, sink=replace(there.sink, port=silent))
    mirror.start()
    until(lambda: bool(mirror.heard.retries), 60, "the FE to be named as one that does not answer")
    assert "sink dor: " in mirror.heard.retries[-1]
    mirror.wanted = WantedState.STOP
    mirror.join(ROUND)
    assert mirror.end is JobEnd.STOPPED
    mirror.job = there
    mirror.start().wait_running()
    doris_pair.write((1, 1))
    doris_pair.wait_equal()
    mirror.stop()
