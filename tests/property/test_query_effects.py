"""For any history, split into any batches and tasks, with any options, the target is as the oracle says.

Like `test_sink_effects.py`, but through the staging of a Spark query; a batch may be repeated, as after a restart.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.sinks.postgres.write import optimistic
from slotkeeper.demo.postgres import Server
from tests.property.test_sink_effects import CELLS, even, expected
from tests.support.effects import described
from tests.support.oracle import Event, history
from tests.support.query_effects import QueryEffects
from tests.support.standin import drop_database, new_database

DATABASE = "query_effects"
HISTORIES = 30


@pytest.fixture(scope="module")
def targets(pg_server: Server) -> Iterator[tuple[QueryEffects, QueryEffects]]:
    """A target with exactly the mirrored columns, and one with additional columns."""
    new_database(pg_server, DATABASE)
    whole = QueryEffects(pg_server, DATABASE, 'mart.Whole "t"', others=False)
    partial = QueryEffects(pg_server, DATABASE, "mart.Partial t.2", others=True)
    yield whole, partial
    whole.close()
    partial.close()
    drop_database(pg_server, DATABASE)


def run(effects: QueryEffects, options: SinkOptions, filtered: bool, number: int, size: int = HISTORIES) -> None:
    """Batches of `size` histories; fails with the first history that differs."""
    draw = random.Random(number)
    accepts = even if filtered and not options.ignore_delete else None
    histories = [history(draw, one, cuts=3 if size > 1 else 12) for one in range(size)]
    effects.start_over()
    effects.fill([row for one in histories for row in one.target.values()])
    for at, cut in enumerate(itertools.zip_longest(*(one.steps for one in histories), fillvalue=())):
        events: list[Event] = [event for part in cut for event in part]
        assert effects.batch(at, events, options, accepts, draw)
        if draw.random() < 0.2:
            assert effects.batch(at, events, options, accepts, draw) is False
    found = effects.rows()
    for one in histories:
        wanted = expected(effects, options, accepts, one)
        got = {key: row for key, row in found.items() if key[0] == one.number}
        assert got == wanted, f"seed {number}, {options}\nbefore {one.target}\n{described(one.events)}"


def options_of(draw: random.Random, mode: str, strategy: str) -> SinkOptions:
    updates = mode.startswith("update") or mode == "copy_update"
    return SinkOptions(
        write_mode=mode,
        conflict_strategy=strategy,
        copy_write_batch_size=draw.choice((1, 1_000_000)),
        ignore_delete=draw.random() < 0.3,
        ignore_update_before=updates or draw.random() < 0.7,
        ignore_null_when_update=strategy == "update" and draw.random() < 0.5,
    )


FEW = sorted({mode: (mode, strategy) for mode, strategy in CELLS}.values())
"""One cell for each write mode, with its first strategy; the chaos runs cover all cells."""


@pytest.mark.parametrize(("mode", "strategy"), FEW)
def test_batches_of_a_query_leave_what_one_event_after_another_leaves(
    targets: tuple[QueryEffects, QueryEffects], seed: int, mode: str, strategy: str
) -> None:
    draw = random.Random(f"{seed} {mode} {strategy}")
    run(draw.choice(targets), options_of(draw, mode, strategy), draw.random() < 0.5, draw.randrange(2**32))


def test_batches_of_mostly_inserts_leave_the_same(
    targets: tuple[QueryEffects, QueryEffects], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is tried as an optimistic step, whatever its content: some pass its checks, others miss one."""
    tried: list[bool] = []

    def noted(*given: Any) -> bool:
        tried.append(optimistic.apply_staged(*given))
        return tried[-1]

    noting = SimpleNamespace(fits=optimistic.fits, apply_staged=noted)
    monkeypatch.setattr("slotkeeper.core.sinks.postgres.write.query_sink.optimistic", noting)
    monkeypatch.setattr("slotkeeper.core.sinks.postgres.write.routing.SHARE", 10**9)
    monkeypatch.setattr("slotkeeper.core.sinks.postgres.write.query_sink.routing.LEAST", 1)
    monkeypatch.setattr("slotkeeper.core.sinks.postgres.write.query_sink.PostgresQuerySink._once", lambda *_: True)
    draw = random.Random(f"{seed} inserts")
    for runs in range(100):
        run(draw.choice(targets), SinkOptions(), draw.random() < 0.3, draw.randrange(2**32), 1 if runs % 4 else 20)
        if runs >= 4 and {True, False} == set(tried):
            break
    assert {True, False} == set(tried), "both ways were taken"


@pytest.mark.chaos
@pytest.mark.parametrize(("mode", "strategy"), CELLS)
def test_many_batches_of_a_query(
    targets: tuple[QueryEffects, QueryEffects], seed: int, mode: str, strategy: str
) -> None:
    draw = random.Random(f"{seed} {mode} {strategy} many")
    for effects, _ in itertools.product(targets, range(10)):
        run(effects, options_of(draw, mode, strategy), draw.random() < 0.5, draw.randrange(2**32))
