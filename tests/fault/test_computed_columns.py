"""Computed columns of a job: PostgreSQL's own results in copy, stream and replay, and raw values nowhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.expressions import read
from slotkeeper.core.domain.spec import JobSpec, SoftDelete
from slotkeeper.core.errors import Refused
from slotkeeper.core.services.verify import verify
from slotkeeper.core.wiring import worker
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.warehouse import Warehouse
from tests.integration.test_dws_sink import face as face
from tests.support.mirror import MakeMirror, Mirror
from tests.support.pairs import HologresPair, doris_endpoint
from tests.support.pairs import doris as doris
from tests.support.pairs import hologres_pair as hologres_pair
from tests.support.standin import run

TABLE, TARGET = "ods.people", "mart.t"
CANARY = "canary-4711"
SALT = "s4lt of the test"
COMPUTE = {
    "email": "sha256(salt() || lower(email))",
    "phone": "mask(phone, 0, 2)",
    "cents": "(price * 100)::bigint",
    "day": "date_trunc('day', at)",
    "what": "change_op()",
    "cheap": "price <= 10",
    "size": "CASE WHEN price > 10 THEN 'large' WHEN price IS NULL THEN 'unknown' ELSE 'small' END",
}
ANSWERS = (
    "id, encode(sha256(convert_to('s4lt of the test' || lower(email), 'UTF8')), 'hex'), '****' || right(phone, 2),"
    " (price * 100)::bigint, date_trunc('day', at), price <= 10,"
    " CASE WHEN price > 10 THEN 'large' WHEN price IS NULL THEN 'unknown' ELSE 'small' END"
)


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> Mirror:
    columns = "id bigint NOT NULL, email text, phone text, price numeric(10,2), at timestamp, secret text"
    warehouse.create_table(TABLE, columns, ("id",), ("id",))
    write(warehouse, 1, 40)
    made = make_mirror(warehouse, TABLE, TARGET)
    (tmp_path / "salt").write_text(SALT + "\n")
    names = ("id", "email", "phone", "price", "at")
    channel = replace(
        made.job.channel,
        columns=tuple((name, {"at": "moment"}.get(name, name)) for name in names),
        compute=tuple(read(name, sql) for name, sql in COMPUTE.items()),
        salt=SecretRef("file", str(tmp_path / "salt"), "salt"),
        soft_delete=SoftDelete(),
    )
    options = replace(made.job.sink_options, on_bad_row="quarantine")
    made.job = replace(made.job, channels=(channel,), sink_options=options)
    return made


def into_dws(mirror: Mirror, request: pytest.FixtureRequest) -> JobSpec:
    request.getfixturevalue("face")
    (channel,) = mirror.job.channels
    return replace(mirror.job, sink_kind="dws", channels=(replace(channel, synced_at="read_at"),))


def into_doris(mirror: Mirror, request: pytest.FixtureRequest) -> JobSpec:
    doris: DorisStandin = request.getfixturevalue("doris")
    columns = "email STRING, phone STRING, price DECIMAL(10,2), moment DATETIME(6), cents BIGINT, day DATETIME(6)"
    doris.create("mart.c", f"id BIGINT NOT NULL, {columns}, cheap BOOLEAN, size STRING, what STRING", ("id",))
    return beside(mirror.job, doris_endpoint(doris), "doris")


def into_hologres(mirror: Mirror, request: pytest.FixtureRequest) -> JobSpec:
    pair: HologresPair = request.getfixturevalue("hologres_pair")
    columns = (
        "email text, phone text, price numeric(10,2), moment timestamp, cents bigint, day timestamp, cheap boolean"
    )
    columns += ", size text, what text"
    pair.hologres.create("mart.c", f"id bigint, {columns}", ("id",))
    return beside(mirror.job, pair.mirror.job.sink, "hologres")


def beside(job: JobSpec, sink: Endpoint, kind: str) -> JobSpec:
    channel = replace(job.channel, target="mart.c", create_target=False)
    made = replace(job, sink=sink, sink_kind=kind, store=job.sink, store_kind=job.sink_kind)
    return replace(made, channels=(channel,), sink_options=replace(made.sink_options, on_bad_row="stop"))


@pytest.mark.parametrize("into", [into_dws, into_doris, into_hologres])
def test_every_kind_of_sink_has_the_same_answers(
    mirror: Mirror, request: pytest.FixtureRequest, into: Callable[[Mirror, pytest.FixtureRequest], JobSpec]
) -> None:
    """`compute` and `synced_at` into `dws`, `doris` and `hologres`, in copy, stream and `verify`."""
    mirror.job = replace(mirror.job, channels=(replace(mirror.job.channel, soft_delete=None),))
    mirror.job = into(mirror, request)
    mirror.start().wait_running()
    write(mirror.warehouse, 41, 60)
    mirror.source(
        f"UPDATE {TABLE} SET email = upper(email), price = price + 1 WHERE id BETWEEN 10 AND 20",
        f"DELETE FROM {TABLE} WHERE id BETWEEN 21 AND 25",
    )
    mirror._until(lambda: verify(mirror.job, False, lambda done, planned: None).equal, 30, "the answers to be equal")
    mirror.stop()
    other = tuple(read(name, sql.replace("100", "101")) for name, sql in COMPUTE.items())
    changed = replace(mirror.job, channels=(replace(mirror.job.channel, compute=other),))
    assert dict(verify(changed, False, lambda done, planned: None).differing_columns).keys() == {"cents"}


def write(warehouse: Warehouse, first: int, last: int) -> None:
    run(
        warehouse,
        f"INSERT INTO {TABLE} SELECT n, '{CANARY}' || n || '@Example.ORG', '0171{CANARY}'::char(4) || n % 90 + 10,"
        f" CASE WHEN n % 7 > 0 THEN n * 1.05 END, timestamp '2026-01-31 23:59:59' + n * interval '1 minute', '{CANARY}'"
        f" FROM generate_series({first}, {last}) n",
    )


def equal(mirror: Mirror) -> bool:
    ours = mirror.query(mirror.warehouse.connect, f"SELECT {ANSWERS}, price, at FROM {TABLE} ORDER BY id")
    kept = "id, email, phone, cents, day, cheap, size, price, moment"
    return ours == mirror.query(mirror.sink, f"SELECT {kept} FROM {TARGET} WHERE deleted_at IS NULL ORDER BY id")


def test_computed_columns_have_the_answers_of_a_server_and_raw_values_are_nowhere(mirror: Mirror) -> None:
    """`compute` with the text of `salt_file`, in copy, stream, quarantine and `verify`."""
    mirror.start().wait_running()
    assert equal(mirror)
    write(mirror.warehouse, 41, 60)
    mirror.at_sink(f"ALTER TABLE {TARGET} ADD CONSTRAINT cheap CHECK (cents < 100000) NOT VALID")
    mirror.source(
        f"UPDATE {TABLE} SET email = upper(email), price = price + 1 WHERE id BETWEEN 10 AND 20",
        f"DELETE FROM {TABLE} WHERE id BETWEEN 21 AND 25",
        f"UPDATE {TABLE} SET price = 5000 WHERE id = 5",
    )

    def held() -> bool:
        with closing(worker.store_session(mirror.job, "test")) as session:
            return bool(session.quarantine().ids(mirror.job.lane_key()))

    mirror._until(held, 30, "a row to be quarantined")
    everywhere = mirror.query(
        mirror.sink,
        "SELECT table_schema || '.' || table_name FROM information_schema.tables"
        " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')",
    )
    assert len(everywhere) > 3
    for (name,) in everywhere:
        found = mirror.query(mirror.sink, f"SELECT t::text FROM {name} t WHERE t::text ILIKE '%{CANARY}%'")
        assert not found, f"{name} has a raw value"
    mirror.at_sink(f"ALTER TABLE {TARGET} DROP CONSTRAINT cheap")
    job = mirror.job
    with closing(worker.store_session(job, "test")) as session, worker.open_source(job, "test") as source:
        quarantine = session.quarantine()
        for id in quarantine.ids(job.lane_key()):
            quarantine.replay(id, job, job.lane_key(), source.identify(), "a test", "it fits now")
    mirror._until(lambda: equal(mirror), 30, "the answers to be equal")
    assert verify(job, False, lambda done, planned: None).equal
    mirror.at_sink(f"UPDATE {TARGET} SET phone = '****99' WHERE id = 7")
    compared = verify(job, False, lambda done, planned: None)
    assert (compared.different.keys, compared.differing_columns) == ((("7",),), (("phone", 1),))
    marks = mirror.query(mirror.sink, f"SELECT id FROM {TARGET} WHERE op = 'D' ORDER BY id")
    assert marks == [(id,) for id in range(21, 26)]
    mirror.stop()


def test_a_change_has_the_time_of_the_source_s_log(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    """A copied row has none, and a table without enable_binlog_timestamp has none either."""
    warehouse.create_table(TABLE, "id bigint, v text", ("id",), ("id",), timestamp=True)
    run(warehouse, f"INSERT INTO {TABLE} VALUES (1, 'a'), (2, 'b')")
    made = make_mirror(warehouse, TABLE, TARGET)
    compute = (read("changed", "change_time()"), read("day", "change_time()::date"))
    made.job = replace(made.job, channels=(replace(made.job.channel, compute=compute),))
    made.start().wait_running()
    clock = "SELECT clock_timestamp() AT TIME ZONE 'UTC'"
    ((before,),) = made.query(warehouse.connect, clock)
    run(warehouse, f"INSERT INTO {TABLE} VALUES (3, 'c')")
    run(warehouse, f"UPDATE {TABLE} SET v = 'd' WHERE id = 1")
    run(warehouse, f"DELETE FROM {TABLE} WHERE id = 2")
    made._until(lambda: verify(made.job, False, lambda done, planned: None).equal, 30, "the changes to be applied")
    got = made.query(made.sink, f"SELECT id, v, changed, day = changed::date FROM {TARGET} ORDER BY id")
    assert [(id, v, right) for id, v, _, right in got] == [(1, "d", True), (3, "c", True)]
    ((after,),) = made.query(warehouse.connect, clock)
    assert all(before <= changed <= after for *_, changed, _ in got)
    made.stop()


def test_a_row_without_an_answer_stops_the_job_and_its_values_are_not_shown(mirror: Mirror) -> None:
    mirror.start().wait_running()
    channel = mirror.job.channel
    mirror.stop()
    run(mirror.warehouse, f"UPDATE {TABLE} SET price = 0 WHERE id = 3")
    broken = replace(channel, compute=(read("email", "(1 / price)::text || email"),))
    mirror.job = replace(mirror.job, slot="other", channels=(broken,), progress_schema="other", on_existing="replace")
    mirror.at_sink("CREATE SCHEMA other")
    error = mirror.start().wait_error()
    assert isinstance(error, Refused), error
    assert f"{TABLE}: computed column email: division by zero" in error.message
    assert CANARY not in f"{error} {error.hint} {mirror.heard.retries}"
