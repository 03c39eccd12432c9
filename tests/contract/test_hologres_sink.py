"""Statements of a Hologres sink at a real PostgreSQL: every type keeps its values, and no text escapes its quotes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.progress import LaneKey
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import AccessRefused, Refused, RowRefused, Unreachable
from slotkeeper.core.ports.kinds import SinkAsked
from slotkeeper.core.ports.sink import Batch, Fields
from slotkeeper.core.services.doctor import check_sink
from slotkeeper.core.sinks import registry
from slotkeeper.core.sinks.hologres.kind import HologresConnection
from slotkeeper.demo.hologres.sink_side import HologresSinkSide
from slotkeeper.demo.postgres import Server
from tests.support.standin import drop_database, new_database
from tests.unit.config.samples import VALID

DATABASE = "holo_types"
KEY = LaneKey("dws1", "ods.t", "slot", "dn_1")
ODD = ["", "NULL", 'quo"te', "back\\slash", "{}", "a,b", "new\nline", "tab\t", "'); DROP TABLE mart.t; --", "😀", " x "]
VALUES: dict[str, list[str | None]] = {
    "smallint": ["-32768", "32767", None],
    "integer": ["-2147483648", "0"],
    "bigint": ["9223372036854775807", "-1"],
    "real": ["1.5", "NaN", "-Infinity"],
    "double precision": ["0.1", "1e+300", "Infinity"],
    "boolean": ["t", "f"],
    "numeric(38,10)": ["1234567890123456789012345678.0123456789", "-0.0000000001"],
    "text": [*ODD, None],
    "character varying(200)": [*ODD],
    "character(5)": ["a    ", "ab   "],
    "bytea": ["\\x", "\\x00ff5c27"],
    "json": ['{"a": "\\u0000 \\" "}', "[1,  2]"],
    "jsonb": ['{"a": 1}', "null"],
    "date": ["2024-02-29", "0044-03-15 BC"],
    "timestamp without time zone": ["2024-02-29 12:34:56.789012"],
    "time with time zone": ["12:34:56.789012+05:30"],
}
BY_ROW: dict[str, list[str | None]] = {
    "time without time zone": ["24:00:00", "00:00:00.000001"],
    "oid": ["4294967295"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "interval": ["1 year 2 mons 3 days 04:05:06"],
    "integer[]": ["{1,NULL,3}", "{}", "{{1,2},{3,4}}"],
    "text[]": ['{"",NULL,"NULL","a\\"b\\\\","x,y"}', None],
    "bit(3)": ["101"],
    "text": [*ODD],
}


def identity(columns: dict[str, str], key: tuple[str, ...] = ("id",)) -> TableIdentity:
    return TableIdentity(1, tuple(Column(name, type_) for name, type_ in columns.items()), key, "s")


@pytest.fixture(scope="module")
def hologres(pg_server: Server) -> Iterator[HologresSinkSide]:
    new_database(pg_server, DATABASE)
    yield HologresSinkSide(pg_server, DATABASE)
    drop_database(pg_server, DATABASE)


def job_of(hologres: HologresSinkSide, target: str = "mart.t", **options: object) -> JobSpec:
    where = replace(hologres.server.endpoint(DATABASE), name="holo")
    made = replace(SinkOptions(), **options)  # type: ignore[arg-type]
    return JobSpec(
        "job", where, where, "slot", (ChannelSpec("ods.t", target),), sink_kind="hologres", sink_options=made
    )


@pytest.fixture
def session(hologres: HologresSinkSide) -> Iterator[HologresConnection]:
    with closing(HologresConnection(login(job_of(hologres).sink, "test"))) as made:
        yield made


@pytest.mark.parametrize("types", [VALUES, BY_ROW], ids=["unnest", "by row"])
def test_every_type_keeps_its_values(
    hologres: HologresSinkSide, session: HologresConnection, types: dict[str, list[str | None]]
) -> None:
    columns = {"id": "bigint", **{f"c{place}": type_ for place, type_ in enumerate(types)}}
    hologres.create("mart.kinds", ", ".join(f"{name} {type_}" for name, type_ in columns.items()), ("id",))
    rows: list[Fields] = []
    for number in range(max(map(len, types.values()))):
        rows.append((str(number), *(some[number % len(some)] for some in types.values())))
    sink = session.batch_sink(job_of(hologres, "mart.kinds"), identity(columns), "direct")
    assert sink.target.unnests is (types is VALUES)
    for _ in range(2):
        sink.write_chunk(Batch(KEY, "chunk 1", len(rows), lambda: iter(rows)))
    texts = ", ".join(
        f"textin({'boolout' if columns[name] == 'boolean' else 'bpcharout'}({name}))"
        if columns[name] in ("boolean", "character(5)")
        else f"{name}::text"
        for name in columns
    )
    found = hologres.rows(f"SELECT {texts} FROM mart.kinds k ORDER BY k.id")
    hologres.drop("mart.kinds")
    assert found == rows


def test_odd_names_of_tables_and_columns_are_names(hologres: HologresSinkSide, session: HologresConnection) -> None:
    sql = pg.sql
    name, odd = "mart.excluded", 'se"lect; --%s {}'
    hologres.run(
        sql.SQL("CREATE SCHEMA IF NOT EXISTS mart"),
        sql.SQL("CREATE TABLE mart.excluded ({0} bigint PRIMARY KEY, {1} text)").format(
            sql.Identifier(odd), sql.Identifier("sl%ash")
        ),
    )
    made = identity({odd: "bigint", "sl%ash": "text"}, (odd,))
    sink = session.batch_sink(job_of(hologres, name), made, "direct")
    events: list[Fields] = [("1", "0", "I", "1", "50%"), ("1", "1", "I", "2", "%s")]
    sink.write(Batch(KEY, "1", 2, lambda: iter(events)))
    gone: list[Fields] = [("2", "0", "d", "1", None), ("2", "1", "U", "2", "{}")]
    sink.write(Batch(KEY, "2", 2, lambda: iter(gone)))
    assert hologres.rows("SELECT * FROM mart.excluded") == [(2, "{}")]


def test_a_key_of_several_columns_is_ended_and_written(hologres: HologresSinkSide, session: HologresConnection) -> None:
    hologres.create("mart.pairs", "a char(3), b date, v bigint", ("a", "b"))
    made = identity({"a": "character(3)", "b": "date", "v": "bigint"}, ("b", "a"))
    sink = session.batch_sink(job_of(hologres, "mart.pairs"), made, "direct")
    days = [f"2024-01-{number:02d}" for number in range(1, 31)]
    sink.write(Batch(KEY, "1", 30, lambda: (("1", str(n), "I", "x  ", day, str(n)) for n, day in enumerate(days))))
    ends: list[Fields] = [("2", str(n), "d", "x  ", day, None) for n, day in enumerate(days[:29])]
    sink.write(Batch(KEY, "2", 29, lambda: iter(ends)))
    assert hologres.rows("SELECT a, b::text, v FROM mart.pairs") == [("x  ", "2024-01-30", 29)]
    hologres.drop("mart.pairs")


def test_time_zones_that_would_lose_their_microseconds_are_refused(
    hologres: HologresSinkSide, session: HologresConnection
) -> None:
    hologres.create("mart.moments", "id bigint, at timestamptz, n numeric(38,2)", ("id",))
    at = "timestamp with time zone"
    for type_, says in ((at, "stores only milliseconds"), ("timestamp(6) with time zone", "stores only milliseconds")):
        with pytest.raises(Refused, match=says):
            session.batch_sink(job_of(hologres, "mart.moments"), identity({"id": "bigint", "at": type_}), "direct")
    with pytest.raises(Refused, match="its number of digits is not limited"):
        session.batch_sink(job_of(hologres, "mart.moments"), identity({"id": "bigint", "n": "numeric"}), "direct")
    fine = identity({"id": "bigint", "at": "timestamp(3) with time zone"})
    sink = session.batch_sink(job_of(hologres, "mart.moments"), fine, "direct")
    sink.write_chunk(Batch(KEY, "chunk 1", 1, lambda: iter([("1", "2024-01-01 00:00:00.123+00")])))
    assert hologres.rows("SELECT to_char(at AT TIME ZONE 'UTC', 'SS.US') FROM mart.moments") == [("00.123000",)]
    hologres.drop("mart.moments")


def test_a_value_that_the_target_refuses_is_a_bad_row_without_the_value(
    hologres: HologresSinkSide, session: HologresConnection
) -> None:
    hologres.create("mart.small", "id bigint, v varchar(3)", ("id",))
    sink = session.batch_sink(
        job_of(hologres, "mart.small"), identity({"id": "bigint", "v": "character varying(3)"}), "direct"
    )
    for secret in ("geheim", "zu lang"):
        with pytest.raises(RowRefused) as told:
            sink.write_chunk(Batch(KEY, "chunk 1", 1, lambda text=secret: iter([("1", text)])))  # type: ignore[misc]
        assert secret not in str(told.value)
    with pytest.raises(RowRefused) as told:
        sink.write_chunk(Batch(KEY, "chunk 1", 1, lambda: iter([("geheim", "a")])))
    assert "geheim" not in str(told.value)
    hologres.drop("mart.small")
    with pytest.raises(Refused, match=r'relation "mart\.small" does not exist$') as gone:
        sink.write_chunk(Batch(KEY, "chunk 1", 1, lambda: iter([("1", "geheim")])))
    assert "geheim" not in str(gone.value)
    assert "Restore the target as it was" in gone.value.hint


def test_no_server_and_a_wrong_password_are_distinguished(hologres: HologresSinkSide) -> None:
    job = job_of(hologres)
    other = replace(login(job.sink, "test"), password="falsch-9")
    with closing(HologresConnection(other)) as wrong, pytest.raises(AccessRefused) as told:
        wrong.target(job).admit(identity({"id": "bigint"}))
    assert "falsch-9" not in str(told.value)
    nobody = login(replace(job.sink, port=1), "test")
    with closing(HologresConnection(nobody)) as gone, pytest.raises(Unreachable):
        gone.target(job).admit(identity({"id": "bigint"}))


def test_doctor_tells_of_the_server_its_promise_and_the_target(
    hologres: HologresSinkSide, session: HologresConnection
) -> None:
    hologres.create("mart.seen", "id bigint, v integer", ("id",))
    told = {}
    for type_ in ("integer", "bigint"):
        made = identity({"id": "bigint", "v": type_})
        job = job_of(hologres, "mart.seen")
        asked = SinkAsked("holo", job.sink, "public", (job,), lambda _, made=made: (made, ""))  # type: ignore[misc]
        found = session.findings(asked, lambda: datetime.now(timezone.utc))
        told[type_] = [f"{one.level.value} {one.text}" for one in found]
    hologres.drop("mart.seen")
    assert any("PostgreSQL" in one for one in told["integer"])
    assert any(one.startswith("warn changes are written at least once") for one in told["integer"])
    assert "ok has the source's key and accepts its columns; changes are written with unnest" in told["integer"]
    assert any(one.startswith("fail mart.seen.v is integer, but bigint in the source") for one in told["bigint"])


def test_doctor_reads_a_configuration_that_names_a_hologres(hologres: HologresSinkSide, tmp_path: Path) -> None:
    where = hologres.server.endpoint(DATABASE)
    lines = [
        VALID,
        '[sinks.holo]\nkind = "hologres"\nprogress_store = "mart"\nsslmode = "disable"',
        f'host = "{where.host}"\nport = {where.port}\ndatabase = "{DATABASE}"\nuser = "{where.user}"',
        f'password_file = "{hologres.server.password_file}"',
    ]
    path = tmp_path / "config.toml"
    path.write_text("\n".join(lines))
    found = load(path, dict(os.environ))
    told = [one.text for one in check_sink(found, found.sinks["holo"])]
    assert any("at least once" in one for one in told)
    assert registry.open("hologres").grants(where, "public", [job_of(hologres)])[1].startswith("GRANT SELECT, INSERT")
