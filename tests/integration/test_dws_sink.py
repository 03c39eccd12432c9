"""DWS as a sink, as far as PostgreSQL can show it: every statement that is sent, and its effect on the target.

NOT shown here: that DWS accepts these statements. A wrapper of PostgreSQL's cursor stands in for DWS: it removes the
clauses that PostgreSQL lacks (the layout of a table), and rejects the statements that DWS rejects, lacks or handles
badly according to its vendor's pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.services.reset import reset_context
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.scaling import rename_dn
from slotkeeper.demo.warehouse import Warehouse
from tests.property.test_query_effects import run as run_query
from tests.property.test_sink_effects import CELLS, even, run
from tests.support import shapes, standin
from tests.support.effects import Effects
from tests.support.mirror import MakeMirror
from tests.support.oracle import Event, Value
from tests.support.query_effects import QueryEffects
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

DATABASE = "dws_sink"
TABLE = "ods.t"
LAYOUT = re.compile(r" WITH \(orientation = \w+[^)]*\)| DISTRIBUTE BY HASH \([^)]*\)")
REFUSED = re.compile(
    r"\bRETURNING\b|\bDISTINCT ON\b|\bFILTER\b|\bMATERIALIZED\b|\bORDINALITY\b|to_regclass|attidentity|attgenerated"
    r"|^\s*WITH\b|^\s*PREPARE\b.*\bMERGE\b|\bSET shard\b",
    re.DOTALL,
)
"""Statements newer than its dialect, refused before ON CONFLICT (WITH) or inside PREPARE (MERGE), or not pushed down;
or the column by whose hash rows are distributed.
"""


class Face(pg.Cursor):
    """A cursor of the DWS stand-in, for statements only."""

    sent: ClassVar[list[str]] = []

    def execute(self, query: Any, vars: Any = None) -> None:
        text = query if isinstance(query, str) else query.as_string(self)
        self.sent.append(text)
        assert not REFUSED.search(text), text
        assert not re.search(r"^\s*CREATE (TEMP )?TABLE(?!.*(DISTRIBUTE BY|LIKE))", text, re.DOTALL), text
        super().execute(LAYOUT.sub("", text), vars)


@pytest.fixture
def face(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let sessions of kind dws use this cursor; return the statements that they send."""
    real = SinkSession.ready

    def ready(session: SinkSession) -> pg.Connection:
        connection = real(session)
        if session.dialect.name == "dws":
            connection.cursor_factory = Face
        return connection

    monkeypatch.setattr(SinkSession, "ready", ready)
    Face.sent.clear()
    return Face.sent


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[str]:
    new_database(pg_server, DATABASE)
    yield DATABASE
    drop_database(pg_server, DATABASE)


def test_kind_dws_mirrors_without_what_dws_refuses(
    warehouse: Warehouse, make_mirror: MakeMirror, face: list[str]
) -> None:
    columns = """place bigint NOT NULL, id bigint NOT NULL, v text, w text COLLATE "C" DEFAULT 'w' NOT NULL"""
    warehouse.create_table(TABLE, columns, ("place", "id"), ("place",))
    standin.run(warehouse, f"INSERT INTO {TABLE} SELECT n % 3, n, 'row ' || n FROM generate_series(1, 1000) n")
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(mirror.job, sink_kind="dws")
    mirror.start().wait_running()
    mirror.source(
        f"UPDATE {TABLE} SET id = id + 10000 WHERE id <= 10",
        f"UPDATE {TABLE} SET v = NULL WHERE id > 900",
        f"DELETE FROM {TABLE} WHERE id BETWEEN 101 AND 110",
        f"INSERT INTO {TABLE} VALUES (101 % 3, 101, 'again')",
    )
    until(lambda: sum(mirror.changes().values()) == 20 + 2 * 110 + 10 + 1, 30, "all to be applied")
    assert mirror.difference() == (0, 0)
    mirror.stop()
    made = next(text for text in face if text.startswith('CREATE TABLE "mart"'))
    assert made.endswith(
        'PRIMARY KEY ("place", "id")) WITH (orientation = column, enable_hstore_opt = on)'
        ' DISTRIBUTE BY HASH ("place", "id")'
    )
    assert '"v" text, "w" text COLLATE pg_catalog."C" NOT NULL, PRIMARY KEY' in made
    progress = next(text for text in face if "CREATE TABLE IF NOT EXISTS" in text and "slotkeeper_progress" in text)
    assert progress.count("WITH (orientation = row") == progress.count("DISTRIBUTE BY HASH (") == 3


