"""The statements of the vendors' pages, imported and mirrored on the stand-ins: from DWS, from Hologres, into Doris."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

from slotkeeper.core.config.load import load_usable
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.importing import lists, written
from slotkeeper.core.importing.pasted import Pasted
from slotkeeper.core.importing.written import Given, Server
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.hologres.instance import Hologres
from slotkeeper.demo.warehouse import Warehouse
from tests.support import maria as marias
from tests.support.hologres import job_over
from tests.support.mirror import MakeMirror, Mirror
from tests.support.pairs import MakeMysqlPair, Pair, doris_endpoint
from tests.support.pairs import doris as doris
from tests.support.pasted import CANAL_INSTANCE, CREATE_SYNC, DWS_FLINK, HOLOGRES_FLINK


def server(at: Endpoint, kind: str = "") -> Server:
    return Server(kind, at.host, at.port, at.database, at.user)


def imported(mirror: Mirror, *texts: str, sink: Endpoint | None = None, sink_kind: str = "postgres") -> JobSpec:
    """The job of the texts between the servers of the mirror's job; only passwords and names are the test's own."""
    before = mirror.job
    into = sink or before.sink
    found = Pasted()
    for text in texts:
        found = found.plus(lists.read(text))
    store = None if sink is None else server(before.sink, "postgres")
    given = Given(server(before.source), server(into, sink_kind), store)
    made = written.configuration(lists.with_canal(found), given)
    assert not made.refused, made.refused
    (job,) = load_usable(Path("imported.toml"), {}, text=made.text).whole().jobs.values()
    return replace(
        job,
        name=before.name,
        source=replace(job.source, name=before.source.name, password=before.source.password),
        sink=replace(job.sink, password=into.password, http_port=into.http_port, sslmode=into.sslmode),
        store=job.store and replace(job.store, password=before.sink.password),
        channels=tuple(replace(one, create_target=sink is None) for one in job.channels),
        binlog=replace(job.binlog, binlog_sleep_time=20, binlog_max_sleep_time=100),
    )


def test_the_full_synchronization_of_the_vendors_page_mirrors(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    table = "public.test_binlog_source"
    warehouse.create_table(table, "a int, b int, c int", ("a",))
    mirror = make_mirror(warehouse, table, "public.test_binlog_sink")
    mirror.job = imported(mirror, DWS_FLINK)
    with closing(warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} SELECT n, n, n FROM generate_series(1, 300) n")
        mirror.start().wait_running()
        cursor.execute(f"UPDATE {table} SET b = -b WHERE a % 3 = 0")
        cursor.execute(f"DELETE FROM {table} WHERE a % 7 = 0")
        Pair(mirror).wait_equal()
    mirror.stop()
    assert mirror.job.slot == "slot" and {row.key.slot for row in mirror.rows()} == {"slot"}


def test_the_hologres_table_of_the_vendors_page_mirrors(hologres: Hologres, make_mirror: MakeMirror) -> None:
    table = "public.test_message_src"
    hologres.create_table(table, "id int, title text, body text", ("id",))
    mirror = job_over(hologres, make_mirror, table, table)
    mirror.job = imported(mirror, HOLOGRES_FLINK.replace("<yourTablename>", "test_message_src"))
    with closing(hologres.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} SELECT n, 'title', 'body ' || n FROM generate_series(1, 200) n")
        mirror.start().wait_running()
        cursor.execute(f"UPDATE {table} SET title = 'changed' WHERE id < 20")
        cursor.execute(f"DELETE FROM {table} WHERE id > 190")
        Pair(mirror).wait_equal()
    mirror.stop()


def test_create_sync_with_canals_properties_mirrors_mysql_into_doris(
    make_mysql_pair: MakeMysqlPair, doris: DorisStandin
) -> None:
    pair = make_mysql_pair("id INT PRIMARY KEY, name INT")
    session = pair.session
    session.rows("CREATE OR REPLACE DATABASE demo")
    session.rows("CREATE TABLE demo.source_test1 (id INT NOT NULL PRIMARY KEY, name INT NOT NULL)")
    doris.create("demo.target_test", "id INT NOT NULL, name INT NOT NULL", ("id",))
    session.rows("INSERT INTO demo.source_test1 SELECT seq, seq FROM demo.seq_1_to_300")
    pair.mirror.job = imported(pair.mirror, CREATE_SYNC, CANAL_INSTANCE, sink=doris_endpoint(doris), sink_kind="doris")
    assert pair.mirror.job.source.user == marias.endpoint(pair.server).user
    pair.mirror.start().wait_running()
    session.rows("UPDATE demo.source_test1 SET name = -name WHERE id < 20")
    session.rows("DELETE FROM demo.source_test1 WHERE id > 290")
    pair.wait_equal()
    pair.mirror.stop()
    assert {row.state for row in pair.mirror.rows()} == {LaneState.RUNNING}
    session.rows("DROP DATABASE demo")
