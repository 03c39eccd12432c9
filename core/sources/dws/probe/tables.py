"""Probe questions about tables: records, complete reading, cursors, and the effects of DDL and errors."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from slotkeeper.core.domain.probing import Found, ProbeFinding, needs, short, yes_or_no
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.sources.dws.eligibility import NEW_NAMES
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.dws.probe import questions as decide
from slotkeeper.core.sources.dws.probe.scratch import HOME, ProbeContext, probe_statement
from slotkeeper.core.sources.dws.source import NO_COPY
from slotkeeper.core.sqltext import dotted

UNSEEN = (HOME, 1)
"""The key of a row that is written before the table has a slot."""
PLACES = 8
WALK = 64
"""Maximum number of ranges for the reader's narrowest width: on a busy cluster each range spans several points."""

HISTORY = (
    ("auto_create", "fresh_point", "full_sync"),
    (
        "new_system_names",
        "recorded_before_slot",
        "event_codes",
        "pairs",
        "one_point",
        "full_old_images",
        "old_keys",
        "time_of_plain",
    ),
    ("start_inclusive", "end_inclusive", "rows_ordered", "copy_allowed", "cursor_allowed", "reader_exact"),
)
"""The questions of the three groups below."""


def unknown_slot(ctx: ProbeContext) -> Iterator[Found]:
    """Query a slot that does not exist, then start recording."""
    ctx.act(f"INSERT INTO {{t}} VALUES ({UNSEEN[0]}, {UNSEEN[1]}, 'unseen')")
    rows = ctx.ask_slot()
    listed = ctx.listed()
    made = bool(rows) if listed is None else bool(listed)
    seen = "" if listed is None else f", {len(listed)} points listed afterwards"
    yield "auto_create", yes_or_no(made), f"sync_point(unknown slot): {len(rows)} rows{seen}"
    points = sorted({str(row[2]) for row in rows})
    zero = not rows or points == ["0"]
    because = "" if zero else "an unregistered slot would look like a slot of another owner"
    fresh = ProbeFinding(" ".join(points) if points else "no row", zero, because)
    yield "fresh_point", fresh, f"last_sync_point of {len(rows)} rows: {' '.join(points) or 'none'}"
    said = ctx.begin()
    statuses = ctx.statuses(None)
    whole = bool(statuses) and all(not one.points.missing for one in statuses)
    if not whole:
        raise Refused("could not start recording: not every DN has both points", where="source")
    shown = ", ".join(f"{one.shard.name} {one.points.live}/{one.points.durable}" for one in statuses)
    finding = needs(whole, True, "") if said else yes_or_no(None, "this kernel has no pgxc_register_full_sync_point")
    yield "full_sync", finding, f"answered {said or 'nothing'}; points {shown}"


def history(ctx: ProbeContext) -> Iterator[Found]:
    """Write a history of changes, and read its records directly."""
    _write(ctx)
    first = ctx.ask_slot()
    names, events = ctx.raw()
    new = names[:3] == list(NEW_NAMES)
    ctx.named_anew(new)
    yield "new_system_names", yes_or_no(new), f"columns {', '.join(names)}"
    before = [one for one in events if one.key == UNSEEN]
    unseen = f"{len(before)} records of a row that was written before the first slot"
    yield "recorded_before_slot", yes_or_no(bool(before)), unseen
    ctx.events = [one for one in events if one.key != UNSEEN]
    shown = " ".join(f"{one.point}/{one.sequence}{one.kind}" for one in ctx.events[:12])
    yield "event_codes", decide.codes(ctx.events), shown
    yield "pairs", decide.pairs(ctx.events), shown
    points = ", ".join(f"{point}: {len(found)}" for point, found in decide.by_point(ctx.events).items())
    yield "one_point", decide.one_point(ctx.events, ctx.written), f"events by point {points}"
    old = [one for one in ctx.events if one.kind in ("B", "d")]
    images = ", ".join(f"{one.kind}{one.key} v={one.value!r}" for one in old)
    yield "full_old_images", decide.old_images(ctx.events), images
    yield "old_keys", decide.old_keys(ctx.events, ctx.written), images
    timed = sum(one.time_us is not None for one in ctx.events)
    yield "time_of_plain", yes_or_no(bool(timed)), f"{timed} of {len(ctx.events)} rows have a time"
    ctx.home = _home(ctx, [Shard(str(row[0]), int(row[1])) for row in first])


