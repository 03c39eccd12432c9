"""A sink with the tables of another version: a status check does not change them, a start migrates them and resumes.

The tables and rows come from running jobs of two earlier commits (`tests/fixtures/upgrade`), in a real PostgreSQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.driver import Runner
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.progress import locks, resets
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sinks.postgres.quarantine.replay import Replays
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sources.dws.position import POSITIONS, SyncPoints
from slotkeeper.core.sources.mysql.position import ours
from slotkeeper.demo.postgres import Server
from tests.support import polling
from tests.support.mirror import MakeMirror
from tests.support.pairs import MakeMysqlPair
from tests.support.standin import MakeWarehouse, drop_database, new_database
from tests.support.upgrade import COMMITS, JOB, sink_statements, statements_on_demand

KEY = LaneKey("dws1", "ods.orders", JOB, "dn_1")
ME = Runner("orders_rt", "run-2", "here", "etl", 1)
SHAPE = (
    "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
    " WHERE table_name LIKE 'slotkeeper%' ORDER BY 1, 2"
)
NEWEST = len(own_tables.migrations("progress"))
PLACE = {"source": KEY.source, "source_table": KEY.source_table, "slot": KEY.slot}


@dataclass
class Sink:
    """A database with Slotkeeper's tables of a commit, or without any, and sessions to it."""

    server: Server
    database: str

    def run(self, *statements: str) -> list[tuple[object, ...]]:
        with closing(self.server.connect(self.database)) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def session(self) -> SinkSession:
        endpoint: Endpoint = self.server.endpoint(self.database)
        return SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/test/0")

    def start(self) -> list[tuple[str, str, LaneState, str]]:
        """The tables that the first transaction of a start makes; the lanes as they are read then."""
        with closing(self.session()) as session:
            store = PostgresProgress(session, POSITIONS, KEY, ME)
            store.create_tables()
            rows = store.rows()
        return [(row.key.shard, row.position.text if row.position else "", row.state, row.fingerprint) for row in rows]


@pytest.fixture
def sink(pg_server: Server) -> Iterator[Sink]:
    new_database(pg_server, "upgraded")
    yield Sink(pg_server, "upgraded")
    drop_database(pg_server, "upgraded")


@pytest.mark.parametrize("commit", COMMITS)
def test_a_start_migrates_an_earlier_commits_tables_and_reads_its_positions(commit: str, sink: Sink) -> None:
    sink.run(*sink_statements(commit))
    fingerprint = "fingerprint" if commit == COMMITS[1] else "incarnation"
    written = sink.run(f"SELECT shard, position, state, {fingerprint} FROM slotkeeper_progress ORDER BY shard")

    found = sink.start()

    assert [(shard, place, state.value, text) for shard, place, state, text in found] == written
    assert sink.run("SELECT tables, version FROM slotkeeper_versions") == [("progress", NEWEST)]
    with closing(sink.session()) as session:
        (row, _) = PostgresProgress(session, POSITIONS, KEY, ME).rows()
    assert isinstance(row.registered, SyncPoints) and row.registered.settled and row.registered.xmin > 0
    migrated = sink.run(SHAPE)
    sink.run("DROP TABLE slotkeeper_progress, slotkeeper_chunks, slotkeeper_columns, slotkeeper_versions")
    sink.start()
    assert migrated == sink.run(SHAPE), "a migrated table has the columns of a new one"


def test_a_look_at_an_older_sink_changes_nothing_and_says_what_migrates_it(sink: Sink) -> None:
    sink.run(*sink_statements("41bb8e69"))
    before = sink.run(SHAPE)
    with closing(sink.session()) as session, pytest.raises(Refused, match='column "fingerprint"') as refused:
        PostgresProgress(session, POSITIONS, KEY, ME).rows()
    assert "`slotkeeper jobs start JOB` migrates Slotkeeper's own tables" in refused.value.hint
    assert sink.run(SHAPE) == before


def test_a_look_at_the_tables_that_no_number_is_recorded_for_reads_them(sink: Sink) -> None:
    sink.run(*sink_statements("7f5457e0"))
    with closing(sink.session()) as session:
        assert len(PostgresProgress(session, POSITIONS, KEY, ME).rows()) == 2
    assert not sink.run("SELECT 1 FROM pg_tables WHERE tablename = 'slotkeeper_versions'")


