"""The probe of MySQL and MariaDB: how the binlog shows the probe's own changes to scratch tables, and what it hides.

All rows are read by the reader of jobs. On a busy server, the events of other writers are in the same binlog; the
reader skips them, and no answer depends on their absence.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from io import BytesIO

from slotkeeper.core.domain.endpoint import Login
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
from slotkeeper.core.domain.spec import BinlogOptions, JobSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.errors import AccessRefused, ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.ports.kinds import Probe, ProbeAsked
from slotkeeper.core.sources.mysql import retention, side_effects, starts
from slotkeeper.core.sources.mysql.position import MysqlPosition, ours
from slotkeeper.core.sources.mysql.retention import MysqlTable
from slotkeeper.core.sources.mysql.session import MysqlSession, filters, is_hidden
from slotkeeper.core.sources.mysql.source import SHARD
from slotkeeper.core.sources.mysql.statements import Effect, Statement
from slotkeeper.core.sources.mysql.stream import Follower, there
from slotkeeper.core.sources.mysql.tables import shown
from slotkeeper.core.sources.mysql.transactions import TableRows

_TEXT = """
[server | MySQL, "Binary Logging Options and Variables"]
binlog_format: the format in which new sessions write the binlog
    ROW is required: a change that is written as a statement stops the job
binlog_row_image: the columns in the images of a row event
    FULL is required: an absent column is never read as NULL
plain_events = yes: events are neither compressed (log_bin_compress) nor partial (binlog_row_value_options)
    such events are rejected by name
column_names: the binlog contains the names of columns (binlog_row_metadata = FULL)
    if not, names and signedness come from the columns that are stored with the position
databases_hidden: the databases that binlog_do_db and binlog_ignore_db hide
    no table of a job can be in a hidden database
    MySQL, "Evaluation of Database-Level Replication and Binary Logging Options"
synced: the server writes the binlog to disk at each commit (sync_binlog and innodb_flush_log_at_trx_commit are 1)
    if not, a crash of the server's host can lose transactions that a job has applied; the job stops with SOURCE OLDER
purged_after: the age at which the server purges binlog files, in seconds
    a job that is stopped for longer reports SLOT LOST; `slots show` shows the time left
has_gtids: a position in the binlog has GTIDs
    `jobs recopy` and a change to another server require them
    MySQL, "GTID Format and Storage"; MariaDB, "Global Transaction ID"
same_server = yes: several connections reach the same server
    a stream and its queries must reach one server: otherwise the job reports it and waits
    MySQL, "Replication and Binary Logging Options and Variables" (server_uuid, server_id)
[reading | MySQL, "The Binary Log"]
reader_exact = yes: Slotkeeper's reader, range by range, returns every change exactly once
    all other rules serve this purpose
full_old_images: the images before an update or a delete have the values of all columns
    with FULL, they have; the job uses only the key
    MySQL, "Binary Logging Options and Variables" (binlog_row_image)
rollback_hidden = yes: a transaction that is rolled back is not in the binlog
    its rows would be applied
[transactions | MySQL, "The Binary Log"]
uncommitted_hidden = yes: an open transaction is not in the binlog
    a position is the end of a transaction
writers_listed: INNODB_TRX lists an open transaction that has changed rows
    MySQL: a copy waits for the listed transactions; MariaDB: a copy starts at the position of its snapshot
    MySQL, "The INFORMATION_SCHEMA INNODB_TRX Table"
snapshot_position: the server reports the position of a consistent snapshot, and each commit is on one side of it
    without such a position (MySQL), a copy waits for the open transactions; a wrong one would lose rows
    MariaDB, "Enhancements for START TRANSACTION WITH CONSISTENT SNAPSHOT"
commit_order = yes: transactions are in the order of their commits, not of their writes
    the target applies them in the order of the binlog
[statements | MySQL, "Evaluation of Database-Level Replication and Binary Logging Options"]
alter_recorded = yes: ALTER TABLE is a statement in the binlog, after the rows that precede it
    the lane stops there, or follows the change, after all earlier rows
truncate_recorded = yes: TRUNCATE is a statement in the binlog
    the lane stops there: TRUNCATE writes no row events
cascades_recorded: rows that ON DELETE CASCADE deletes have row events
    before MySQL 9.6, and on MariaDB, they have none, and a table with such a key is rejected
    MySQL, "FOREIGN KEY Constraints"
