"""The questions of `doctor --probe` about DWS, the documented answers, and the rules that derive the answers.

A question that corresponds to a switch of the stand-in has the switch's name, and its answer is yes or no. A cluster
has other writers, so a number that other writers also change is compared with its change while the probe does nothing;
if the comparison is inconclusive, so is the answer. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from slotkeeper.core.domain.probing import Answer, ProbeFinding, Question, needs, questions_of, yes_or_no
from slotkeeper.core.sources.dws.position import NOTHING, DwsPosition


def switches(answers: Iterable[Answer]) -> dict[str, bool | None]:
    """Return the answer to every question that corresponds to a switch of the stand-in; None if unknown."""
    said: Mapping[str | None, bool] = {"yes": True, "no": False}
    return {one.question.name: said.get(one.finding.answer) for one in answers if one.question.name in SWITCHED}


_TEXT = """
[slots | DWS, "Subscribing to Hybrid Data Warehouse Binlog"]
auto_create: a status query for an unknown slot creates the slot
    only `jobs start` and `slots create` query a slot that may not exist; every other command only reads
fresh_point = 0: the point that a status query returns for a slot before its first registration
    0 and no row both mean that Slotkeeper has not registered the slot
recorded_before_slot = no: changes are recorded before a table has a slot
    a copy starts after the first registration and waits until older transactions have ended
full_sync = yes: pgxc_register_full_sync_point sets both points on every DN
    start = "latest" requires it
two_points = yes: the points with checkpoint false and true move independently
    the job registers and checks both points
register_counts = yes: a registration returns the number of DNs
    any other count is a partial registration
register_moves_point: a registration moves the cluster's newest point
    "empty" means that no row was read, never that the newest point did not advance
refresh_same_point: registering the same point again restarts the TTL
    if not, the TTL of an idle job ends if the cluster's point does not advance; `slots show` shows the time left
backward_allowed: a registration below the registered point is accepted
    the reader never registers backward; a reset tries it and reports the result
consumed_at_point: a slot at the point of the newest record counts as having read it
    a job registers the newest point, which is at or after that record's point
xmin_includes_slots: the xmin of slots holds back the reported xmin
    a copy waits for listed transactions; if it waits for xmin, an xmin that does not advance is reported as unknown
cluster_wide_snapshot: an open transaction on another coordinator holds back the snapshot of this coordinator
    a copy also waits for the listed sessions and, if the list is incomplete, for the xmin of every DN
old_snapshot_recorded: writes under a snapshot older than the table's first slot are recorded
    a copy waits for the listed sessions; if the list is incomplete and the answer is no, `doctor` reports what to grant
clear_clears = yes: pgxc_binlog_clear_target_slot removes all points of the slot
    `slots drop` checks the result
[points | DWS, "Subscribing to Hybrid Data Warehouse Binlog"]
latest_inclusive: the newest point is the last safe point (otherwise the first unsafe point)
    the reader reads the boundary point again each time
latest_same = yes: all DNs report the same newest point
    each lane uses the point of its own DN
dn_order_fixed = no: the rows of the DNs always have the same order
    DNs are identified by id, never by their order
negative_node_ids = yes: DNs have negative ids
    the reader uses signed ids
[reading | DWS, "Subscribing to Hybrid Data Warehouse Binlog"]
new_system_names: the system columns are named gs_binlog_...
    new_system_value selects the names for a job
event_codes = I d B U: the codes of insert, delete, before-image and after-image
    the reader applies only these four codes
pairs = yes: an update is B, then U, at one point with consecutive sequences
    the reader drops a B whose U has the same key
one_point = yes: each transaction has one point of its own, in commit order
    a position is a point; `gtm_option` GTM-Free is rejected
full_old_images: B and d contain all columns (otherwise only the key)
    the reader uses only the key of an old image
old_keys = yes: B and d contain the whole key
    the job deletes rows by that key
time_of_plain = no: the records of a table without enable_binlog_timestamp have times
    the reader uses only the times of tables with enable_binlog_timestamp
start_inclusive: a range includes the rows at its start
    the reader requests one more point on each side than it needs, and filters the rows
end_inclusive: a range includes the rows at its end
    the reader requests one more point on each side than it needs, and filters the rows
rows_ordered: the rows of a DN are ordered by point and sequence
    the sink sorts the staged rows
copy_allowed: COPY can read from pgxc_get_binlog_changes
    the reader uses a cursor if COPY is rejected
cursor_allowed: a cursor can read from pgxc_get_binlog_changes
    the reader uses a cursor if COPY is rejected
reader_exact = yes: Slotkeeper's reader, range by range, returns every change exactly once
    all other rules serve this purpose
[cursors | DWS, "Subscribing to Hybrid Data Warehouse Binlog"]
cursor_syncpoint_inclusive = yes: ..._cursor_by_syncpoint finds a record at exactly the given point
    the job uses an xmin only from exactly that point