def ranges(ctx: ProbeContext) -> Iterator[Found]:
    """Read ranges of the home DN, with plain statements and with the reader."""
    _, all_here = ctx.raw(ctx.home.node_id)
    mine = [one for one in all_here if one.key != UNSEEN]
    own = ctx.own(mine)
    asked = (own[0], own[-1])
    _, found = ctx.raw(ctx.home.node_id, *asked)
    start, end = decide.bounds(asked, own, ctx.own(found))
    seen = f"records at {_few(own)}; requested [{asked[0]}, {asked[1]}], found {_few(ctx.own(found))}"
    yield "start_inclusive", yes_or_no(start, "the range returned unexpected points"), seen
    yield "end_inclusive", yes_or_no(end, "the range returned unexpected points"), seen
    answers = [ctx.raw(ctx.home.node_id)[1] for _ in range(3)]
    yield "rows_ordered", yes_or_no(decide.ordered(answers)), f"{len(answers)} answers of {len(all_here)} rows"
    after, last = DwsPosition(own[0] - 1), ctx.here().latest
    read_paths = {}
    for name, copied in (("copy_allowed", True), ("cursor_allowed", False)):
        try:
            got = ctx.read(after, last, copied)
            refused = "" if ctx.copy_allowed is copied else "rejected, read by cursor"
        except SlotkeeperError as error:
            if error.code not in NO_COPY:
                raise
            got, refused = [], error.code
        read_paths[name] = not refused
        yield name, yes_or_no(not refused), refused or f"{len(got)} rows"
    if not any(read_paths.values()):
        raise Refused("neither COPY nor a cursor can read from pgxc_get_binlog_changes", where="source")
    step = max(1, (last - own[0]) // WALK)
    widths = (step, 2 * step, last - own[0] + 1)
    walks = [_walk(ctx, after, last, width, read_paths["copy_allowed"]) for width in widths]
    counts = ", ".join(f"{len(walk)} in ranges of {width}" for walk, width in zip(walks, widths, strict=True))
    yield "reader_exact", decide.exact(mine, walks), f"{len(mine)} records on {ctx.home.name}; {counts}"


def _walk(ctx: ProbeContext, after: DwsPosition, last: int, width: int, copied: bool) -> list[tuple[int, int, str]]:
    """Read all changes of the home DN range by range, each range as a step, and the last range twice, as a job does."""
    got: list[tuple[int, int, str]] = []
    done = False
    while not done:
        done = after.point == last
        end = min(last, after.point + width)
        rows = ctx.read(after, end, copied)
        got += rows
        after = decide.reached(after, end, [decide.Event(p, s, k, None, (None, None), None) for p, s, k in rows])
    return got


def _write(ctx: ProbeContext) -> None:
    ctx.write(f"INSERT INTO {{t}} VALUES ({HOME}, 2, 'a')", ("I", (HOME, 2), "a"))
    ctx.write(f"UPDATE {{t}} SET v = 'b' WHERE place = {HOME} AND id = 2", ("B", (HOME, 2), "a"), ("U", (HOME, 2), "b"))
    ctx.write(f"UPDATE {{t}} SET id = 3 WHERE place = {HOME} AND id = 2", ("B", (HOME, 2), "b"), ("U", (HOME, 3), "b"))
    many = [(place, 9) for place in range(1, PLACES + 1)]
    values = ", ".join(f"({place}, {key}, 'm')" for place, key in many)
    ctx.write(f"INSERT INTO {{t}} VALUES {values}", *(("I", key, "m") for key in many))
    ctx.write(f"DELETE FROM {{t}} WHERE place = {HOME} AND id = 3", ("d", (HOME, 3), "b"))


def _home(ctx: ProbeContext, shards: list[Shard]) -> Shard:
    for shard in shards:
        if any(one.key[0] == HOME for one in ctx.raw(shard.node_id)[1]):
            return shard
    raise Refused(f"no DN has the records of distribution value {HOME}", where="source")


def _few(points: list[int]) -> str:
    shown = [str(point) for point in points]
    parts = shown if len(shown) <= 8 else [*shown[:4], "...", *shown[-3:]]
    return " ".join(part for part, _ in groupby(parts))


_COLUMN = ("42703", "42883", "0A000")
"""SQLSTATEs for an unknown column."""


def columns(ctx: ProbeContext) -> Iterator[Found]:
    """Check undocumented table behavior: a DN column, a fixed distribution key, NULL for empty strings."""
    names = {one.node_id: one.name for one in ctx.shards()}
    try:
        statement = pg.sql.SQL(probe_statement("node_of").replace("{table}", dotted(ctx.table)))
        rows = ctx.session.composed_rows(statement, None)
        found = {int(node) for _, node in rows}
        home = {int(node) for place, node in rows if int(place) == HOME}
        finding = ProbeFinding("yes" if found <= set(names) and home == {ctx.home.node_id} else "another DN")
        yield (
            "xc_node_id",
            finding,
            f"{len(rows)} rows on {len(found)} DNs; ids of distribution value {HOME}: {sorted(home)}",
        )
    except SlotkeeperError as error:
        if error.code not in _COLUMN:
            raise
        yield "xc_node_id", yes_or_no(False), error.code
    code = ctx.refusal(f"UPDATE {{t}} SET place = place + 100 WHERE place = {HOME}")
    if not code:
        ctx.act(f"UPDATE {{t}} SET place = place - 100 WHERE place = {HOME + 100}")
    finding = needs(bool(code), True, "a key could move to another DN, and its changes would have no order")
    yield "distribution_key_fixed", finding, code or "the server accepted the UPDATE"
    ctx.act(f"UPDATE {{t}} SET v = '' WHERE place = {HOME} AND id = 9")
    text = "SELECT v IS NULL FROM {t} WHERE place = %(place)s AND id = 9".replace("{t}", dotted(ctx.table))
    null = ctx.session.composed_rows(pg.sql.SQL(text), {"place": HOME})[0][0]
    yield "empty_is_null", yes_or_no(bool(null)), f"'' written, v IS NULL: {null}"


def by_syncpoint(ctx: ProbeContext) -> Iterator[Found]:
    """Call the cursor function with the exact point of a record."""
    own = ctx.own(ctx.raw(ctx.home.node_id)[1])
    rows = ctx.asked("by_syncpoint", {"point": own[0], "node": ctx.home.node_id})
    seen = ", ".join(f"{point} with xmin {xmin}" for point, xmin in rows)
    finding = yes_or_no([row[0] for row in rows] == [own[0]])
    yield "cursor_syncpoint_inclusive", finding, f"queried {own[0]}, found {seen or 'nothing'}"


def timed(ctx: ProbeContext) -> Iterator[Found]:
    """Create a second table, with enable_binlog_timestamp, and call the cursor function with a record's exact time."""
    scratch = ctx.scratch
    try:
        scratch.create(ctx.session, scratch.timed, timed=True)
    except SlotkeeperError as error:
        yield "timestamp_table", yes_or_no(False), error.code or error.message
        yield "cursor_timestamp_inclusive", ProbeFinding(None, because="could not create the table"), ""
        return
    yield "timestamp_table", yes_or_no(True), scratch.timed
    other = ProbeContext(ctx.session, scratch, scratch.timed)
    other.begin()
    for key in (1, 2):
        other.act(f"INSERT INTO {{t}} VALUES ({HOME}, {key}, 't')")
    other.home = ctx.home
    events = other.raw(other.home.node_id)[1]
    if not events or events[0].time_us is None:
        untold = ProbeFinding(None, because="its records have no time")
        yield "cursor_timestamp_inclusive", untold, f"{len(events)} records"
        return
    rows = other.asked("by_timestamp", {"us": events[0].time_us, "node": other.home.node_id})
    seen = f"queried {events[0].time_us}, found {[row[1] for row in rows]}"
    yield "cursor_timestamp_inclusive", yes_or_no([row[1] for row in rows] == [events[0].time_us]), seen


def without_binlog(ctx: ProbeContext) -> Iterator[Found]:
    """Check a session setting that excludes the session's changes from the binlog."""
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
        ctx.session.close()  # closing the session resets the setting


def ddl(ctx: ProbeContext) -> Iterator[Found]:
    """Check which points and records remain after DDL."""
    oid = ctx.identify().oid
    ctx.register_all(ctx.here().latest)
    if ctx.asked("consumed_records", {})[0][0]:
        ctx.act("VACUUM FULL {t}")
        kept = not ctx.here().points.missing
        same = ctx.identify().oid == oid
        finding = ProbeFinding(
            "yes" if kept else "no", because="" if same else "the table has another oid afterwards: SCHEMA CHANGED"
        )
        points = ctx.here().points.both
        yield "vacuum_full_keeps", finding, f"points {points} afterwards, oid {'same' if same else 'other'}"
    else:
        yield (
            "vacuum_full_keeps",
            ProbeFinding(None, because="VACUUM FULL would wait: the server reports unread records"),
            "",
        )
    cleared, seen = _wiped(ctx, "ALTER TABLE {t} ADD COLUMN extra int", 77)
    yield "add_column_clears", yes_or_no(cleared), seen
    cleared, seen = _wiped(ctx, "TRUNCATE {t}", 78)
    yield (
        "truncate_clears",
        needs(cleared, True, "the job would not detect a TRUNCATE, and the target would retain the rows"),
        seen,
    )


PARTITIONS = (("partition_truncate", "TRUNCATE PARTITION low", 1), ("partition_drop", "DROP PARTITION mid", 101))
"""The question, the DDL on a partition, and the key of a row in that partition."""


def partitions(ctx: ProbeContext) -> Iterator[Found]:
    """Create a third table, with partitions, and check how removing a partition affects the binlog."""
    scratch = ctx.scratch
    try:
        scratch.create(ctx.session, scratch.parts)
    except SlotkeeperError as error:
        for name, _, _ in PARTITIONS:
            yield name, ProbeFinding(None, because="could not create the table"), error.code or error.message
        return
    other = ProbeContext(ctx.session, scratch, scratch.parts)
    for name, verb, key in PARTITIONS:
        other.begin()
        other.act(f"INSERT INTO {{t}} VALUES ({HOME}, {key}, 'p')")
        code = other.refusal(f"ALTER TABLE {{t}} {verb}")
        missing = _points(other)
        deletes = 0 if code or any(missing) else sum(one.kind == "d" for one in other.raw()[1])
        yield (
            name,
            decide.partition(code, missing, deletes),
            f"{code or 'accepted'}; {deletes} d, points missing {missing}",
        )


def _wiped(ctx: ProbeContext, statement: str, key: int) -> tuple[bool, str]:
    """Return whether a statement removes all registered points and records, and a description of what remains."""
    ctx.begin()
    ctx.act(f"INSERT INTO {{t}} (place, id, v) VALUES ({HOME}, {key}, 'e')")
    far = ctx.here().latest + 1_000_000
    ctx.act(statement)
    missing, left = _points(ctx), len(ctx.raw_rows(end=far)[1])
    return all(missing) and not left, f"point missing on {sum(missing)} of {len(missing)} DNs, {left} records left"


def _points(ctx: ProbeContext) -> list[bool]:
    """Return per DN whether the slot has no registered point on that DN."""
    return [not row[2] for row in ctx.ask_slot()] or [True]


def errors(ctx: ProbeContext) -> Iterator[Found]:
    """Query a table that does not exist; this is the last question, because each error ends the session."""
    try:
        ctx.asked("consumed_records", {"table": f"{ctx.table}_gone"})
    except SlotkeeperError as error:
        finding = ProbeFinding(
            error.code or "none",
            error.code == "42P01",
            "" if error.code == "42P01" else "the job would not detect a dropped table",
        )
        yield "missing_table_code", finding, short(error)
