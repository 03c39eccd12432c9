"""Which columns a source table had, by its fingerprint: what a changed one is compared with.

A fingerprint is a hash, so that the columns behind it have to be kept beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from slotkeeper.core.domain.shape import columns_from, columns_text
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.sinks.postgres.session import SinkSession

_SQL: Book = ("slotkeeper.core.sinks.postgres.progress", "columns.sql")


def note(
    session: SinkSession, cursor: pg.Cursor, lane: Mapping[str, str], fingerprint: str, columns: Sequence[Column]
) -> None:
    """Keep the columns behind a fingerprint of the slot's rows."""
    values = {**lane, "fingerprint": fingerprint, "columns": columns_text(columns)}
    session.run(cursor, "forget", values, _SQL)
    session.run(cursor, "note", values, _SQL)


def read(
    session: SinkSession, cursor: pg.Cursor, lane: Mapping[str, str], fingerprint: str
) -> tuple[Column, ...] | None:
    """The columns behind a fingerprint; None where they were never kept."""
    if not _exists(session, cursor):
        return None
    found = session.run(cursor, "read", {**lane, "fingerprint": fingerprint}, _SQL).fetchone()
    return columns_from(found[0]) if found else None


def empty(session: SinkSession, cursor: pg.Cursor, lane: Mapping[str, str], epoch: int, fingerprint: str) -> int:
    """Put the slot's rows back to creating under the epoch, for the table as it is now; how many there were."""
    return session.run(cursor, "empty", {**lane, "epoch": epoch, "fingerprint": fingerprint}, _SQL).rowcount


def _exists(session: SinkSession, cursor: pg.Cursor) -> bool:
    return session.run(cursor, "exists", {"schema": session.schema.string}, _SQL).fetchone() is not None
