"""An optimistic step leaves the same target as applying one event at a time, and each of its four checks is necessary.

Thousands of small steps over few keys: changed and re-used keys, events out of order, targets that differ from
their source, and a row filter.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks.postgres.write import optimistic, routing
from slotkeeper.core.sinks.postgres.write.optimistic import Lane, Taken
from slotkeeper.core.sinks.postgres.write.routing import Routed
from slotkeeper.core.sinks.postgres.write.session_tables import fill_staging
from slotkeeper.core.sinks.postgres.write.statements import TargetTable, all_staged
from slotkeeper.demo.postgres import Server
from tests.support.effects import Effects, described
from tests.support.oracle import Accepts, Event, Image, Oracle, Rules, history
from tests.support.standin import drop_database, new_database

DATABASE = "optimistic_steps"
FEW, MANY = 400, 20_000
"""The number of random steps in each run."""


@pytest.fixture(scope="module")
def effects(pg_server: Server) -> Iterator[Effects]:
    new_database(pg_server, DATABASE)
    made = Effects(pg_server, DATABASE, "mart.optimistic", others=True)
    yield made
    made.close()
    drop_database(pg_server, DATABASE)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try every step that has an insert, whatever the number of inserts and the outcome of the step before."""
    monkeypatch.setattr(routing, "LEAST", 0)
    monkeypatch.setattr(routing, "SHARE", 1_000_000)
    monkeypatch.setattr(Lane, "missed", lambda lane: None)


