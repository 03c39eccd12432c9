"""For any history, split into any steps, the target is as the oracle computes it, with every option.

Hundreds of histories with separate keys go through one step after another, as the changes of one lane do; the
oracle applies them one event at a time.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from slotkeeper.core.domain.spec import CONFLICT_STRATEGIES, UPDATE_MODES, UPSERT_MODES, SinkOptions
from slotkeeper.core.sinks.postgres.write import routing
from slotkeeper.demo.postgres import Server
from tests.support.effects import Effects, described
from tests.support.oracle import Accepts, Event, History, Image, Key, Oracle, Rules, history
from tests.support.standin import drop_database, new_database

DATABASE = "sink_effects"
HISTORIES = 40
"""Histories that go through one run of steps together."""
EXAMPLES, MANY = 4, 60
"""Runs for each cell: 11,520 histories in all, and 172,800 in the chaos runs."""


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[str]:
    new_database(pg_server, DATABASE)
    yield DATABASE
    drop_database(pg_server, DATABASE)


@pytest.fixture(scope="module")
def targets(pg_server: Server, database: str) -> Iterator[tuple[Effects, Effects]]:
    """A target with exactly the mirrored columns, and one with additional columns."""
    whole = Effects(pg_server, database, 'mart.Whole "t"', others=False)
    partial = Effects(pg_server, database, "mart.Partial t.2", others=True)
    yield whole, partial
    whole.close()
    partial.close()


def even(image: Image) -> bool:
    return image["a"] is not None and int(image["a"]) % 2 == 0


def run(effects: Effects, options: SinkOptions, accepts: Accepts | None, number: int) -> int:
    """Run HISTORIES histories once and return the number of their events. Fails with the first history that differs.

    Two runs in three keep the order of the source, so that old images come before new ones.
    """
    draw = random.Random(number)
    histories = [history(draw, one) for one in range(HISTORIES)]
    effects.fill([row for one in histories for row in one.target.values()])
    sink = effects.sink(options)
    for cut in itertools.zip_longest(*(one.steps for one in histories), fillvalue=()):
        events: list[Event] = [event for part in cut for event in part]
        if number % 3 == 0:
            draw.shuffle(events)
        effects.step(sink, events, accepts)
    found = effects.rows()
    for one in histories:
        wanted = expected(effects, options, accepts, one)
        got = {key: row for key, row in found.items() if key[0] == one.number}
        assert got == wanted, f"seed {number}, {options}\nbefore {one.target}\n{described(one.events)}"
    return sum(len(one.events) for one in histories)


def expected(effects: Effects, options: SinkOptions, accepts: Accepts | None, one: History) -> Mapping[Key, Image]:
    before = dict.fromkeys(effects.others, "before")
    rules = Rules(
        options.write_mode,
        options.conflict_strategy,
        options.ignore_update_before,
        options.ignore_delete,
        options.ignore_null_when_update,
        accepts,
        effects.others,
    )
    oracle = Oracle(rules, {key: {**row, **before} for key, row in one.target.items()})
    oracle.apply(one.events)
    return oracle.rows


CELLS = [
    (mode, strategy)
    for mode in (*UPSERT_MODES, *UPDATE_MODES)
    for strategy in CONFLICT_STRATEGIES
    if not (mode in UPDATE_MODES and strategy == "ignore")  # rejected: it would write nothing
]


def check(effects: Effects, seed: int, mode: str, strategy: str, accepts: Accepts | None, runs: int) -> None:
    """Run `runs` examples of one cell under random switches."""
    events = 0

    @seeded(seed)
    @settings(
        max_examples=runs,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # a failure already names its history
    )
    @given(st.integers(0, 2**32), st.booleans(), st.booleans(), st.booleans(), st.booleans())
    def examples(number: int, deletes: bool, before: bool, nulls: bool, large: bool) -> None:
        nonlocal events
        options = SinkOptions(
            write_mode=mode,
            conflict_strategy=strategy,
            copy_write_batch_size=1 if large else 1_000_000,
            ignore_delete=deletes,
            ignore_update_before=before or mode in UPDATE_MODES,  # rejected: it would delete every changed row
            ignore_null_when_update=nulls and strategy == "update",
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(routing, "LEAST", number % 2 * routing.LEAST)  # alternately as a large and as a small step
            events += run(effects, options, accepts, number)

    examples()
    print(f"seed {seed}: {events} events")


@pytest.mark.slow
@pytest.mark.parametrize("accepts", [None, even], ids=["all rows", "filter"])
@pytest.mark.parametrize("partial", [False, True], ids=["whole", "partial"])
@pytest.mark.parametrize(("mode", "strategy"), CELLS)
def test_every_mode_makes_what_the_oracle_makes(
    targets: tuple[Effects, Effects], seed: int, mode: str, strategy: str, partial: bool, accepts: Accepts | None
) -> None:
    check(targets[partial], seed, mode, strategy, accepts, EXAMPLES)


@pytest.mark.parametrize("partial", [False, True], ids=["whole", "partial"])
@pytest.mark.parametrize(("mode", "strategy"), CELLS)
def test_a_chunk_that_is_merged_is_what_its_rows_make_one_by_one(
    targets: tuple[Effects, Effects], seed: int, mode: str, strategy: str, partial: bool
) -> None:
    effects, nulls = targets[partial], strategy == "update" and bool(seed % 2)
    options = SinkOptions(write_mode=mode, conflict_strategy=strategy, ignore_null_when_update=nulls)
    draw = random.Random(seed)
    for one in (history(draw, number, keys=60) for number in range(2)):
        effects.fill(one.target.values())
        effects.chunk(effects.sink(options, "merge"), one.rows.values())
        one.events = [Event(1, n, "I", key, row) for n, (key, row) in enumerate(one.rows.items())]
        assert effects.rows() == expected(effects, options, None, one), f"seed {seed}"


@pytest.mark.chaos
@pytest.mark.parametrize("accepts", [None, even], ids=["all rows", "filter"])
@pytest.mark.parametrize("partial", [False, True], ids=["whole", "partial"])
@pytest.mark.parametrize(("mode", "strategy"), CELLS)
def test_every_mode_makes_what_the_oracle_makes_for_long(
    targets: tuple[Effects, Effects], seed: int, mode: str, strategy: str, partial: bool, accepts: Accepts | None
) -> None:
    check(targets[partial], seed, mode, strategy, accepts, MANY)