[not asked | MySQL, "The Binary Log"]
commit_before_visible: whether a transaction is in the binlog before its rows are visible
    a copy on MySQL waits for open transactions after it has stored its position
lost_after_crash: which transactions a crash of the server's host loses
    the job compares the position with the server's files, and stops with SOURCE OLDER
purged_position: what the server answers to a reader whose file was purged
    the job reports SLOT LOST
other_server_gtids: whether the binlog of a replica continues this server's GTIDs
    the job compares the transactions before it continues at another server
"""
QUESTIONS = questions_of(_TEXT)
NEVER_ASKED = {
    "commit_before_visible": "it requires a commit that stops halfway",
    "lost_after_crash": "it requires a crash of the server's host",
    "purged_position": "it would purge binlog files that others read",
    "other_server_gtids": "it requires a failover",
}
_COLUMNS = "(place bigint NOT NULL, id bigint NOT NULL, v varchar(40), PRIMARY KEY (place, id)) ENGINE = InnoDB"
_TABLES = {
    "": f"CREATE TABLE {{}} {_COLUMNS}",
    "_ddl": f"CREATE TABLE {{}} {_COLUMNS}",
    "_parent": "CREATE TABLE {} (id bigint PRIMARY KEY) ENGINE = InnoDB",
    "_child": "CREATE TABLE {} (id bigint PRIMARY KEY, parent bigint, FOREIGN KEY (parent) REFERENCES {parent} (id)"
    " ON DELETE CASCADE) ENGINE = InnoDB",
}
"""The statement that creates each scratch table, by the end of its name."""
_USABLE = (
    "SELECT s.schema_name FROM information_schema.schemata s"
    " WHERE s.schema_name NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys') AND (EXISTS"
    " (SELECT 1 FROM information_schema.user_privileges u WHERE u.grantee = %s AND u.privilege_type = 'CREATE')"
    " OR EXISTS (SELECT 1 FROM information_schema.schema_privileges p"
    " WHERE p.grantee = %s AND p.privilege_type = 'CREATE' AND s.schema_name LIKE p.table_schema))"
    " ORDER BY s.schema_name"
)
_LEFT = (
    "SELECT table_schema, table_name FROM information_schema.tables"
    " WHERE table_name LIKE 'slotkeeper\\_probe\\_%' ORDER BY 1, 2"
)
_SYNCED = ("sync_binlog", "innodb_flush_log_at_trx_commit")
_SECONDS = 30.0
"""Time limit of a statement about a scratch table."""
_CONNECTIONS = 3


def _made(table: str, end: str) -> str:
    """Return the statement that creates a scratch table; `table` is named `database.table`, without its end."""
    return _TABLES[end].replace("{parent}", shown(f"{table}_parent")).replace("{}", shown(table + end))


def _drop_statement(table: str) -> str:
    return f"DROP TABLE IF EXISTS {shown(table)}"


class MysqlProbing:
    """The sessions of a probe: `session` writes, `other` has open transactions; `answers` by question."""

    def __init__(self, login: Login, table: str, jobs: Sequence[JobSpec]) -> None:
        self.session, self.jobs, self.table = MysqlSession(login), jobs, table
        self.other, self.seer = self.session.beside("/2"), self.session.beside("/3")
        self.scratch = ScratchTables()
        self.answers: dict[str, ProbeFinding] = {}
        self.source = self.source_of(table)
        self.source.whole_images = True

    def source_of(self, table: str) -> MysqlTable:
        return MysqlTable(self.session.beside("/read"), table, "probe", BinlogOptions(binlog=True))

    def make(self, end: str) -> str:
        table = self.table + end
        self.scratch.make(table, lambda: self.session.rows(_made(self.table, end), (), _SECONDS))
        return table

    def act(self, statement: str, *, at: MysqlSession | None = None, table: str = "") -> None:
        (at or self.session).rows(statement.replace("{t}", shown(table or self.table)), (), _SECONDS)

    def hidden(self, database: str) -> bool:
        """Whether the server's filters hide a database from the binlog."""
        return self.session.asking(lambda line: is_hidden(line, database))

    def read(self, after: MysqlPosition) -> list[tuple[str | None, ...]]:
        """Return (kind, values) of all changes after a position, in ranges that become wider."""
        status, at, width = self.source.read_status(None)[0], after, 1
        found: list[tuple[str | None, ...]] = []
        while not there(at, ours(status.latest)):
            end, out = self.source.next_range(at, status, width, begins=True), BytesIO()
            self.source.copy_changes(SHARD, at, end, out)
            out.seek(0)
            found += [tuple(row[2:]) for row in rows_of(out)]
            at, width = end, 2 * width
        return found

    def items(self, after: MysqlPosition, table: str) -> list[TableRows | Statement]:
        """Return the row events and the statements about a table after a position, in order."""
        with (
            closing(self.source_of(table)) as source,
            closing(Follower(lambda place: source.stream(place, "probe"))) as follower,
        ):
            read = follower.read(after, source.newest())
            return [item for item in read if isinstance(item, TableRows | Statement)]

    def close(self) -> None:
        for one in (self.source, self.seer, self.other, self.session):
            with suppress(SlotkeeperError):
                one.close()


