"""A changelog as batches, without Spark: equal to the ledger, registered after the commit log; refusals are named.

`tests.support.frames.Program` makes the calls of Spark, which `tests/spark/test_source_calls.py` pins.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.dataframe.reader.faults import ReadFailed
from slotkeeper.core.dataframe.reader.lease import TAKES_OVER
from slotkeeper.core.dataframe.reader.read import read
from slotkeeper.core.dataframe.reader.source import SlotkeeperSource
from slotkeeper.core.dataframe.writer.spec import Field, spec_of
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import SlotStatus
from slotkeeper.core.engine.driver import lease as engine_lease
from slotkeeper.core.engine.driver import start as engine_start
from slotkeeper.core.engine.worker.step import nothing
from slotkeeper.core.errors import ConfigError, Refused, SlotkeeperError, Superseded, Trouble, TroubleName
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.sinks.postgres.progress import locks
from slotkeeper.core.sources.dws.changelog import DwsChangelog
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.dws.source import ALL
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.frames import Program, configured, slot_places
from tests.support.mirror import MakeMirror, Mirror, orders, written
from tests.support.printed import typed_bare
from tests.support.standin import MakeWarehouse

TABLE = "ods.t"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    """A table `(id, v)` with ten rows, which no job reads."""
    warehouse.create_table(TABLE, "id bigint, v text", ("id",), ("id",))
    made = make_mirror(warehouse, TABLE)
    made.source(f"INSERT INTO {TABLE} SELECT n, 'old ' || n FROM generate_series(1, 10) n")
    return made


@pytest.fixture
def path(mirror: Mirror, tmp_path: Path) -> Path:
    return configured(mirror, tmp_path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_start, "LEASE_WAIT", 0.2)
    monkeypatch.setattr("slotkeeper.core.dataframe.reader.lease.LEASE_WAIT", 0.2)
    monkeypatch.setattr(engine_lease, "TARGET_WAIT", 0.2)


def write(mirror: Mirror, *ids: int, value: str = "new") -> None:
    for one in ids:
        mirror.source(f"INSERT INTO {TABLE} VALUES ({one}, '{value}') ON CONFLICT (id) DO UPDATE SET v = excluded.v")


def points(offset: dict[str, Any]) -> dict[str, set[int]]:
    """Return both points of a slot whose reader is at an offset."""
    return {name: {int(text.split("/")[0])} for name, text in offset["positions"].items()}


# -- the ledger ---------------------------------------------------------------------------------------------------


def follow(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, folder: Path, seed: int, inclusive: bool
) -> tuple[Program, Mirror]:
    """A program that reads in small batches while writers write, and then to the end; the caller compares it with the
    ledger.
    """
    mirror = orders(make_mirror, make_warehouse(switches=Switches(latest_inclusive=inclusive)), seed)
    program = Program(configured(mirror, folder), start="initial", poll_interval="0ms")
    try:
        program.query.initial()
        with written(mirror, seed, changes=250) as work:
            while work.changes < 250 and not work.failed:
                program.batch(width=37)
        program.until_idle()
        program.until_idle()
    finally:
        program.query.close()
    return program, mirror


@pytest.mark.parametrize("inclusive", [True, False])
def test_incremental_batches_equal_the_ledger(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, tmp_path: Path, seed: int, inclusive: bool
) -> None:
    program, mirror = follow(make_warehouse, make_mirror, tmp_path, seed, inclusive)
    assert program.booked() == mirror.booked()
    assert program.doubled() == 0
    statement = f"SELECT cust, order_no, status, amount, note, created, paid, attrs::text FROM {mirror.table}"
    there = {row[:2]: row for row in mirror.query(mirror.warehouse.connect, statement)}
    assert {key: tuple(row.values()) for key, row in program.table().items()} == there


@contextmanager
def committing(mirror: Mirror, statement: str) -> Iterator[None]:
    """A transaction that has been assigned the newest point, and commits at the end of the block."""
    with closing(mirror.warehouse.connect(False)) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # the stand-in assigns points in a deferred trigger
        yield
        connection.commit()


def late(mirror: Mirror, path: Path) -> list[int]:
    """Return the program's rows of a transaction that becomes visible at the newest point after that point was read."""
    program = Program(path, start="latest", poll_interval="0ms")
    program.query.initial()
    mirror.source(f"INSERT INTO {TABLE} SELECT n, 'before' FROM generate_series(100, 199) n")
    with committing(mirror, f"UPDATE {TABLE} SET v = 'late' WHERE id >= 100"):
        newest = max(status.latest.pair[0] for status in program.query._statuses())
        assert program.batch() == 100
        assert {int(text.split("/")[0]) for text in (program.commits or {})["positions"].values()} == {newest}
    program.until_idle()
    program.query.close()
    assert program.doubled() == 0
    return ids(program, "U")


