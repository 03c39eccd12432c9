"""The stand-in for Hologres answers as the vendor's page says, and assigns rows to shards by its client's rule."""

from __future__ import annotations

import random
from contextlib import closing
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.kinds import FollowedTable, SourceAsked
from slotkeeper.core.sources.hologres.eligibility import version_of
from slotkeeper.demo.hologres.instance import Hologres
from tests.support.hologres import TABLE, HoloPair, write

MASK = 0xFFFFFFFF


def murmur3(data: bytes, seed: int) -> int:
    """murmur3_32, implemented here again from its author's description."""

    def turned(value: int, bits: int) -> int:
        return ((value << bits) | (value >> (32 - bits))) & MASK

    def mixed(block: bytes) -> int:
        return turned(int.from_bytes(block, "little") * 0xCC9E2D51 & MASK, 15) * 0x1B873593 & MASK

    h, whole = seed, len(data) // 4 * 4
    for at in range(0, whole, 4):
        h = (turned(h ^ mixed(data[at : at + 4]), 13) * 5 + 0xE6546B64) & MASK
    if data[whole:]:
        h ^= mixed(data[whole:])
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ (h >> shift)) * factor & MASK
    return h ^ (h >> 16)


def shard(parts: list[str], shards: int) -> int:
    """Return the shard of a key: 65536 values in `shards` ranges, the first ranges wider by one."""
    h = 0
    for part in parts:
        h ^= murmur3(part.encode(), 104729)
    place, end = h % 65536, 0
    for number in range(shards):
        end += 65536 // shards + (number < 65536 % shards)
        if place < end:
            return number
    raise AssertionError(place)


def asked(hologres: Hologres, statement: str) -> list[tuple[Any, ...]]:
    """Return all rows of a query by the ordinary login through the proxy."""
    its = login(hologres.endpoint(), "test")
    session = pg.connect(its.endpoint, its.password, its.name, autocommit=True)
    with closing(session), session.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_the_hash_is_the_published_one() -> None:
    assert [murmur3(text, seed) for text, seed in ((b"", 0), (b"test", 0), (b"test", 0x9747B28C))] == [
        0,
        0xBA6BD213,
        0x704B81DC,
    ]


def test_rows_lie_where_the_published_rule_puts_them(hologres: Hologres, seed: int) -> None:
    chance = random.Random(seed)
    words = ["", "1", "12345", "Grüße 你好"] + ["x" * chance.randint(0, 40) + str(chance.random()) for _ in range(30)]
    for shards in (1, 3, 4, 64):
        for word in words:
            ((found,),) = hologres.rows("SELECT hg_standin.shard_of(ARRAY[%s, '7'], %s)", (word, shards))
            assert found == shard([word, "7"], shards), (word, shards)


def test_a_query_that_names_a_binlog_column_is_routed_and_others_are_not(holo_pair: HoloPair) -> None:
    hologres = holo_pair.hologres
    write(hologres, (1, 1), (2, 2))
    write(hologres, (1, 5), (2, None))
    assert sorted(asked(hologres, f"SELECT * FROM {TABLE}")) == [(1, 5)]
    kinds = [
        row[0] for row in asked(hologres, f"SELECT hg_binlog_event_type FROM {TABLE} ORDER BY hg_binlog_timestamp_us")
    ]
    assert sorted(kinds) == [2, 3, 5, 5, 7]
    assert asked(hologres, f"SELECT count(hg_binlog_lsn) FROM {TABLE}") == [(5,)]
    by_shard = asked(hologres, f"SELECT hg_shard_id, max(hg_binlog_lsn) FROM {TABLE} GROUP BY hg_shard_id")
    assert dict(by_shard) == {number: lsn for number, lsn, _ in hologres.log(TABLE)}
    assert asked(hologres, f"SELECT id FROM {TABLE} WHERE hg_shard_id = {shard(['1'], 4)}") == [(1,)]


