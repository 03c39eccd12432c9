"""Read-only commands against real servers: their output and exit codes; they never create a slot."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import doctor
from slotkeeper.core.drivers import pg
from slotkeeper.demo import facts
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.proxy import Line, proxy
from tests.support.standin import MakeWarehouse, Surface, run

TABLE, BARE = "ods.orders", "ods.untouched"


@dataclass(frozen=True)
class Place:
    """A warehouse with a followed table, a table that no command queried, and a configured job that is not started."""

    mirror: Mirror
    config: Path

    @property
    def warehouse(self) -> Warehouse:
        return self.mirror.warehouse

    def slots(self) -> list[tuple[Any, ...]]:
        """Return every slot point that the server stores, read from its store."""
        columns = "rel::regclass::text, dn, slot_name, checkpoint, sync_point, sync_timestamp"
        return self.mirror.query(self.warehouse.connect, f"SELECT {columns} FROM dws.slot ORDER BY 1, 2, 3, 4")

    def call(self, *words: str) -> int:
        return main([*words, "--config", str(self.config)])


@pytest.fixture
def place(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> Place:
    for table in (TABLE, BARE):
        warehouse.create_table(table, "id bigint, note text", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    jobs = (
        job("orders_rt", mirror.job.slot, TABLE, "mart.orders"),
        job("idle", "idle_slot", BARE, "mart.idle"),
    )
    return Place(mirror, config(tmp_path, mirror.job.source, mirror.job.sink, *jobs))


@pytest.fixture
def surface_of(place: Place) -> Iterator[Surface]:
    client = Surface(place.warehouse)
    yield client
    client.close()


@pytest.fixture(autouse=True)
def _java_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_ask_java", lambda: {"version": "21", "home": "/j", "origin": "PATH"})


def test_no_looking_command_makes_a_slot(place: Place, surface_of: Surface, capsys: pytest.CaptureFixture[str]) -> None:
    surface_of.start(TABLE, "elsewhere")
    before = place.slots()
    assert {row[2] for row in before} == {"elsewhere"}
    for words, code in {
        ("slots", "list"): 0,
        ("slots", "list", "--json"): 0,
        ("slots", "list", BARE): 0,
        ("slots", "list", "no.such_table"): 3,
        ("slots", "show", TABLE, "elsewhere"): 0,
        ("slots", "show", BARE, "idle_slot"): 0,
        ("slots", "show", BARE, "nobody"): 3,
        ("slots", "preflight", TABLE): 3,
        ("slots", "preflight", BARE, "--json"): 0,
        ("slots", "preflight", "no.such_table"): 3,
        ("slots", "create", TABLE, "planned"): 0,
        ("slots", "register", TABLE, "elsewhere"): 0,
        ("slots", "register", TABLE, "nobody"): 3,
        ("slots", "drop", TABLE, "elsewhere"): 0,
        ("audit", "list"): 0,
        ("status",): 0,
        ("status", "--json", "--exit-code"): 3,
        ("doctor",): 0,
        ("doctor", "--json"): 0,
        ("jobs", "list"): 0,
        ("jobs", "show", "idle"): 3,
    }.items():
        assert place.call(*words) == code, (words, capsys.readouterr())
    assert place.call("verify", "orders_rt") == 3  # its target does not exist
    assert place.slots() == before
    assert "defect" not in capsys.readouterr().err


def test_slots_are_listed_with_owner_and_unread_rows(
    place: Place, surface_of: Surface, capsys: pytest.CaptureFixture[str]
) -> None:
    surface_of.start(TABLE, "elsewhere")
    surface_of.start(TABLE, place.mirror.job.slot)
    place.mirror.source(f"INSERT INTO {TABLE} SELECT g, 'x' FROM generate_series(1, 40) g")
    assert place.call("slots", "list", "--json") == 0
    found = {(slot["slot"]): slot for each in json.loads(capsys.readouterr().out)["tables"] for slot in each["slots"]}
    ours = found[place.mirror.job.slot]
    assert (ours["job"], ours["external"], ours["exists"], ours["unread"]) == ("orders_rt", False, True, 40)
    assert len(ours["dns"]) == 4
    assert all(dn["live"] == dn["durable"] and dn["xmin"] is not None for dn in ours["dns"])
    assert ours["registered_at"].endswith("Z")
    assert (found["elsewhere"]["job"], found["elsewhere"]["external"]) == (None, True)
    assert (found["idle_slot"]["exists"], found["idle_slot"]["unread"]) == (False, None)
    assert place.call("slots", "show", TABLE, "elsewhere") == 0
    shown = capsys.readouterr().out
    assert "external" in shown and "dn_4" in shown


def test_what_a_source_answers_is_shown_where_the_sink_never_answers(
    place: Place, surface_of: Surface, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    surface_of.start(TABLE, place.mirror.job.slot)
    table = job("orders_rt", place.mirror.job.slot, TABLE, "mart.orders")
    with proxy(place.mirror.job.sink.port) as line:
        line.set(Line.BLACK_HOLE)
        sink = replace(place.mirror.job.sink, host="127.0.0.1", port=line.port)
        path = str(config(tmp_path, place.mirror.job.source, sink, table))
        show = ["slots", "show", TABLE, place.mirror.job.slot, "--config", path]
        assert main(show) == 0
        assert "dn_4" in capsys.readouterr().out
        function = "pg_catalog.pgxc_get_binlog_slots(text, integer)"  # without it, the progress rows are read
        run(place.warehouse, f"DROP FUNCTION {function}", settings=("SET allow_system_table_mods = on",))
        begun = time.monotonic()
        assert main(show) == 0
        assert time.monotonic() - begun < 10.0
        said = capsys.readouterr()
        assert f"{sink.place} does not answer: its progress rows are unknown" in said.err
        assert main(["doctor", "--wait", "2s", "--json", "--config", path]) == 5
    places = {one["place"] for one in json.loads(capsys.readouterr().out)["findings"]}
    assert places >= {f"source dws1 {TABLE}", "sink mart"}


def test_a_kernel_without_the_functions_leaves_the_answer_unknown(
    place: Place, surface_of: Surface, capsys: pytest.CaptureFixture[str]
) -> None:
    surface_of.start(TABLE, "elsewhere")
    run(
        place.warehouse,
        "DROP FUNCTION pg_catalog.pgxc_get_binlog_slots(text, integer)",
        "DROP FUNCTION pg_catalog.pgxc_get_binlog_consume_progress(text, integer)",
        settings=("SET allow_system_table_mods = on",),
    )
    before = place.slots()
    assert place.call("slots", "list", TABLE, "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)["tables"]
    (slot,) = found["slots"]
    assert (slot["slot"], slot["exists"], slot["oldest_point"], slot["unread"]) == (
        place.mirror.job.slot, None, None, None,
    )  # fmt: skip
    assert len(found["untold"]) == 2
    assert place.call("slots", "show", TABLE, place.mirror.job.slot) == 0
    assert "cannot determine whether it exists" in capsys.readouterr().out
    assert place.call("doctor") == 0
    assert "9.1.0.223" in capsys.readouterr().out
    assert place.slots() == before


def test_verify_names_the_keys_and_waits_for_a_running_job(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.mirror.source(f"INSERT INTO {TABLE} SELECT g, 'row ' || g FROM generate_series(1, 200) g")
    place.mirror.start().wait_running()
    place.mirror.wait_equal()
    place.mirror.stop()
    assert place.call("verify", "orders_rt") == 0
    assert "equal" in capsys.readouterr().out
    place.mirror.source(f"DELETE FROM {TABLE} WHERE id = 7", f"UPDATE {TABLE} SET note = 'other' WHERE id = 8")
    before = place.slots()
    assert place.call("verify", "orders_rt", "--json") == 4
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["extra"]["keys"], found["different"]["keys"]) == ("different", [["7"]], [["8"]])
    assert found["job_runs"] is False
    assert place.call("verify", "orders_rt") == 4
    said = capsys.readouterr()
    assert "extra: 1: (7)" in said.out and "never started here" in said.err
    assert place.call("status", "--json") == 0
    told = next(one for one in json.loads(capsys.readouterr().out)["jobs"] if one["job"] == "orders_rt")
    assert (told["verified"]["verdict"], told["verified"]["differences"]) == ("different", 2)
    assert told["verified"]["rows_source"] == 199
    assert place.slots() == before


def test_verify_of_a_running_job_settles_before_it_judges(place: Place) -> None:
    from slotkeeper.core.services import verify

    place.mirror.source(f"INSERT INTO {TABLE} SELECT g, 'row ' || g FROM generate_series(1, 200) g")
    place.mirror.start().wait_running()
    place.mirror.source(f"UPDATE {TABLE} SET note = 'later'")
    found = verify.verify(place.mirror.job, True, lambda done, known: None)
    place.mirror.stop()
    assert (found.equal, found.rows_source, found.unsettled.count) == (True, 200, 0)


def test_verify_of_a_job_that_hangs_is_unsettled_never_equal(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from slotkeeper.core.services import verify

    place.mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'a')")
    place.mirror.start().wait_running()
    place.mirror.stop()
    place.mirror.source(f"INSERT INTO {TABLE} VALUES (2, 'b')")
    monkeypatch.setattr(verify, "settled", partial(verify.settled, seconds=0.3))
    found = verify.verify(place.mirror.job, True, lambda done, known: None)
    assert (found.equal, found.unsettled.keys) == (False, (("2",),))


def test_an_unreachable_source_is_five_and_named(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = replace(place.mirror.job.source, port=1)
    path = config(tmp_path, silent, place.mirror.job.sink, job("orders_rt", "s", TABLE, "mart.orders"))
    for words in (
        ("slots", "list"),
        ("slots", "show", TABLE, "s"),
        ("slots", "preflight", TABLE),
        ("verify", "orders_rt"),
        ("doctor",),
    ):
        assert main([*words, "--config", str(path)]) == 5, words
    said = capsys.readouterr()
    assert "dws1" in said.err and "dws1" in said.out


def test_doctor_prints_a_script_after_which_it_finds_nothing(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The minimum rights are minimal: a role that lacks one fails, with the printed ones it passes and a job runs."""
    admin = place.mirror.sink()
    password = tmp_path / "poor.password"
    password.write_text("poor", encoding="utf-8")
    password.chmod(0o600)
    with admin.cursor() as cursor:
        cursor.execute("DROP ROLE IF EXISTS poor")
        cursor.execute("CREATE ROLE poor LOGIN PASSWORD 'poor'")
        cursor.execute("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        cursor.execute(f"REVOKE ALL ON DATABASE {place.mirror.sink_database} FROM PUBLIC")
        cursor.execute(f"GRANT CONNECT ON DATABASE {place.mirror.sink_database} TO poor")
    ref = place.warehouse.endpoint().password
    sink = replace(place.mirror.job.sink, user="poor", password=replace(ref, ref=str(password)))
    path = config(
        tmp_path, place.mirror.job.source, sink, job("orders_rt", place.mirror.job.slot, TABLE, "mart.orders")
    )
    assert main(["doctor", "--json", "--config", str(path)]) == 1
    found = json.loads(capsys.readouterr().out)
    with admin.cursor() as cursor:
        for statement in found["grants"]["sink mart"]:
            cursor.execute(statement)
    assert main(["doctor", "--json", "--config", str(path)]) == 0, capsys.readouterr().out
    place.mirror.job = replace(place.mirror.job, sink=sink)
    place.mirror.source(f"INSERT INTO {TABLE} VALUES (1, 'a')")
    place.mirror.start().wait_running()
    place.mirror.stop()
    assert main(["doctor", "--config", str(path)]) == 0
    assert "writable" in capsys.readouterr().out
    with admin.cursor() as cursor:
        cursor.execute("DROP OWNED BY poor CASCADE")
        cursor.execute("DROP ROLE poor")
    admin.close()


def test_doctor_says_what_a_login_does_not_see_and_the_grant_that_cures_it(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = config(tmp_path, place.mirror.job.source, place.mirror.job.sink)

    def said() -> str:
        assert main(["doctor", "--json", "--config", str(path)]) == 0
        return capsys.readouterr().out

    assert "cannot see all sessions of other logins: a start also waits for the xmin of every DN; fix: GRANT" in said()
    facts.second_coordinator(place.warehouse)
    lacks = "cannot see all sessions of other logins and of 2 coordinators"
    assert f"{lacks}: a start also waits for the xmin of every DN, and 15 s" in said()
    facts.sees_statistics(place.warehouse)
    try:
        assert "this login sees every session of every coordinator" in said()
    finally:
        facts.sees_statistics(place.warehouse, False)


def test_doctor_names_what_a_table_lacks(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(place.warehouse, "CREATE TABLE ods.plain (id bigint PRIMARY KEY)", "CREATE TABLE ods.hidden (id bigint)")
    run(place.warehouse, "GRANT SELECT ON ods.plain TO etl")
    jobs = [job(name, name, f"ods.{name}", f"mart.{name}") for name in ("plain", "hidden", "absent")]
    path = config(tmp_path, place.mirror.job.source, place.mirror.job.sink, *jobs)
    assert main(["doctor", "--config", str(path)]) == 1
    said = capsys.readouterr().out
    assert "the binlog functions reject the table" in said
    assert "has no primary key" in said and "this login cannot read" in said
    assert "unknown table ods.absent" in said
    assert "GRANT SELECT ON ods.hidden TO etl;" in said


def test_old_system_names_change_nothing_for_lookers(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    warehouse = make_warehouse(switches=Switches(new_system_names=False, auto_create=False))
    warehouse.create_table(TABLE, "id bigint", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    path = config(tmp_path, mirror.job.source, mirror.job.sink, job("j", "s", TABLE, "mart.orders"))
    assert main(["slots", "list", "--config", str(path)]) == 0
    connection: pg.Connection = warehouse.connect()
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM dws.slot")
        assert cursor.fetchone() == (0,)
    connection.close()