def test_what_comes_late_at_the_newest_point_is_read(mirror: Mirror, path: Path) -> None:
    assert late(mirror, path) == list(range(100, 200))


def test_a_reader_that_takes_all_of_the_newest_point_for_read_loses_rows(
    mirror: Mirror, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mutant of the reader: nothing reports the missing rows."""
    honest = DwsChangelog.reached

    def lossy(
        self: DwsChangelog, after: Position, up_to: Position | None, top: Top | None, status: SlotStatus
    ) -> DwsPosition:
        return replace(honest(self, after, up_to, top, status), sequence=ALL)

    monkeypatch.setattr(DwsChangelog, "reached", lossy)
    assert late(mirror, path) == []


# -- registered points -------------------------------------------------------------------------------------------


def test_the_slot_follows_the_commit_log_and_is_at_its_end_when_idle(mirror: Mirror, path: Path) -> None:
    program = Program(path, start="latest", poll_interval="0ms")
    first = program.query.initial()
    assert slot_places(mirror) == points(first.json)
    for n in range(3):
        write(mirror, *range(20, 26), value=str(n))
        before = slot_places(mirror)
        start = program.commits or first.json
        end = program.query.latest(program.offset(start), 100)
        assert end.json != start
        program.got(program.query.parts(program.offset(start), end))
        assert slot_places(mirror) == points(start)
        assert n == 0 or slot_places(mirror) != before
        program.offsets = program.commits = end.json
    assert program.batch() == -1
    assert slot_places(mirror) == points(program.commits or {})
    program.query.close()


def test_a_batch_that_was_not_committed_is_read_again_with_the_same_rows(mirror: Mirror, path: Path) -> None:
    program = Program(path, start="latest", poll_interval="0ms")
    write(mirror, 1)
    first = program.query.initial()
    write(mirror, 2, 3, 4)
    end = program.query.latest(first, 100)
    before = program.got(program.query.parts(first, end))
    write(mirror, 2, 3, 4, 5, value="later")
    program.crash()
    again = program.query.initial()
    assert again == first
    after = program.got(program.query.parts(again, program.offset(end.json)))
    program.query.close()
    ordered = [sorted(map(str, rows)) for rows in (before, after)]
    assert ordered[0] == ordered[1]
    assert {row["id"] for row in before} == {2, 3, 4}


@pytest.mark.chaos
@pytest.mark.parametrize("point", ["before_false", "after_false", "before_true", "after_true"])
def test_a_driver_killed_while_it_registers_resumes(mirror: Mirror, path: Path, point: str) -> None:
    class Killed(BaseException):
        """Ends the driver at any point."""

    def kill(at: str) -> None:
        if at == point and armed:
            raise Killed

    armed = False
    program = Program(path, probe=kill, start="latest", poll_interval="0ms")
    program.query.initial()
    write(mirror, 1, 2, 3)
    program.batch()
    armed = True
    with pytest.raises(Killed):
        program.batch()
    armed = False
    program.crash()
    write(mirror, 4)
    program.until_idle()
    program.query.close()
    assert sorted(row["id"] for row in program.events if row["slotkeeper_change"] in "IU") == [1, 2, 3, 4]
    assert slot_places(mirror) == points(program.commits or {})


def test_an_idle_query_keeps_its_slot_alive(mirror: Mirror, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotkeeper.core.dataframe.reader.lease.KEEPALIVE", 0.0)
    program = Program(path, start="latest", poll_interval="0ms")
    program.query.initial()
    program.query._lease._keepalive = 0.0  # type: ignore[union-attr]
    asked = "SELECT min(sync_timestamp) FROM dws.slot"
    ((before,),) = mirror.query(mirror.warehouse.connect, asked)
    assert program.batch() == -1
    ((after,),) = mirror.query(mirror.warehouse.connect, asked)
    program.query.close()
    assert after > before


def test_what_travels_to_sparks_workers_and_its_logs_has_no_password(mirror: Mirror, path: Path) -> None:
    """Spark writes options, partitions and offsets into plans, event logs and checkpoints."""
    ends = (mirror.job.source, mirror.job.sink)
    secrets = {Path(one.password.ref).read_text("utf-8").strip().encode() for one in ends}
    assert all(len(one) > 12 for one in secrets)
    program = Program(path, start="earliest")
    try:
        begun = program.query.initial()
        write(mirror, 1, 2)
        end = program.query.latest(begun, 100)
        columns = [Field("id", "bigint", {}), Field("v", "string", {})]
        writes = spec_of({"config": str(path), "sink": "mart", "table": "mart.t", "key": "id"}, columns)
        travels = [program.asked, program.layout, program.query.parts(begun, end), writes]
        assert program.query.parts(begun, end), "something is read"
        found = pickle.dumps(travels) + json.dumps([begun.json, end.json]).encode()
    finally:
        program.query.close()
    assert not [one for one in secrets if one in found]


@pytest.mark.chaos
def test_a_lease_that_a_stranger_has_is_named_with_what_ends_it_and_no_job_is_to_be_started(
    mirror: Mirror, path: Path, impatient: None
) -> None:
    program = Program(path, start="latest")
    number = locks.lease_lock(program.asked.job.lane_key())
    with closing(mirror.sink()) as stranger, stranger.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", (number,))
        with pytest.raises(Refused, match="a session that belongs to no job: session") as refused:
            program.query.initial()
    assert "pg_terminate_backend" in refused.value.hint
    assert "jobs start" not in refused.value.hint and TAKES_OVER in refused.value.hint
    program.crash()
    program.query.initial()
    program.query.close()


# -- starts -------------------------------------------------------------------------------------------------------


def ids(program: Program, kinds: str = "SIU") -> list[int]:
    return sorted(row["id"] for row in program.rows if row["slotkeeper_change"] in kinds)


def test_initial_copies_the_table_as_s_and_continues_with_its_changes(mirror: Mirror, path: Path) -> None:
    program = Program(path, start="initial", poll_interval="0ms", partition_rows="4")
    assert program.batch() == 10
    write(mirror, 11, 12)
    program.until_idle()
    program.query.close()
    assert ids(program, "S") == list(range(1, 11))
    assert ids(program, "I") == [11, 12]


def test_a_first_batch_is_read_again_only_with_the_start_with_which_it_was_planned(mirror: Mirror, path: Path) -> None:
    program = Program(path, start="initial", poll_interval="0ms")
    program.offsets = program.query.latest(program.query.initial(), None).json
    program.asked = replace(program.asked, start="slot")
    program.crash()
    with pytest.raises(Refused, match='planned with another start than start = "slot"') as refused:
        program.batch()
    assert "restore the option start" in refused.value.hint
    program.asked = replace(program.asked, start="initial")
    program.crash()
    assert program.batch() == 10
    write(mirror, 11)
    program.until_idle()
    program.query.close()
    assert (ids(program, "S"), ids(program, "I")) == (list(range(1, 11)), [11])


def test_a_first_batch_is_not_read_again_from_a_slot_that_its_owner_has_moved(mirror: Mirror, path: Path) -> None:
    registered = f"SELECT * FROM pgxc_register_full_sync_point('{TABLE}', 'frames_slot')"
    mirror.query(mirror.warehouse.connect, registered)
    write(mirror, 11, 12)
    program = Program(path, register="never", poll_interval="0ms")
    program.offsets = program.query.latest(program.query.initial(), None).json
    program.crash()
    mirror.query(mirror.warehouse.connect, registered)
    with pytest.raises(Refused, match="planned with another start"):
        program.batch()
    program.query.close()


def test_a_query_begins_where_a_slot_stands(mirror: Mirror, path: Path) -> None:
    mirror.query(mirror.warehouse.connect, f"SELECT * FROM pgxc_register_full_sync_point('{TABLE}', 'frames_slot')")
    write(mirror, 11, 12)
    program = Program(path, start="slot", poll_interval="0ms")
    program.until_idle()
    program.query.close()
    assert ids(program) == [11, 12]


def test_a_slot_that_is_not_there_is_not_made_by_asking(mirror: Mirror, path: Path) -> None:
    program = Program(path, start="slot")
    with pytest.raises(Refused, match="does not exist"):
        program.query.initial()
    program.query.close()
    assert slot_places(mirror) == {}


def test_earliest_begins_with_the_oldest_change_that_any_slot_retains(mirror: Mirror, path: Path) -> None:
    mirror.query(mirror.warehouse.connect, f"SELECT * FROM pgxc_register_full_sync_point('{TABLE}', 'other')")
    write(mirror, 11, 12)
    program = Program(path, start="earliest", poll_interval="0ms")
    program.until_idle()
    program.query.close()
    assert ids(program) == [11, 12]


def test_points_begin_there(mirror: Mirror, path: Path) -> None:
    mirror.query(mirror.warehouse.connect, f"SELECT * FROM pgxc_register_full_sync_point('{TABLE}', 'other')")
    write(mirror, 11)
    statement = "SELECT DISTINCT sync_point FROM dws.slot"
    ((retained,),) = mirror.query(mirror.warehouse.connect, statement)
    start = ", ".join(f"{name}={retained}" for name, _ in mirror.warehouse.nodes())
    program = Program(path, start=start, poll_interval="0ms")
    program.until_idle()
    program.query.close()
    assert ids(program) == [11]


def test_available_now_reads_to_what_was_newest_and_ends(mirror: Mirror, path: Path) -> None:
    program = Program(path, start="latest", poll_interval="0ms")
    program.query.initial()
    write(mirror, 11, 12)
    program.query.stop_at_newest()
    write(mirror, 13)
    program.until_idle(width=1)
    assert ids(program) == [11, 12]
    program.crash()
    program.until_idle()
    program.query.close()
    assert ids(program) == [11, 12, 13]


def test_a_query_that_registers_nothing_leaves_the_slot_where_it_stands(mirror: Mirror, path: Path) -> None:
    mirror.query(mirror.warehouse.connect, f"SELECT * FROM pgxc_register_full_sync_point('{TABLE}', 'frames_slot')")
    before = slot_places(mirror)
    write(mirror, 11, 12)
    program = Program(path, register="never", poll_interval="0ms")
    program.until_idle()
    program.query.close()
    assert ids(program) == [11, 12]
    assert slot_places(mirror) == before


# -- refusals ----------------------------------------------------------------------------------------------------


def test_a_second_checkpoint_is_refused_by_name(mirror: Mirror, path: Path) -> None:
    first = Program(path, start="latest", poll_interval="0ms")
    first.query.initial()
    write(mirror, 11)
    first.until_idle()
    first.query.close()
    second = Program(path, start="latest")
    with pytest.raises(Refused, match=r"frames_slot of ods\.t is read by a query with another checkpoint"):
        second.query.initial()
    second.query.close()
    first.crash()
    write(mirror, 12)
    first.until_idle()
    first.query.close()
    assert ids(first) == [11, 12]


def test_a_checkpoint_that_fell_back_is_refused(mirror: Mirror, path: Path) -> None:
    program = Program(path, start="latest", poll_interval="0ms")
    old = program.query.initial()
    write(mirror, 11)
    program.until_idle()
    program.crash()
    with pytest.raises(Trouble) as raised:
        program.query.latest(old, 10)
    program.query.close()
    assert raised.value.name is TroubleName.SLOT_MOVED


def test_two_queries_at_once_are_refused(mirror: Mirror, path: Path, impatient: None) -> None:
    first = Program(path, start="latest")
    first.query.initial()
    second = Program(path, start="latest")
    with pytest.raises(Refused, match="frames_slot"):
        second.query.initial()
    second.query.close()
    first.query.close()


def test_the_slot_of_a_job_is_refused(mirror: Mirror, tmp_path: Path) -> None:
    mirror.start().wait_running()
    mirror.stop()
    program = Program(configured(mirror, tmp_path, mirror.job.slot), start="latest")
    with pytest.raises(Refused, match="belongs to a job with target"):
        program.query.initial()
    program.query.close()


def test_a_job_does_not_take_the_slot_of_a_query(mirror: Mirror, tmp_path: Path) -> None:
    program = Program(configured(mirror, tmp_path, mirror.job.slot), start="latest")
    program.query.initial()
    program.query.close()
    error = mirror.start().wait_error()
    assert isinstance(error, Refused), error
    assert "differs from the progress rows" in error.message


@pytest.mark.parametrize(
    ("ddl", "name"),
    [(f"TRUNCATE {TABLE}", "SLOT LOST"), (f"ALTER TABLE {TABLE} ADD COLUMN more text", "S")],
    ids=["truncate", "add column"],
)
def test_ddl_during_a_read_is_named_and_its_batch_fails(mirror: Mirror, path: Path, ddl: str, name: str) -> None:
    program = Program(path, start="latest", poll_interval="0ms")
    first = program.query.initial()
    write(mirror, *range(11, 40))
    end = program.query.latest(first, 100)
    parts = program.query.parts(first, end)
    batches = read(parts[0])
    next(batches)
    mirror.source(ddl)
    with pytest.raises(ReadFailed, match=rf"^{name}.*; action: ") as raised:
        list(batches)
    print(raised.value)
    with pytest.raises(Trouble):
        program.query.latest(first, 100)
    program.query.close()


def test_a_query_whose_slot_was_taken_over_ends(mirror: Mirror, path: Path, impatient: None) -> None:
    program = Program(path, start="latest", poll_interval="0ms")
    program.query.initial()
    write(mirror, 11)
    program.batch()
    mirror.at_sink("UPDATE slotkeeper_progress SET epoch = epoch + 1")
    with pytest.raises(Superseded):
        program.batch()
    program.query.close()


def test_a_query_whose_process_is_killed_gives_its_slot_back_without_a_stop(mirror: Mirror, path: Path) -> None:
    """Spark ends a source's process with SIGKILL; the next start would be rejected if the lease were still held."""
    words = [sys.executable, "-m", "tests.support.frames", str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as life:
        assert life.stdout is not None
        assert life.stdout.readline() == b"begun\n"
        life.kill()
        life.wait()
    write(mirror, 11)
    program = Program(path, start="latest", poll_interval="0ms")
    program.until_idle()
    program.query.close()
    assert ids(program) == [11]


def test_a_query_that_is_never_stopped_is_taken_over_and_registers_nothing_more(
    mirror: Mirror, path: Path, impatient: None
) -> None:
    left = Program(path, start="latest", poll_interval="0ms")
    left.query.initial()
    write(mirror, 11)
    assert left.batch() == 1
    refused = Program(path)
    with pytest.raises(Refused, match="the lease of") as raised:
        refused.query.latest(refused.offset(left.commits or {}), 10)
    assert '.option("take_over", "true")' in raised.value.hint
    refused.query.close()
    after = Program(path, take_over="true", poll_interval="0ms")
    after.offsets = after.commits = left.commits
    write(mirror, 12)
    after.until_idle()
    there = slot_places(mirror)
    assert there == points(after.commits or {})
    with pytest.raises(Superseded):
        left.batch()
    assert slot_places(mirror) == there
    write(mirror, 13)
    after.until_idle()
    assert ids(after) == [12, 13]
    after.query.close()
    left.query.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tabel": "ods.t"}, "did you mean table"),
        ({"job": "other"}, "known: frames"),
        ({"table": "ods.other"}, "ods.t"),
        ({"start": "yesterday"}, "earliest"),
        ({"register": "maybe"}, "one of auto, never"),
        ({"poll_interval": "5"}, "200ms"),
        ({"points_per_trigger": "0"}, "of at least 1"),
        ({"columns": "id,nix"}, "the table has id, v"),
    ],
)
def test_what_cannot_be_asked_is_one_clear_line(path: Path, options: dict[str, str], said: str) -> None:
    with pytest.raises((ConfigError, Refused)) as raised:
        Program(path, nothing, **options)
    assert said in f"{raised.value.message} {raised.value.hint}"
    assert isinstance(raised.value, SlotkeeperError)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"read": "changes", "to": "dn_9=1"}, "have different DNs (dn_9)"),
        ({"read": "changes", "to": "dn_1=1, dn_1=999999"}, "names dn_1 twice"),
        ({"read": "rows", "to": "dn_1=1"}, "accepts no range"),
        ({"to": "dn_1=1"}, "accepts no range"),
        ({"read": "changes", "start": "latest"}, "start is an option of spark.readStream"),
        ({"stream": "", "to": "dn_1=1"}, "read, from and to are options of spark.read"),
    ],
)
def test_an_option_that_would_have_no_effect_is_rejected(
    mirror: Mirror, path: Path, options: dict[str, str], said: str
) -> None:
    mirror.query(mirror.warehouse.connect, f"SELECT * FROM pgxc_register_full_sync_point('{TABLE}', 'frames_slot')")
    form = {} if options.get("read") == "rows" else {"changelog": "raw"}
    given = {name: value for name, value in options.items() if name != "stream"}
    source = SlotkeeperSource({"config": str(path), "job": "frames", **form, **given})
    schema = source.schema()
    with pytest.raises(ReadFailed) as raised:
        if "stream" in options:
            source.streamReader(schema)
        else:
            source.reader(schema).partitions()
    assert said in str(raised.value)


