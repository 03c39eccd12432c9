"""One program over the library reads DWS, MySQL and Hologres, and continues after it was killed anywhere."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from decimal import Decimal

import pytest

from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import Refused, SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.library import Reader, Sink, passes
from slotkeeper.core.sources.mysql.position import MysqlPosition
from tests.support.hand_clock import Hand
from tests.support.pairs import MakeMysqlPair, MysqlPair
from tests.support.sides import TABLE, Side, texts
from tests.support.waiting import until


class Killed(Exception):
    """The exception that ends the program here."""


def program(job: JobSpec, stored: dict[str, str], stop: Callable[[str], None], done: Callable[[], bool]) -> None:
    """Mirror a table until `done`, with its marks in `stored`; `stop` raises Killed at a named place."""
    with Reader(job) as reader, Sink(job, reader.table) as sink:
        stored.update(reader.start(stored))
        stop("started")
        while not done():
            try:
                for batch in reader.read():
                    stop("read")
                    sink.write(batch)
                    stop("written")
                    stored[batch.shard.name] = batch.mark
                    stop("stored")
                    reader.register(batch)
                    stop("registered")
            except SlotkeeperError as error:
                if not passes(error):
                    raise


def test_a_program_killed_at_random_places_loses_nothing(side: Side, seed: int) -> None:
    assert survived(side, seed, 8)


@pytest.mark.chaos
def test_a_program_killed_thirty_times_loses_nothing(side: Side, seed: int) -> None:
    assert survived(side, seed, 1_000, 30) == 30


def survived(side: Side, seed: int, rounds: int, most: int = 1_000) -> int:
    """Write and mirror in turns, with a program that is killed at random places; return the number of kills."""
    job, write, source, target, *_ = side
    job = replace(job, channels=(replace(job.channel, create_target=True),))
    chance, stored = random.Random(seed), dict[str, str]()
    with Reader(job) as first:  # the position from which changes count
        stored.update(first.start(stored))
    kills = 0

    def in_time() -> bool:
        assert time.monotonic() < deadline, (texts(source()), texts(target()))
        return equal()

    def equal() -> bool:
        return texts(source()) == texts(target())

    def stop(place: str) -> None:
        if chance.random() < 0.2:
            raise Killed(place)

    for _ in range(rounds):
        if kills == most:
            break
        write(*((chance.randrange(30), chance.choice((None, chance.randrange(1000)))) for _ in range(12)))
        try:
            program(job, stored, stop, lambda: chance.random() < 0.3)
        except Killed:
            kills += 1
    deadline = time.monotonic() + 60
    program(job, stored, lambda place: None, in_time)
    return kills


def test_records_have_values_in_python_s_types(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair("id bigint PRIMARY KEY, price decimal(10,2), born date, raw varbinary(4), name varchar(20)")
    with Reader(pair.mirror.job) as reader:
        reader.start({})
        pair.run(f"INSERT INTO {TABLE} VALUES (7, 1.50, '2026-01-02', x'00ff', 'a\tb'), (8, NULL, NULL, NULL, NULL)")
        found: list[Mapping[str, object]] = []

        def read() -> bool:
            for batch in reader.read():
                found.extend(record.typed for record in batch.records)
                reader.register(batch)
            return len(found) == 2

        until(read, 30, "both rows")
    assert found[0] == {"id": 7, "price": Decimal("1.50"), "born": found[0]["born"], "raw": b"\x00\xff", "name": "a\tb"}
    assert str(found[0]["born"]) == "2026-01-02"
    assert found[1] == {"id": 8, "price": None, "born": None, "raw": None, "name": None}


def test_a_damaged_or_foreign_mark_is_refused_in_one_line(mysql_pair: MysqlPair) -> None:
    job = mysql_pair.mirror.job
    with ExitStack() as stack:
        reader = stack.enter_context(Reader(job))
        for mark in ("", "[]", '["x", 1]', "{}", "\x1b[31m", "null"):
            with pytest.raises(Refused, match=r"the mark of binlog is damaged") as refused:
                reader.start({"binlog": mark})
            assert "\n" not in str(refused.value) and "\x1b" not in str(refused.value)
        marks = reader.start({})
        with pytest.raises(Refused, match=r"the marks are of dn_9, but the table is on binlog"):
            stack.enter_context(Reader(job)).start({"dn_9": marks["binlog"]})


def test_a_mark_of_a_table_that_was_changed_since_ends_with_its_name(mysql_pair: MysqlPair) -> None:
    job = mysql_pair.mirror.job
    with Reader(job) as reader:
        with pytest.raises(Refused, match="stores no position to continue at"):
            reader.start()
        marks = reader.start({})
    mysql_pair.run(f"ALTER TABLE {TABLE} MODIFY v int")
    with Reader(job) as reader, pytest.raises(Trouble) as ended:
        reader.start(marks)
    assert ended.value.name is TroubleName.SCHEMA_CHANGED


@pytest.mark.parametrize("side", ["dws", "hologres_slot"], indirect=True)
def test_marks_without_their_slot_end_as_slot_lost_and_create_no_slot(side: Side) -> None:
    job, write, *_ = side
    with Reader(job) as reader:
        marks = reader.start()
    write((1, 1))
    with Reader(job) as reader:
        reader._slot and reader._slot.clear()
        for _ in range(2):
            with pytest.raises(Trouble, match="no longer exists") as ended:
                reader.start(marks)
            assert ended.value.name is TroubleName.SLOT_LOST


def test_a_source_restored_to_an_older_copy_is_named_after_seconds(mysql_pair: MysqlPair) -> None:
    clock = Hand()
    with Reader(mysql_pair.mirror.job, clock=clock) as reader:
        reader.start({})
        ((shard, place),) = reader._position.items()
        assert isinstance(place, MysqlPosition)
        reader._position[shard] = replace(place, offset=place.offset + 1_000_000)
        assert list(reader.read()) == []
        clock.now += 11
        with pytest.raises(Trouble) as ended:
            list(reader.read())
    assert ended.value.name is TroubleName.SOURCE_OLDER
