"""The records of a DataFrame query in the store, and their view from other processes, without Spark."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.load import load_usable
from slotkeeper.core.dataframe.reader import accounts
from slotkeeper.core.dataframe.reader.accounts import AccountKeeper, Place
from slotkeeper.core.domain.query_report import QueryReport, QuerySeen
from slotkeeper.core.engine.driver import lease as engine_lease
from slotkeeper.core.engine.driver import start as engine_start
from slotkeeper.core.services import slot_commands as queries
from slotkeeper.core.services.slot_commands import query_of
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.warehouse import Warehouse
from tests.support.frames import JOB, Program, configured, slot_places
from tests.support.mirror import MakeMirror, Mirror
from tests.support.printed import typed_bare
from tests.support.waiting import until

TABLE = "ods.t"


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


class HandClock(SystemClock):
    """A clock that advances only when a test moves it."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def monotonic(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


def seen(path: Path) -> QuerySeen | None:
    return query_of(load_usable(path, {}).jobs[JOB])


class Told:
    """A query in pyspark's form, at a time that a test has set; `tests/spark` has real queries of Spark."""

    def __init__(self, program: Program, batch: int, idle: bool = False) -> None:
        self.id, self.runId, self.name = "6366ed2e", "a0aa7c41", "orders to lake"
        self.status = {"message": accounts._IDLE if idle else "Processing new data"}
        reported = program.query.reported or {}
        told = {"batchId": batch, "sources": [{"endOffset": program.commits, "latestOffset": reported}]}
        self.lastProgress = type("Progress", (), {"json": json.dumps(told)})()


class Kept:
    """A keeper of the queries that a test supplies."""

    def __init__(self, *queries: Any) -> None:
        self.queries: tuple[Any, ...] = queries
        self.clock = HandClock()
        self.keeper = AccountKeeper(lambda: self.queries, lambda: True, clock=self.clock)

    def turn(self, *queries: Any) -> None:
        self.queries = queries
        self.keeper.turn()


def begun(path: Path, mirror: Mirror) -> Program:
    program = Program(path, start="latest", poll_interval="0ms")
    program.query.initial()
    write(mirror, 3)
    program.until_idle()
    return program


def write(mirror: Mirror, rows: int) -> None:
    for _ in range(rows):
        mirror.source(f"INSERT INTO {TABLE} SELECT max(id) + 1, 'new' FROM {TABLE}")


def test_a_query_shows_its_batch_its_checkpoint_and_how_far_it_is_behind(mirror: Mirror, path: Path) -> None:
    program = begun(path, mirror)
    kept = Kept()
    kept.turn(Told(program, 12))
    found = seen(path)
    assert found is not None and found.lives
    assert (found.id, found.name, found.batch) == ("6366ed2e", "orders to lake", 12)
    assert found.positions == (program.commits or {})["positions"]
    assert found.worst == 0 and found.unit == "commits" and found.age is not None
    # the next batch is under way: the source's newest offset at the request is beyond the committed one
    write(mirror, 3)
    start = program.offset(program.commits or {})
    program.query.latest(start, 1)
    kept.turn(Told(program, 13))
    found = seen(path)
    assert found is not None and found.batch == 13 and found.worst is not None and found.worst >= 1, found
    program.query.close()
    found = seen(path)
    assert found is not None and not found.lives and found.batch == 13


def test_a_query_that_was_superseded_says_nothing_more(mirror: Mirror, path: Path, impatient: None) -> None:
    left = begun(path, mirror)
    kept = Kept()
    kept.turn(Told(left, 12))
    late = Told(left, 40)
    after = Program(path, take_over="true", poll_interval="0ms")
    after.offsets = after.commits = left.commits
    after.until_idle()
    found = seen(path)
    assert found is not None and (found.lives, found.batch) == (True, 12), "it belongs to the same checkpoint"
    kept.turn(late)
    found = seen(path)
    assert found is not None and found.batch == 12, found
    kept.turn(late, Told(after, 41))
    found = seen(path)
    assert found is not None and found.batch == 41
    left.query.close()
    after.query.close()


def test_a_query_that_was_superseded_while_it_began_takes_no_account_away(
    mirror: Mirror, path: Path, impatient: None
) -> None:
    left = begun(path, mirror)
    after = Program(path, take_over="true", poll_interval="0ms")
    after.offsets = after.commits = left.commits
    after.until_idle()
    Kept().turn(Told(after, 50))
    for anew in (True, False):
        with closing(accounts.opened(Place(str(path), JOB, TABLE, left.query._epoch))) as late:
            late.begin(left.query._epoch, anew)
        found = seen(path)
        assert found is not None and found.batch == 50, (anew, found)
    Kept().turn(Told(left, 12))
    Kept().turn(Told(after, 51))
    found = seen(path)
    assert found is not None and found.batch == 51
    left.query.close()
    after.query.close()


