"""Single records reach a PostgreSQL once and in order, whatever is killed, and wrong records are rejected by name."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from slotkeeper.core import library
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.errors import Refused, Unreachable
from slotkeeper.core.library import RecordSink, TableWriter
from slotkeeper.core.library.sink import MOST_PENDING
from slotkeeper.core.sinks.postgres.write.query_sink import PostgresQuerySink
from slotkeeper.demo.warehouse import Warehouse
from tests.support.hand_clock import Hand
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job

TARGET = "mart.sales"
COLUMNS = ("id", "part", "price", "at", "note")


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table("ods.orders", "id bigint, v bigint", ("id",), ("id",))
    made = make_mirror(warehouse, "ods.orders")
    made.at_sink("CREATE SCHEMA IF NOT EXISTS mart")
    columns = "id bigint, part integer, price numeric(10,2), at timestamptz, note text"
    made.at_sink(f"CREATE TABLE {TARGET} ({columns}, PRIMARY KEY (id, part))")
    return made


@pytest.fixture
def loaded(mirror: Mirror, tmp_path: Path) -> Loaded:
    made = job("own", "own_slot", "ods.orders", "mart.orders")
    return library.load(str(config(tmp_path, mirror.job.source, mirror.job.sink, made)))


@pytest.fixture
def sink(loaded: Loaded) -> RecordSink:
    return RecordSink(loaded, "mart", "billing", Hand())


def opened(sink: RecordSink, **limits: float) -> TableWriter:
    return sink.table(TARGET, ("id", "part"), COLUMNS, **limits)  # type: ignore[arg-type]


def row(id: int, **more: object) -> dict[str, object]:
    return {"id": id, "part": 1, "price": None, "at": None, "note": None} | more


def test_the_last_record_of_a_key_counts_and_values_arrive_exactly(sink: RecordSink, mirror: Mirror) -> None:
    table = opened(sink)
    assert str(table.position) == "None"  # compared as text: a type checker would narrow it for the rest of the test
    at = datetime(2026, 1, 2, 3, 4, 5, 6, timezone.utc)
    for price in (Decimal("1.10"), Decimal("2.20")):
        table.upsert(row(1, price=price, at=at, note='a,"b"\n\\N'))
    table.upsert(row(2, note=""))
    table.upsert(row(3))
    table.delete({"id": 3, "part": 1})
    assert not table.advance(41) and mirror.query(mirror.sink, f"SELECT * FROM {TARGET}") == []
    table.flush()
    assert mirror.query(mirror.sink, f"SELECT * FROM {TARGET} ORDER BY id") == [
        (1, 1, Decimal("2.20"), at, 'a,"b"\n\\N'),
        (2, 1, None, None, ""),
    ]
    table.delete({"id": 1, "part": 1})
    table.advance()
    table.flush()
    assert table.position == 42 and opened(sink).position == 42
    assert mirror.query(mirror.sink, f"SELECT id FROM {TARGET}") == [(2,)]


def test_records_are_written_by_number_or_age_and_only_up_to_the_last_position(loaded: Loaded, mirror: Mirror) -> None:
    clock = Hand()
    count = f"SELECT count(*) FROM {TARGET}"
    sink = RecordSink(loaded, "mart", "billing", clock)
    table = opened(sink, batch_size=3, interval=5.0)
    for id in (1, 2):
        table.upsert(row(id))
    assert not table.advance()
    table.upsert(row(3))
    assert table.advance() and mirror.query(mirror.sink, count) == [(3,)]
    table.upsert(row(4))
    clock.now += 4.9
    assert not table.advance()
    clock.now += 0.2
    assert table.advance() and mirror.query(mirror.sink, count) == [(4,)]
    table.upsert(row(5))  # no `advance` declares its position
    table.flush()
    assert mirror.query(mirror.sink, count) == [(4,)]


def test_a_program_killed_anywhere_writes_each_record_once(
    loaded: Loaded, mirror: Mirror, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, log = random.Random(seed), list(range(60))
    commit, stage = PostgresQuerySink.commit, PostgresQuerySink.stage

    def failing(real: Callable[..., object], before: float, after: float) -> Callable[..., object]:
        def call(*given: object) -> object:
            if chance.random() < before:
                raise Unreachable("cut before")
            done = real(*given)
            if chance.random() < after:
                raise Unreachable("the answer is lost")
            return done

        return call

    monkeypatch.setattr(PostgresQuerySink, "commit", failing(commit, 0.2, 0.3))
    monkeypatch.setattr(PostgresQuerySink, "stage", failing(stage, 0.2, 0.2))
    lost = 0
    while True:
        table = opened(RecordSink(loaded, "mart", "billing", Hand()))
        begin = 0 if table.position is None else table.position + 1
        try:
            for offset in log[begin:]:
                table.upsert(row(offset % 7, price=offset))
                table.advance(offset)
                if chance.random() < 0.4:
                    table.flush()
            table.flush()
            break
        except Unreachable:
            lost += 1
            if chance.random() < 0.5:  # the same process tries again
                try:
                    table.flush()
                except Unreachable:
                    lost += 1
    assert lost and opened_position(loaded) == 59
    last = {offset % 7: offset for offset in log}
    found = mirror.query(mirror.sink, f"SELECT id, price FROM {TARGET} ORDER BY id")
    assert [(id, int(price)) for id, price in found] == sorted(last.items())
    written = mirror.query(mirror.sink, f"SELECT rows FROM slotkeeper_streams WHERE target = '{TARGET}'")
    assert written == [(60,)]  # the sink adds up the records of committed batches


def opened_position(loaded: Loaded) -> int | None:
    return opened(RecordSink(loaded, "mart", "billing", Hand())).position


def test_wrong_records_positions_and_targets_are_refused_by_name(sink: RecordSink, loaded: Loaded) -> None:
    table = opened(sink)
    with pytest.raises(Refused, match="column colour is unknown"):
        table.upsert(row(1, colour="red"))
    with pytest.raises(Refused, match="column part is missing"):
        table.delete({"id": 1})
    with pytest.raises(Refused, match="column note: a value of type list has no common text form"):
        table.upsert(row(1, note=[1]))
    for wrong in ("\ud800", {"price": Decimal("1.5")}, {"price": float("nan")}):
        with pytest.raises(Refused, match=r"column note: a .* has no common text form"):
            table.upsert(row(1, note=wrong))
    for odd in (1.5, True, Decimal(1), 1 << 63):
        with pytest.raises(Refused, match="is not an int of at most 63 bits"):
            table.advance(odd)  # type: ignore[arg-type]
    table.upsert(row(1))
    table.advance(7)
    with pytest.raises(Refused, match="position 7 is not after 7"):
        table.advance(7)
    table.flush()
    with pytest.raises(Refused, match="query writer billing") as refused:
        opened(RecordSink(loaded, "mart", "other", Hand()))
    assert refused.value.hint.startswith("one process writes a target at a time")
    with pytest.raises(Refused, match="is not a name"):
        RecordSink(loaded, "mart", "bad name")
    with pytest.raises(Refused, match="column pk of the key is not in columns"):
        sink.table(TARGET, ("pk",), COLUMNS)
    with pytest.raises(Refused, match="has another unique key"):
        sink.table(TARGET, ("id",), COLUMNS)


def test_records_without_a_position_are_bounded(sink: RecordSink, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MOST_PENDING == 1_000_000
    monkeypatch.setattr("slotkeeper.core.library.sink.MOST_PENDING", 3)
    table = opened(sink)
    for id in range(3):
        table.upsert(row(id))
    with pytest.raises(Refused, match="records since the last `advance`"):
        table.upsert(row(9))


def test_a_later_process_takes_over_and_the_earlier_one_is_refused(loaded: Loaded, mirror: Mirror) -> None:
    """Both read position 0, and both write their next records as position 1: neither loses them."""
    earlier = opened(RecordSink(loaded, "mart", "billing", Hand()))
    earlier.upsert(row(1))
    earlier.advance()
    earlier.flush()
    later = opened(RecordSink(loaded, "mart", "billing", Hand()))
    earlier.upsert(row(2))
    earlier.advance()
    with pytest.raises(Refused, match="query writer billing"):
        earlier.flush()
    later.upsert(row(3))
    later.advance()
    later.flush()
    assert later.position == 1
    assert mirror.query(mirror.sink, f"SELECT id FROM {TARGET} ORDER BY id") == [(1,), (3,)]