def _server(ctx: MysqlProbing) -> Iterator[Found]:
    facts = ctx.session.facts
    for name, wanted, effect in (
        ("binlog_format", "ROW", "a statement"),
        ("binlog_row_image", "FULL", "such an event"),
    ):
        value = facts.of(name)
        because = f"no job starts, and a running job stops at {effect}" if value else "the server does not report it"
        right = value == wanted
        yield name, ProbeFinding(value or None, right, "" if right else because), f"{name} = {value}"
    packed = facts.of("log_bin_compress") in ("ON", "1") or "PARTIAL_JSON" in facts.of("binlog_row_value_options")
    seen = f"log_bin_compress {facts.of('log_bin_compress')}, values {facts.of('binlog_row_value_options')}"
    yield "plain_events", needs(not packed, True, "no job starts, and a running job stops at such an event"), seen
    yield "column_names", yes_or_no(facts.names_columns), f"binlog_row_metadata = {facts.of('binlog_row_metadata')}"
    do, ignore = ctx.session.asking(filters)
    named = "; ".join(f"{name} {', '.join(each)}" for name, each in (("all but", do), ("", ignore)) if each).strip()
    lost = sorted({
        one.source_table for job in ctx.jobs for one in job.channels if ctx.hidden(one.source_table.partition(".")[0])
    })  # fmt: skip
    because = f"the binlog has no changes of {', '.join(lost)}" if lost else ""
    if named and not lost:
        because = "DDL in a session whose default database is hidden is not recorded, whichever table it names"
    yield "databases_hidden", ProbeFinding(named or "none", not lost, because), f"do {do}, ignore {ignore}"
    marks = ", ".join(["%s"] * len(_SYNCED))
    rows = ctx.session.rows(f"SHOW GLOBAL VARIABLES WHERE variable_name IN ({marks})", _SYNCED)
    values = {str(name).lower(): str(value) for name, value in rows}
    known = all(name in values for name in _SYNCED)
    synced = yes_or_no(all(values[name] == "1" for name in _SYNCED) if known else None, "variables are missing")
    yield "synced", synced, ", ".join(f"{name} = {value}" for name, value in values.items())
    seconds, setting = retention.age_of(retention.variables_of(ctx.session))
    because = "no variable reports it" if seconds is None else ""
    age = ProbeFinding(None if seconds is None else str(seconds or "never"), because=because)
    yield "purged_after", age, setting
    gtids = facts.is_mariadb or facts.of("gtid_mode") == "ON"
    yield "has_gtids", yes_or_no(gtids), f"gtid_mode = {facts.of('gtid_mode') or 'MariaDB'}"
    found = set()
    for number in range(_CONNECTIONS):
        with closing(ctx.session.beside(f"/c{number}")) as line:
            found.add(line.facts.identity)
    finding = needs(len(found) == 1, True, "use an address that leads to one server, not a load balancer")
    yield "same_server", finding, f"{_CONNECTIONS} connections reached {len(found)} server(s)"


def _text(rows: Sequence[Sequence[str | None]]) -> str:
    return " | ".join(" ".join(map(str, row)) for row in rows)


_HISTORY = (
    ("INSERT INTO {t} VALUES (1, 1, 'a'), (1, 2, 'b')", "I 1 1 a", "I 1 2 b"),
    ("UPDATE {t} SET v = 'c' WHERE place = 1 AND id = 1", "B 1 1 a", "U 1 1 c"),
    ("UPDATE {t} SET id = 3 WHERE place = 1 AND id = 2", "B 1 2 b", "U 1 3 b"),
    ("INSERT INTO {t} VALUES (1, 1, 'd') ON DUPLICATE KEY UPDATE v = 'd'", "B 1 1 c", "U 1 1 d"),
    ("DELETE FROM {t} WHERE place = 1 AND id = 3", "d 1 3 b"),
)
"""The transactions of the probe, each with its images."""


