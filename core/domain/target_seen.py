"""The recorded state of a target, and its comparison with a later check to detect changes by other sessions. Pure.

A check succeeds if the table is the same as in the previous check and still holds rows from that time. A position is
confirmed in the source only after such a check (ADR 63). `slotkeeper.core.sinks.postgres.check.seen` reads the state;
`slotkeeper.core.engine.driver.registration` starts a check once per second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace

from slotkeeper.core.domain.columns import image_columns
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.errors import Trouble, TroubleName

PARTS = {
    "columns": "columns, their types or defaults",
    "triggers": "triggers or foreign keys",
    "rules": "rules",
    "security": "row security or policies",
    "constraints": "constraints",
    "indexes": "unique indexes",
    "children": "partitions or child tables",
    "storage": "kind or persistence",
}
"""The parts of a table's shape, with their names in messages."""
LEAST_COUNTED, MOST_COUNTED = 1_000, 200_000
"""Bounds for the row limit of a check; the limit grows with the number of events applied between two checks."""


_OF_A_CHECK = ("older", "parted", "counted")
"""Fields that compare a reading with an earlier record."""


@dataclass(frozen=True, slots=True)
class TargetSeen:
    """One reading of a target, in one snapshot of its server.

    `home` is the oid of the table that stores the record; `oid` is 0 if the target does not exist. `files` is a hash of
    the storage files of the whole partition tree, "" if the server does not report them; `shape` has a hash for each of
    `PARTS`; `places` is a hash of the mirrored columns' numbers. `rows` is the number of rows, counted up to a limit;
    `changes` is the number of events that the lanes had applied. `snapshot` and `own` identify the transactions that
    this reading saw: those before the snapshot, and its own transaction. `why` is set if a check failed, and remains
    set until a copy ends. `copying` is the mode of a started copy: no counter includes the rows of its chunks, so rows
    are not compared; `why` then applies if the copy is undone. `members` are the oids of the whole tree; `parted`: a
    recorded member was detached with rows, or dropped. `older`: a row that was visible in the record's snapshot still
    exists; `counted`: the server's statistics report rows.
    """

    home: int
    oid: int
    files: str
    shape: dict[str, str] = field(hash=False)
    places: str
    rows: int
    changes: int
    snapshot: str
    own: int = 0
    why: str = ""
    copying: str = ""
    members: tuple[int, ...] = ()
    older: bool = False
    parted: bool = False
    counted: bool = False

    @property
    def text(self) -> str:
        """The JSON text in the progress row, without the fields that compare two readings."""
        kept = {name: value for name, value in asdict(self).items() if name not in _OF_A_CHECK}
        return json.dumps(kept, separators=(",", ":"))


def read(text: str | None) -> TargetSeen | None:
    """Parse a stored record; None if there is none, or if a later version wrote it."""
    try:
        found = TargetSeen(**json.loads(text)) if text else None
        return replace(found, members=tuple(found.members)) if found else None
    except (ValueError, TypeError, RecursionError):
        return None


def newest(records: Iterable[str | None]) -> TargetSeen | None:
    """Return the latest of the records in the progress rows of a table's lanes."""
    found = [one for one in map(read, records) if one is not None]
    return max(found, key=lambda one: (one.changes, one.snapshot.partition(":")[0].rjust(20)), default=None)


def counts_to(applied: int) -> int:
    """Return the row limit of a check if at most `applied` events were applied between two checks.

    >>> counts_to(10), counts_to(5_000), counts_to(10**9)
    (1000, 20000, 200000)
    """
    return max(LEAST_COUNTED, min(MOST_COUNTED, 4 * applied))


def altered(recorded: TargetSeen, seen: TargetSeen) -> str:
    """Return the parts of the shape that differ, or "". The check at a start decides whether differences are errors."""
    return ", ".join(said for part, said in PARTS.items() if recorded.shape.get(part) != seen.shape.get(part))


def changed(recorded: TargetSeen | None, seen: TargetSeen) -> str:
    """Explain how the target differs from the record, as the end of a sentence; "" if no difference is proven.

    Each missing recorded row must be explained by an event of the job; an event changes at most one row. A new storage
    file proves nothing: VACUUM FULL and CLUSTER preserve rows and their xmin, TRUNCATE preserves none. If the job
    itself can have written all current rows, the statistics decide: TRUNCATE resets them (-1), VACUUM FULL counts the
    rows (PostgreSQL, pg_class.reltuples).
    """
    if not seen.oid:
        return "no longer exists"
    if recorded is None or recorded.home != seen.home:
        return ""  # after an upgrade, or if the store was restored with its target: the record does not apply
    if recorded.why and not recorded.copying:
        return recorded.why
    if recorded.oid != seen.oid:
        return "is a different table of the same name: it was dropped, renamed or restored, and created again"
    if recorded.places != seen.places:
        return "has mirrored columns that were dropped and added again, or renamed: their values are lost"
    if seen.parted:
        return "lost a partition that held rows or was dropped: detach only an empty partition, and drop it later"
    applied = seen.changes - recorded.changes
    if recorded.copying:
        emptied = recorded.copying != "shadow" and recorded.files != seen.files and not seen.counted
        return "was emptied (TRUNCATE) while it was copied" if emptied else ""
    if seen.older or applied < 0:  # progress rows were set back: other checks report SINK OLDER
        return ""
    again = recorded.files != seen.files
    if recorded.rows > applied:
        if again:
            return "was emptied or rewritten (TRUNCATE, a restore, a rewrite): none of its earlier rows remains"
        if seen.rows < min(recorded.rows, LEAST_COUNTED) - applied:  # else another session updated every row
            return f"lost its rows: it held at least {recorded.rows}, the job then changed {applied}, and none remains"
    if again and applied and not seen.counted:
        return "was likely emptied (TRUNCATE): its storage is new, and none of its earlier rows remains"
    return ""


def begun(earlier: TargetSeen | None, seen: TargetSeen, way: str) -> TargetSeen:
    """Return the record of a target at the start of a copy; `why` is the problem that remains if the copy is undone."""
    why = changed(replace(earlier, copying=""), seen) if earlier is not None else ""
    return replace(renewed(seen, copying=way), why=why)


def trouble(target: str, why: str, hint: str = "") -> Trouble:
    """Return TARGET CHANGED for a target; its hint consists of `hint` and the safe action."""
    safe = SAFE[TroubleName.TARGET_CHANGED]
    hint = f"{hint}; or {safe}" if hint else safe
    return Trouble(f"target {target} {why}", hint, where="sink", name=TroubleName.TARGET_CHANGED)


def renewed(seen: TargetSeen, own: int = 0, copying: str = "") -> TargetSeen:
    """Return a reading as the record for the next check; `own` is the transaction that writes it."""
    return replace(seen, own=own, copying=copying, older=False, parted=False, counted=False)


def image_of(channel: ChannelSpec, identity: TableIdentity) -> TableIdentity:
    """Return the source table as mapped to the target: mirrored columns in reading order, with the target's names.

    The columns that the source does not have follow (`slotkeeper.core.domain.columns`). The column of a constant is
    the first of the key, so that a part's rows are adjacent in the index. Raises Refused if the source table has a
    column of such a name.
    """
    names, one = dict(channel.columns), channel.constant
    key = tuple(names.get(name, name) for name in identity.key)
    key = key if one is None else (one.column, *key)
    return replace(identity, columns=image_columns(channel, identity), key=key)