cursor_timestamp_inclusive = yes: ..._cursor_by_timestamp finds a record of exactly the given time
    a start at a time starts before the smallest point found
[purging | DWS, "Subscribing to Hybrid Data Warehouse Binlog"]
purge_at_once: a registration deletes the records below the smallest registered point immediately
    the reader never reads again before the registered point
registered_point_kept: the records at the registered point are retained
    required if the newest point is the first unsafe point
[table | DWS, "CREATE TABLE"]
timestamp_table = yes: a table with enable_binlog_timestamp can be created
    a start at a time requires such a table
xc_node_id = yes: t.xc_node_id can be queried and identifies the row's DN
    the copy is split by key, never by DN
distribution_key_fixed = yes: an UPDATE of a distribution column is rejected
    a key always stays on the same DN
empty_is_null: an empty string is stored as NULL
    the target gets what the source stores; `doctor` shows the mode
[ddl | DWS, "Subscribing to Hybrid Data Warehouse Binlog"]
generate_binlog_off = yes: writes with enable_generate_binlog = off are not recorded
    such rows reach the target only by a snapshot
vacuum_full_keeps: VACUUM FULL of a table without unread records retains the points
    each step checks before and after its read: if points were cleared in between, the check finds them missing
add_column_clears = yes: ADD COLUMN clears records and points
    each step checks before and after its read: if points were cleared in between, the check finds them missing
truncate_clears = yes: TRUNCATE clears records and points
    each step checks before and after its read: if points were cleared in between, the check finds them missing
partition_truncate: TRUNCATE PARTITION writes delete events, clears the points, or neither
    `doctor` warns about a partitioned table until this is known; with neither, the rows remain in the target
partition_drop: DROP PARTITION writes delete events, clears the points, or neither
    `doctor` warns about a partitioned table until this is known; with neither, the rows remain in the target
[errors | DWS, "Error Codes" (not documented for these functions)]
missing_table_code: the SQLSTATE for a table that does not exist
    42P01 is SCHEMA CHANGED; any other code is retried ten times, then FAILED
[not asked | DWS, "Subscribing to Hybrid Data Warehouse Binlog"]
cursor_timestamp_order: whether the first record after a time is the first by point or by time
    a start at a time also searches below the returned point, up to the newest safe point of its status checks
dn_down: what calls return while a DN is down
    the lanes of other DNs continue
partial_registration: what a registration returns if a DN did not accept it
    any count other than the expected one is a partial registration
ttl_end: what is reported for a slot whose TTL has ended
    no row and 0 both mean SLOT LOST
purge_delay: how long records remain before they are purged
    the reader never reads again before the registered point
redistribution: what calls return while the cluster redistributes data
    the job adopts another set of DNs, or reports TOPOLOGY CHANGED
"""

QUESTIONS: Mapping[str, Question] = questions_of(_TEXT)
"""Every question by name, in the order of the report."""

NEVER_ASKED: Mapping[str, str] = {
    "cursor_timestamp_order": "it requires a second session that commits while the first session is open",
    "dn_down": "it requires a DN that is down",
    "partial_registration": "it requires a DN that fails during a registration",
    "ttl_end": "it takes longer than binlog_ttl",
    "purge_delay": "it takes as long as the server's own cleanup",
    "redistribution": "it requires a resize of the cluster",
}
"""Questions that a scratch table cannot answer, with the reason."""

SWITCHED = frozenset(
    {
        "start_inclusive",
        "end_inclusive",
        "latest_inclusive",
        "auto_create",
        "refresh_same_point",
        "register_moves_point",
        "xmin_includes_slots",
        "backward_allowed",
        "full_old_images",
        "purge_at_once",
        "xc_node_id",
        "new_system_names",
    }
)
"""Behavior that the vendor does not document and that the stand-in can switch."""


CODES = ("I", "d", "B", "U")
_BUSY = "other writers advance the cluster's point too often"


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the scratch table's binlog; `key` is (place, id), `time_us` is None if the row has no time."""

    point: int
    sequence: int
    kind: str
    time_us: int | None
    key: tuple[int | None, int | None]
    value: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """A transaction of the probe, with its events as (kind, key, value) in order."""

    events: tuple[tuple[str, tuple[int, int], str], ...]


def by_point(events: Iterable[Event]) -> dict[int, list[Event]]:
    """Return the events grouped by point, in order."""
    ordered = sorted(events, key=lambda one: (one.point, one.sequence))
    return {point: list(found) for point, found in groupby(ordered, key=lambda one: one.point)}


