"""What a target should look like, what one check read of it, and what a later check proves or disproves. Pure.

A check passes where the table is the one of the check before, and holds rows of that time. A position is confirmed at
the source only behind such a check (ADR 63). `slotkeeper.core.sinks.postgres.check.seen` reads,
`slotkeeper.core.engine.driver.registration` asks once a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace

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
"""What a shape is made of, in the words of a message."""
LEAST_COUNTED, MOST_COUNTED = 1_000, 200_000
"""A check counts rows up to a limit that grows with what the job applies between two checks."""


_OF_A_CHECK = ("older", "parted", "counted")
"""What is said of a reading beside an earlier one."""


@dataclass(frozen=True, slots=True)
class TargetSeen:
    """One reading of a target, in one snapshot of its server.

    `home` is the table that keeps the record, `oid` 0 without a target. `files` are the storage files of the
    whole tree, "" where the server does not tell; `shape` has a hash for each of `PARTS`, `places` one of the mirrored
    columns' numbers. `rows` were counted, up to a limit; `changes` are the events that the lanes had applied.
    `snapshot` and `own` say which transactions this reading saw: those before it, and the one that it was made in.
    `why` is set where a check did not pass: so it stays until a copy ends. `copying` is the way of a copy that
    has begun: what its chunks write is counted nowhere, so nothing is said of rows; `why` then holds for its undo.
    `members` are the oids of the whole tree; `parted`: one that the record names left it with rows, or was dropped.
    `older`: a row that the record asked about saw is still here; `counted`: the server's statistics know of rows.
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
        """As the progress row keeps it: without what is said of an earlier reading."""
        kept = {name: value for name, value in asdict(self).items() if name not in _OF_A_CHECK}
        return json.dumps(kept, separators=(",", ":"))


def read(text: str | None) -> TargetSeen | None:
    """A kept record; None where there is none, or one that a later version wrote."""
    try:
        found = TargetSeen(**json.loads(text)) if text else None
        return replace(found, members=tuple(found.members)) if found else None
    except (ValueError, TypeError):
        return None


def newest(records: Iterable[str | None]) -> TargetSeen | None:
    """The latest of the records that a table's lanes keep."""
    found = [one for one in map(read, records) if one is not None]
    return max(found, key=lambda one: (one.changes, one.snapshot.partition(":")[0].rjust(20)), default=None)


def counts_to(applied: int) -> int:
    """How many rows a check counts, where at most `applied` events came between two checks.

    >>> counts_to(10), counts_to(5_000), counts_to(10**9)
    (1000, 20000, 200000)
    """
    return max(LEAST_COUNTED, min(MOST_COUNTED, 4 * applied))


def altered(recorded: TargetSeen, seen: TargetSeen) -> str:
    """Name the parts of the shape that differ; "" where none does: a start's check decides whether it matters."""
    return ", ".join(said for part, said in PARTS.items() if recorded.shape.get(part) != seen.shape.get(part))


def changed(recorded: TargetSeen | None, seen: TargetSeen) -> str:
    """Explain why the target differs from the record, as the end of a sentence; "" where no difference is proven.

    An event of the job must explain every recorded row that is missing; an event touches at most one row. A new
    storage file proves nothing: VACUUM FULL and CLUSTER keep rows and their xmin, TRUNCATE keeps none. Where the job
    itself can have written every row since, the statistics decide: TRUNCATE empties them (-1), VACUUM FULL counts
    (PostgreSQL, pg_class.reltuples).
    """
    if not seen.oid:
        return "does not exist any more"
    if recorded is None or recorded.home != seen.home:
        return ""  # an upgrade, or a store that was restored with its target: nothing is recorded of this life of it
    if recorded.why and not recorded.copying:
        return recorded.why
    if recorded.oid != seen.oid:
        return "is another table of that name: it was dropped, renamed or restored, and created again"
    if recorded.places != seen.places:
        return "has mirrored columns that were dropped and added again, or renamed: their values are lost"
    if seen.parted:
        return "lost a partition that held rows, or that was dropped: detach only an empty one, and drop it later"
    applied = seen.changes - recorded.changes
    if recorded.copying:
        emptied = recorded.copying != "shadow" and recorded.files != seen.files and not seen.counted
        return "was emptied (TRUNCATE) while it was copied" if emptied else ""
    if seen.older or applied < 0:  # rows of progress that went back: SINK OLDER is named by who finds them
        return ""
    again = recorded.files != seen.files
    if recorded.rows > applied:
        if again:
            return "was emptied or written again (TRUNCATE, a restore, a rewrite): none of its earlier rows is left"
        if seen.rows < min(recorded.rows, LEAST_COUNTED) - applied:  # else another session rewrote each row in place
            return f"lost its rows: it held {recorded.rows} or more, the job changed {applied} since, and none is left"
    if again and applied and not seen.counted:
        return "was likely emptied (TRUNCATE): its storage is new, and no earlier row is left in it"
    return ""


def begun(earlier: TargetSeen | None, seen: TargetSeen, way: str) -> TargetSeen:
    """The record of a target that a copy begins with: it keeps what would be wrong if the copy were undone."""
    why = changed(replace(earlier, copying=""), seen) if earlier is not None else ""
    return replace(renewed(seen, copying=way), why=why)


def trouble(target: str, why: str, hint: str = "") -> Trouble:
    """TARGET CHANGED for a target, with what is safe to do; `hint` comes first."""
    safe = SAFE[TroubleName.TARGET_CHANGED]
    hint = f"{hint}; or {safe}" if hint else safe
    return Trouble(f"target {target} {why}", hint, where="sink", name=TroubleName.TARGET_CHANGED)


def renewed(seen: TargetSeen, own: int = 0, copying: str = "") -> TargetSeen:
    """A reading as the record for the next one; `own` is the transaction in which it is written."""
    return replace(seen, own=own, copying=copying, older=False, parted=False, counted=False)


def image_of(channel: ChannelSpec, identity: TableIdentity) -> TableIdentity:
    """The source table as its target has it: the mirrored columns in the order in which they are read, renamed."""
    if not channel.columns:
        return identity
    known, names = {column.name: column for column in identity.columns}, dict(channel.columns)
    columns = tuple(replace(known[name], name=into) for name, into in channel.columns)
    return replace(identity, columns=columns, key=tuple(names[name] for name in identity.key))
