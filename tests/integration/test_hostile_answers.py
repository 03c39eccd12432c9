"""A source can return any text in its answers: no sink executes it, nor does a printed statement that is pasted.

Each source kind's own code reads the answers, from a session that lies; each sink kind then checks, creates, alters and
writes its target by them. PostgreSQL stands in for DWS and Hologres.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import pytest

from slotkeeper.core.config.secrets import login, resolve
from slotkeeper.core.domain import type_name
from slotkeeper.core.domain.finding import Objection
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.ports.sink import Batch
from slotkeeper.core.sinks.doris import shape
from slotkeeper.core.sinks.doris.shape import DorisColumn, DorisTable
from slotkeeper.core.sinks.hologres.kind import HologresConnection
from slotkeeper.core.sinks.postgres.check import eligibility, made_types
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.check.target import reshape
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write.session_tables import create_staging
from slotkeeper.core.sources.dws import viewer as dws_types
from slotkeeper.core.sources.dws.position import POSITIONS, statuses_of
from slotkeeper.core.sources.dws.viewer import identity_of
from slotkeeper.core.sources.hologres.catalog import read_table as read_hologres
from slotkeeper.core.sources.mysql.session import ServerFacts
from slotkeeper.core.sources.mysql.tables import read_table as read_mysql
from slotkeeper.demo.postgres import Server
from tests.integration.test_upgrade import ME
from tests.support.standin import drop_database, new_database

DATABASE, TARGET = "hostile_answers", "mart.t"
LAYOUT = re.compile(r" WITH \(orientation = \w+[^)]*\)| DISTRIBUTE BY HASH \([^)]*\)")
QUOTED = re.compile(r"E'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`", re.DOTALL)
RUN = "CREATE TABLE public.pwned AS SELECT current_user AS who"
TEXTS = [
    f"{begin}; {RUN}; {end}" for begin in ("bigint)", 'bigint")', "x')", "x`)", "a.b)", "\\')") for end in ("--", "/*")
]
TEXTS += [
    f"bigint)\n; {RUN}; --",
    f"numeric(1); {RUN}; --)",
    f'"a"."b"); {RUN}; --',
    "bigint DEFAULT pwned()",
]
SOME = [TEXTS[0], f"\\'\"`); {RUN}; --"]
"""The statements that a hostile server tries."""


def breaks_out(statement: str) -> bool:
    rest = QUOTED.sub("", statement)
    return "pwned" in rest


# -- the answers of each kind of source --------------------------------------------------------------------------------


@dataclass
class Answers:
    """A session whose statements return these rows; a requested name is one of a statement, or its text."""

    rows_of: Mapping[str, Sequence[tuple[Any, ...]]]
    facts: ServerFacts = field(default_factory=lambda: ServerFacts({"version": "8.4.2", "server_uuid": "u"}))
    user: str = "etl"

    def rows(self, name: str, values: object = (), of: object = None, **more: object) -> list[tuple[Any, ...]]:
        return list(next(rows for key, rows in self.rows_of.items() if key in name))

    def asking(self, ask: Callable[[Any], Any]) -> Any:
        return ask(self)


def dws(name: str = "v", type_: str = "text", collation: str | None = None, key: str = "id") -> list[tuple[Any, ...]]:
    return [(1, key, "bigint", 5, 1, True, None, 1), (1, name, type_, 5, -1, False, collation, 2)]


def dws_with(
    kind: str, name: str = "kinds.own", base: str = "", parts: Sequence[str] = (), key: Sequence[str] = (), **of: str
) -> TableIdentity:
    """A table of DWS with a column of a user-defined type, as both answers describe it."""
    ranges = [(9, name, 0, 1, of.get("subtype", "text"), of.get("options", ""))] if kind == "r" else []
    types: list[tuple[Any, ...]] = [(9, name, kind, base, list(parts), bool(key), list(key), [])]
    answers: dict[str, list[tuple[Any, ...]]] = {"user_types": [(9,)], "types": types, "ranges": ranges}
    kinds = dws_types.user_types(cast(Any, Answers(answers)), "ods.t")
    return identity_of(dws(type_=name), kinds)


def of_hologres(name: str = "v", type_: str = "text", key: str = "id", **properties: str) -> TableIdentity:
    table = [(1, 5, 7, [key, name], ["bigint", type_], [True, False], [1, 2], [1])]
    session = Answers({"table": table, "properties": list(properties.items())})
    return read_hologres(cast(Any, session), "ods.t").identity


def of_mysql(
    name: str = "v", kind: str = "text", full: str = "text", key: str = "id", table: str = "t", **of: str
) -> TableIdentity:
    columns: list[tuple[Any, ...]] = [(key, "bigint", "bigint", "NO", None, None, 19, 0, None)]
    columns.append((name, kind, full, "YES", of.get("charset"), None, of.get("size"), of.get("size"), of.get("size")))
    answers: dict[str, list[tuple[Any, ...]]] = {
        "information_schema.tables": [("ods", table, of.get("sort", "BASE TABLE"), of.get("engine", "InnoDB"))],
        "information_schema.columns": columns,
        "SHOW INDEX": [("t", 0, of.get("index", "PRIMARY"), 1, key, "A", 1, None, None, "", "BTREE")],
    }
    facts = ServerFacts({"version": "8.4.2", "server_uuid": of.get("server", "u"), "lower_case_table_names": "1"})
    return read_mysql(cast(Any, Answers(answers, facts)), "ods.t").identity


def of_status(name: str, text: str) -> TableIdentity:
    """A status of DWS: its DN's name, or its columns, as the store receives them."""
    shard, column, type_ = (text if name == one else "dn_1" for one in ("shard", "column", "type"))
    type_ = text if name == "type" else "text"
    rows = [(flag, shard, 1, 5, 6, 7, 1, ["id", column], ["bigint", type_], [1, 2], [1]) for flag in (False, True)]
    (status,) = statuses_of(rows, "db5")
    return TableIdentity(1, (Column("id", "bigint", True), Column("v", "text")), ("id",), status.shard.name)


