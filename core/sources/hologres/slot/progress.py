"""The slots of a Hologres by its catalogs: which table a slot reads, and what is confirmed for it on each shard.

"Troubleshoot Blink and Flink issues" names hologres.hg_replication_progress, which the first consumption makes, and
tells of publications that are left over; the published client joins slot and table through the publication. Which
columns the progress has, no page says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.hologres.catalog import parts
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sqltext import dotted, literal, quoted

SQL: Book = ("slotkeeper.core.sources.hologres.slot", "slots.sql")
_NAME = re.compile(r"[a-z0-9_]{1,63}")
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_ABSENT, _OTHER_COLUMNS, _NO_RIGHT = "42P01", "42703", "42501"


@dataclass(frozen=True, slots=True)
class Bound:
    """What a slot's name is bound to: nothing, or a publication with its table ("" where that is gone)."""

    there: bool
    publication: str = ""
    table: str = ""


def refuse_name(slot: str) -> None:
    """Refuse a name that a Hologres takes for a syntax error: small letters, digits and underscores it is."""
    if not _NAME.fullmatch(slot):
        what = f"slot name {slot!r}: a Hologres takes small letters, digits and _ only"
        raise Refused(what, "choose another slot name", where="source")


def bound(session: HoloSession, slot: str, table: str) -> Bound:
    """What a slot is bound to; its own table first, where a publication has several."""
    schema, _, name = table.partition(".")
    rows = _rows(session, "of_name", {"slot": slot})
    tabled = [(str(one), f"{where}.{what}") for one, where, what in rows if what is not None]
    if (mine := [one for one in tabled if one[1] == f"{schema}.{name}"]) or tabled:
        return Bound(True, *(mine or tabled)[0])
    return Bound(bool(rows), str(rows[0][0]) if rows else "")


def confirmed(session: HoloSession, slots: Iterable[str]) -> dict[tuple[str, int], int]:
    """The LSN that is confirmed by slot and shard; nothing where nothing was ever confirmed there.

    Raises Refused where the server's table has other columns than those that are known.
    """
    try:
        rows = session.rows("progress", {"slots": list(slots)}, of=SQL)
    except SlotkeeperError as error:
        if error.code == _ABSENT:  # Hologres: it is made by the first consumption
            return {}
        if error.code == _OTHER_COLUMNS:
            what = "hologres.hg_replication_progress has other columns than slot_name, parallel_index and lsn"
            hint = 'where a slot stands cannot be read: read with dialect = "hologres", which needs none'
            raise Refused(f"{what}: {error.message}", hint, error.code, "source") from error
        raise
    found: dict[tuple[str, int], int] = {}
    for slot, shard, lsn in rows:
        place = (str(slot), int(shard))
        found[place] = max(found.get(place, 0), lsn_of(str(lsn)))
    return found


def of_table(session: HoloSession, table: str) -> list[tuple[str, str]]:
    """(slot, publication) of every slot that reads a table."""
    rows = _rows(session, "of_table", parts(table))
    return sorted({(str(slot), str(publication)) for slot, publication in rows})


def create(session: HoloSession, slot: str, table: str) -> None:
    """Make a slot, and where the table has no publication yet, that too; Refused where the login may not."""
    made = ""
    try:
        there = [str(one) for (one,) in session.rows("publication", parts(table), of=SQL)]
        if not there:
            created = f"CREATE PUBLICATION {quoted(publication_of(slot))} FOR TABLE {dotted(table)}"
            session.composed_rows(pg.sql.SQL(created), None)
            made = publication_of(slot)
        session.rows("create_slot", {"slot": slot, "publication": made or there[0]}, of=SQL)
    except SlotkeeperError as error:
        if made:
            with suppress(SlotkeeperError):
                session.composed_rows(pg.sql.SQL(f"DROP PUBLICATION {quoted(made)}"), None)
        if error.code != _NO_RIGHT:
            raise
        raise Refused(error.message, RIGHTS.format(table=dotted(table)), error.code, "source") from error


def drop(session: HoloSession, slot: str, publication: str) -> None:
    """Drop a slot, and its publication where that was made for it and nobody else reads by it."""
    session.rows("drop_slot", {"slot": slot}, of=SQL)
    readers = session.rows("readers", {"publication": publication}, of=SQL)[0][0]
    if publication == publication_of(slot) and not readers:
        session.composed_rows(pg.sql.SQL(f"DROP PUBLICATION {quoted(publication)}"), None)


def calls(slot: str, table: str) -> tuple[str, ...]:
    """What `create` sends, as a plan shows it."""
    return (
        f"CREATE PUBLICATION {quoted(publication_of(slot))} FOR TABLE {dotted(table)}; -- where it has none",
        f"CALL hg_create_logical_replication_slot({literal(slot)}, 'hgoutput', <its publication>)",
    )


def publication_of(slot: str) -> str:
    """The name of the publication that is made for a slot."""
    return f"{slot[:59]}_pub"


def lsn_of(text: str) -> int:
    """An LSN as a number, or as PostgreSQL spells one.

    >>> lsn_of("10516"), lsn_of("0/2914")
    (10516, 10516)
    """
    if text.isascii() and text.isdigit():
        return int(text)
    found = _LSN.fullmatch(text)
    if found is None:
        what = f"hologres.hg_replication_progress says {text[:40]!r} where an LSN was expected"
        raise Refused(what, 'read with dialect = "hologres", which needs no slot', where="source")
    return int(found[1], 16) << 32 | int(found[2], 16)


RIGHTS = (
    "a slot needs a superuser, or the owner of {table} with CREATE on the database and the REPLICATION role"
    ' (Hologres, "Consume Binlog via JDBC"); from 2.1 on dialect = "hologres" needs SELECT alone'
)


def _rows(session: HoloSession, name: str, parameters: dict[str, str]) -> list[tuple[object, ...]]:
    try:
        return list(session.rows(name, parameters, of=SQL))
    except SlotkeeperError as error:
        if error.code == _NO_RIGHT:  # Hologres before 1.3.14: superusers only
            hint = "a Hologres before 1.3.14 shows its slots to superusers only"
            raise Refused(error.message, hint, error.code, "source") from error
        if error.code not in (_ABSENT, "3F000"):
            raise
        what = "this server has no table of slots (hologres.hg_replication_slot_properties)"
        hint = "a Hologres before 2.0 needs CREATE EXTENSION hg_binlog, by a superuser, once in each database"
        raise Refused(what, hint, error.code, "source") from error
