"""The probe of Hologres: how the binlog of scratch tables shows the probe's own changes, shard by shard.

The reader of jobs reads the changes by SQL, and by stream where the server offers it. The binlog of a table has only
the table's changes, so no answer depends on other writers.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from io import BytesIO

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.probing import (
    PREFIX,
    Answer,
    Found,
    Group,
    Left,
    ProbeFinding,
    ProbePlan,
    Questionnaire,
    ScratchTables,
    dropped,
    needs,
    questions_of,
    short,
    usable_schema,
    why_left,
    yes_or_no,
)
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.errors import ErrorKind, SlotkeeperError
from slotkeeper.core.ports.kinds import Probe, ProbeAsked
from slotkeeper.core.sources.hologres import catalog, changes, eligibility
from slotkeeper.core.sources.hologres.position import HoloPosition
from slotkeeper.core.sources.hologres.session import HoloSession
from slotkeeper.core.sources.hologres.source import HoloSource
from slotkeeper.core.sources.hologres.stream.records import IDLE_SECONDS, Streams
from slotkeeper.core.sqltext import dotted, literal, quoted

_TEXT = """
[table | Hologres, "Subscribe to Hologres binlogs"]
shards_known = yes: the catalogs show the number of a table's shards
    each shard is a lane
table_id_known = yes: hologres.hg_table_properties shows the table's table_id
    another id means that the table was rebuilt, renamed or truncated
ttl_reported = yes: hologres.hg_table_properties shows the binlog.ttl that was set
    `slots show` and SLOT LOST are computed from it
oldest_of_empty: the LSN that hg_get_binlog_cursor returns as OLDEST for a shard without records
    0 and no row both mean that the shard has no record
newest_of_empty: the same for LATEST
    0 and no row both mean that the shard has no record
[reading | Hologres, "Subscribe to Hologres binlogs"]
event_types = 2 3 5 7: the event types of insert, update and delete
    the reader applies these types and skips heartbeats (27); any other type ends the step
reader_exact = yes: Slotkeeper's reader, range by range, returns every change exactly once, in order per key
    all other rules serve this purpose
full_old_images = yes: the rows before an update or a delete have the values of all columns
    the job uses only the key of an old row
update_pairs = yes: an update by SQL is 3, then 7, with consecutive records of the same time
    a 3 without its 7 ends the step
lsn_grows = yes: the LSNs of a shard grow in the order of the writes
    a position is an LSN; a lower LSN that appears later would be skipped
record_at_once = yes: the record of a write can be read as soon as the write has returned
    a copy starts at the newest LSN, and waits for no transaction
    Hologres, "Technical Principle of Hologres Binlog"
key_on_one_shard = yes: all records of a key are on one shard
    no order between shards is needed
stream_equal = yes: a stream without a slot returns the same changes as SQL (Hologres 2.1 and later)
    required only by jobs with read_by = "stream"
[cursors | Hologres, "Subscribe to Hologres binlogs"]
cursor_lsn_inclusive = yes: hg_get_binlog_cursor_by_lsn finds a record at exactly the given LSN
    the oldest unread record of a position is searched with the next LSN
cursor_time_inclusive = yes: hg_get_binlog_cursor_by_timestamp finds a record of exactly the given time
    a start at a time includes it
[truncate | Hologres, "TRUNCATE"]
truncate_seen = yes: TRUNCATE changes table_id, or the LSNs start over
    the job stops (SCHEMA CHANGED, SOURCE OLDER): TRUNCATE writes no records
[not asked | ]
lower_lsn_later: whether a lower LSN can appear after a higher one under concurrent writes
    `binlog_visibility_lag` is for servers on which this happens
ttl_end: when, and in which order, records are dropped after binlog.ttl
    a job that was not up to date within the TTL reports SLOT LOST
added_column: how a stream reports a column that was added while it reads
    the job stops with SCHEMA CHANGED, and compares the columns before and after each step
slot_moves: what a slot's position does without its reader
    the progress rows take precedence over a slot's position
