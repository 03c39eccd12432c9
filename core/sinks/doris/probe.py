"""The probe of Doris: the fate of the probe's own labels, what readers see of its loads, and how rows replace rows.

The sink of jobs sends the loads. No answer depends on other users' loads.
"""

from __future__ import annotations

import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

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
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import ErrorKind, Refused, RowRefused, SlotkeeperError
from slotkeeper.core.ports.kinds import Probe, ProbeAsked
from slotkeeper.core.ports.sink import Batch, Fields, Outcome
from slotkeeper.core.sinks.doris import answers, doctor, shape
from slotkeeper.core.sinks.doris.http import DorisHttp
from slotkeeper.core.sinks.doris.shape import quoted
from slotkeeper.core.sinks.doris.sink import TRIAL_SECONDS, DorisSink
from slotkeeper.core.sinks.doris.target import partitions

_TEXT = """
[server | Doris, "FE Configuration"]
labels_kept_seconds: how long the FE retains the label of an ended load (streaming_label_keep_max_second), in seconds
    after a longer outage between two phases, a job sends a range again, and counts it as repeats
labels_kept_number: how many ended loads of a database the FE retains (label_num_threshold)
    after more loads than that, a job sends a range again, and counts it as repeats
longest_string: the longest value of a STRING, in bytes (string_type_length_soft_limit_bytes)
    a longer value is rejected or quarantined, never truncated
    Doris, "STRING"
backends_listed: this login can list the BEs, and so their ports
    if not, port 8040 is assumed, and other ports must be configured (`backends`)
    Doris, "SHOW BACKENDS"
[labels | Doris, "Stream Load" (two-phase commit, label)]
two_phase = yes: a load is pre-committed under a label, with its number in the response
    exactly once rests on it; disable_stream_load_2pc of a BE switches it off
invisible_before_commit = yes: no query sees the rows of a pre-committed load
    a load can be aborted until the store has recorded its number
taken_before_commit = yes: a second load with the label of a pre-committed load is rejected, with the load's number
    the sink aborts the pre-committed load, and sends the range again
commit_by_number = yes: a commit by number makes all rows visible
    the number is recorded before the commit
commit_repeated = yes: a second commit is rejected as already committed or visible
    after a lost response, the job commits again
taken_after_commit = yes: a second load with the label of a committed load is rejected, and changes nothing
    after a lost response, the job sends again, and the rows are not written twice
free_after_abort = yes: after an abort, the label can be used again
    the sink sends a range again under its label
commit_after_abort = yes: the commit of an aborted load is rejected as aborted or not found
    the job sends the range again; nothing of the aborted load is visible
label_states = yes: get_load_state returns UNKNOWN, PRECOMMITTED, COMMITTED or VISIBLE, and ABORTED in turn
    they decide what became of a load if its response was lost
    apache/doris, `GetStreamLoadState`
unknown_number = yes: the commit of an unknown number is rejected as not found
    then the state of the label decides
[rows | Doris, "Unique Key Model"]
row_replaced = yes: a later load replaces the row of a key
    a repeated range changes nothing
sign_deletes = yes: a row with the delete sign removes the row of its key
    deletes are rows with the sign
    Doris, "Batch Deletion"
text_unchanged = yes: quotes, line breaks, tabs, backslashes and letters of four bytes are stored unchanged
    values are sent as JSON lines
    Doris, "Stream Load" (read_json_by_line)
sequence_decides = yes: in a table with a sequence column, the row with the greater sequence stays
    an older change that is sent late must not replace a newer one
    Doris, "Sequence Column"
bad_row_rejects = yes: with max_filter_ratio 0, one bad row rejects the whole load
    nothing of a rejected range is visible; `strict_mode` is on
    Doris, "Stream Load" (max_filter_ratio, strict_mode)
bad_row_counted = yes: a load with max_filter_ratio 1 that is aborted reports how many rows were filtered
    quarantine finds rejected rows by such trials
    Doris, "Stream Load" (NumberFilteredRows)
[tables | Doris, "SHOW PARTITIONS"]
partition_kept = yes: loads and added columns keep a table's partition id
    another id means that the target was replaced; without the privilege, only missing rows reveal it
added_at_once: ADD COLUMN is complete at once (light schema change)
    if not, the job waits until Doris has carried it out
    Doris, "ALTER TABLE COLUMN"
[not asked | ]
label_end: whether a label can be used again exactly after the retention
    a range is then counted as repeats before it is sent again
precommit_end: whether Doris aborts a pre-committed load after its timeout
    the job sends the range again
be_lost: what a load becomes whose BE is lost between the two phases
    any BE commits it; if Doris aborts it, the range is sent again
publish_delay: how long a committed load can stay invisible
    a position advances only when the rows are visible, and a lane waits and reports it
"""
QUESTIONS = questions_of(_TEXT)
NEVER_ASKED = {
    "label_end": "it takes as long as the retention",
    "precommit_end": "it takes as long as stream_load_default_precommit_timeout_second",
    "be_lost": "it requires a BE that fails",
    "publish_delay": "it requires a slow or lost BE",
}
_IMAGE = TableIdentity(0, (Column("id", "bigint", True), Column("n", "integer"), Column("v", "text")), ("id",), "")
_KEY = LaneKey("probe", "probe", "probe", "probe")
_ODD = 'a"b\\N\n\t\u00e9\U0001f600'
_LEFT = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_name LIKE 'slotkeeper_probe_%'"
_SYSTEM = frozenset({"information_schema", "mysql", "__internal_schema", "sys"})