@pytest.mark.parametrize("existing", ["replace", "merge"])
def test_a_target_with_rows_is_copied_into(
    warehouse: Warehouse, make_mirror: MakeMirror, face: list[str], existing: str
) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    standin.run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'row ' || n FROM generate_series(1, 100) n")
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(
        mirror.job,
        sink_kind="dws",
        on_existing=existing,
        channels=(ChannelSpec(TABLE, "mart.Orders"),),
        binlog=replace(mirror.job.binlog, binlog=False),
    )
    mirror.at_sink("CREATE SCHEMA mart", 'CREATE TABLE mart."Orders" (id bigint PRIMARY KEY, v text, own text)')
    mirror.at_sink("""INSERT INTO mart."Orders" VALUES (1, 'old', 'own'), (999, 'old', 'own')""")
    mirror.start().join()
    assert mirror.error is None
    found = mirror.query(mirror.sink, 'SELECT count(*), count(own) FROM mart."Orders"')
    assert found == [(100, 0) if existing == "replace" else (101, 2)]


def test_a_dn_under_another_name_keeps_its_row(warehouse: Warehouse, make_mirror: MakeMirror, face: list[str]) -> None:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    standin.run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'row ' || n FROM generate_series(1, 100) n")
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(mirror.job, sink_kind="dws")
    mirror.start().wait_running()
    mirror.stop()
    rename_dn(warehouse, "dn_2", "dn_two")
    mirror.source(f"UPDATE {TABLE} SET v = 'later'")
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert {row.key.shard: row.node_id for row in mirror.rows()} == dict(warehouse.nodes())
    assert any(text.startswith("INSERT INTO") and "%(new)s, node_id" in text for text in face)


@pytest.mark.parametrize("partial", [False, True], ids=["whole", "partial"])
def test_every_mode_makes_what_the_oracle_makes(
    pg_server: Server, database: str, face: list[str], seed: int, partial: bool
) -> None:
    name = "mart.every t" if partial else "mart.excluded"  # written with quotes; like ON CONFLICT's own
    effects = Effects(pg_server, database, name, others=partial, kind="dws")
    events = 0
    for number, (mode, strategy) in enumerate(CELLS):
        options = SinkOptions(
            write_mode=mode,
            conflict_strategy=strategy,
            copy_write_batch_size=1 + number % 2 * 1_000_000,
            ignore_null_when_update=strategy == "update" and number % 4 > 1,
        )
        events += run(effects, options, even if number % 3 else None, seed + number)
    effects.close()
    print(f"seed {seed}: {events} events")
    assert any("MERGE INTO" in text for text in face)


@pytest.mark.parametrize("mode", ["auto", "copy_merge", "copy_update"])
def test_batches_of_a_query_make_what_the_oracle_makes(
    pg_server: Server, database: str, face: list[str], seed: int, mode: str
) -> None:
    """The statements only, as in the whole file: an unlogged table, and a fence by ON CONFLICT ... WHERE."""
    effects = QueryEffects(pg_server, database, f"mart.query_{mode}", others=True, kind="dws")
    run_query(effects, SinkOptions(write_mode=mode), True, seed)
    effects.close()
    staged = next(text for text in face if text.startswith("CREATE UNLOGGED TABLE"))
    assert staged.endswith(' WITH (orientation = row) DISTRIBUTE BY HASH ("c1", "c2")')