ANSWERS: dict[str, Callable[[str], TableIdentity]] = {
    "dws: column": lambda text: identity_of(dws(name=text)),
    "dws: key": lambda text: identity_of(dws(key=text)),
    "dws: type": lambda text: identity_of(dws(type_=text)),
    "dws: array": lambda text: identity_of(dws(type_=f"{text}[]")),
    "dws: size": lambda text: identity_of(dws(type_=f"numeric({text})")),
    "dws: collation": lambda text: identity_of(dws(collation=text)),
    "dws: made type": lambda text: dws_with("e", text, parts=("a",)),
    "dws: made type, quoted": lambda text: dws_with("e", f'kinds."{text}"', parts=("a",)),
    "dws: label": lambda text: dws_with("e", parts=("a", text)),
    "dws: base of a domain": lambda text: dws_with("d", base=text),
    "dws: attribute": lambda text: dws_with("c", parts=(text,)),
    "dws: type of an attribute": lambda text: dws_with("c", parts=(f"a {text}",)),
    "dws: key of a row type": lambda text: dws_with("c", parts=("a text",), key=(text,)),
    "dws: subtype of a range": lambda text: dws_with("r", subtype=text),
    "dws: option of a range": lambda text: dws_with("r", options=f"subtype_opclass = {text}"),
    "dws: kind of a type": dws_with,
    "dws: name of a DN": lambda text: of_status("shard", text),
    "dws: column in a status": lambda text: of_status("column", text),
    "dws: type in a status": lambda text: of_status("type", text),
    "hologres: column": lambda text: of_hologres(name=text),
    "hologres: key": lambda text: of_hologres(key=text),
    "hologres: type": lambda text: of_hologres(type_=text),
    "hologres: table_id": lambda text: of_hologres(table_id=text),
    "hologres: clustering_key": lambda text: of_hologres(clustering_key=text, comment=text),
    "mysql: column": lambda text: of_mysql(name=text),
    "mysql: key": lambda text: of_mysql(key=text),
    "mysql: data_type": lambda text: of_mysql(kind=text, full=text),
    "mysql: column_type": lambda text: of_mysql(kind="varchar", full=text),
    "mysql: labels": lambda text: of_mysql(kind="enum", full=f"enum('{text}')"),
    "mysql: charset": lambda text: of_mysql(charset=text),
    "mysql: table": lambda text: of_mysql(table=text),
    "mysql: engine and index": lambda text: of_mysql(engine=text, index=text, sort=f"BASE TABLE {text}"),
    "mysql: server": lambda text: of_mysql(server=text),
}
"""hologres_slot reads the same catalog as hologres. No reader asks for defaults, comments or partitions' names."""
PARSED = {
    *("dws: type", "dws: array", "dws: size", "dws: collation", "dws: made type", "dws: base of a domain"),
    *("dws: attribute", "dws: type of an attribute", "dws: subtype of a range", "dws: option of a range"),
    *("dws: type in a status", "hologres: type"),
}
"""Fields that are SQL where a server writes them."""


# -- use by each kind of sink ------------------------------------------------------------------------------------------