def _made(table: str) -> str:
    """Return the statement that creates a scratch table `database.name`."""
    made = shape.statement(table, _IMAGE)
    if not table.endswith("_seq"):
        return made
    return made.replace("PROPERTIES (", 'PROPERTIES ("function_column.sequence_type" = "largeint", ')


def _drop_statement(table: str) -> str:
    return f"DROP TABLE IF EXISTS {quoted(table)} FORCE"


class DorisProbing:
    """A session, and the sink of the scratch table; `answers` by question."""

    def __init__(self, login: Login, table: str) -> None:
        self.session, self.table = MysqlQueries(login, "sink"), table
        self.http = DorisHttp(login, lambda: shape.backends(self.session))
        self.scratch = ScratchTables()
        self.answers: dict[str, ProbeFinding] = {}

    def make(self, end: str) -> DorisSink:
        name = self.table + end
        self.scratch.make(name, lambda: self.session.rows(_made(name)))
        return DorisSink(self.http, "probe", name, shape.layout(shape.read(self.session, name), _IMAGE))

    @property
    def sink(self) -> DorisSink:
        return DorisSink(self.http, "probe", self.table, shape.layout(shape.read(self.session, self.table), _IMAGE))

    def rows(self, end: str = "") -> list[tuple[object, ...]]:
        return self.session.rows(f"SELECT id, n, v FROM {quoted(self.table + end)} ORDER BY id")


def _label() -> str:
    return f"{PREFIX}{secrets.token_hex(16)}"


def _row(kind: str, id_: int, n: str = "1", v: str = "a", point: int = 1) -> Fields:
    return (str(point), "0", kind, str(id_), n, v)


def _lines(*rows: Fields) -> Callable[[], Iterator[Fields]]:
    return lambda: iter(rows)


def _load(sink: DorisSink, label: str, *rows: Fields) -> dict[str, object]:
    """Send a load that is pre-committed, once; return Doris's response."""
    body = sink.body(_lines(*rows))
    with body.file:
        return sink.load(body, label, two_phase=True, seconds=TRIAL_SECONDS)


def _put(sink: DorisSink, *rows: Fields) -> None:
    """Write rows as a job does; raises Refused if they do not become visible."""
    label = _label()
    number = sink.send(Batch(_KEY, "probe", len(rows), _lines(*rows)), label)
    if sink.commit(label, number) is not Outcome.COMMITTED:
        raise Refused("a load of the probe was not committed", where="sink")


def _server(ctx: DorisProbing) -> Iterator[Found]:
    for name, setting, least in (
        ("labels_kept_seconds", doctor.KEPT_SECONDS, doctor.LEAST_SECONDS),
        ("labels_kept_number", doctor.KEPT_LABELS, doctor.LEAST_LABELS),
    ):
        try:
            rows = ctx.session.rows(f"ADMIN SHOW FRONTEND CONFIG LIKE '{setting}'")
        except SlotkeeperError as error:
            if error.kind is ErrorKind.TRANSIENT:
                raise
            yield name, ProbeFinding(None, because=f"{short(error)}; it needs ADMIN_PRIV"), ""
            continue
        value = next((str(row[1]) for row in rows if row[0] == setting), "")
        low = value.isdecimal() and 0 < int(value) < least
        because = f"below Doris's default of {least}: ranges are repeated earlier" if low else ""
        yield name, ProbeFinding(value or None, because=because or ("" if value else "not reported")), setting
    limit = doctor.string_limit(ctx.session)
    because = "" if limit else "it needs ADMIN_PRIV"
    yield "longest_string", ProbeFinding(str(limit) if limit else None, because=because), doctor.STRING_LIMIT
    places = shape.backends(ctx.session)
    yield "backends_listed", yes_or_no(bool(places)), f"{len(places)} BEs"


