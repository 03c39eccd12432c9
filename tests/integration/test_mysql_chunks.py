"""A copy in chunks has every row once, for every type of key, with one query a chunk."""

from __future__ import annotations

import io
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pytest

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql import chunks
from slotkeeper.core.sources.mysql.chunks import MysqlTables
from slotkeeper.core.sources.mysql.rows import SchemaColumn
from slotkeeper.core.sources.mysql.session import MysqlSession
from slotkeeper.core.sources.mysql.source import MysqlSource
from slotkeeper.core.sources.mysql.tables import TableSeen, image_of
from tests.support import maria as support
from tests.support.maria import Maria

SEED = 20261126


@contextmanager
def source_of(maria: Maria, table: str) -> Iterator[MysqlSource]:
    login = Login(support.endpoint(maria.server), maria.server.password(), "slotkeeper/test")
    source = MysqlSource(MysqlSession(login), f"{maria.database}.{table}", "slot", BinlogOptions())
    with closing(source):
        source.identify()
        yield source


def copied(source: MysqlSource, rows: int) -> tuple[list[tuple[str | None, ...]], int]:
    """Return all rows that the chunks contain, and the number of chunks."""
    planned, found = source.plan_chunks(rows), list[tuple[str | None, ...]]()
    for chunk in planned:
        out = io.BytesIO()
        count = source.copy_chunk(chunk, out)
        got = list(rows_of(out.getvalue().splitlines(keepends=True)))
        assert len(got) == count
        found += got
    return found, len(planned)


def _floats(r: random.Random, count: int) -> list[str]:
    """Return numbers that six digits do not distinguish, and others."""
    close = [f"{1_234_500 + n}e0" for n in range(count // 3)] + [f"{1 + n / 2**22!r}e0" for n in range(count // 3)]
    return list({*close, *(f"{r.uniform(-1, 1) * 10 ** r.randrange(-30, 30):.9e}" for _ in range(count // 3))})


KEYS: dict[str, Callable[[random.Random, int], list[str]]] = {
    "FLOAT": _floats,
    "FLOAT UNSIGNED": lambda r, count: [one for one in _floats(r, count) if not one.startswith("-")],
    "DOUBLE": lambda r, count: [repr(r.uniform(-1e300, 1e300)) for _ in range(count)],
    "DECIMAL(30,10)": lambda r, count: [f"{r.randrange(10**20)}.{n:010d}" for n in range(count)],
    "BIGINT UNSIGNED": lambda r, count: [str(2**64 - 1 - n) for n in range(count)],
    "BIT(40)": lambda r, count: [str(n * 7919) for n in range(count)],
    "DATETIME(6)": lambda r, count: [f"'2026-01-01 00:00:00.{n:06d}'" for n in range(count)],
    "TIMESTAMP(3)": lambda r, count: [f"'2026-01-01 00:00:00.{n:03d}'" for n in range(count)],
    "TIME(2)": lambda r, count: [f"'{'-' * (n % 2)}{n}:00:00.{n % 100:02d}'" for n in range(1, count)],
    "DATE": lambda r, count: [f"'2026-{n % 12 + 1:02d}-{n // 12 + 1:02d}'" for n in range(count)],
    "VARBINARY(20)": lambda r, count: [f"x'{n:04x}{'00' * (n % 5)}'" for n in range(count)],
    "VARCHAR(20)": lambda r, count: [f"'k{n * 37 % 1000}é'" for n in range(count)],
    "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin": lambda r, count: [f"'ÿ{n}'" for n in range(count)],
    "UUID": lambda r, count: [f"'{r.randbytes(16).hex()}'" for _ in range(count)],
    "INET6": lambda r, count: [f"'{n}:2:3:4:5:6:0:8'" for n in range(count)],
    "INET4": lambda r, count: [f"'10.0.{n}.255'" for n in range(count)],
}


def test_a_copy_has_every_row_once_for_each_type_of_key(maria: Maria) -> None:
    r = random.Random(SEED)
    wrong = {}
    for number, (kind, make) in enumerate(KEYS.items()):
        keys = make(r, 90)
        maria.run(f"CREATE TABLE k{number} (k {kind} PRIMARY KEY, n INT)")
        values = ", ".join(f"({key}, {n})" for n, key in enumerate(keys))
        maria.run(f"INSERT IGNORE INTO k{number} VALUES {values}")
        there = sorted(n for (n,) in maria.rows(f"SELECT n FROM k{number}"))
        assert len(there) > 50, kind
        with source_of(maria, f"k{number}") as source:
            rows, count = copied(source, 7)
        if sorted(int(row[1] or -1) for row in rows) != there or count > len(there) // 7 + 1:
            wrong[kind] = (len(rows), len(there), count)
    assert not wrong, f"seed {SEED}"


def test_a_key_with_a_float_in_front_is_copied_whole(maria: Maria) -> None:
    maria.run("CREATE TABLE t (f FLOAT, g FLOAT, n INT, PRIMARY KEY (f, g, n))")
    rows = [f"({f}e0, {g / 3!r}e0, {n})" for f in (1_234_567, 1_234_568, 0.1) for g in range(5) for n in range(4)]
    maria.run(f"INSERT INTO t VALUES {', '.join(rows)}")
    with source_of(maria, "t") as source:
        found, _ = copied(source, 3)
    assert len(found) == len(set(found)) == len(rows)


def test_a_float_key_keeps_its_index_for_each_chunk(maria: Maria) -> None:
    maria.run("CREATE TABLE t (k FLOAT PRIMARY KEY)", "INSERT INTO t SELECT seq / 7 FROM seq_1_to_5000")
    with source_of(maria, "t") as source:
        chunk = source.plan_chunks(1_000)[2]
        statement, _ = chunks.read_statement(source.seen, source.seen.images, chunk)
    ((kind,),) = [(row[3],) for row in maria.rows(f"EXPLAIN {statement}")]
    assert kind == "range"


def test_a_comparison_finds_a_float_key(maria: Maria) -> None:
    maria.run("CREATE TABLE t (k FLOAT PRIMARY KEY, n INT)", "INSERT INTO t VALUES (1.1, 1), (1234567, 2)")
    tables = MysqlTables(Login(support.endpoint(maria.server), maria.server.password(), "slotkeeper/test"), 20_000)
    with closing(tables):
        table = tables.table(f"{maria.database}.t")
        keys = [("1.1",), ("1234567.0",)]
        assert set(table.digests(keys)) == set(keys)


def _stuck(answers: Sequence[Any]) -> list[Any]:
    """Return the plan for a server that gives these answers one after another."""
    left = iter(answers)
    key = image_of(SchemaColumn("k", "int", "int(11)", False))
    table = TableSeen("shop", "orders", (), (key,), TableIdentity(0, (), ("k",), "one"))
    return chunks.plan(table, 10, lambda statement, values: next(left))


def test_a_bound_that_comes_again_is_an_error_and_no_endless_planning() -> None:
    with pytest.raises(Refused, match=r"shop\.orders: cannot split key \(k\) into chunks: bound '7' repeats"):
        _stuck([[(5,)], [(7,)], [(7,)]])
    with pytest.raises(Refused, match="bound '5' repeats"):
        _stuck([[(5,)], [(7,)], [(5,)]])


def test_a_last_row_that_its_own_bound_leaves_out_is_an_error() -> None:
    with pytest.raises(Refused, match="bound '9' repeats"):
        _stuck([[(5,)], [], [(9,)], [(9,)]])
    assert len(_stuck([[(5,)], [], [(9,)], [(12,)]])) == 2  # 12 was written meanwhile