def bounds(asked: tuple[int, int], own: Sequence[int], found: Sequence[int]) -> tuple[bool | None, bool | None]:
    """Return (start inclusive, end inclusive) for a range between two points with records; `own` are its points.

    >>> bounds((10, 30), [10, 20, 30], [10, 20]), bounds((10, 30), [10, 20, 30], [20, 30])
    ((True, False), (False, True))
    >>> bounds((10, 30), [10, 20, 30], [10])
    (None, None)
    """
    if set(found) - set(own) or set(own) - set(asked) - set(found):
        return None, None
    return asked[0] in found, asked[1] in found


def counted(number: int, during: int, after: int) -> ProbeFinding:
    """Decide whether transaction `number` holds back a snapshot, from the xmins while it is open and afterwards.

    >>> counted(70, 70, 75).answer, counted(70, 73, 75).answer, counted(70, 60, 60).answer
    ('yes', 'no', None)
    """
    if during > number:
        return yes_or_no(False)
    return yes_or_no(True if after > number else None, "older transactions of other sessions hold back the snapshot")


@dataclass(frozen=True, slots=True)
class Beside:
    """The newest points read before and after a commit of the probe, relative to that commit's point."""

    before: int
    after: int


def latest(rounds: Sequence[Beside], least: int = 3) -> ProbeFinding | None:
    """Decide whether the newest point is safe, from rounds with one commit of the probe; None if more are needed.

    The server shows a point that it has not assigned yet only if the newest point is the first unsafe point: one such
    round is proof. For the other answer, the newest point has to stop at the probe's commit in most rounds, because
    other writers move the point as well.

    >>> latest([Beside(0, 1)]).answer, latest([Beside(-1, 0)] * 3).answer, latest([Beside(-1, 0)])
    ('no', 'yes', None)
    """
    if any(one.before >= 0 for one in rounds):
        return yes_or_no(False)
    stopped = sum(one.after == 0 for one in rounds)
    if stopped >= least and 2 * stopped > len(rounds):
        return yes_or_no(True)
    return None


def moves(rounds: Sequence[tuple[int, int]], times: int, least: int = 3) -> ProbeFinding | None:
    """Return whether an action of the probe moves the cluster's point; None if more rounds are needed.

    Each round contains two distances between commits: with `times` status queries between them, and with `times`
    actions. Actions that move the point add at least `times` points, so one round with fewer points is proof. Other
    writers can add points as well, so the other answer requires few points between the commits with status queries.

    >>> moves([(1, 1)], 8).answer, moves([(1, 9)] * 3, 8).answer, moves([(9, 12)] * 3, 8)
    ('no', 'yes', None)
    """
    if any(with_acts <= times for _, with_acts in rounds):
        return yes_or_no(False)
    if len(rounds) >= least and all(2 * with_statuses <= times for with_statuses, _ in rounds):
        return yes_or_no(True)
    return None


def no_finding() -> ProbeFinding:
    """Return the finding for the case that other writers kept changing the observed number."""
    return ProbeFinding(None, because=_BUSY)


def refreshes(before: object, same: object, other: object) -> ProbeFinding:
    """Decide from a slot's registration times: before, after registering the same point again, and after another point.

    >>> refreshes(1, 2, 3).answer, refreshes(1, 1, 2).answer, refreshes(1, 1, 1).answer
    ('yes', 'no', None)
    """
    if None in (before, same, other):
        return ProbeFinding(None, because="this kernel does not report when a slot was registered")
    if same != before:
        return yes_or_no(True)
    return yes_or_no(
        False if other != before else None, "another registration does not change the reported time either"
    )


def xmin_kept(kept: int, seen: Sequence[int], released: Sequence[int], again: Sequence[int]) -> ProbeFinding:
    """Decide from the xmins seen while all slots hold `kept`, while they hold a newer xmin, and with `kept` again.

    An xmin that goes back depends on the slots; an xmin held back by other transactions does not go back.

    >>> xmin_kept(5, [5, 7], [], []).answer, xmin_kept(5, [5], [9], [5]).answer, xmin_kept(5, [5], [9], [9]).answer
    ('no', 'yes', 'no')
    >>> xmin_kept(5, [5], [5], []).answer
    """
    if max(seen) > kept:
        return yes_or_no(False)
    if max(released, default=kept) <= kept:
        return ProbeFinding(None, because="an open transaction holds back the xmin")
    return yes_or_no(min(again) <= kept)


def backward(error: str, before: int | None, asked: int, after: int | None) -> ProbeFinding:
    """Decide from a registration below the registered point: its SQLSTATE, and the points before and after.

    >>> backward("", 9, 8, 8).answer, backward("22023", 9, 8, 9).answer, backward("", 9, 8, 9).because
    ('yes', 'no', 'accepted without an error, but the point did not change')
    """
    if not error and after == asked:
        return yes_or_no(True)
    if after == before:
        return ProbeFinding("no", because="" if error else "accepted without an error, but the point did not change")
    return ProbeFinding(None, because=f"the point changed to {after}")