def _labels(ctx: DorisProbing) -> Iterator[Found]:
    sink, label, row = ctx.sink, _label(), _row("I", 1)
    states = [sink.state(label)]
    try:
        first = _load(sink, label, row)
    except SlotkeeperError as error:
        if error.kind is not ErrorKind.OPERATOR:
            raise
        yield "two_phase", needs(False, True, f"no job can write here: {short(error)}"), ""
        return
    number = str(first.get("TxnId", ""))
    try:
        yield from _precommitted(ctx, sink, label, number, states)
    finally:
        sink.abort(number)  # changes nothing once the load is committed
    yield from _aborted(sink, states)
    wanted = ["UNKNOWN", "PRECOMMITTED", "VISIBLE", "ABORTED"]
    right = ["VISIBLE" if one == "COMMITTED" else one for one in states] == wanted
    yield "label_states", needs(right, True, "a lost response would be misread"), " ".join(states)


def _precommitted(ctx: DorisProbing, sink: DorisSink, label: str, number: str, states: list[str]) -> Iterator[Found]:
    states.append(sink.state(label))
    right = states[-1] == "PRECOMMITTED" and number.isdecimal()
    yield "two_phase", needs(right, True, "no load could be undone"), f"transaction {number}, state {states[-1]}"
    seen = ctx.rows()
    yield "invisible_before_commit", needs(not seen, True, "an aborted load was visible before"), f"{len(seen)} rows"
    again = _load(sink, label, _row("I", 2))
    related, existing = answers.related(str(again.get("Message", ""))), again.get("ExistingJobStatus")
    taken = again.get("Status") == answers.TAKEN
    text = f"Status {again.get('Status')}, ExistingJobStatus {existing}, transaction {related or 'unknown'}"
    if not taken:
        sink.abort(str(again.get("TxnId", "")))
    yield "taken_before_commit", needs(taken and related == number, True, "a range could be loaded twice"), text
    yield from _committed(ctx, sink, label, number, states)


def _committed(ctx: DorisProbing, sink: DorisSink, label: str, number: str, states: list[str]) -> Iterator[Found]:
    outcome = sink.commit(label, number)
    seen = ctx.rows()
    done = outcome is Outcome.COMMITTED and [row[0] for row in seen] == [1]
    yield "commit_by_number", needs(done, True, "no load could be committed"), f"{outcome.name}, {len(seen)} rows"
    status, message = sink.second_phase(number, "commit")
    repeated = status == answers.SUCCESS or answers.is_done(message)
    yield "commit_repeated", needs(repeated, True, "a lost response would be misread"), f"{status}: {message}"
    states.append(sink.state(label))
    again = _load(sink, label, _row("I", 2))
    taken = again.get("Status") == answers.TAKEN
    if not taken:
        sink.abort(str(again.get("TxnId", "")))
    text = f"Status {again.get('Status')}, ExistingJobStatus {again.get('ExistingJobStatus')}"
    right = taken and again.get("ExistingJobStatus") == answers.FINISHED and ctx.rows() == seen
    yield "taken_after_commit", needs(right, True, "a range could be loaded twice"), text


def _aborted(sink: DorisSink, states: list[str]) -> Iterator[Found]:
    label = _label()
    number = str(_load(sink, label, _row("I", 3)).get("TxnId", ""))
    sink.abort(number)
    states.append(sink.state(label))
    status, message = sink.second_phase(number, "commit")
    gone = answers.is_aborted(message) or answers.is_missing(message)
    yield "commit_after_abort", needs(gone, True, "a lost response would be misread"), f"{status}: {message}"
    again = _load(sink, label, _row("I", 3))
    free = again.get("Status") != answers.TAKEN
    sink.abort(str(again.get("TxnId", "")) if free else "")
    yield "free_after_abort", needs(free, True, "a range would wait forever"), f"Status {again.get('Status')}"
    status, message = sink.second_phase(str(1 << 60), "commit")
    missing = needs(answers.is_missing(message), True, "a job would stop instead of comparing the label")
    yield "unknown_number", missing, f"{status}: {message}"