def test_where_merge_is_refused_for_now_the_same_rows_are_upserted(
    pg_server: Server, database: str, face: list[str]
) -> None:
    """DWS: MERGE INTO cannot run during redistribution. A rule on the table makes PostgreSQL refuse it likewise."""
    row: dict[str, Value] = {"h": 0, "k": 1, "a": 1, "b": "x", "tags": None, "j": None}
    events = [Event(1, 2, "I", (0, 1), row)]
    for kind in ("dws", "postgres"):
        effects = Effects(pg_server, database, f"mart.merge_{kind}", others=False, kind=kind)
        with effects.session.transaction() as cursor:
            cursor.execute(f"CREATE RULE still AS ON DELETE TO mart.merge_{kind} DO ALSO NOTHING")
        sink = effects.sink(SinkOptions(write_mode="copy_merge"))
        if kind == "dws":
            effects.step(sink, events)
            assert effects.rows() == {(0, 1): row}
            assert [text.split()[0] for text in face[-4:]] == ["SAVEPOINT", "MERGE", "ROLLBACK", "INSERT"]
            effects.chunk(effects.sink(sink.options, "merge"), [{**row, "a": 2}])
            assert effects.rows() == {(0, 1): {**row, "a": 2}}
        else:
            with pytest.raises(SlotkeeperError, match="MERGE"):
                effects.step(sink, events)
        effects.close()


def test_the_face_refuses_what_postgresql_alone_takes(pg_server: Server, database: str, face: list[str]) -> None:
    session = Effects(pg_server, database, "mart.face", others=False, kind="dws").session
    with session.transaction() as cursor:
        for text in ("SELECT DISTINCT ON (1) 1", "UPDATE t SET a = 1 RETURNING a", "WITH x AS (SELECT 1) SELECT 1"):
            with pytest.raises(AssertionError):
                cursor.execute(text)
        with pytest.raises(AssertionError):
            cursor.execute("CREATE TABLE t (a integer)")
    session.close()


@pytest.mark.parametrize("policy", ["stop", "resnapshot"])
def test_a_changed_source_alters_a_target_or_names_what_does(
    warehouse: Warehouse, make_mirror: MakeMirror, face: list[str], policy: str
) -> None:
    """DWS alters with its own statements; with DWS as a sink, no slot is reset, and the fix is another one."""
    mirror = shapes.prepared(warehouse, make_mirror, policy)
    mirror.job = replace(mirror.job, sink_kind="dws")
    shapes.insert(mirror, "1, 50")
    mirror.start().wait_running()
    mirror.source(
        f"ALTER TABLE {TABLE} RENAME COLUMN v TO u",
        f"ALTER TABLE {TABLE} ADD COLUMN x integer NOT NULL DEFAULT 1",
        f"ALTER TABLE {TABLE} ALTER COLUMN w TYPE bigint",
    )
    alter = "ALTER TABLE mart.t"
    typed = [f"{alter} RENAME COLUMN v TO u", f"{alter} ALTER COLUMN w TYPE bigint", f"{alter} ADD COLUMN x integer"]
    if policy == "stop":
        hint = str(getattr(mirror.wait_error(), "hint", ""))
        assert shapes.statements_of(hint) == typed
        forget = hint.partition("in the sink: `DELETE")[2].partition("`; then `slotkeeper jobs start")[0]
        assert f"then `slotkeeper slots drop {TABLE} {mirror.job.slot}` prints the command that drops the slot;" in hint
        standin.run(warehouse, f"SELECT pgxc_binlog_clear_target_slot('{TABLE}', '{mirror.job.slot}')")
        mirror.at_sink(*typed, f"DELETE{forget}")
        mirror.start()
    else:
        until(lambda: [one for one in face if one.startswith(alter)] == typed, 60, "the target to be altered")
    mirror.wait_running()
    standin.run(warehouse, f"DELETE FROM {TABLE} WHERE id < 4")
    mirror.wait_equal()
    mirror.stop()


def test_a_reset_is_refused_where_the_sink_is_dws(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    job = replace(make_mirror(warehouse, TABLE).job, sink_kind="dws")
    with (
        pytest.raises(Refused, match=r"is a GaussDB\(DWS\)"),
        reset_context(job, StateFolder(tmp_path, False), pytest.fail, print),
    ):
        pytest.fail("it began")
