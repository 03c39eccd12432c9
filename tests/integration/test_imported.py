"""The statements of the vendors' pages, imported and mirrored on the stand-ins: from DWS, from Hologres, into Doris."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

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
from tests.support.pasted import (
    CANAL_INSTANCE,
    CREATE_SYNC,
    DWS_FLINK,
    DWS_FLINK_SOURCE,
    DWS_JAVA,
    HOLO_CLIENT,
    HOLO_STREAM,
    HOLOGRES_FLINK,
    ON_DWS,
    ON_HOLOGRES,
)


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


@pytest.mark.parametrize("text", [DWS_FLINK, DWS_FLINK_SOURCE, DWS_JAVA], ids=["synchronization", "table", "Java"])
def test_the_statements_of_the_vendors_dws_page_mirror(
    warehouse: Warehouse, make_mirror: MakeMirror, text: str
) -> None:
    """Over tables that the page's own statements create."""
    assert warehouse.run("show enable_hstore_binlog_table") == ["on"]
    for number, statements in enumerate(ON_DWS):
        warehouse.run(statements.replace("hstore_binlog_source", f"hstore_{number}"))
    mirror = make_mirror(warehouse, "public.test_binlog_source", "public.test_binlog_sink")
    mirror.job = imported(mirror, text)
    table = mirror.job.channel.source_table
    with closing(warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"INSERT INTO {table} SELECT n, n, n FROM generate_series(1, 300) n")
        mirror.start().wait_running()
        cursor.execute(f"UPDATE {table} SET b = -b WHERE a % 3 = 0")
        cursor.execute(f"DELETE FROM {table} WHERE a % 7 = 0")
        Pair(mirror).wait_equal()
    mirror.stop()
    assert {row.key.slot for row in mirror.rows()} == {mirror.job.slot} <= {"slot", "binlog_test_slot"}


@pytest.mark.parametrize("text", [HOLOGRES_FLINK, HOLO_STREAM, HOLO_CLIENT], ids=["Flink", "stream", "client"])
def test_the_statements_of_the_vendors_hologres_page_mirror(
    hologres: Hologres, make_mirror: MakeMirror, text: str
) -> None:
    """Over a table that the page's own statements create."""
    table = "public.test_message_src"
    with hologres.control() as cursor:
        cursor.execute(ON_HOLOGRES.replace("begin;", "").replace("commit;", ""))
    hologres.let_replicate(table)
    mirror = job_over(hologres, make_mirror, table, table)
    recent = f"{datetime.now(timezone.utc) - timedelta(hours=1):%Y-%m-%d %H:%M:%S}+00"  # the page's is beyond the TTL
    text = text.replace("<yourTablename>", "test_message_src").replace("2021-01-01 12:00:00+08", recent)
    mirror.job = imported(mirror, text)
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
