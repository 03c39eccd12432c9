"""Questions about tables, DDL, cursors and errors, and the whole battery in the order in which it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from slotkeeper.core.domain.inspection import Answer, ProbeFinding
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.sources.dws.probe import findings as decide
from slotkeeper.core.sources.dws.probe import reading, sessions, slots
from slotkeeper.core.sources.dws.probe.questions import needs, yes_or_no
from slotkeeper.core.sources.dws.probe.scratch import Scratch, probe_statement
from slotkeeper.core.sources.dws.probe.session import HOME, Found, Group, ProbeContext, run, short
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sqltext import dotted

_COLUMN = ("42703", "42883", "0A000")
"""Codes that say that there is no such column."""


def columns(ctx: ProbeContext) -> Iterator[Found]:
    """What a table of this server has and keeps beside what was declared."""
    names = {one.node_id: one.name for one in ctx.shards()}
    try:
        statement = pg.sql.SQL(probe_statement("node_of").replace("{table}", dotted(ctx.table)))
        rows = ctx.session.composed_rows(statement, None)
        found = {int(node) for _, node in rows}
        home = {int(node) for place, node in rows if int(place) == HOME}
        finding = ProbeFinding("yes" if found <= set(names) and home == {ctx.home.node_id} else "another DN")
        yield "xc_node_id", finding, f"{len(rows)} rows on {len(found)} DNs; ids of place {HOME}: {sorted(home)}"
    except SlotkeeperError as error:
        if error.code not in _COLUMN:
            raise
        yield "xc_node_id", yes_or_no(False), error.code
    code = ctx.refusal(f"UPDATE {{t}} SET place = place + 100 WHERE place = {HOME}")
    if not code:
        ctx.act(f"UPDATE {{t}} SET place = place - 100 WHERE place = {HOME + 100}")
    finding = needs(bool(code), True, "a key can change its DN, and nothing orders its changes")
    yield "distribution_key_fixed", finding, code or "the UPDATE was taken"
    ctx.act(f"UPDATE {{t}} SET v = '' WHERE place = {HOME} AND id = 9")
    text = "SELECT v IS NULL FROM {t} WHERE place = %(place)s AND id = 9".replace("{t}", dotted(ctx.table))
    null = ctx.session.composed_rows(pg.sql.SQL(text), {"place": HOME})[0][0]
    yield "empty_is_null", yes_or_no(bool(null)), f"'' written, v IS NULL: {null}"


def by_syncpoint(ctx: ProbeContext) -> Iterator[Found]:
    """The cursor function at the very point of a record."""
    own = ctx.own(ctx.raw(ctx.home.node_id)[1])
    rows = ctx.asked("by_syncpoint", {"point": own[0], "node": ctx.home.node_id})
    seen = ", ".join(f"{point} with xmin {xmin}" for point, xmin in rows)
    finding = yes_or_no([row[0] for row in rows] == [own[0]])
    yield "cursor_syncpoint_inclusive", finding, f"asked at {own[0]}, found {seen or 'nothing'}"


def timed(ctx: ProbeContext) -> Iterator[Found]:
    """A second table, with enable_binlog_timestamp, and the cursor function at the very time of a record."""
    scratch = ctx.scratch
    try:
        scratch.make(ctx.session, scratch.timed, timed=True)
    except SlotkeeperError as error:
        yield "timestamp_table", yes_or_no(False), error.code or error.message
        yield "cursor_timestamp_inclusive", ProbeFinding(None, because="no such table could be made"), ""
        return
    yield "timestamp_table", yes_or_no(True), scratch.timed
    other = ProbeContext(ctx.session, scratch, scratch.timed)
    other.begin()
    for key in (1, 2):
        other.act(f"INSERT INTO {{t}} VALUES ({HOME}, {key}, 't')")
    other.home = ctx.home
    events = other.raw(other.home.node_id)[1]
    if not events or events[0].time_us is None:
        yield (
            "cursor_timestamp_inclusive",
            ProbeFinding(None, because="its records carry no time"),
            f"{len(events)} records",
        )
        return
    rows = other.asked("by_timestamp", {"us": events[0].time_us, "node": other.home.node_id})
    seen = f"asked at {events[0].time_us}, found {[row[1] for row in rows]}"
    yield "cursor_timestamp_inclusive", yes_or_no([row[1] for row in rows] == [events[0].time_us]), seen


def without_binlog(ctx: ProbeContext) -> Iterator[Found]:
    """A session's own setting that keeps its changes out of the binlog."""
    before = len(ctx.raw()[1])
    try:
        code = ctx.refusal("SET enable_generate_binlog = off")
        if code:
            yield "generate_binlog_off", yes_or_no(None, "the server has no such setting"), code
            return
        ctx.act(f"UPDATE {{t}} SET v = 'd' WHERE place = {HOME} AND id = 9")
        after = len(ctx.raw()[1])
        yield "generate_binlog_off", yes_or_no(after <= before), f"{before} records before, {after} after an UPDATE"
    finally:
        ctx.session.close()  # the setting goes with its session


