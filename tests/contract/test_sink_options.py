"""The effect of each parameter of the sink on a small target, compared with the default."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.keys_sink import SINK_OPTIONS
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.config.values import BadValue
from slotkeeper.core.domain.spec import UPDATE_MODES, UPSERT_MODES, SinkOptions
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.routing import LEAST
from slotkeeper.demo.postgres import Server
from tests.support.effects import Effects
from tests.support.oracle import COLUMNS, Event, Image, Key
from tests.support.standin import drop_database, new_database

DATABASE = "sink_options"
ONE, TWO, NEW = (0, 1), (0, 2), (0, 9)


def row(key: Key, a: int | None = None, b: str | None = None) -> Image:
    return {**dict.fromkeys(COLUMNS), "h": key[0], "k": key[1], "a": a, "b": b}


BEFORE = [row(ONE, 1, "one"), row(TWO, 2, "two")]
"""The rows of the target; its own columns contain "before"."""


def put(key: Key, a: int | None = None, b: str | None = None, point: int = 1, kind: str = "I") -> Event:
    return Event(point, 2, kind, key, row(key, a, b))


def change(key: Key, to: Key, a: int | None = None, b: str | None = None, point: int = 1) -> list[Event]:
    return [Event(point, 2, "B", key, then=to), Event(point, 3, "U", to, row(to, a, b))]


def gone(key: Key, point: int = 1) -> Event:
    return Event(point, 2, "d", key)


@pytest.fixture(scope="module")
def target(pg_server: Server) -> Iterator[Effects]:
    new_database(pg_server, DATABASE)
    effects = Effects(pg_server, DATABASE, 'mart.Mixed "case" table', others=True)
    yield effects
    effects.close()
    drop_database(pg_server, DATABASE)


Short = dict[int, tuple[object, object, object]]


def after(target: Effects, options: SinkOptions, *steps: list[Event]) -> Short:
    """Return (a, b, the target's own column) by key, after the steps were applied to BEFORE."""
    target.fill(BEFORE)
    sink = target.sink(options)
    for events in steps:
        target.step(sink, events)
    return {key[1]: (found["a"], found["b"], found["own"]) for key, found in target.rows().items()}


ONE_KEPT, TWO_KEPT = (1, "one", "before"), (2, "two", "before")


@pytest.mark.parametrize("mode", [*UPSERT_MODES, *UPDATE_MODES])
def test_write_mode(target: Effects, mode: str) -> None:
    found = after(target, SinkOptions(write_mode=mode), [put(NEW, 9, "new"), *change(ONE, ONE, 5, "five"), gone(TWO)])
    inserted = {9: (9, "new", "7")} if mode in UPSERT_MODES else {}
    assert found == {1: (5, "five", "before"), **inserted}
    assert SINK_OPTIONS["write_mode"].default == "auto"


@pytest.mark.parametrize(
    ("strategy", "wanted"),
    [("update", (5, "five", "before")), ("replace", (5, "five", None)), ("ignore", ONE_KEPT)],
)
def test_conflict_strategy(target: Effects, strategy: str, wanted: tuple[object, ...]) -> None:
    options = SinkOptions(conflict_strategy=strategy)
    assert after(target, options, change(ONE, ONE, 5, "five")) == {1: wanted, 2: TWO_KEPT}
    inserted = (9, "new", None if strategy == "replace" else "7")
    assert after(target, options, [put(NEW, 9, "new")])[9] == inserted


@pytest.mark.parametrize("strategy", ["update", "replace", "ignore"])
@pytest.mark.parametrize("steps", [1, 2])
def test_a_row_that_was_deleted_and_made_again_is_another_one(target: Effects, strategy: str, steps: int) -> None:
    events = [gone(ONE), put(ONE, 5, "five", point=2)]
    parts = [events] if steps == 1 else [[event] for event in events]
    found = after(target, SinkOptions(conflict_strategy=strategy), *parts)
    assert found[1] == (5, "five", None if strategy == "replace" else "7")


@pytest.mark.parametrize("mode", UPDATE_MODES)
@pytest.mark.parametrize("steps", [1, 2])
def test_a_mode_that_only_updates_does_not_make_a_deleted_row_again(target: Effects, mode: str, steps: int) -> None:
    events = [gone(ONE), put(ONE, 5, "five", point=2)]
    parts = [events] if steps == 1 else [[event] for event in events]
    assert after(target, SinkOptions(write_mode=mode), *parts) == {2: TWO_KEPT}


def kept_plans(target: Effects) -> int:
    with target.session.transaction() as cursor:
        cursor.execute("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'slotkeeper%%'")
        found = cursor.fetchone()
    return int(found[0]) if found else 0


@pytest.mark.parametrize(
    ("mode", "large"), [("auto", False), ("auto", True), ("update_auto", False), ("update_auto", True)]
)
def test_copy_write_batch_size(target: Effects, mode: str, large: bool) -> None:
    events = change(ONE, ONE, 5, "five")
    options = SinkOptions(write_mode=mode, copy_write_batch_size=len(events) + (not large))
    assert after(target, options, events)[1] == (5, "five", "before")
    assert (kept_plans(target) == 0) == large


@pytest.mark.parametrize("tried", [True, False])
def test_optimistic_step(target: Effects, tried: bool) -> None:
    inserts = [put((1, 100 + n), n, "new", point=1) for n in range(LEAST)]
    target.fill(BEFORE)
    sink = target.sink(SinkOptions(optimistic_step=tried))
    target.step(sink, [*inserts, *change(ONE, ONE, 5, "five", point=2), gone(TWO, point=3)])
    assert (sink.taken.optimistic, sink.taken.general) == (int(tried), int(not tried))
    found = target.rows()
    assert len(found) == LEAST + 1
    assert found[ONE]["a"] == 5
    target.step(sink, [put((1, 9_999), 9, "small", point=4)])
    assert sink.taken.optimistic == int(tried), "a small step is staged in its original order"
    target.step(sink, [put((1, 5_000 + n), n, "new", point=5) for n in range(LEAST)] + [put(ONE, 6, "six", point=5)])
    assert (sink.taken.optimistic, sink.taken.missed) == (int(tried), int(tried))
    assert target.rows()[ONE]["a"] == 6
    assert len(target.rows()) == 2 * LEAST + 2


def test_after_a_miss_a_large_step_goes_the_general_way_and_the_next_is_tried(target: Effects) -> None:
    target.fill(BEFORE)
    sink = target.sink(SinkOptions())
    for point, extra in ((1, [put(ONE, 6, "six", point=1)]), (2, []), (3, [])):
        inserts = [put((point, 100 + n), n, "new", point=point) for n in range(LEAST)]
        target.step(sink, inserts + extra)
    assert (sink.taken.missed, sink.taken.general, sink.taken.optimistic) == (1, 2, 1)
    assert len(target.rows()) == 3 * LEAST + 2


def test_a_large_step_of_few_inserts_is_not_tried_because_it_would_save_nothing(target: Effects) -> None:
    target.fill([*BEFORE, *(row((1, 100 + n), n, "old") for n in range(LEAST))])
    sink = target.sink(SinkOptions())
    updates = [one for n in range(LEAST) for one in change((1, 100 + n), (1, 100 + n), -n, point=n + 1)]
    target.step(sink, [*updates, put((2, 1), 1, "new", point=LEAST + 1)])
    assert (sink.taken.optimistic, sink.taken.general) == (0, 1)
    assert {row["a"] for row in target.rows().values()} >= {-n for n in range(LEAST)}
    assert len(target.rows()) == LEAST + len(BEFORE) + 1


def test_kept_plans_are_made_again_now_and_then(target: Effects) -> None:
    steps = [change(ONE, ONE, n, point=n) for n in range(1, 203)]
    assert after(target, SinkOptions(write_mode="upsert"), *steps)[1][0] == 202
    assert kept_plans(target) == 3


@pytest.mark.parametrize(("drop", "wanted"), [(True, (5, "five", "before")), (False, (5, "five", "7"))])
def test_ignore_update_before(target: Effects, drop: bool, wanted: tuple[object, ...]) -> None:
    options = SinkOptions(ignore_update_before=drop)
    assert after(target, options, change(ONE, ONE, 5, "five"))[1] == wanted
    assert after(target, options, change(ONE, NEW, 5, "five")) == {2: TWO_KEPT, 9: (5, "five", "7")}


def test_a_key_that_is_left_and_taken_by_another_row_is_another_row(target: Effects) -> None:
    """The U after the B belongs to another row: it has the next sequence, but at another sync point."""
    events = [*change(ONE, NEW, 1, "one"), *change(TWO, ONE, 2, "two", point=2)]
    assert after(target, SinkOptions(), events) == {1: (2, "two", "7"), 9: (1, "one", "7")}


def test_ignore_delete(target: Effects) -> None:
    assert after(target, SinkOptions(), [gone(ONE)]) == {2: TWO_KEPT}
    assert after(target, SinkOptions(ignore_delete=True), [gone(ONE)]) == {1: ONE_KEPT, 2: TWO_KEPT}
    moved = after(target, SinkOptions(ignore_delete=True), change(ONE, NEW, 5, "five"))
    assert moved == {2: TWO_KEPT, 9: (5, "five", "7")}


@pytest.mark.parametrize("steps", [1, 2])
def test_ignore_null_when_update(target: Effects, steps: int) -> None:
    events = [*change(ONE, ONE, None, "new"), *change(ONE, ONE, 8, None, point=2)]
    parts = [events] if steps == 1 else [events[:2], events[2:]]
    assert after(target, SinkOptions(), *parts)[1] == (8, None, "before")
    assert after(target, SinkOptions(ignore_null_when_update=True), *parts)[1] == (8, "new", "before")


def test_connection_size() -> None:
    read = SINK_OPTIONS["connection_size"].read
    assert read is not None
    assert read(1) == SinkOptions().connection_size == 1
    with pytest.raises(BadValue, match="must be 1: a lane has one writer"):
        read(2)


class Hours(SystemClock):
    """A clock that the test sets."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def connections(server: Server, options: SinkOptions, ages: list[float]) -> list[int]:
    """Return the number of connections that a worker has opened after tasks that start at these seconds."""
    endpoint, clock, found = server.endpoint(DATABASE), Hours(), []
    session = SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/ages/1", clock=clock)
    for age in ages:
        clock.now = age
        session.retire(options.connection_max_use_time)
        session.ready()
        found.append(session.generation)
    session.close()
    return found


def test_connection_max_use_time_seconds(target: Effects, pg_server: Server) -> None:
    assert connections(pg_server, SinkOptions(), [0, 3_599, 3_600, 7_199]) == [1, 1, 2, 2]
    assert connections(pg_server, SinkOptions(connection_max_use_time_seconds=10), [0, 10, 19, 20]) == [1, 2, 2, 3]


def test_connection_max_use_time_threshold(target: Effects, pg_server: Server) -> None:
    assert connections(pg_server, SinkOptions(connection_max_use_time_threshold=10), [0, 9, 10]) == [1, 1, 2]