@pytest.mark.parametrize("commit", COMMITS)
def test_tables_that_are_made_on_demand_are_migrated_by_what_writes_them_and_keep_their_rows(
    commit: str, sink: Sink
) -> None:
    groups = ("audit", "resets", "quarantine")
    sink.run(*statements_on_demand(commit))
    _prepare(sink, *groups)
    migrated = sink.run(SHAPE)
    assert sink.run("SELECT action_id, chain, head FROM slotkeeper_audit") == [("a1", "", "")]
    assert sink.run("SELECT id, epoch FROM slotkeeper_resets") == [("r1", None)]
    assert sink.run("SELECT id, state FROM slotkeeper_quarantine") == [(1, "quarantined")]
    sink.run("DROP TABLE slotkeeper_versions", *(f"DROP TABLE {own_tables.TABLES[group][0]}" for group in groups))
    _prepare(sink, *groups)
    assert migrated == sink.run(SHAPE), "a migrated table has the columns of a new one"


def _prepare(sink: Sink, *groups: str) -> None:
    with closing(sink.session()) as session, session.transaction() as cursor:
        for group in groups:
            own_tables.prepare(session, cursor, group)


def test_the_tables_are_not_migrated_under_a_job_that_an_older_version_runs(sink: Sink) -> None:
    sink.run(*sink_statements("41bb8e69"))
    before = sink.run(SHAPE)
    with closing(sink.server.connect(sink.database)) as older, older.cursor() as cursor:
        cursor.execute(f"SELECT pg_advisory_lock({locks.lease_lock(KEY)})")  # in the form that that version accepts
        with pytest.raises(Refused, match="job orders_rt runs with an older slotkeeper"):
            sink.start()
        assert sink.run(SHAPE) == before
    assert len(sink.start()) == 2


def test_a_newer_versions_tables_are_refused_in_one_line_and_untouched(sink: Sink) -> None:
    sink.start()
    sink.run("UPDATE slotkeeper_versions SET version = 99")
    before = sink.run(SHAPE)
    with pytest.raises(Refused, match=rf"newer slotkeeper \(version 99, supported here: {NEWEST}\)") as refused:
        sink.start()
    assert "\n" not in refused.value.message
    assert sink.run(SHAPE) == before


def test_no_group_of_tables_of_a_newer_version_is_written(sink: Sink) -> None:
    _prepare(sink, *own_tables.TABLES)
    sink.run("UPDATE slotkeeper_versions SET version = 99")
    before = sink.run(SHAPE)
    with closing(sink.session()) as session:
        for group in own_tables.TABLES:
            newer = pytest.raises(Refused, match=rf"the {group} tables .* newer slotkeeper")
            with newer, session.transaction() as cursor:
                own_tables.prepare(session, cursor, group)
        with pytest.raises(Refused, match="newer slotkeeper"):
            Replays(session, KEY).discard(1, "dba", "INC-1")
        with pytest.raises(Refused, match="newer slotkeeper"), session.transaction() as cursor:
            resets.before_move(session, cursor, PLACE, POSITIONS, [], "r1", "")
        with session.transaction() as cursor:
            found = own_tables.versions(session, cursor)
    assert {(one.group, one.version) for one in found} == {(group, 99) for group in own_tables.TABLES}
    assert sink.run(SHAPE) == before