class Recorded(pg.Cursor):
    """A cursor that records its statements, and removes the layouts that PostgreSQL does not have."""

    sent: ClassVar[list[str]] = []

    def execute(self, query: Any, vars: Any = None) -> None:
        text = query if isinstance(query, str) else query.as_string(self)
        self.sent.append(text)
        super().execute(LAYOUT.sub("", text), vars)


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[Server]:
    new_database(pg_server, DATABASE)
    yield pg_server
    drop_database(pg_server, DATABASE)


@pytest.fixture(scope="module")
def sessions(database: Server) -> Iterator[dict[str, SinkSession]]:
    endpoint = database.endpoint(DATABASE)
    made = {
        kind: SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/hostile/1", kind=kind)
        for kind in ("postgres", "dws")
    }
    PostgresProgress(made["postgres"], POSITIONS, LaneKey("s", "ods.t", "slot", ""), ME).create_tables()
    for session in made.values():
        session.ready().cursor_factory = Recorded
    yield made
    for session in made.values():
        session.close()


def fresh(session: SinkSession, *made: str) -> None:
    run(session, ["DROP SCHEMA IF EXISTS mart CASCADE", "DELETE FROM public.slotkeeper_progress", *made])
    Recorded.sent.clear()


def run(session: SinkSession, statements: Iterable[str]) -> None:
    for statement in statements:
        with session.transaction() as cursor:
            cursor.execute(statement)


def attempt(action: Callable[[], object]) -> None:
    """Run it as far as possible: the sink may reject it with a named error, or reject a name."""
    with suppress(SlotkeeperError, pg.DriverError, ValueError):
        action()


def at_postgres(session: SinkSession, identity: TableIdentity) -> list[str]:
    """A start that makes the target, one that alters it, and the pasted output of both."""
    channel, printed = ChannelSpec("ods.t", TARGET, create_target=True), list[str]()
    attempt(lambda: targets.create(session, TARGET, identity))
    fresh(session, "CREATE SCHEMA mart", f"CREATE TABLE {TARGET} (id bigint PRIMARY KEY, w integer)")
    found: list[Objection] = []
    attempt(lambda: found.extend(eligibility.made_objections(TARGET, identity, session)))
    target = targets.target_of(channel, identity)
    facts = eligibility.read(session, TARGET, identity.user_types)
    found += eligibility.objections(target, identity, facts, SinkOptions(on_bad_row="quarantine"))
    for own in identity.user_types:
        printed.append(made_types.cure(own, identity, lambda name: True))
    shaped = reshape(session, channel, identity, None, SinkOptions())
    for statements in (shaped.statements, shaped.blank, shaped.typed, [one.cure for one in found], printed):
        for statement in statements:
            attempt(lambda statement=statement: run(session, [statement]))  # type: ignore[misc]
    attempt(lambda: run(session, [create_staging(targets.seen(session, target)).as_string(session.ready())]))
    return [*shaped.typed, *shaped.statements, *shaped.blank, *(one.cure for one in found), *printed]


def into_store(session: SinkSession, identity: TableIdentity, text: str) -> None:
    """The rows of a job whose DN, server and columns have these names."""
    key = LaneKey("s", "ods.t", "slot", identity.server.removeprefix("server-"))
    store = PostgresProgress(session, POSITIONS, key, ME)
    row = ProgressRow(key, 1, TARGET, None, 0, 0, LaneState.CREATING, None, None, "c", identity.text, None)
    attempt(lambda: store.insert([row, replace(row, key=replace(key, shard=text))]))
    attempt(lambda: store.note_columns(identity.text, identity.columns))
    attempt(lambda: store.noted_columns(identity.text))


def pwned(session: SinkSession) -> bool:
    return bool(session.composed_rows(pg.sql.SQL("SELECT 1 FROM pg_class WHERE relname = 'pwned'"), None))


