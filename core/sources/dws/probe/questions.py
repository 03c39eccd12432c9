"""What `doctor --probe` asks a DWS: each question, what it means for our reader, what is documented.

Questions that the stand-in has a switch for bear the switch's name and are answered yes or no.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from slotkeeper.core.domain.inspection import Answer, ProbeFinding, Question


def yes_or_no(value: bool | None, because: str = "") -> ProbeFinding:
    """A plain answer; `because` says why there is none.

    >>> yes_or_no(True).answer, yes_or_no(None, "no such function").answer
    ('yes', None)
    """
    return ProbeFinding(None, because=because) if value is None else ProbeFinding("yes" if value else "no")


def needs(value: bool | None, wanted: bool, because: str) -> ProbeFinding:
    """A plain answer that the reader needs to be `wanted`; `because` says what else goes wrong, or why none is told.

    >>> needs(False, True, "rows would be lost").reader.value
    'WRONG'
    """
    if value is None or value == wanted:
        return yes_or_no(value, because if value is None else "")
    return ProbeFinding("yes" if value else "no", False, because)


def switches(answers: Iterable[Answer]) -> dict[str, bool | None]:
    """The yes and no of every question that the stand-in has a switch for; None where it is not told."""
    said: Mapping[str | None, bool] = {"yes": True, "no": False}
    return {one.question.name: said.get(one.finding.answer) for one in answers if one.question.name in SWITCHED}


def _parsed(text: str) -> Iterator[Question]:
    """Questions from `[topic]`, `name = documented: what is asked` and an indented rule; one place for all words."""
    topic = head = ""
    for line in text.strip().splitlines():
        if line.startswith("["):
            topic = line.strip("[]")
        elif not line.startswith(" "):
            head = line
        else:
            name, _, asks = head.partition(": ")
            own, _, documented = name.partition(" = ")
            yield Question(own, topic, asks, line.strip(), documented)


_TEXT = """
[slots]
auto_create: asking for the points of an unknown slot creates it
    only `jobs start` and `slots create` ask for a slot that may not be there; all that looks only reads
fresh_point = 0: the point that a slot answers before it is registered
    0 and no row both mean: not ours
recorded_before_slot = no: changes are recorded before a table has a slot
    a copy begins after the first registration and waits until older transactions have ended
full_sync = yes: pgxc_register_full_sync_point sets both points on every DN
    start = "latest" needs it
two_points = yes: the points with checkpoint false and true move apart
    both are registered and both are checked
register_counts = yes: a registration returns the number of DNs
    any other count is a partial registration
register_moves_point: a registration moves the cluster's newest point
    "empty" means no row was read, never that latest stood still
refresh_same_point: registering the same point again restarts the TTL
    an idle job's TTL ends only where this is no and the cluster's point stands still; `slots show` counts it down
backward_allowed: a registration below the registered point is accepted
    the reader never registers backward; a reset asks and reports
consumed_at_point: a slot at the newest record's own point counts as having read it
    a job registers the newest point, which lies at or beyond it
xmin_includes_slots: the reported xmin is held back by the slots' own
    the wait before a copy goes by transactions; where it must go by xmin, a still one is reported as not known
cluster_wide_snapshot: a transaction open at another coordinator holds back the snapshot of ours
    the wait before a copy goes by the list of sessions as well, and where that is not whole by every DN's xmin
old_snapshot_recorded: what is written under a snapshot older than the table's first slot is recorded
    the wait before a copy goes by the list of sessions; where it is not whole, no means: `doctor` says what to grant
clear_clears = yes: pgxc_binlog_clear_target_slot leaves no point of the slot
    `slots drop` looks afterwards
[points]
latest_inclusive: the newest point is the last safe one (else the first unsafe one)
    the boundary point is read again each time
latest_same = yes: all DNs tell the same newest point
    each lane goes by its own DN's
dn_order_fixed = no: the rows of DNs come in one order
    DNs are known by id, never by place
negative_node_ids = yes: DNs have negative ids
    ids are signed numbers
[reading]
new_system_names: the system columns are called gs_binlog_...
    a job says by new_system_value which names are meant
event_codes = I d B U: the codes of insert, delete, before-image and after-image
    these four, and nothing else, are applied