@pytest.mark.parametrize("commit", COMMITS)
def test_a_check_says_what_would_be_migrated_and_writes_nothing(
    commit: str, sink: Sink, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sink.run(*sink_statements(commit))
    endpoint = sink.server.endpoint(sink.database)
    config = polling.config(tmp_path, endpoint, endpoint)
    before = sink.run(SHAPE)
    words = ["--config", str(config), "upgrade", "--check", "--json"]
    assert main(words) == 0, capsys.readouterr().err
    parts = {one["what"]: (one["verdict"], one["why"]) for one in json.loads(capsys.readouterr().out)["parts"]}
    (tables,) = [value for what, value in parts.items() if what.endswith("progress tables")]
    assert tables == (
        "migrates",
        f"no recorded version, this version has {NEWEST}; `slotkeeper jobs start JOB` migrates them",
    )
    assert sink.run(SHAPE) == before
    sink.start()
    assert main(words) == 0
    assert f"version {NEWEST}" in capsys.readouterr().out
    sink.run("UPDATE slotkeeper_versions SET version = 99")
    assert main(words[:-1]) == 3
    assert "refused" in capsys.readouterr().out


@pytest.mark.parametrize("commit", [*COMMITS, ""])
def test_a_migration_is_one_file_that_is_applied_once_to_old_and_new_tables(
    commit: str, sink: Sink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / f"migrated_{commit}"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "999_seen.sql").write_text(
        "-- name: apply\n-- A test's.\nALTER TABLE {schema}.slotkeeper_progress ADD COLUMN seen text DEFAULT 'no'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    known: list[Book] = [*own_tables.migrations("progress"), (package.name, "999_seen.sql")]
    if commit:
        sink.run(*sink_statements(commit))
    monkeypatch.setattr(own_tables, "migrations", lambda group: known)
    for _ in range(2):
        sink.start()
    assert sink.run("SELECT tables, version FROM slotkeeper_versions") == [("progress", NEWEST + 1)]
    assert set(sink.run("SELECT seen FROM slotkeeper_progress")) <= {("no",)}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_login_that_owns_no_table_is_shown_what_the_owner_runs_and_continues_after_it(
    recorded: bool, sink: Sink
) -> None:
    sink.run(*sink_statements("7f5457e0"), "CREATE ROLE bound LOGIN SUPERUSER", "ALTER ROLE bound NOSUPERUSER")
    if recorded:
        sink.start()
        sink.run("ALTER TABLE slotkeeper_progress DROP target_seen", "UPDATE slotkeeper_versions SET version = 1")
    try:
        sink.run(
            "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
            *(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {one} TO bound" for one in own_tables.TABLES["progress"]),
        )
        with closing(sink.session()) as session:
            with pytest.raises(Refused) as refused, session.transaction() as cursor:
                cursor.execute("SET ROLE bound")
                own_tables.prepare(session, cursor, "progress")
            lacks = "table public.slotkeeper_progress lacks the column target_seen, and bound does not own it"
            assert refused.value.message == lacks
            as_owner, statement, again = refused.value.hint.split("`")
            assert (as_owner, again) == ("as its owner postgres run ", "; then start the job again")
            sink.run(statement)
            for _ in range(2):
                with session.transaction() as cursor:
                    cursor.execute("SET ROLE bound")
                    own_tables.prepare(session, cursor, "progress")
                    assert session.run(cursor, "rows", PLACE).fetchall()
    finally:
        sink.run("DROP OWNED BY bound", "DROP ROLE bound")


@pytest.mark.parametrize("commit", COMMITS)
def test_after_the_upgrade_a_job_resumes_from_the_positions_that_the_older_version_wrote(
    commit: str, make_warehouse: MakeWarehouse, make_mirror: MakeMirror
) -> None:
    warehouse = make_warehouse(2)
    warehouse.create_table("ods.t", "id bigint, note text", ("id",))
    mirror = make_mirror(warehouse, "ods.t")
    mirror.source("INSERT INTO ods.t SELECT n, 'copied' FROM generate_series(1, 50) n")
    mirror.start().wait_running()
    mirror.source("INSERT INTO ods.t SELECT n, 'streamed' FROM generate_series(51, 80) n")
    mirror.wait_equal()
    mirror.stop()
    before = mirror.rows()
    mirror.source("UPDATE ods.t SET note = 'while it was stopped' WHERE id > 40", "DELETE FROM ods.t WHERE id < 5")
    old = "slotkeeper_progress, slotkeeper_chunks, slotkeeper_columns, slotkeeper_versions"
    mirror.at_sink(f"DROP TABLE {old}", *sink_statements(commit), *(_as_of(commit, row) for row in before))

    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()

    assert JobEvent.COPY_BEGAN not in mirror.heard.events
    changed = sum(mirror.changes().values()) - sum(row.changes for row in before)
    assert changed == 40 * 2 + 4, "changes made while it was stopped, an update as two events, and nothing twice"


def _as_of(commit: str, row: ProgressRow) -> str:
    """The statement that replaces a lane's fixture row by the row that the older version wrote."""
    assert isinstance(row.registered, SyncPoints) and row.position is not None
    points = (row.registered.live, row.registered.durable, row.registered.xmin)
    values = {
        "source": row.key.source,
        "source_table": row.key.source_table,
        "slot": row.key.slot,
        "node_id": row.node_id,
        "target": row.target,
        "position": row.position.text,
        "epoch": row.epoch,
        "changes": row.changes,
        "noted_start": row.noted_start.text if row.noted_start else None,
        "noted_end": row.noted_end.text if row.noted_end else None,
        "channel": row.channel,
    }
    if commit == "41bb8e69":
        names = ("registered_live", "registered_durable", "registered_xmin")
        values |= {"incarnation": row.fingerprint, **dict(zip(names, points, strict=True))}
    else:
        values |= {"fingerprint": row.fingerprint, "registered": row.registered.text}
    given = ", ".join(f"{name} = {_literal(value)}" for name, value in values.items())
    return f"UPDATE slotkeeper_progress SET {given} WHERE shard = '{row.key.shard}'"


def _literal(value: object) -> str:
    return "NULL" if value is None else f"'{value}'"


def test_after_the_upgrade_a_mysql_job_resumes_from_positions_without_marks_and_creation_times(
    make_mysql_pair: MakeMysqlPair,
) -> None:
    """The tables of the earlier version, with a row for each of two MySQL tables in that version's form."""
    pair = make_mysql_pair(tables=2)
    names = [channel.source_table for channel in pair.mirror.job.channels]
    pair.run(*(f"INSERT INTO {name} SELECT seq, 0 FROM seq_1_to_50" for name in names))
    pair.mirror.start().wait_running()
    pair.run(*(f"INSERT INTO {name} SELECT seq, 1 FROM seq_51_to_80" for name in names))
    pair.wait_equal()
    pair.mirror.stop()
    before = pair.mirror.rows()
    pair.transaction(*(f"UPDATE {name} SET v = 2 WHERE id > 40" for name in names))
    pair.run(*(f"DELETE FROM {name} WHERE id < 5" for name in names))
    old = "slotkeeper_progress, slotkeeper_chunks, slotkeeper_columns, slotkeeper_versions"
    commit, shards = COMMITS[1], ("dn_1", "dn_2")
    pair.mirror.at_sink(f"DROP TABLE {old}", *sink_statements(commit))
    for row, shard in zip(before, shards, strict=True):
        pair.mirror.at_sink(_mysql_row(row, shard))

    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.transaction(*(f"UPDATE {name} SET v = 3 WHERE id = 60" for name in names))
    pair.wait_equal()
    pair.mirror.stop()

    assert JobEvent.COPY_BEGAN not in pair.mirror.heard.events
    changed = sum(pair.mirror.changes().values()) - sum(row.changes for row in before)
    assert changed == 2 * (40 * 2 + 4 + 2), "changes made since then, an update as two events, and nothing twice"


def _mysql_row(row: ProgressRow, shard: str) -> str:
    """The statement that replaces a fixture row by a MySQL lane's row, as the earlier version wrote it."""
    position = ours(row.position) if row.position is not None else None
    assert position is not None and position.mark is not None and position.born is not None
    values = {
        "source": row.key.source,
        "source_table": row.key.source_table,
        "slot": row.key.slot,
        "shard": row.key.shard,
        "node_id": row.node_id,
        "target": row.target,
        "position": position.plain,
        "epoch": row.epoch,
        "changes": row.changes,
        "noted_start": ours(row.noted_start).plain if row.noted_start else None,
        "noted_end": ours(row.noted_end).plain if row.noted_end else None,
        "channel": row.channel,
        "fingerprint": row.fingerprint,
        "registered": row.registered.text if row.registered is not None else None,
    }
    given = ", ".join(f"{name} = {_literal(value)}" for name, value in values.items())
    return f"UPDATE slotkeeper_progress SET {given} WHERE shard = '{shard}'"