def test_an_account_of_rows_that_were_deleted_keeps_no_later_query_from_its_own(mirror: Mirror, path: Path) -> None:
    first = begun(path, mirror)
    Kept().turn(Told(first, 12))
    mirror.at_sink("UPDATE slotkeeper_queries SET epoch = epoch * 2")
    found = seen(path)
    assert found is not None and found.batch is None, "its rows no longer exist"
    first.crash()
    write(mirror, 1)
    first.until_idle()
    found = seen(path)
    assert found is not None and found.batch is None, "and stays so"
    Kept().turn(Told(first, 3))
    found = seen(path)
    assert found is not None and found.batch == 3
    first.query.close()


@pytest.mark.parametrize("newest", ["[" * 100_000, "3", '{"dn_1": "' + "9" * 5_000 + '/0"}', '{"dn_1": "?"}'])
def test_an_account_that_somebody_else_has_written_hides_no_query(mirror: Mirror, path: Path, newest: str) -> None:
    program = begun(path, mirror)
    Kept().turn(Told(program, 12))
    mirror.at_sink(f"UPDATE slotkeeper_queries SET newest = '{newest}', updated_at = '-infinity'")
    found = seen(path)
    assert found is not None and (found.lives, found.batch, found.worst, found.age) == (True, 12, None, None)
    assert found.brief.startswith("DataFrame query, behind ?, batch 12: ")
    program.query.close()


