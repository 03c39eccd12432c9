"""Connections become silent in the middle of a step: the deadline cuts them, nothing is lost or applied twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres import session as sink_session
from slotkeeper.core.sinks.postgres.write import small_step
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror, orders, written
from tests.support.proxy import Line, Proxy, proxy
from tests.support.waiting import until


@pytest.fixture
def mirror(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Mirror]:
    """A mirror that has copied and was stopped, whose sink has a second for each statement."""
    monkeypatch.setitem(sink_session.SETTINGS, "statement_timeout", "1s")
    monkeypatch.setattr(pg, "GRACE_SECONDS", 0.5)
    made = orders(make_mirror, warehouse, seed)
    made.start().wait_running()
    made.stop()
    yield made


@pytest.fixture
def line(mirror: Mirror) -> Iterator[Proxy]:
    """The job's connection to its sink; the tests themselves do not use it."""
    with proxy(mirror.job.sink.port) as made:
        through = replace(
            mirror.job.sink, host="127.0.0.1", port=made.port, sslmode="disable", connect_timeout_ms=2_000
        )
        mirror.job = replace(mirror.job, sink=through)
        yield made


def said(mirror: Mirror) -> str:
    """Return the job's report of its errors, and its lanes' reports."""
    return " ".join([*mirror.heard.retries, *(f"{lane.error}" for lane in mirror.heard.now.values())])


@pytest.mark.parametrize(
    ("words", "becomes"),
    [
        pytest.param(b"FROM STDIN", Line.BLACK_HOLE, id="a COPY that goes nowhere", marks=pytest.mark.chaos),
        pytest.param(b"FROM STDIN", Line.HALF_OPEN, id="a COPY that is never answered", marks=pytest.mark.chaos),
        pytest.param(b"COMMIT", Line.BLACK_HOLE, id="a COMMIT that goes nowhere", marks=pytest.mark.chaos),
        pytest.param(b"COMMIT", Line.HALF_OPEN, id="a COMMIT that is never answered"),
    ],
)
@pytest.mark.parametrize("small", [True, False], ids=["small", "general"])
def test_a_step_whose_sink_goes_silent_loses_and_doubles_nothing(
    mirror: Mirror, line: Proxy, words: bytes, becomes: Line, small: bool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a small step, the statement that applies it is the first that carries its events."""
    carries, words = (b"EXECUTE", words.replace(b"FROM STDIN", b"EXECUTE")) if small else (b"FROM STDIN", words)
    if not small:
        monkeypatch.setattr(small_step, "MOST_BYTES", -1)
    staged, hit = [False], [False]

    def on_sent(data: bytes) -> None:
        staged[0] = staged[0] or carries in data
        if staged[0] and not hit[0] and words in data:
            hit[0] = True
            line.set(becomes)

    mirror.start().wait_running()
    line.on_sent = on_sent
    with written(mirror, seed):
        until(lambda: hit[0], 20, "a step to reach its sink")
        until(lambda: "does not answer" in said(mirror), 20, "the job to say so")
        line.set(Line.THROUGH)
    mirror.wait_applied(mirror.booked())
    mirror.stop()