def _reading(ctx: MysqlProbing) -> Iterator[Found]:
    begin = ctx.source.newest()
    for statement in ("START TRANSACTION", "INSERT INTO {t} VALUES (9, 9, 'r')", "ROLLBACK"):
        ctx.act(statement)
    for statement, *_ in _HISTORY:
        ctx.act(statement)
    wanted = [tuple(image.split()) for _, *images in _HISTORY for image in images]
    try:
        rows = ctx.read(begin)
    except SlotkeeperError as error:
        if error.kind is ErrorKind.TRANSIENT:
            raise
        yield "reader_exact", ProbeFinding("no", False, f"the reader stops: {short(error)}"), ""
        return
    seen = _text(rows)
    yield "rollback_hidden", needs(not any(row[1:3] == ("9", "9") for row in rows), True, "rows would be wrong"), seen
    old = [row[3] is not None for row in rows if row[0] in ("B", "d")]
    yield "full_old_images", yes_or_no(all(old) if old else None, "no old image was recorded"), seen
    got = [row for row in rows if row[1] == "1"]
    lost = "changes would be lost or applied twice: do not run a job here, and report this"
    yield "reader_exact", needs(got == wanted, True, lost), seen


def _transactions(ctx: MysqlProbing) -> Iterator[Found]:
    begin, facts = ctx.source.newest(), ctx.session.facts
    ctx.act("START TRANSACTION", at=ctx.other)
    ctx.act("INSERT INTO {t} VALUES (2, 1, 'first')", at=ctx.other)
    thread = ctx.other.rows("SELECT CONNECTION_ID()")[0][0]
    early = ctx.read(begin)
    yield "uncommitted_hidden", needs(not early, True, "a rollback could not be undone"), f"{len(early)} images"
    yield _listed(ctx, f"(session {thread})")
    place = None
    try:
        place = ctx.seer.asking(lambda line: starts.begin_copy(line, facts))
    except Refused as error:
        because = short(error) if facts.is_mariadb else ""
        yield "snapshot_position", ProbeFinding("not reported", not because, because), ""
    ctx.act("INSERT INTO {t} VALUES (2, 2, 'second')")
    ctx.act("COMMIT", at=ctx.other)
    wanted = [("I", "2", "2", "second"), ("I", "2", "1", "first")]
    got = ctx.read(begin)
    yield "commit_order", needs(got == wanted, True, "an earlier value could replace a later one"), _text(got)
    if place is not None:
        visible = ctx.seer.rows(f"SELECT count(*) FROM {shown(ctx.table)} WHERE place = 2")[0][0]
        before = ctx.seer.rows(f"SELECT count(*) FROM {shown(ctx.table)} WHERE place = 1")[0][0]
        ctx.act("ROLLBACK", at=ctx.seer)
        after = ctx.read(place)
        exact = int(visible) == 0 and int(before) == 1 and after == wanted
        text = f"{place.shown}: the snapshot has {visible} later rows and {before} earlier; {len(after)} changes follow"
        yield "snapshot_position", needs(exact, True, "a copy would lose or repeat changes"), text


def _listed(ctx: MysqlProbing, session: str) -> Found:
    for _ in range(3):
        time.sleep(starts.READ_EVERY)
        try:
            listed = starts.writers(ctx.session)
        except AccessRefused as error:
            because = f"{short(error)}; fix: {error.hint}"
            return "writers_listed", ProbeFinding(None, because=because), ""
        if listed is not None:
            seen = any(one.endswith(session) for one in listed)
            required = not ctx.session.facts.is_mariadb
            finding = needs(seen, True, "a copy could miss its rows") if required else yes_or_no(seen)
            return "writers_listed", finding, f"{len(listed)} listed"
    return "writers_listed", ProbeFinding(None, because="another session reads the list too often"), ""