pairs = yes: an update is B, then U, at one point with consecutive sequences
    a B whose U has the same key is dropped
one_point = yes: a transaction has one point, and each its own, in the order of commits
    positions are points; `gtm_option` GTM-Free is refused
full_old_images: B and d carry all columns (else the key only)
    of an old image only the key is used
old_keys = yes: B and d carry the whole key
    rows are deleted by it
time_of_plain = no: a table without enable_binlog_timestamp carries times
    times are used for such tables only
start_inclusive: a range returns rows at its start
    one point more is asked for on each side than is wanted, and a filter decides
end_inclusive: a range returns rows at its end
    one point more is asked for on each side than is wanted, and a filter decides
rows_ordered: rows of one DN come in order of point and sequence
    the sink sorts what is staged
copy_allowed: COPY reads from pgxc_get_binlog_changes
    a cursor is used where COPY is refused
cursor_allowed: a cursor reads from pgxc_get_binlog_changes
    used where COPY is refused
reader_exact = yes: our reader, range by range, gets every change once
    this is what all the rules are for
[cursors]
cursor_syncpoint_inclusive = yes: ..._cursor_by_syncpoint finds a record at the very point
    an xmin is taken only from the very point
cursor_timestamp_inclusive = yes: ..._cursor_by_timestamp finds a record of the very time
    a start at a time begins before the smallest point found
[purging]
purge_at_once: records below the smallest registered point are gone after the registration
    nothing before the registered point is read again
registered_point_kept: the registered point's own records are kept
    needed where the newest point is the first unsafe one
[table]
timestamp_table = yes: a table with enable_binlog_timestamp can be made
    a start at a time needs one
xc_node_id = yes: t.xc_node_id can be queried and names the row's DN
    the copy goes by keys, never by DN
distribution_key_fixed = yes: an UPDATE of a distribution column is refused
    one key stays on one DN
empty_is_null: an empty string is kept as NULL
    what the source has is mirrored; `doctor` names the mode
[ddl]
generate_binlog_off = yes: enable_generate_binlog = off writes without recording
    such rows reach the target by a snapshot only
vacuum_full_keeps: VACUUM FULL of a table that is read leaves the points
    every step looks before and after its read: a wipe in between is seen as a missing point
add_column_clears = yes: ADD COLUMN clears records and points
    every step looks before and after its read: a wipe in between is seen as a missing point
truncate_clears = yes: TRUNCATE clears records and points
    every step looks before and after its read: a wipe in between is seen as a missing point
partition_truncate: TRUNCATE PARTITION writes delete events, clears the points, or neither
    a partitioned table is named by `doctor` until this is known; neither leaves its rows in the target
partition_drop: DROP PARTITION writes delete events, clears the points, or neither
    a partitioned table is named by `doctor` until this is known; neither leaves its rows in the target
[errors]
missing_table_code: the SQLSTATE for a table that is gone
    42P01 is SCHEMA CHANGED; any other is tried ten times, then FAILED
[not asked]
cursor_timestamp_order: whether the first record after a time is the first by point or by time
    a start at a time searches below the answer itself, up to the newest safe point of its looks
dn_down: what calls answer while a DN is down
    the lanes of other DNs go on
partial_registration: what a registration returns that some DN did not take
    any count but the expected one is partial
ttl_end: how a slot shows whose TTL has ended
    no row and 0 are both SLOT LOST
purge_delay: how late records are purged
    nothing before the registered point is read again
redistribution: what calls answer while a cluster redistributes
    another set of DNs is adopted or TOPOLOGY CHANGED
"""

QUESTIONS: Mapping[str, Question] = {one.name: one for one in _parsed(_TEXT)}
"""Every question by its name, in the order of the report."""

NEVER_ASKED: Mapping[str, str] = {
    "cursor_timestamp_order": "it would take a second session that commits while the first one is open",
    "dn_down": "it would take a DN that is down",
    "partial_registration": "it would take a DN that fails while it registers",
    "ttl_end": "it would take longer than binlog_ttl",
    "purge_delay": "it would take as long as the server's own cleaning",
    "redistribution": "it would take scaling the cluster",
}
"""Questions that a scratch table cannot answer, and why."""

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
"""What the vendor does not document and the stand-in has a switch for."""