def old_images(events: Sequence[Event]) -> ProbeFinding:
    """Return whether B and d contain columns other than the key (which have a value in every row of the probe)."""
    full = {one.value is not None for one in events if one.kind in ("B", "d")}
    if len(full) != 1:
        return ProbeFinding("some" if full else None, because="" if full else "no old image was recorded")
    return yes_or_no(full.pop())


def codes(events: Sequence[Event]) -> ProbeFinding:
    """Return the event codes found, in the documented order; the reader accepts no other codes."""
    found = {one.kind for one in events}
    unknown = sorted(found - set(CODES))
    said = " ".join([code for code in CODES if code in found] + unknown)
    return ProbeFinding(
        said or None, not unknown, f"{', '.join(unknown)} is not supported by the reader" if unknown else ""
    )


def pairs(events: Sequence[Event]) -> ProbeFinding:
    """Return whether every B is directly followed by its U."""
    ordered = sorted(events, key=lambda one: (one.point, one.sequence))
    befores = [i for i, one in enumerate(ordered) if one.kind == "B"]
    if not befores:
        return ProbeFinding(None, because="no update was recorded")
    behind = {i: ordered[i + 1] if i + 1 < len(ordered) else None for i in befores}
    fine = all(
        u is not None and (u.kind, u.point, u.sequence) == ("U", ordered[i].point, ordered[i].sequence + 1)
        for i, u in behind.items()
    )
    return needs(fine, True, "a B without its U would delete the row")


def old_keys(events: Sequence[Event], written: Sequence[Written]) -> ProbeFinding:
    wanted = sorted(key for each in written for kind, key, _ in each.events if kind in ("B", "d"))
    found = [one.key for one in events if one.kind in ("B", "d")]
    return needs(sorted(map(str, found)) == sorted(map(str, wanted)), True, "the job deletes rows by that key")


def one_point(events: Sequence[Event], written: Sequence[Written]) -> ProbeFinding:
    """Return whether each point contains exactly one of the probe's transactions, in the same order."""
    found = [sorted(str((one.kind, one.key)) for one in each) for each in by_point(events).values()]
    wanted = [sorted(str((kind, key)) for kind, key, _ in each.events) for each in written]
    return needs(found == wanted, True, "a step would apply part of a transaction, or apply in the wrong order")


def partition(refused: str, missing: Sequence[bool], deletes: int) -> ProbeFinding:
    """Return the effect of removing a partition: delete events for its rows, no point on any DN, or neither."""
    if refused:
        return ProbeFinding("refused")
    if missing and all(missing):
        return ProbeFinding("clears")
    if any(missing):
        return ProbeFinding("clears some", because="the job reports SLOT LOST")
    if deletes:
        return ProbeFinding("events")
    return ProbeFinding("neither", because="the target retains the rows: DELETE them first, or take a new snapshot")


def ordered(answers: Sequence[Sequence[Event]]) -> bool:
    return all((a.point, a.sequence) < (b.point, b.sequence) for rows in answers for a, b in pairwise(rows))


def reached(after: DwsPosition, end: int, events: Sequence[Event]) -> DwsPosition:
    """Return a reader's position after it has read `events` in a range up to `end` (design: position after a step)."""
    top = max((one.sequence for one in events if one.point == end), default=None)
    kept = after.sequence if end == after.point else NOTHING
    return DwsPosition(end, kept if top is None else top)


def exact(wanted: Sequence[Event], got: Sequence[Sequence[tuple[int, int, str]]]) -> ProbeFinding:
    """Return whether each series of ranges returned every change exactly once; `got` has the changes by series."""
    there = sorted((one.point, one.sequence, one.kind) for one in wanted)
    fine = all(sorted(each) == there for each in got)
    return needs(fine, True, "changes would be lost or applied twice: do not run a job here, and report this")


def purged(
    points: Sequence[int], registered: int, left: Sequence[int], latest_inclusive: str | None
) -> tuple[ProbeFinding, ProbeFinding]:
    """Return (purged at once, registered point retained), from the earlier, registered and remaining points.

    >>> [told.answer for told in purged([1, 2, 3], 2, [2, 3], "no")], purged([1, 2, 3], 2, [3], "no")[1].reader.value
    (['yes', 'yes'], 'WRONG')
    """
    gone = set(points) - set(left)
    if not gone:
        return yes_or_no(False), ProbeFinding(None, because="DWS purged nothing while the probe ran")
    unread = any(point > registered for point in gone)
    at_once = ProbeFinding("yes", not unread, "DWS removed records beyond the registered point" if unread else "")
    if registered in left:
        return at_once, yes_or_no(True)
    safe = latest_inclusive == "yes"
    because = "the job would lose a change that commits late at that point: do not run a job here"
    return at_once, ProbeFinding("no", safe, "" if safe else because)
