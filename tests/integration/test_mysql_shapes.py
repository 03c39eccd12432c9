"""Tables of many shapes from a MariaDB into PostgreSQL: copied, streamed and verified, or refused by name."""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.drivers import pg
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.sqltext import dotted
from slotkeeper.core.verify.compare import Options, compare, open_pair
from tests.support import mysql_shapes
from tests.support.mysql_pair import MakeMysqlPair, MysqlPair
from tests.support.mysql_shapes import Shape, shapes

SMALL = Options(range_rows=3, leaf_rows=2, fan_out=2)
"""Ranges of few rows, so that keys of every type are bounds of ranges."""
PARTS = 4
_TYPES = """
SELECT column_name, data_type FROM information_schema.columns
 WHERE table_schema || '.' || table_name = %s ORDER BY ordinal_position
"""


def run(pair: MysqlPair, tables: Sequence[Shape]) -> None:
    """Run the job until it has caught up: tables that nothing can follow fail by name, all others go on."""
    mirror = pair.mirror
    mirror.start().join(600)
    wrong = {}
    for one in tables:
        report = mirror.heard.tables[one.source]
        failed, why = report.state == JobState.FAILED.value, one.refused or one.stops
        if failed != bool(why) or (failed and (one.source not in report.reason or not re.search(why, report.reason))):
            wrong[one.name] = f"expected {why or 'to run'}; {report.state}: {report.reason}"
    assert not wrong, (wrong, mirror.error)


def unequal(pair: MysqlPair, tables: Sequence[Shape]) -> dict[str, object]:
    """The tables that `verify` finds different, or whose values the two servers' own SELECTs give otherwise."""
    job, found = pair.mirror.job, dict[str, object]()
    left = sources.open(job.source_kind).tables(login(job.source, "verify"), 60_000)
    right = sinks.open(job.sink_kind).tables(login(job.sink, "verify"), 60_000)
    with closing(left), closing(right), closing(pair.mirror.sink()) as sink, sink.cursor() as cursor:
        for one in tables:
            compared = compare(*open_pair(left.table, one.source, right.table, one.target), SMALL)
            ours, theirs = selected(pair, cursor, one)
            if not compared.equal or ours != theirs or len(ours) < 3:
                found[one.name] = (compared, [*zip(ours, theirs, strict=False)])
    return found


def selected(pair: MysqlPair, cursor: pg.Cursor, one: Shape) -> tuple[list[list[str]], list[list[str]]]:
    """The rows that each of the two servers selects, every value in one form."""
    cursor.execute(_TYPES, (one.target,))
    types = dict(cursor.fetchall())
    names = ", ".join(f'"{name.replace(chr(34), chr(34) * 2)}"::text' for name in types)
    cursor.execute(f"SELECT {names} FROM {dotted(one.target)}")
    theirs = cursor.fetchall()
    ours = pair.rows(f"SELECT {one.selected(tuple(types))} FROM {mysql_shapes.quoted(one.name)}")
    return formed(ours, list(types.values())), formed(theirs, list(types.values()))


def formed(rows: Sequence[Sequence[Any]], types: Sequence[str]) -> list[list[str]]:
    """Rows with each value in one form, in one order."""
    return sorted([form(value, type_) for value, type_ in zip(row, types, strict=True)] for row in rows)


def form(value: Any, type_: str) -> str:
    """A value of either server in one form, by its type at the target."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return "\\x" + value.hex()
    if type_ in ("smallint", "integer", "bigint", "numeric"):
        return f"{Decimal(value) + 0:f}"
    if type_ == "real":
        return repr(struct.unpack("<f", struct.pack("<f", float(value))))
    if type_ == "double precision":
        return repr(float(value))
    return str(value).rstrip("0").rstrip(".") if type_.startswith("timestamp") and "." in str(value) else str(value)


@pytest.mark.parametrize(
    ("part", "metadata"),
    [
        ("quick", "FULL"),
        *[pytest.param(part, "FULL", marks=pytest.mark.chaos) for part in range(PARTS)],
        *[pytest.param(part, "NO_LOG", marks=pytest.mark.chaos) for part in ("quick", *range(PARTS))],
    ],
)
def test_tables_of_every_shape_are_copied_streamed_and_equal_or_refused_by_name(
    make_mysql_pair: MakeMysqlPair, part: str | int, metadata: str
) -> None:
    """With the binlog's own metadata, and with what information_schema says: MariaDB's default has none."""
    pair = make_mysql_pair()
    made = shapes(part == "quick")
    tables = made if isinstance(part, str) else made[part::PARTS]
    if metadata != "FULL":  # information_schema has no label with a backslash exactly: the lane stops and says so
        tables = [one for one in tables if one.name != "odd_labels"]
    followed = [one for one in tables if one.followed]
    mirror = pair.mirror
    mirror.job = replace(
        mirror.job,
        channels=tuple(ChannelSpec(one.source, one.target, create_target=True) for one in tables),
        binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=5),
    )
    mirror.until_caught_up = True
    pair.run(f"SET GLOBAL binlog_row_metadata = {metadata}")
    try:
        mysql_shapes.make(pair.session, made)
        run(pair, tables)
        assert unequal(pair, followed) == {}
        mysql_shapes.change(pair.session, followed)
        run(pair, tables)
        assert unequal(pair, followed) == {}
    finally:
        pair.run("SET GLOBAL binlog_row_metadata = FULL")
    assert set(mirror.changes()) >= {mirror.job.lane_name(one.source, "binlog") for one in followed}
    assert min(mirror.changes()[mirror.job.lane_name(one.source, "binlog")] for one in followed) > 3