def test_a_store_without_the_table_and_a_login_that_may_not_make_it_serve_queries_all_the_same(
    mirror: Mirror, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    first = begun(path, mirror)
    first.query.close()
    mirror.at_sink("DROP TABLE slotkeeper_queries")
    found = seen(path)
    assert found is not None and found.batch is None and found.worst is None, "as in an older store"
    with forbidden(mirror):
        first.crash()
        write(mirror, 2)
        first.until_idle()
        Kept().turn(Told(first, 7))
        found = seen(path)
        assert found is not None and found.lives and found.batch is None
        assert found.positions == (first.commits or {})["positions"]
        shown = " ".join(Shell(path, capfd).typed("jobs", "show", JOB)[1].split())
        assert "? reported after its first batch" in shown, "the reason why all values are question marks"
        assert "batch ?" in found.text and "behind ?" in found.text and "checkpoint ?" in found.text
        first.query.close()
    first.crash()
    first.until_idle()
    Kept().turn(Told(first, 8))
    found = seen(path)
    assert found is not None and found.batch == 8
    first.query.close()


@contextmanager
def forbidden(mirror: Mirror) -> Iterator[None]:
    """Prevent every session from creating `slotkeeper_queries` at the sink; other tables can be created."""
    mirror.at_sink(
        "CREATE FUNCTION no_queries() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF EXISTS (SELECT 1 FROM pg_event_trigger_ddl_commands() WHERE object_identity LIKE '%slotkeeper_queries')"
        " THEN RAISE insufficient_privilege; END IF; END $$"
    )
    mirror.at_sink(
        "CREATE EVENT TRIGGER no_queries ON ddl_command_end WHEN TAG IN ('CREATE TABLE') EXECUTE FUNCTION no_queries()"
    )
    try:
        yield
    finally:
        mirror.at_sink("DROP EVENT TRIGGER no_queries")
        mirror.at_sink("DROP FUNCTION no_queries")


def test_what_is_not_new_is_not_written_again_and_what_fails_is_tried_again_later() -> None:
    place = Place("c.toml", "j", "ods.t", 3)
    written: list[QueryReport] = []
    fails = [True]

    class Store:
        def write(self, report: QueryReport) -> bool:
            if fails[0]:
                raise OSError("the store is gone")
            written.append(report)
            return True

        def close(self) -> None: ...

    told = {
        "batchId": 5,
        "sources": [
            {
                "endOffset": {"positions": {"dn_1": "7/0"}},
                "latestOffset": {accounts.MARK: {**asdict(place), accounts.UNREAD_TO: {"dn_1": "9/-1"}}},
            }
        ],
    }
    query = type("Query", (), {"id": "1", "runId": "2", "name": None, "status": {"message": "busy"}})()
    query.lastProgress = type("Progress", (), {"json": json.dumps(told)})()
    clock = HandClock()
    keeper = AccountKeeper(lambda: [query], lambda: True, lambda _: Store(), clock)  # type: ignore[arg-type, return-value]
    keeper.turn()
    fails[0] = False
    keeper.turn()
    assert written == [], "half a minute has not passed"
    clock.advance(accounts.AGAIN)
    keeper.turn()
    keeper.turn()
    assert [one.batch for one in written] == [5]
    assert written[0].newest == {"dn_1": "9/-1"} and written[0].epoch == 3
    query.status = {"message": accounts._IDLE}
    keeper.turn()
    assert written[-1].newest == {"dn_1": "7/0"}, "it is idle and has read all records"
    clock.advance(accounts.AGAIN)
    keeper.turn()
    assert len(written) == 3, "an idle query reports again that it is up to date"


def test_a_query_that_ended_before_it_was_seen_to_run_has_its_last_batch_written(mirror: Mirror, path: Path) -> None:
    program = begun(path, mirror)
    kept = Kept()
    kept.keeper.add(Told(program, 30))
    kept.turn()
    found = seen(path)
    assert found is not None and found.batch == 30
    kept.queries = (later := Told(program, 31),)
    runner = threading.Thread(target=kept.keeper.run, daemon=True)
    runner.start()
    until(lambda: (found := seen(path)) and found.batch == 31, 10, "a running query to be asked")
    later.lastProgress = Told(program, 32).lastProgress
    kept.keeper.finish()
    found = seen(path)
    assert found is not None and found.batch == 32, "a program waits for it before it exits"
    runner.join(10)
    assert not runner.is_alive()
    program.query.close()


@pytest.mark.parametrize(
    ("root", "told"),
    [
        ("s3a://key:secret@bucket/ck", "s3a://***@bucket/ck"),
        ("s3a://key:sec/ret+x@bucket/ck", "s3a://***@bucket/ck"),
        ("s3a://key%3asecret@bucket/ck", "s3a://***@bucket/ck"),
        ("hdfs://me:p@ss@nn:8020/ck", "hdfs://***@nn:8020/ck"),
        ("https://account/container/ck?sv=1&sig=secret", "https://account/container/ck?***"),
        ("hdfs://nn:8020/user/me@there/ck", "hdfs://nn:8020/user/me@there/ck"),
        ("abfss://container@account/ck", "abfss://container@account/ck"),
    ],
)
def test_a_secret_in_a_checkpoint_s_address_is_not_told(root: str, told: str) -> None:
    class Java:
        def streamingQuery(self) -> Java:
            return self

        def resolvedCheckpointRoot(self) -> str:
            return root

    query = type("Query", (), {"_jsq": Java()})()
    assert accounts._checkpoint(query) == told


def test_a_checkpoint_that_this_spark_does_not_tell_is_not_known() -> None:
    assert accounts._checkpoint(object()) == ""


# -- the command line ---------------------------------------------------------------------------------------------


class Shell:
    """Commands over the configuration, and their output."""

    def __init__(self, path: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self._path = path
        self._capfd = capfd

    def typed(self, *words: str) -> tuple[int, str, str]:
        return typed_bare(self._capfd, *words, "--config", str(self._path))

    def json_of(self, *words: str) -> Any:
        code, out, err = self.typed(*words, "--json")
        assert code == 0, err
        return json.loads(out)


def test_a_query_is_a_job_that_runs_elsewhere_and_nothing_is_done_to_it_from_here(
    mirror: Mirror, path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shell = Shell(path, capfd)
    (never,) = shell.json_of("jobs", "list")
    assert (never["state"], never["queries"]) == (None, [])
    program = begun(path, mirror)
    Kept().turn(Told(program, 12))
    (slot,) = shell.json_of("slots", "list")["tables"][0]["slots"]
    (listed,) = shell.json_of("jobs", "list")
    shown = shell.json_of("jobs", "show", JOB)
    assert shell.json_of("slots", "show", TABLE, "frames_slot")["query"]["batch"] == slot["query"]["batch"] == 12
    assert (listed["state"], listed["elsewhere"], listed["driver"]) == ("RUNNING", True, None)
    (query,) = listed["queries"]
    assert (query["table"], query["id"], query["batch"]) == (TABLE, "6366ed2e", 12)
    assert query["positions"] == shown["queries"][0]["positions"] == (program.commits or {})["positions"]
    for words in (("slots", "list"), ("slots", "show", TABLE, "frames_slot"), ("jobs", "list"), ("jobs", "show", JOB)):
        code, out, _ = shell.typed(*words)
        assert code == 0
        out = " ".join(out.split())
        assert "orders to lake" in out and re.search(r"\bbatch 12, \d+s ago", out), (words, out)
    (line,) = [one for one in shell.typed("jobs", "list")[1].splitlines() if one.startswith(JOB)]
    assert "DataFrame query, was 0 commits behind" in line[:80], "the text fits 80 columns"
    Store.open(path.parent / "state").close()
    code, out, _ = shell.typed("status", "--exit-code")
    assert (code, out.startswith(f"OK        {JOB}  RUNNING")) == (0, True), (code, out)
    _, out, err = shell.typed("doctor")
    assert f"{TABLE}: read by a DataFrame query only" in " ".join(out.split()), (out, err)
    assert "mart.unused" not in out, "a query writes no target"
    before = slot_places(mirror)
    verbs: list[tuple[str, ...]] = [
        ("start", JOB), ("restart", JOB), ("stop", JOB), ("pause", JOB), ("resume", JOB), ("retry", JOB), ("logs", JOB),
        ("cancel", JOB, "--confirm", JOB, "--reason", "a test"),
    ]  # fmt: skip
    for verb in verbs:
        code, out, err = shell.typed("jobs", *verb)
        assert code == 3, (verb, out, err)
        assert "DataFrame query orders to lake (6366ed2e) reads its slot" in err, err
        assert "in its Spark program" in err, err
    for slot_verb in ("register", "drop"):
        code, out, err = shell.typed("slots", slot_verb, TABLE, "frames_slot")
        assert code == 3 and "it is a DataFrame query: stop and start it in its Spark program" in err, err
        assert "to execute:" not in out and "orders to lake (6366ed2e) reads its slot" in err, (out, err)
    code, out, _ = shell.typed("slots", "reset", TABLE, "frames_slot", "--to", "latest")
    assert "it is a DataFrame query: stop and start it in its Spark program" in " ".join(out.split()), out
    assert slot_places(mirror) == before and program.query.reported
    assert not [one for one in shell.json_of("jobs", "list") if one["run"]], "no job of that name was started here"
    program.query.close()
    (listed,) = shell.json_of("jobs", "list")
    assert listed["state"] == "STOPPED" and not listed["queries"][0]["lives"]
    code, out, _ = shell.typed("status", "--exit-code")
    assert (code, "DataFrame query is not running" in out) == (1, True), (code, out)
    assert shell.typed("jobs", "ensure")[0] == 0
    assert [one["fault"]["rule"] for one in shell.json_of("alerts", "list")["alerts"]] == ["query_dead"]
    assert shell.typed("jobs", "start", JOB)[0] == 3, "its checkpoint has what the slot no longer gives"
    _, out, err = shell.typed("jobs", "show", JOB)
    assert "action      start it in its Spark program" in out, "there is nothing to stop"
    for move in (["drop"], ["register"], ["reset", "--to", "latest"]):
        _, out, err = shell.typed("slots", move[0], TABLE, "frames_slot", *move[1:])
        out = " ".join(out.split())
        assert "afterwards it cannot continue from its checkpoint" in out, (move, out, err)
        assert "next start of job" not in out, (move, out)


def test_a_store_that_does_not_answer_holds_no_list_of_jobs_up(
    path: Path, mirror: Mirror, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "WITHIN", 0.3)
    text = path.read_text(encoding="utf-8")
    begin = text.index("[sinks.")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = f"port = {silent.getsockname()[1]}"
        path.write_text(text[:begin] + re.sub(r"port = \d+", port, text[begin:]), encoding="utf-8")
        shell = Shell(path, capfd)
        (listed,) = shell.json_of("jobs", "list")
        assert (listed["state"], listed["queries"]) == (None, [])
        assert listed["reason"].startswith("never started here; its store did not answer"), listed
        code, _, err = shell.typed("jobs", "show", JOB)
        assert code == 5 and "never started here, and its store does not answer" in err, err


def test_no_password_command_runs_unless_queries_are_asked_for(
    path: Path, mirror: Mirror, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program = begun(path, mirror)
    ran = tmp_path / "ran"
    command = tmp_path / "secret"
    command.write_text(f"#!/bin/sh\ntouch {ran}\necho x\n", encoding="utf-8")
    command.chmod(0o700)
    before, header, sink = path.read_text(encoding="utf-8").partition("[sinks.mart]\n")
    sink = re.sub(r"password_\w+ = .*\n", "", sink)
    path.write_text(f'{before}{header}password_command = "{command}"\n{sink}', encoding="utf-8")
    shell = Shell(path, capfd)
    (listed,) = shell.json_of("jobs", "list")
    assert listed["reason"].startswith("never started here; its store did not answer") and not ran.exists()
    shell.typed("jobs", "show", JOB)
    assert ran.exists()
    program.query.close()