def _rows(ctx: DorisProbing) -> Iterator[Found]:
    sink = ctx.sink
    before = partitions(ctx.session, ctx.table)
    _put(sink, _row("I", 10, v="old"), _row("I", 11))
    _put(sink, _row("I", 10, v="new", point=2))
    found = [row for row in ctx.rows() if row[0] == 10]
    yield "row_replaced", needs(found == [(10, 1, "new")], True, "targets would have repeated rows"), str(len(found))
    _put(sink, _row("d", 11, point=3))
    gone = all(row[0] != 11 for row in ctx.rows())
    yield "sign_deletes", needs(gone, True, "deleted rows would stay in the target"), ""
    _put(sink, _row("I", 12, v=_ODD))
    text = next((str(row[2]) for row in ctx.rows() if row[0] == 12), "")
    yield "text_unchanged", needs(text == _ODD, True, "values would differ"), ascii(text)
    bad = (_row("I", 13), _row("I", 14, n="x"))
    try:
        sink.abort(str(_load(sink, _label(), *bad).get("TxnId", "")))
        refused = ""
    except RowRefused as error:
        refused = short(error)
    yield "bad_row_rejects", needs(bool(refused), True, "a bad row would be dropped, or become NULL"), refused
    count = sink.trial(_lines(*bad), len(bad), chunk=False)
    yield "bad_row_counted", needs(count == 1, True, "do not use on_bad_row = quarantine"), f"{count} of {len(bad)}"
    ctx.session.rows(f"ALTER TABLE {quoted(ctx.table)} ADD COLUMN `w` INT NULL")
    names = [row[0] for row in ctx.session.rows(f"DESC {quoted(ctx.table)}")]
    yield "added_at_once", yes_or_no("w" in names), " ".join(map(str, names))
    after = partitions(ctx.session, ctx.table)
    kept = needs(before == after if before and after else None, True, "a job would stop after a load")
    if kept.answer is None:
        kept = ProbeFinding(None, because="it needs the SHOW permission on the table")
    yield "partition_kept", kept, f"{sorted(before)} before, {sorted(after)} after"


def _sequences(ctx: DorisProbing) -> Iterator[Found]:
    sink = ctx.make("_seq")
    _put(sink, _row("I", 1, v="newer", point=9))
    _put(sink, _row("I", 1, v="older", point=4))
    found = [row[2] for row in ctx.rows("_seq")]
    yield "sequence_decides", needs(found == ["newer"], True, "a late load would replace a newer row"), str(found)


_OF_ROWS = tuple(name for name, one in QUESTIONS.items() if one.topic == "rows" and name != "sequence_decides")
GROUPS: tuple[Group[DorisProbing], ...] = (
    ("server", tuple(name for name, one in QUESTIONS.items() if one.topic == "server"), _server),
    ("labels", tuple(name for name, one in QUESTIONS.items() if one.topic == "labels"), _labels),
    ("rows", (*_OF_ROWS, "added_at_once", "partition_kept"), _rows),
    ("sequences", ("sequence_decides",), _sequences),
)
ASKS = Questionnaire(QUESTIONS, NEVER_ASKED, GROUPS)


def probe(login: Login) -> Probe:
    """Return the probe over sessions of a login."""

    def plan(name: str, schema: str, prod: bool) -> ProbePlan:
        with closing(MysqlQueries(login, "sink")) as session:
            version = str(session.rows("SELECT @@version_comment")[0][0])
            known = [str(row[0]).rpartition(":")[2] for row in session.rows("SHOW DATABASES")]
            usable = [one for one in known if one not in _SYSTEM]
            user = login.endpoint.user

            def grant(wanted: str) -> str:
                made = "" if wanted else "CREATE DATABASE probe; "
                rights = "SELECT_PRIV, LOAD_PRIV, CREATE_PRIV, ALTER_PRIV, DROP_PRIV"
                return f"{made}GRANT {rights} ON internal.{wanted or 'probe'}.* TO '{user}';"

            place = usable_schema(usable, schema, user, grant, "sink")
            table = f"{place}.{PREFIX}{uuid.uuid4().hex[:12]}"
            others = [f"{one[0]}.{one[1]}" for one in session.rows(_LEFT)]
        return ProbePlan(
            source=name,
            place=login.endpoint.place,
            server=safe(version, 200),
            stand_in="stand-in" in version,
            schema=place,
            table=table.partition(".")[2],
            prod=prod,
            statements=(_made(table), _made(f"{table}_seq")),
            others=tuple(Left(one, "from another probe", _drop_statement(one)) for one in others),
            effects=("creates scratch tables, loads a few rows into them, adds a column, and drops them",),
        )

    def ask(asked: ProbeAsked) -> tuple[Sequence[Answer], dict[str, bool | None]]:
        ctx = DorisProbing(login, f"{asked.plan.schema}.{asked.plan.table}")

        def drop(table: str) -> str:
            return why_left(lambda: MysqlQueries(login, "sink"), lambda session: session.rows(_drop_statement(table)))

        with dropped(lambda: ctx.scratch.drop(drop, _drop_statement), asked.left, asked.ending), closing(ctx.session):
            ctx.make("")
            return ASKS.run(ctx, asked.progress, time.monotonic), {}

    return Probe(ASKS.asked, plan, ask)
