"""A Hologres table and its shards in the catalogs: identity, properties, and a shard's newest and oldest record.

Sources: Hologres, "Subscribe to Hologres binlogs" for hg_get_binlog_cursor and its two related functions; the published
client for the table properties, the shard count, and the LSN 0 that a shard without a record returns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from slotkeeper.core.domain.slot import Column, Shard, TableIdentity
from slotkeeper.core.domain.text import whole
from slotkeeper.core.domain.ttl import seconds_of
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.hologres.position import HoloPosition
from slotkeeper.core.sources.hologres.session import HoloSession

DEFAULT_TTL = 2_592_000
"""The default of binlog.ttl in seconds (Hologres, "Subscribe to Hologres binlogs": 30 days)."""
SECOND = 1_000_000
MOST_SHARDS = 65_536
"""Maximum number of shards of a table: each shard needs an object and a lane in Slotkeeper."""
MARGIN_SECONDS = 60
"""Safety margin in seconds before a TTL ends (at most a tenth of the TTL): clocks of a cluster's nodes can differ."""


@dataclass(frozen=True, slots=True)
class Record:
    """The position of one record; `us` is its time in microseconds since 1970, 0 if unknown."""

    lsn: int
    us: int

    @property
    def applied(self) -> HoloPosition:
        return HoloPosition(self.lsn, self.us, self.us)

    @property
    def before(self) -> HoloPosition:
        """The position directly before this record (Hologres: in a shard, times grow with the LSNs)."""
        return HoloPosition(self.lsn - 1, 0, max(0, self.us - 1))


@dataclass(frozen=True, slots=True)
class TableState:
    """The state of a table at the server's time `now_us`, in microseconds since 1970."""

    identity: TableIdentity
    properties: Mapping[str, str]
    now_us: int

    @property
    def shards(self) -> list[Shard]:
        """The shards of the table's table group, 0 to n - 1; empty if their number cannot be read."""
        count = whole(self.properties.get("shard_count", "")) or 0
        return [shard_of(number) for number in range(count if count <= MOST_SHARDS else 0)]

    @property
    def ttl(self) -> int:
        """Seconds after which a record can be deleted, whether it was read or not."""
        return seconds_of(self.properties.get("binlog.ttl", "")) or DEFAULT_TTL

    @property
    def margin_us(self) -> int:
        """The margin before the TTL ends, in microseconds."""
        return min(MARGIN_SECONDS * SECOND, self.ttl * SECOND // 10)

    @property
    def expired(self) -> int:
        """The time up to which records can already have been deleted."""
        return max(0, self.now_us - self.ttl * SECOND + self.margin_us)

    def seen(self, every_us: int) -> int:
        """Return the time up to which a shard has no newer records, rounded down so that an idle lane seldom moves."""
        return max(1, (self.now_us - self.margin_us) // every_us * every_us)


def gone(error: SlotkeeperError) -> bool:
    """Return whether an error means that a table or schema does not exist."""
    return error.code in ("42P01", "3F000")


def shard_of(number: int) -> Shard:
    """Return the shard with this id; `Shard.node_id` counts from 1, because no DN has id 0."""
    return Shard(f"shard_{number}", number + 1)


def number_of(shard: Shard) -> int:
    return shard.node_id - 1


def parts(table: str) -> dict[str, str]:
    """Return a table's schema and name as in the catalogs."""
    schema, _, name = table.partition(".")
    return {"schema": schema, "name": name}


def read_table(session: HoloSession, table: str) -> TableState:
    """Return the present state of a table; raises SCHEMA CHANGED if it does not exist, Refused if it has no key."""
    rows = session.rows("table", {"table": table})
    properties = {str(key): str(value) for key, value in session.rows("properties", parts(table))}
    oid, database, now_us, spelled, types, required, numbers, constrained = rows[0]
    columns = tuple(
        Column(name, kind, bool(needed), number=number)
        for name, kind, needed, number in zip(spelled, types, required, numbers, strict=True)
    )
    by_number = dict(zip(numbers, spelled, strict=True))
    key = tuple(by_number[number] for number in constrained or ())
    if not key:
        raise Refused(f"{table} has no primary key", "recreate it with a primary key", where="source")
    identity = TableIdentity(own_id(properties, int(oid)), columns, key, f"db{database}")
    return TableState(identity, properties, int(now_us))


def own_id(properties: Mapping[str, str], oid: int) -> int:
    """Return table_id, which a rebuild, a rename or TRUNCATE changes; the catalog's oid if table_id is missing."""
    text = properties.get("table_id", "")
    number = whole(text)
    if number is not None:
        return number
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big") if text else oid


def newest(session: HoloSession, table: str, shard: Shard) -> Record | None:
    return _cursor(session, "cursor", {"table": table, "which": "LATEST", "shard": number_of(shard)})


def oldest(session: HoloSession, table: str, shard: Shard) -> Record | None:
    return _cursor(session, "cursor", {"table": table, "which": "OLDEST", "shard": number_of(shard)})


def first_behind(session: HoloSession, table: str, shard: Shard, lsn: int) -> Record | None:
    asked = {"table": table, "lsn": lsn + 1, "shard": number_of(shard)}
    return _there(session, table, shard, _cursor(session, "cursor_by_lsn", asked))


def first_since(session: HoloSession, table: str, shard: Shard, at: str) -> Record | None:
    """Return the first record at or after a time; None if there is none yet. Raises Refused for a future time."""
    try:
        found = _cursor(session, "cursor_by_time", {"table": table, "at": at, "shard": number_of(shard)})
    except SlotkeeperError as error:
        if "future time" not in error.message:
            raise
        raise Refused(f"{at} is in the future by the source's clock", "name an earlier time", where="source") from error
    return _there(session, table, shard, found)


def _there(session: HoloSession, table: str, shard: Shard, found: Record | None) -> Record | None:
    """Return the record unless it is after the newest record: a cursor past the end is the LSN of the next write."""
    last = newest(session, table, shard) if found is not None else None
    return found if found is not None and last is not None and found.lsn <= last.lsn else None


def _cursor(session: HoloSession, name: str, parameters: Mapping[str, object]) -> Record | None:
    rows = session.rows(name, parameters)
    lsn = pg.number(rows[0][0]) if rows else None
    return Record(lsn, pg.number(rows[0][1]) or 0) if lsn else None