def ddl(ctx: ProbeContext) -> Iterator[Found]:
    """What DDL leaves of points and records."""
    oid = ctx.identify().oid
    ctx.register_all(ctx.here().latest)
    if ctx.asked("consumed_records", {})[0][0]:
        ctx.act("VACUUM FULL {t}")
        kept = not ctx.here().points.missing
        same = ctx.identify().oid == oid
        finding = ProbeFinding(
            "yes" if kept else "no", because="" if same else "it is another table afterwards: SCHEMA CHANGED"
        )
        points = ctx.here().points.both
        yield "vacuum_full_keeps", finding, f"points {points} afterwards, oid {'same' if same else 'other'}"
    else:
        yield "vacuum_full_keeps", ProbeFinding(None, because="it would wait: the server counts unread records"), ""
    cleared, seen = _wiped(ctx, "ALTER TABLE {t} ADD COLUMN extra int", 77)
    yield "add_column_clears", yes_or_no(cleared), seen
    cleared, seen = _wiped(ctx, "TRUNCATE {t}", 78)
    yield "truncate_clears", needs(cleared, True, "a TRUNCATE would go unnoticed, and its rows stay in targets"), seen


PARTITIONS = (("partition_truncate", "TRUNCATE PARTITION low", 1), ("partition_drop", "DROP PARTITION mid", 101))
"""Question, what is done to a partition, and the key of a row in it."""


def partitions(ctx: ProbeContext) -> Iterator[Found]:
    """A third table, in partitions, and what one that goes leaves in its binlog."""
    scratch = ctx.scratch
    try:
        scratch.make(ctx.session, scratch.parts)
    except SlotkeeperError as error:
        for name, _, _ in PARTITIONS:
            yield name, ProbeFinding(None, because="no such table could be made"), error.code or error.message
        return
    other = ProbeContext(ctx.session, scratch, scratch.parts)
    for name, verb, key in PARTITIONS:
        other.begin()
        other.act(f"INSERT INTO {{t}} VALUES ({HOME}, {key}, 'p')")
        code = other.refusal(f"ALTER TABLE {{t}} {verb}")
        missing = _points(other)
        deletes = 0 if code or any(missing) else sum(one.kind == "d" for one in other.raw()[1])
        yield name, decide.partition(code, missing, deletes), f"{code or 'taken'}; {deletes} d, points gone {missing}"


def _wiped(ctx: ProbeContext, statement: str, key: int) -> tuple[bool, str]:
    """Whether a statement leaves neither a registered point nor a record; and what it left."""
    ctx.begin()
    ctx.act(f"INSERT INTO {{t}} (place, id, v) VALUES ({HOME}, {key}, 'e')")
    far = ctx.here().latest + 1_000_000
    ctx.act(statement)
    missing, left = _points(ctx), len(ctx.raw_rows(end=far)[1])
    return all(missing) and not left, f"point gone on {sum(missing)} of {len(missing)} DNs, {left} records left"


def _points(ctx: ProbeContext) -> list[bool]:
    """Per DN, whether the slot has no registered point there."""
    return [not row[2] for row in ctx.ask_slot()] or [True]


def errors(ctx: ProbeContext) -> Iterator[Found]:
    """What a table that is gone answers; asked last, because each error ends the session."""
    try:
        ctx.asked("consumed_records", {"table": f"{ctx.table}_gone"})
    except SlotkeeperError as error:
        finding = ProbeFinding(
            error.code or "none", error.code == "42P01", "" if error.code == "42P01" else "not seen as gone"
        )
        yield "missing_table_code", finding, short(error)


GROUPS: tuple[tuple[str, tuple[str, ...], Group], ...] = (
    ("slots", reading.HISTORY[0], reading.unknown_slot),
    ("reading", reading.HISTORY[1], reading.history),
    ("ranges", reading.HISTORY[2], reading.ranges),
    ("table", ("xc_node_id", "distribution_key_fixed", "empty_is_null"), columns),
    ("cursors", ("cursor_syncpoint_inclusive",), by_syncpoint),
    ("newest point", ("latest_inclusive", "latest_same", "dn_order_fixed", "negative_node_ids"), slots.newest),
    (
        "registering",
        ("two_points", "register_counts", "register_moves_point", "refresh_same_point"),
        slots.registering,
    ),
    ("xmin", ("xmin_includes_slots",), slots.retaining),
    ("coordinators", ("cluster_wide_snapshot",), sessions.elsewhere),
    ("consuming", ("consumed_at_point",), slots.consuming),
    ("purging", ("purge_at_once", "registered_point_kept"), slots.purging),
    ("backward", ("backward_allowed",), slots.backwards),
    ("timestamps", ("timestamp_table", "cursor_timestamp_inclusive"), timed),
    ("recording", ("generate_binlog_off",), without_binlog),
    ("ddl", ("vacuum_full_keeps", "add_column_clears", "truncate_clears"), ddl),
    ("partitions", tuple(name for name, _, _ in PARTITIONS), partitions),
    ("clearing", ("clear_clears",), slots.clearing),
    ("old snapshots", ("old_snapshot_recorded",), sessions.old_snapshot),
    ("errors", ("missing_table_code",), errors),
)
"""Topic, its questions, and what asks them, in an order in which each leaves what the next one needs."""


def ask_all(session: DwsSession, scratch: Scratch, progress: Callable[[str], None]) -> list[Answer]:
    """Make the scratch table and ask everything; whoever calls drops what `scratch` has made, whatever happens here."""
    scratch.make(session, scratch.plain)
    return run(ProbeContext(session, scratch, scratch.plain), GROUPS, progress)