"""
QUESTIONS = questions_of(_TEXT)
NEVER_ASKED = {
    "lower_lsn_later": "it requires many concurrent writers, and would prove only the presence",
    "ttl_end": "it takes at least as long as binlog.ttl",
    "added_column": "it requires DDL while a stream is open",
    "slot_moves": "it requires a slot, whose creation needs further privileges",
}
_USABLE = (
    "SELECT n.nspname::text FROM pg_namespace n WHERE has_schema_privilege(n.oid, 'USAGE')"
    " AND has_schema_privilege(n.oid, 'CREATE') AND n.nspname NOT LIKE 'pg\\_%' AND n.nspname NOT LIKE 'hg\\_%'"
    " AND n.nspname NOT LIKE 'hologres%' AND n.nspname <> 'information_schema'"
    " ORDER BY n.nspname <> current_user, n.nspname <> 'public', n.nspname"
)
_LEFT = (
    "SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relname LIKE 'slotkeeper\\_probe\\_%' AND c.relkind = 'r' ORDER BY 1, 2"
)
_MAKE_MS = 30_000
_TTL = 86_400
_KEYS = range(1, 13)


def _made(table: str) -> tuple[str, ...]:
    name = literal(dotted(table))
    return (
        f"CREATE TABLE {dotted(table)} (id bigint NOT NULL, v text, PRIMARY KEY (id))",
        f"CALL set_table_property({name}, 'binlog.level', 'replica')",
        f"CALL set_table_property({name}, 'binlog.ttl', '{_TTL}')",
    )


def _drop_statement(table: str) -> str:
    return f"DROP TABLE IF EXISTS {dotted(table)}"


class HoloProbing:
    """A session, and the reader of the scratch table; `answers` by question."""

    def __init__(self, login: Login, table: str) -> None:
        self.session, self.table = HoloSession(login.endpoint, login.password, login.name), table
        self.streams = Streams(login, IDLE_SECONDS)
        self.scratch = ScratchTables()
        self.answers: dict[str, ProbeFinding] = {}
        self.source = self.reader("sql")

    def reader(self, by: str) -> HoloSource:
        made = HoloSource(self.session, self.table, BinlogOptions(binlog=True, read_by=by), None, self.streams)
        made.whole_images = True
        return made

    def make(self) -> None:
        create, *more = _made(self.table)
        self.scratch.make(self.table, lambda: self.act(create))
        for statement in more:
            self.act(statement)

    def act(self, *statements: str) -> None:
        for statement in statements:
            text = statement.replace("{t}", dotted(self.table))
            self.session.answered(pg.sql.SQL(text), None, _MAKE_MS)

    def asked(self, statement: str) -> list[tuple[object, ...]]:
        return self.session.composed_rows(pg.sql.SQL(statement.replace("{t}", dotted(self.table))), None, _MAKE_MS)

    def records(self) -> list[tuple[int, ...]]:
        """Return (shard, LSN, type, time, key) of all records but heartbeats, by shard and LSN."""
        rows = self.asked(
            "SELECT hg_shard_id, hg_binlog_lsn, hg_binlog_event_type, hg_binlog_timestamp_us, id FROM {t}"
            " WHERE hg_binlog_lsn > 0 AND hg_binlog_event_type <> 27"
        )
        return sorted(tuple(int(str(one)) for one in row) for row in rows)

    def read(self, source: HoloSource, width: int) -> dict[str, list[tuple[str | None, ...]]]:
        """Return (kind, values) of every change by key, in ranges of `width` records."""
        found: dict[str, list[tuple[str | None, ...]]] = {}
        for status in source.read_status(None):
            at: Position = HoloPosition(0)
            while at < status.latest:
                end, out = source.next_range(at, status, width), BytesIO()
                source.copy_changes(status.shard, at, end, out)
                out.seek(0)
                for _, _, *row in rows_of(out):
                    found.setdefault(str(row[1]), []).append(tuple(row))
                at = end
        return found

    def close(self) -> None:
        self.streams.close()
        self.session.close()


def _table(ctx: HoloProbing) -> Iterator[Found]:
    state = catalog.read_table(ctx.session, ctx.table)
    count = state.properties.get("shard_count", "")
    yield "shards_known", needs(bool(state.shards), True, "no job can start"), f"shard_count {count or 'missing'}"
    known = "table_id" in state.properties
    yield "table_id_known", needs(known, True, "TRUNCATE and a rebuild could not be seen"), f"table_id {known}"
    ttl = state.properties.get("binlog.ttl", "")
    yield (
        "ttl_reported",
        needs(ttl == str(_TTL), True, "the time left would be wrong"),
        f"binlog.ttl {ttl or 'missing'}",
    )
    for name, which in (("oldest_of_empty", "OLDEST"), ("newest_of_empty", "LATEST")):
        asked = {"table": ctx.table, "which": which, "shard": 0}
        rows = ctx.session.rows("cursor", asked)
        lsn = str(rows[0][0]) if rows and rows[0][0] is not None else "no row"
        yield name, ProbeFinding(lsn, lsn in ("0", "no row"), "" if lsn in ("0", "no row") else "read as a record"), ""


def _reading(ctx: HoloProbing) -> Iterator[Found]:
    wanted: dict[str, list[tuple[str | None, ...]]] = {}
    at_once = 0
    for key in _KEYS:
        ctx.act(f"INSERT INTO {{t}} VALUES ({key}, 'a')")
        at_once += any(row[4] == key for row in ctx.records())
        ctx.act(f"UPDATE {{t}} SET v = 'b' WHERE id = {key}")
        wanted[str(key)] = [("I", str(key), "a"), ("B", str(key), "a"), ("U", str(key), "b")]
    ctx.act("DELETE FROM {t} WHERE id = 1")
    wanted["1"].append(("d", "1", "b"))
    records = ctx.records()
    shown = " ".join(f"{shard}/{lsn}:{kind}" for shard, lsn, kind, _, _ in records[:12])
    kinds = sorted({row[2] for row in records})
    unknown = [str(one) for one in kinds if one not in changes.WORDS]
    because = f"the reader stops at type {', '.join(unknown)}" if unknown else "" if kinds else "nothing was recorded"
    yield "event_types", ProbeFinding(" ".join(map(str, kinds)) or None, not unknown, because), shown
    followed = [(row, records[n + 1 : n + 2]) for n, row in enumerate(records) if row[2] == changes.BEFORE]
    paired = all(after and after[0][2] == changes.AFTER and after[0][3] == row[3] for row, after in followed)
    text = "updates are written as delete and insert"
    yield "update_pairs", needs(paired if followed else None, True, "the reader stops" if followed else text), shown
    late = f"{len(_KEYS) - at_once} records came later than their rows: a copy could miss them"
    yield "record_at_once", needs(at_once == len(_KEYS), True, late), f"{at_once} of {len(_KEYS)}"
    by_key = {key: [row for row in records if row[4] == key] for key in _KEYS}
    one_shard = all(len({row[0] for row in rows}) == 1 for rows in by_key.values())
    yield "key_on_one_shard", needs(one_shard, True, "changes of a key could be applied in the wrong order"), shown
    first = [row for rows in by_key.values() for row in [one for one in rows if one[2] == changes.INSERT][:1]]
    grows = all(a[1] < b[1] for n, a in enumerate(first) for b in first[n + 1 :] if a[0] == b[0])
    yield "lsn_grows", needs(grows, True, "changes would be skipped: do not run a job here"), shown
    yield from _read(ctx, wanted)


def _same(got: dict[str, list[tuple[str | None, ...]]], wanted: dict[str, list[tuple[str | None, ...]]]) -> bool:
    """Return whether the changes are the same; an update can also be a delete and an insert of the same key."""

    def plain(rows: Sequence[tuple[str | None, ...]]) -> list[tuple[str | None, ...]]:
        return [({"B": "d", "U": "I"}.get(str(row[0]), row[0]), *row[1:]) for row in rows]

    return {key: plain(rows) for key, rows in got.items()} == {key: plain(rows) for key, rows in wanted.items()}


def _read(ctx: HoloProbing, wanted: dict[str, list[tuple[str | None, ...]]]) -> Iterator[Found]:
    lost = "changes would be lost or applied twice: do not run a job here, and report this"
    try:
        got = [ctx.read(ctx.source, width) for width in (1, 1_000)]
    except SlotkeeperError as error:
        if error.kind is ErrorKind.TRANSIENT:
            raise
        yield "reader_exact", ProbeFinding("no", False, f"the reader stops: {short(error)}"), ""
        return
    yield "reader_exact", needs(all(_same(each, wanted) for each in got), True, lost), str(got[0].get("1"))
    old = [row[2] is not None for rows in got[1].values() for row in rows if row[0] in ("B", "d")]
    yield "full_old_images", yes_or_no(all(old) if old else None, "no old row was recorded"), ""
    state, version = ctx.source.state, str(ctx.session.rows("server")[0][0])
    streamed = ctx.reader("stream")
    barred = list(eligibility.stream_objections(ctx.table, state, version, streamed.options))
    try:
        same = None if barred else _same(ctx.read(streamed, 1_000), wanted)
        finding = needs(same, True, barred[0].what if barred else lost)
    except SlotkeeperError as error:
        finding = ProbeFinding(None, because=f"no stream can be opened: {short(error)}")
    yield "stream_equal", finding, version


def _cursors(ctx: HoloProbing) -> Iterator[Found]:
    records = ctx.records()
    if not records:
        return
    shard, lsn, _, us, _ = records[0]
    asked = {"table": ctx.table, "shard": shard}
    found = ctx.session.rows("cursor_by_lsn", {**asked, "lsn": lsn})
    exact = bool(found) and pg.number(found[0][0]) == lsn
    yield "cursor_lsn_inclusive", needs(exact, True, "an unread record could be overlooked"), f"{lsn}: {found[:1]}"
    at = str(ctx.asked(f"SELECT timestamptz 'epoch' + {us} * interval '1 microsecond'")[0][0])
    found = ctx.session.rows("cursor_by_time", {**asked, "at": at})
    exact = bool(found) and 0 < (pg.number(found[0][0]) or 0) <= lsn
    yield "cursor_time_inclusive", needs(exact, True, "a start at a time would omit its records"), f"{at}: {found[:1]}"


def _truncate(ctx: HoloProbing) -> Iterator[Found]:
    state, top = catalog.read_table(ctx.session, ctx.table), max((row[1] for row in ctx.records()), default=0)
    ctx.act("TRUNCATE {t}", "INSERT INTO {t} VALUES (101, 'after')")
    after, records = catalog.read_table(ctx.session, ctx.table), ctx.records()
    seen = after.identity.oid != state.identity.oid or max((row[1] for row in records), default=0) < top
    finding = needs(seen, True, "the target would keep the rows: reset the slot after a TRUNCATE")
    yield "truncate_seen", finding, f"id {state.identity.oid} before, {after.identity.oid} after"


GROUPS: tuple[Group[HoloProbing], ...] = tuple(
    (topic, tuple(name for name, one in QUESTIONS.items() if one.topic == topic), ask)
    for topic, ask in (("table", _table), ("reading", _reading), ("cursors", _cursors), ("truncate", _truncate))
)
ASKS = Questionnaire(QUESTIONS, NEVER_ASKED, GROUPS)


def probe(login: Login) -> Probe:
    """Return the probe over sessions of a login."""

    def opened() -> HoloSession:
        return HoloSession(login.endpoint, login.password, login.name)

    def plan(name: str, schema: str, prod: bool) -> ProbePlan:
        with closing(opened()) as session:
            version, user = session.rows("server")[0][:2]
            user = str(user)

            def grant(wanted: str) -> str:
                made = "" if wanted else "CREATE SCHEMA probe; "
                return f"{made}GRANT USAGE, CREATE ON SCHEMA {quoted(wanted or 'probe')} TO {quoted(user)};"

            usable = [str(row[0]) for row in session.composed_rows(pg.sql.SQL(_USABLE), None)]
            place = usable_schema(usable, schema, user, grant, "source")
            table = f"{place}.{PREFIX}{uuid.uuid4().hex[:12]}"
            others = [f"{one[0]}.{one[1]}" for one in session.composed_rows(pg.sql.SQL(_LEFT), None)]
        return ProbePlan(
            source=name,
            place=login.endpoint.place,
            server=safe(version, 200),
            stand_in="stand-in" in str(version),
            schema=place,
            table=table.partition(".")[2],
            prod=prod,
            statements=_made(table),
            others=tuple(Left(one, "from another probe", _drop_statement(one)) for one in others),
            effects=("creates a scratch table with a binlog, writes a few rows to it, and empties and drops it",),
        )

    def ask(asked: ProbeAsked) -> tuple[Sequence[Answer], dict[str, bool | None]]:
        ctx = HoloProbing(login, f"{asked.plan.schema}.{asked.plan.table}")

        def drop(table: str) -> str:
            statement = pg.sql.SQL(_drop_statement(table))
            return why_left(opened, lambda session: session.answered(statement, None, _MAKE_MS))

        with dropped(lambda: ctx.scratch.drop(drop, _drop_statement), asked.left, asked.ending), closing(ctx):
            ctx.make()
            return ASKS.run(ctx, asked.progress, time.monotonic), {}

    return Probe(ASKS.asked, plan, ask)
