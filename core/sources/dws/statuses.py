"""The statuses of slots: of one table, and of several tables in one message."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from slotkeeper.core.domain.slot import Column, Shard, SlotStatus, TableIdentity
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Rows
from slotkeeper.core.sources.dws.position import DwsPosition, SyncPoints
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sqltext import dotted, statements


def read_several(session: DwsSession, asked: Sequence[tuple[str, str, str]]) -> list[list[SlotStatus]]:
    """Return the statuses of all DNs for each table, slot and server in `asked`, with one message.

    The time limit is that of one status, so a DN that hangs delays all of them no longer than one.
    """
    book = statements("slotkeeper.core.sources.dws")
    tables = [pg.sql.Literal(dotted(table)) for table, _, _ in asked]
    each = [
        pg.sql.SQL(book["status_of"]).format(number=pg.sql.Literal(at), table=table, slot=pg.sql.Literal(slot))
        for at, (table, (_, slot, _)) in enumerate(zip(tables, asked, strict=True))
    ]
    rels = [pg.sql.SQL("{}::regclass").format(table) for table in tables]
    statement = pg.sql.SQL(book["statuses"]).format(
        each=pg.sql.SQL(" UNION ALL ").join(each), tables=pg.sql.SQL(", ").join(rels)
    )
    by_number: dict[int, list[tuple[Any, ...]]] = {}
    for number, *row in session.composed_rows(statement, None):
        by_number.setdefault(int(number), []).append(tuple(row))
    return [statuses_of(by_number.get(at, []), server) for at, (_, _, server) in enumerate(asked)]


def statuses_of(rows: Rows, server: str) -> list[SlotStatus]:
    """Return statuses by DN from the result rows of statement `status` (two rows per DN, one per checkpoint flag)."""
    by_shard: dict[Shard, dict[bool, tuple[Any, ...]]] = {}
    for row in rows:
        by_shard.setdefault(Shard(str(row[1]), int(str(row[2]))), {})[bool(row[0])] = row
    found = []
    for shard, flags in sorted(by_shard.items()):
        some = list(flags.values())
        xmin = min(int(str(row[5])) for row in some)
        points = SyncPoints(_point(flags.get(False)), _point(flags.get(True)), xmin)
        described = tuple(tuple(each or ()) for each in some[0][7:])
        found.append(
            SlotStatus(
                shard,
                points,
                DwsPosition(min(int(str(row[4])) for row in some), None, points.xmin),
                fingerprint=fingerprint_of(int(str(some[0][6])), server, *described),
            )
        )
    return found


@lru_cache(4_096)
def fingerprint_of(
    oid: int, server: str, spelled: Sequence[str], types: Sequence[str], numbers: Sequence[int], key: Sequence[int]
) -> str:
    """Return the fingerprint of a table: its columns' names, types and numbers, and the numbers of its key."""
    names = dict(zip(numbers, spelled, strict=True))
    columns = tuple(Column(name, type_) for name, type_ in zip(spelled, types, strict=True))
    return TableIdentity(oid, columns, tuple(names[number] for number in key), server).text


def _point(row: tuple[object, ...] | None) -> int | None:
    return None if row is None or row[3] is None else int(str(row[3]))
