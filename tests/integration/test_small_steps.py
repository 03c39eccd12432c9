"""A small step, which uses no staging table, has the effect and the errors of a general step for every type."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.progress import LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pipe import copy_line
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.driver import Runner
from slotkeeper.core.sinks.postgres.check.target import seen
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.write import small_step
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink
from slotkeeper.core.sinks.postgres.write.statements import TargetTable
from slotkeeper.core.sources.dws.position import POSITIONS, DwsPosition
from slotkeeper.demo.postgres import Server
from tests.support.standin import drop_database, new_database

DATABASE = "small_steps"
HOSTILE = [
    "", " ", "\\N", "\\", "\\\\", '"', '""', "'", "{}", '{"a"}', "(1,2)", ",", "NULL",
    "a\tb", "a\nb\r", "é漢\u202e", "\\.",
    "$1", "%s",
]  # fmt: skip
TYPES: dict[str, list[str]] = {
    "integer": ["0", "-2147483648", "2147483648", "x", ""],
    "bigint": ["9223372036854775807", "9223372036854775808"],
    "numeric(6,2)": ["1.005", "-9999.99", "10000", "NaN"],
    "real": ["1e30", "1e39", "-0"],
    "double precision": ["0.1", "Infinity"],
    "boolean": ["t", "off", "maybe"],
    "text": HOSTILE,
    "varchar(3)": ["abc", "abcd", "abc   ", 'a"\\'],
    "char(3)": ["a", "abcd", "a\\"],
    '"char"': ["a", "ab", ""],
    "name": ["n" * 63, "n" * 70],
    "bit(3)": ["101", "1", "1011"],
    "varbit(3)": ["1", "1011"],
    "bytea": ["\\x00ff", "\\x0", "a\\000b"],
    "date": ["2026-11-28", "infinity", "2026-02-30"],
    "time(2)": ["23:59:59.999", "24:00:00", "25:00"],
    "timestamp(3)": ["2026-11-28 01:02:03.4567", "bad"],
    "timestamptz": ["2026-11-28 01:02:03+09", "1-1-1 BC"],
    "interval(1)": ["1 mon 2 days 00:00:01.25", "x"],
    "uuid": ["00000000-0000-0000-0000-000000000001", "0"],
    "json": ['{"a": "\\\\ \\""}', "{"],
    "jsonb": ['{"b": [1, 2], "a": null}', "nul"],
    "integer[]": ["{1,NULL,3}", "{1", "[0:1]={5,6}"],
    "text[]": ['{"a\\"b","\\\\",NULL,"NULL",""}', "{a,b"],
    "varchar(2)[]": ["{ab}", "{abc}"],
    "int4range": ["[1,5)", "empty", "[5,1)"],
    "inet": ["10.0.0.1/8", "x"],
    "point": ["(1,2)", "1"],
    "kinds.mood": ["glad", "none"],
    "kinds.short": ["ab", "abc", "no"],
    "kinds.pair": ['(1,"a\\"")', "(1)"],
    "regrole": ["postgres", "nobody_at_all"],
}
"""Values by type: values that the server stores, changes or rejects."""


@dataclass
class Way:
    """A target that takes its steps in one way: as small or as general steps."""

    sink: PostgresSink
    lane: LaneKey
    epoch: int
    position: DwsPosition = field(default_factory=lambda: DwsPosition(0))

    def step(self, lines: bytes) -> str:
        """Take one step; return the SQLSTATE of the rejection, or ""."""
        new = DwsPosition(self.position.pair[0] + 1)
        try:
            rows = self.sink.stage(io.BytesIO(lines))
            assert self.sink.top(new).first == new.pair[0]
            assert self.sink.commit(self.lane, self.epoch, self.position, new, rows)
        except SlotkeeperError as error:
            self.sink.abandon()
            return error.code or type(error).__name__
        self.position = new
        return ""


@pytest.fixture(scope="module")
def database(pg_server: Server) -> Iterator[Server]:
    new_database(pg_server, DATABASE)
    with pg_server.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA kinds; CREATE TYPE kinds.mood AS ENUM ('glad', 'sad')")
        cursor.execute("CREATE DOMAIN kinds.short AS varchar(2) CHECK (VALUE <> 'no')")
        cursor.execute("CREATE TYPE kinds.pair AS (a integer, b text)")
    yield pg_server
    drop_database(pg_server, DATABASE)


def way(server: Server, table: str, columns: tuple[str, ...], options: SinkOptions, small: bool | None) -> Way:
    """Return the way whose steps are small or general; None: according to the options."""
    endpoint = server.endpoint(DATABASE)
    session = SinkSession(endpoint, resolve(endpoint.password), "slotkeeper/small/1")
    lane = LaneKey("dws1", table, "slot", "dn_1")
    store = PostgresProgress(session, POSITIONS, lane, Runner("small", "run", "host", "user", 1))
    store.create_tables()
    store.insert(
        [ProgressRow(lane, 1, table, DwsPosition(0), 0, 0, LaneState.RUNNING, None, None, "channel", "print", None)]
    )
    target = seen(session, TargetTable(table, columns, ("id",), forms=("",)))
    assert small is None or small_step.form_of(target, options) is not None
    if small is False:
        options = replace(options, copy_write_batch_size=1)
    return Way(PostgresSink(session, POSITIONS, target, options), lane, store.raise_epoch())


@pytest.mark.parametrize("mode", ["auto", "update_auto"])
@pytest.mark.parametrize("type_", TYPES)
def test_a_small_step_stores_and_rejects_the_values_that_a_general_step_does(
    database: Server, type_: str, mode: str
) -> None:
    names = [f"m.{way}_{abs(hash((type_, mode)))}" for way in ("small", "general")]
    options = SinkOptions(write_mode=mode)
    with database.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS m")
        for name in names:
            cursor.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, v {type_}, t text)")
        connection.commit()
        small, general = (
            way(database, name, ("id", "v", "t"), options, each)
            for name, each in zip(names, (True, False), strict=True)
        )
        if mode == "update_auto":
            for name in names:
                cursor.execute(f"INSERT INTO {name} SELECT i, NULL, 'before' FROM generate_series(1, 99) i")
            connection.commit()
        for number, value in enumerate([*TYPES[type_], None], 1):
            for kind in "IU":
                point = str(small.position.pair[0] + 1)
                line = copy_line((point, "1", kind, str(number), value, "te\txt"))
                assert small.step(line) == general.step(line), (kind, value)
                assert small.sink._small is None
        found = []
        for name in names:
            cursor.execute(f"SELECT s::text FROM {name} s ORDER BY id")
            found.append(cursor.fetchall())
        connection.rollback()
    assert found[0] == found[1]


def test_random_small_steps_have_the_effect_of_general_steps(database: Server) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng, names = random.Random(seed), ["m.small_random", "m.general_random"]
    with database.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS m")
        for name in names:
            cursor.execute(f"CREATE TABLE {name} (id integer PRIMARY KEY, a text, b text)")
    small, general = (way(database, name, ("id", "a", "b"), SinkOptions(), name == names[0]) for name in names)
    for _ in range(60):
        point = small.position.pair[0] + 1
        lines = b"".join(_event(rng, point, sequence) for sequence in range(0, 2 * rng.randrange(1, 40), 2))
        assert small.step(lines) == general.step(lines) == ""
    with database.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM ((TABLE m.small_random EXCEPT TABLE m.general_random)"
                       " UNION ALL (TABLE m.general_random EXCEPT TABLE m.small_random)) d")  # fmt: skip
        assert cursor.fetchall() == [(0,)]


def _event(rng: random.Random, point: int, sequence: int) -> bytes:
    key = rng.randrange(12)
    texts = [rng.choice([None, *HOSTILE]) for _ in range(2)]
    kind = rng.choice("IdUB")
    line = copy_line((str(point), str(sequence), kind, str(key), *texts))
    if kind == "B":
        line += copy_line((str(point), str(sequence + 1), "U", str(rng.choice([key, rng.randrange(12)])), *texts))
    return line


def test_a_small_step_leaves_no_staging_table_behind(database: Server) -> None:
    with database.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS m; CREATE TABLE m.alone (id integer PRIMARY KEY, v text)")
    one = way(database, "m.alone", ("id", "v"), SinkOptions(), small=True)
    for number in range(3):
        assert one.step(copy_line((str(number + 1), "1", "I", str(number), "v"))) == ""
    with one.sink.session.transaction() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relnamespace = pg_my_temp_schema() AND relkind = 'r'")
        assert cursor.fetchall() == []


def test_where_the_server_refuses_the_row_type_every_step_is_general(
    database: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.connect(DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA IF NOT EXISTS m; CREATE TABLE m.typeless (id integer PRIMARY KEY, v text)")
    refused = pg.sql.SQL("CREATE TYPE pg_temp.slotkeeper_row AS (a m.no_such_type)")
    monkeypatch.setattr(small_step, "create_type", lambda table: refused)
    one = way(database, "m.typeless", ("id", "v"), SinkOptions(), small=True)
    for number in range(2):
        assert one.step(copy_line((str(number + 1), "1", "I", str(number), "v"))) == ""
    assert (one.sink.taken.general, one.sink.taken.small) == (2, 0)


@pytest.mark.parametrize(
    "line", [b"1\t1\tQ\t1\tv\n", b"1\t1\tI\t\\N\tv\n", b"1\t1\tI\t1\n", b"x\t1\tI\t1\tv\n", b"1\t1\tI\t1\t\xff\n",
             b"1\t1\tI\t1\tv"]
)  # fmt: skip
def test_what_no_step_can_apply_is_left_to_the_general_step(line: bytes) -> None:
    table = TargetTable("s.t", ("id", "v"), ("id",), types=("integer", "text"))
    form = small_step.form_of(table, SinkOptions())
    assert form is not None and small_step.read(line, form) is None