def test_halves_of_an_update_share_a_time_and_lsns_grow_with_times(holo_pair: HoloPair, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(30):
        write(holo_pair.hologres, *((chance.randint(1, 40), chance.randint(1, 9)) for _ in range(3)))
    names = "hg_shard_id, hg_binlog_lsn, hg_binlog_event_type, hg_binlog_timestamp_us"
    rows = asked(holo_pair.hologres, f"SELECT {names} FROM {TABLE} ORDER BY hg_shard_id, hg_binlog_lsn")
    gaps = 0
    for before, behind in pairwise(rows):
        if before[0] != behind[0]:
            continue
        assert behind[1] > before[1]
        pair = before[2] == 3
        assert (behind[2] == 7) == pair
        assert behind[3] == before[3] if pair else behind[3] > before[3]
        assert not pair or behind[1] == before[1] + 1
        gaps += behind[1] > before[1] + 1
    assert gaps


def test_the_cursor_functions_answer_as_documented(holo_pair: HoloPair) -> None:
    hologres = holo_pair.hologres
    first, second, third = holo_pair.keys_on(
        holo_pair.connection().table(TableAsked.of(holo_pair.mirror.job)).source.nodes()[2], 3
    )
    ((_, lsn, _),) = asked(hologres, f"SELECT * FROM hg_get_binlog_cursor('{TABLE}', 'LATEST', 2)")
    assert lsn == 0
    for key in (first, second, third):
        write(hologres, (key, key))
    lsns = [lsn for _, lsn, _ in hologres.log(TABLE)]
    for which, wanted in (("OLDEST", lsns[0]), ("LATEST", lsns[-1])):
        ((_, lsn, _),) = asked(hologres, f"SELECT * FROM hg_get_binlog_cursor('{TABLE}', '{which}', 2)")
        assert lsn == wanted
    ((_, lsn, _),) = asked(hologres, f"SELECT * FROM hg_get_binlog_cursor_by_lsn('{TABLE}', {lsns[0] + 1}, 2)")
    assert lsn == lsns[1]
    ((_, lsn, _),) = asked(hologres, f"SELECT * FROM hg_get_binlog_cursor_by_timestamp('{TABLE}', now(), 2)")
    assert lsn > lsns[-1]
    for statement, says in (
        (f"SELECT * FROM hg_get_binlog_cursor_by_timestamp('{TABLE}', '2100-01-01', 2)", "in future time"),
        (f"SELECT * FROM hg_get_binlog_cursor('{TABLE}', 'LATEST', 4)", "Shard ID does not exist"),
    ):
        with pytest.raises(pg.DriverError, match=says):
            asked(hologres, statement)


def test_what_is_not_recorded_leaves_no_record(holo_pair: HoloPair) -> None:
    hologres = holo_pair.hologres
    with closing(hologres.connect(False)) as session, pg.transaction(session) as cursor:
        cursor.execute("SET LOCAL hg_standin.generate_binlog = off")
        cursor.execute(f"INSERT INTO {TABLE} VALUES (1, 1)")
    with closing(hologres.connect(False)) as session, session.cursor() as cursor:
        cursor.execute(f"INSERT INTO {TABLE} VALUES (2, 2)")
        session.rollback()
    assert hologres.log(TABLE) == []


def findings(pair: HoloPair) -> dict[Level, list[str]]:
    found: dict[Level, list[str]] = {}
    table = FollowedTable(pair.mirror.table, (pair.mirror.job,))
    with closing(pair.connection()) as session:
        said = SourceAsked("holo1", pair.mirror.job.source, (table,), False, lambda name: "")
        for one in session.doctor.findings(said, lambda: datetime.now(timezone.utc)):
            found.setdefault(one.level, []).append(one.text)
    return found


def test_doctor_warns_of_a_short_ttl_and_of_columns_alone(holo_pair: HoloPair) -> None:
    assert Level.WARN not in findings(holo_pair) and Level.FAIL not in findings(holo_pair)
    holo_pair.hologres.set_property(TABLE, "binlog.ttl", "86400")
    holo_pair.hologres.set_property(TABLE, "orientation", "column")
    ttl, column = findings(holo_pair)[Level.WARN]
    assert "binlog.ttl of ods.t is 86400 s, below the seven days" in ttl and "604800" in ttl
    assert "column-oriented" in column
    holo_pair.hologres.set_property(TABLE, "binlog.level", "none")
    assert "records no binlog" in findings(holo_pair)[Level.FAIL][0]
    assert any("stand-in" in text for text in findings(holo_pair)[Level.OK])


def test_versions_are_read_as_the_client_does() -> None:
    assert version_of("Hologres 1.3.40 (tag: release)") == (1, 3, 40)