@pytest.fixture(params=[0, routing.WATCHED], ids=["checks alone", "keys watched"])
def watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Try steps in which a key has two events, or remove such events while they are read."""
    monkeypatch.setattr(routing, "WATCHED", request.param)


def even(image: Image) -> bool:
    return image["a"] is not None and int(image["a"]) % 2 == 0


def run(
    effects: Effects, seed: int, steps: int, accepts: Accepts | None = None, keys: Sequence[int] = (3, 30, 200)
) -> Taken:
    """Compare at least `steps` steps, over few and many `keys`, with the oracle; return how they ended."""
    draw, taken, number = random.Random(seed), Taken(), 0
    while taken.optimistic + taken.general < steps:
        number += 1
        _history(effects, draw, number, taken, accepts, seed, keys)
    print(f"seed {seed}: {taken}")
    return taken


def _history(
    effects: Effects,
    draw: random.Random,
    number: int,
    taken: Taken,
    accepts: Accepts | None,
    seed: int,
    keys: Sequence[int],
) -> None:
    one = history(draw, number, keys=draw.choice(keys), transactions=30, cuts=draw.choice((5, 60)))
    if draw.random() < 0.7:
        one.target = {key: row for key, row in one.rows.items() if accepts is None or accepts(row)}
    before = dict.fromkeys(effects.others, "before")
    oracle = Oracle(
        Rules(accepts=accepts, others=effects.others), {key: {**row, **before} for key, row in one.target.items()}
    )
    effects.fill(one.target.values())
    sink = effects.sink(SinkOptions())
    for events in filter(None, one.steps):
        arriving: list[Event] = draw.sample(events, len(events)) if draw.random() < 0.5 else events
        effects.step(sink, arriving, accepts)
        oracle.apply(events)
        assert effects.rows() == oracle.rows, f"seed {seed}, history {number}\n{described(events)}"
    taken.optimistic += sink.taken.optimistic
    taken.general += sink.taken.general
    taken.missed += sink.taken.missed


@pytest.mark.usefixtures("always", "watched")
@pytest.mark.parametrize("accepts", [None, even], ids=["all rows", "filter"])
@pytest.mark.parametrize(
    "steps", [FEW, pytest.param(MANY, marks=[pytest.mark.chaos, pytest.mark.timeout(3_600)])], ids=["few", "many"]
)
def test_steps_make_what_one_event_at_a_time_makes(
    effects: Effects, seed: int, accepts: Accepts | None, steps: int
) -> None:
    taken = run(effects, seed, steps, accepts)
    assert taken.optimistic > steps / 20
    assert taken.missed > steps / 20


def _true(*_: object) -> bool:
    return True


def _without_check_c(cursor: pg.Cursor, table: TargetTable, routed: Routed) -> None:
    pg.copy_in(cursor, fill_staging(table), routed.lines())
    columns = pg.sql.SQL(", ").join(map(pg.sql.Identifier, table.columns))
    cursor.execute(
        pg.sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {} WHERE kind = 'I' ON CONFLICT DO NOTHING").format(
            table.identifier, columns, all_staged(table), pg.sql.Identifier(table.staging)
        )
    )


MUTANTS: list[tuple[str, Callable[..., object]]] = [
    ("no_key_changes", _true),
    ("each_has_its_row", _true),
    ("_inserted", _without_check_c),
    ("none_is_ours", _true),
]


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("check", "instead"),
    [*MUTANTS[:3], pytest.param(*MUTANTS[3], marks=pytest.mark.chaos)],  # a random history rarely needs the last one
    ids=["a", "b", "c", "d"],
)
def test_a_step_without_one_of_its_checks_is_found_out(
    effects: Effects, seed: int, monkeypatch: pytest.MonkeyPatch, check: str, instead: Callable[..., object]
) -> None:
    monkeypatch.setattr(routing, "WATCHED", 0)
    monkeypatch.setattr(optimistic, check, instead)
    with pytest.raises(AssertionError, match="history"):
        run(effects, seed, MANY, keys=(30, 1_000))


IMAGES: list[Image] = [{"h": 1, "k": 1, "a": value, "b": "x", "tags": None, "j": None} for value in (1, 2, 3)]


def _two_of_one_key(effects: Effects, kinds: str, there: bool) -> Taken:
    """Return a step of two events of one key, with or without an existing row of it; the last event takes effect."""
    effects.fill(IMAGES[:1] if there else [])
    sink = effects.sink(SinkOptions())
    effects.step(sink, [Event(1, n, kind, (1, 1), IMAGES[n + 1]) for n, kind in enumerate(kinds)])
    assert [row["a"] for row in effects.rows().values()] == [3], kinds
    return sink.taken


@pytest.mark.usefixtures("always", "watched")
@pytest.mark.parametrize("there", [True, False], ids=["there", "not there"])
@pytest.mark.parametrize("kinds", ["UI", "IU", "II"])
def test_of_two_events_of_one_key_the_last_wins_even_if_no_source_sends_them(
    effects: Effects, kinds: str, there: bool
) -> None:
    assert _two_of_one_key(effects, kinds, there).missed == 1


@pytest.mark.usefixtures("always")
def test_an_update_of_what_the_step_inserted_would_be_found_out(
    effects: Effects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routing, "WATCHED", 0)
    monkeypatch.setattr(optimistic, "_ANOTHERS", "s.kind = 'U' AND {} IS NOT NULL")
    with pytest.raises(AssertionError, match="UI"):
        _two_of_one_key(effects, "UI", there=False)


def _inserted_again(effects: Effects) -> None:
    """A step that deletes a missing row and then inserts it leaves the row."""
    effects.fill([])
    events = [Event(1, 0, "d", (1, 1), IMAGES[0]), Event(1, 1, "I", (1, 1), IMAGES[1])]
    effects.step(effects.sink(SinkOptions()), events)
    assert [row["a"] for row in effects.rows().values()] == [2], "the inserted row"


@pytest.mark.usefixtures("always")
def test_a_delete_of_what_the_step_inserted_is_found_out(effects: Effects, monkeypatch: pytest.MonkeyPatch) -> None:
    _inserted_again(effects)
    monkeypatch.setattr(routing, "WATCHED", 0)
    _inserted_again(effects)
    monkeypatch.setattr(optimistic, *MUTANTS[3])
    with pytest.raises(AssertionError, match="the inserted row"):
        _inserted_again(effects)


@pytest.mark.usefixtures("always", "watched")
def test_a_row_that_is_updated_and_not_there_is_written_without_a_miss(effects: Effects) -> None:
    effects.fill(IMAGES[:1])
    sink = effects.sink(SinkOptions())
    image = {**IMAGES[2], "k": 2}
    effects.step(
        sink,
        [
            Event(1, 0, "U", (1, 1), IMAGES[1]),
            Event(1, 1, "U", (1, 2), image),
            Event(1, 2, "I", (1, 3), {**image, "k": 3}),
        ],
    )
    assert {key: row["a"] for key, row in effects.rows().items()} == {(1, 1): 2, (1, 2): 3, (1, 3): 3}
    assert (sink.taken.optimistic, sink.taken.missed) == (1, 0)
    defaults = [row["own"] for _, row in sorted(effects.rows().items())]
    assert defaults == ["before", "7", "7"]