def _ddl(ctx: MysqlProbing) -> Iterator[Found]:
    table = ctx.make("_ddl")
    begin = ctx.source.newest()
    for statement in (
        "INSERT INTO {t} VALUES (1, 1, 'a')",
        "ALTER TABLE {t} ADD COLUMN w int",
        "INSERT INTO {t} VALUES (1, 2, 'b', 7)",
        "TRUNCATE TABLE {t}",
    ):
        ctx.act(statement, table=table)
    found = [item.effect if isinstance(item, Statement) else "rows" for item in ctx.items(begin, table)]
    seen = ", ".join(one.name if isinstance(one, Effect) else one for one in found)
    right = found[:2] == ["rows", Effect.RESHAPES]
    yield "alter_recorded", needs(right, True, "rows would be read with the wrong columns"), seen
    yield "truncate_recorded", needs(Effect.EMPTIES in found, True, "the target would keep the rows"), seen


def _cascades(ctx: MysqlProbing) -> Iterator[Found]:
    parent, child = ctx.make("_parent"), ctx.make("_child")
    ctx.act("INSERT INTO {t} VALUES (1)", table=parent)
    ctx.act("INSERT INTO {t} VALUES (1, 1)", table=child)
    begin = ctx.source.newest()
    ctx.act("DELETE FROM {t}", table=parent)
    events = sum(isinstance(item, TableRows) for item in ctx.items(begin, child))
    trusted = side_effects.cascades_are_written(ctx.session.facts)
    finding = needs(events > 0, True, "rows would stay in the target") if trusted else yes_or_no(events > 0)
    yield "cascades_recorded", finding, f"{events} row events; the job relies on them: {'yes' if trusted else 'no'}"


GROUPS: tuple[Group[MysqlProbing], ...] = (
    ("server", tuple(name for name, one in QUESTIONS.items() if one.topic == "server"), _server),
    ("reading", ("reader_exact", "full_old_images", "rollback_hidden"), _reading),
    ("transactions", tuple(name for name, one in QUESTIONS.items() if one.topic == "transactions"), _transactions),
    ("statements", ("alter_recorded", "truncate_recorded"), _ddl),
    ("cascades", ("cascades_recorded",), _cascades),
)
ASKS = Questionnaire(QUESTIONS, NEVER_ASKED, GROUPS)


def probe(login: Login) -> Probe:
    """Return the probe over sessions of a login."""

    def plan(name: str, schema: str, prod: bool) -> ProbePlan:
        with closing(MysqlSession(login)) as session:
            facts = session.facts
            if facts.of("log_bin") not in ("ON", "1"):
                what = f"source {name}: the server writes no binlog (log_bin is off)"
                raise Refused(what, "set log_bin and restart the server", where="source")
            user = session.user

            def grant(schema: str) -> str:
                made = "" if schema else "CREATE DATABASE probe; "
                rights = "CREATE, DROP, ALTER, REFERENCES, SELECT, INSERT, UPDATE, DELETE"
                given = f"{made}GRANT {rights} ON {shown((schema or 'probe') + '.*')} TO {user};"
                return f"{given} if a role has them, name a database with --probe-schema"

            grantee = "'{}'@'{}'".format(*session.account)
            usable = [str(row[0]) for row in session.rows(_USABLE, (grantee, grantee))]
            place = usable_schema([*usable, schema] if schema else usable, schema, user, grant, "source")
            table = f"{place}.{PREFIX}{uuid.uuid4().hex[:12]}"
            others = [f"{one[0]}.{one[1]}" for one in session.rows(_LEFT)]
        return ProbePlan(
            source=name,
            place=login.endpoint.place,
            server=safe(facts.variables.get("version"), 200),
            stand_in=False,
            schema=place,
            table=table.partition(".")[2],
            prod=prod,
            statements=tuple(_made(table, end) for end in _TABLES),
            others=tuple(Left(one, "from another probe", _drop_statement(one)) for one in others),
            effects=("creates scratch tables, writes a few rows to them, and alters, empties and drops them",),
        )

    def ask(asked: ProbeAsked) -> tuple[list[Answer], dict[str, bool | None]]:
        ctx = MysqlProbing(login, f"{asked.plan.schema}.{asked.plan.table}", asked.jobs)

        def drop(table: str) -> str:
            statement = _drop_statement(table)
            return why_left(lambda: MysqlSession(login), lambda session: session.rows(statement, (), _SECONDS))

        def blocked(number: int) -> str:
            return (
                "the server's filters hide the scratch tables" if number > 1 and ctx.hidden(asked.plan.schema) else ""
            )

        with dropped(lambda: ctx.scratch.drop(drop, _drop_statement), asked.left, asked.ending), closing(ctx):
            ctx.make("")
            return ASKS.run(ctx, asked.progress, time.monotonic, blocked), {}

    return Probe(ASKS.asked, plan, ask)