@pytest.mark.parametrize("kind", ["postgres", "dws"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_postgresql_and_dws_run_nothing_of_what_a_source_answers(
    sessions: dict[str, SinkSession], answer: str, kind: str
) -> None:
    session = sessions[kind]
    for text in SOME:
        identity = told(answer, text)
        if identity is not None and is_new(kind, identity):
            fresh(session)
            printed = at_postgres(session, identity)
            into_store(sessions["postgres"], identity, text)
            assert not [one for one in (*Recorded.sent, *printed) if breaks_out(one)], text
        assert not pwned(session), text


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_hologres_runs_nothing_of_what_a_source_answers(
    database: Server, sessions: dict[str, SinkSession], answer: str
) -> None:
    session = sessions["postgres"]
    where = replace(database.endpoint(DATABASE), name="holo")
    job = JobSpec("job", where, where, "slot", (ChannelSpec("ods.t", TARGET),), sink_kind="hologres")
    with closing(HologresConnection(login(where, "test"))) as connection:
        for text in SOME:
            identity = told(answer, text)
            if identity is None or not is_new("hologres", identity):
                continue
            names = ", ".join(
                f"{pg_name(one.name)} {'bigint' if one.type == 'bigint' else 'text'}" for one in identity.columns
            )
            key = ", ".join(map(pg_name, identity.key))
            fresh(session, "CREATE SCHEMA mart", f"CREATE TABLE {TARGET} ({names}, PRIMARY KEY ({key}))")
            target = connection.target(job)
            attempt(lambda: target.admit(identity))  # noqa: B023 - called here
            rows = [("1", text)]
            batch = Batch(LaneKey("s", "ods.t", "slot", text), "chunk 1", 1, lambda: iter(rows))  # noqa: B023
            attempt(lambda: connection.batch_sink(job, identity, "direct").write_chunk(batch))  # noqa: B023
            printed = target.reshape(identity, None).typed
            assert not [one for one in printed if breaks_out(one)], text
            assert not pwned(session), text


_TRIED: set[tuple[str, str]] = set()


def is_new(kind: str, identity: TableIdentity) -> bool:
    """Whether the sink of this kind has not received the same text in another answer: a text may never reach it."""
    seen = (kind, repr(replace(identity, oid=0, server=identity.server if "pwned" in identity.server else "")))
    new = seen not in _TRIED
    _TRIED.add(seen)
    return new


def pg_name(name: str) -> str:
    return '"' + name.replace('"', '""')[:60] + '"'


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_doris_runs_nothing_of_what_a_source_answers(answer: str) -> None:
    for text in TEXTS:
        identity = told(answer, text)
        if identity is None:
            continue
        sent = [shape.statement(TARGET, identity)]
        own = tuple(DorisColumn(one.name, "string", True) for one in identity.columns)
        whole = DorisTable(TARGET, own, identity.key, "UNIQUE", True)
        for table in (whole, replace(whole, columns=own[:1]), replace(whole, columns=())):
            sent += [one.cure for one in shape.objections(table, identity)]
        sent.append(shape.layout(whole, identity).header)
        assert not [one for one in sent if breaks_out(one)], text


def told(answer: str, text: str) -> TableIdentity | None:
    """The result of the source's own code for an answer; None if it refuses the answer, in one line that names the
    text.
    """
    try:
        return ANSWERS[answer](text)
    except Refused as error:
        said = f"{error} {error.hint}"
        assert said.isprintable() and error.where == "source"
        assert "pwned" in said, said
        return None


@pytest.mark.parametrize("answer", sorted(PARSED))
def test_a_field_that_a_server_writes_as_sql_is_refused_by_name_where_it_is_none(answer: str) -> None:
    assert [text for text in TEXTS if told(answer, text) is not None] == []


def test_the_check_of_a_statement_finds_a_text_that_breaks_out() -> None:
    assert all(breaks_out(f"CREATE TABLE t (id {text})") for text in TEXTS)
    assert not breaks_out(f"""CREATE TABLE "a; {RUN}" (x text DEFAULT '{RUN}', `{RUN}` b)""")


def test_each_type_of_a_server_is_read_as_itself_and_written_so_that_a_statement_means_it(
    sessions: dict[str, SinkSession],
) -> None:
    asked = (
        "SELECT format_type(t.oid, NULL), t.oid::bigint FROM pg_type t"
        " WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typtype <> 'p'"
        " UNION SELECT format_type(t.oid, 327686), t.oid::bigint FROM pg_type t WHERE t.typname IN"
        " ('numeric', 'varchar', 'bpchar', 'bit', 'varbit', 'time', 'timetz', 'timestamp', 'timestamptz', '_numeric')"
    )
    found = sessions["postgres"].composed_rows(pg.sql.SQL(asked), None)
    assert len(found) > 400
    assert [text for text, _ in found if type_name.parsed(text).text != text] == []
    written = pg.sql.SQL(", ").join(
        pg.sql.SQL("({}::oid, to_regtype({}))").format(pg.sql.Literal(oid), pg.sql.Literal(type_name.sql(text)))
        for text, oid in found
    )
    wrong = pg.sql.SQL("SELECT * FROM (VALUES {}) v (there, read) WHERE there IS DISTINCT FROM read::oid")
    assert sessions["postgres"].composed_rows(wrong.format(written), None) == []