# -- from the console --------------------------------------------------------------------------------------------


def test_slots_list_names_the_query_and_a_reset_is_refused_while_it_lives(
    mirror: Mirror, path: Path, capfd: pytest.CaptureFixture[str], impatient: None
) -> None:
    program = Program(path, start="latest", poll_interval="0ms")
    program.query.initial()
    write(mirror, 11)
    program.until_idle()
    place = [TABLE, "frames_slot"]

    def typed(*words: str) -> tuple[int, str, str]:
        return typed_bare(capfd, *words, "--config", str(path))

    def json_of(*words: str) -> dict[str, Any]:
        code, out, err = typed(*words, "--json")
        assert code == 0, err
        return json.loads(out)  # type: ignore[no-any-return]

    (listed,) = json_of("slots", "list")["tables"][0]["slots"]
    assert (listed["slot"], listed["job"], listed["unread"]) == ("frames_slot", "frames", 0)
    query = json_of("slots", "show", *place)["query"]
    assert query["lives"] and "query-" in query["who"], query
    assert query["positions"] == (program.commits or {})["positions"]
    code, out, err = typed("slots", "reset", *place, "--to", "latest", "--json")
    assert code in (0, 3), err
    plan = json.loads(out)["id"]
    before = slot_places(mirror)
    consent = ["--reason", "a test", "--confirm", "frames_slot", "--rows", "0"]
    code, out, err = typed("slots", "reset", *place, "--execute", "--plan", plan, *consent)
    assert code != 0
    assert "the lease of ods.t slot frames_slot is held" in err, err
    assert slot_places(mirror) == before
    program.query.close()
    assert json_of("slots", "show", *place)["query"]["lives"] is False
