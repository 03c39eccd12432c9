"""`slotkeeper doctor --probe` against a real server: its output and records, and that it leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config.load import load
from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.probing import Found
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.errors import Refused, SlotkeeperError, Unclassified
from slotkeeper.core.services.doctor import check_source
from slotkeeper.core.sources.dws.probe import run as probe_run
from slotkeeper.core.sources.dws.probe import scratch
from slotkeeper.core.sources.dws.probe.questions import QUESTIONS
from slotkeeper.core.sources.dws.probe.scratch import ProbeContext
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.source import DwsSource
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.files import points_proven
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.demo import facts
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.polling import job, server
from tests.support.probing import SCHEMA, drawn, flipped, grant, leftovers
from tests.support.standin import Surface, run
from tests.support.waiting import until

TABLE = "ods.orders"
KEYS = {"name", "topic", "asks", "rule", "documented", "page", "answer", "reader", "because", "evidence"}
REPORT = {
    "executed": bool,
    "file": str,
    "format": int,
    "source": str,
    "kind": str,
    "place": str,
    "server": str,
    "stand_in": bool,
    "schema": str,
    "gtm_option": str,
    "at": str,
    "seconds": float,
    "reader_right": bool,
    "switches": dict,
    "answers": list,
    "left": list,
}


@dataclass(frozen=True)
class Place:
    """A warehouse with a replicated table and another user's slot, and a configuration with it as the only source."""

    warehouse: Warehouse
    config: Path

    def call(self, *words: str, source: str = "dws1") -> int:
        return main(["doctor", "--probe", source, *words, "--config", str(self.config)])

    def foreign(self) -> list[tuple[Any, ...]]:
        """Return everything that the probe did not create: slots with their times, rows, relations, records."""
        connection = self.warehouse.connect()
        try:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT s::text FROM dws.slot s UNION ALL SELECT t::text FROM ods.orders t "
                    "UNION ALL SELECT c.oid || c.relname || c.relfilenode FROM pg_class c WHERE c.relname = 'orders' "
                    "UNION ALL SELECT n.nspname FROM pg_namespace n WHERE n.nspname !~ '^pg_(toast_)?temp' "
                    "UNION ALL SELECT t.tgname FROM pg_trigger t UNION ALL SELECT p.proname FROM pg_proc p ORDER BY 1"
                )
                return cursor.fetchall()
        finally:
            connection.close()


def _written(folder: Path, endpoint: Endpoint, *more: str) -> Path:
    path = folder / "slotkeeper.toml"
    text = server("sources", replace(endpoint, name="dws1"), [one for one in more if "=" in one])
    path.write_text(f'{text}[state]\ndir = "{folder / "state"}"\n', encoding="utf-8")
    return path


def _place(warehouse: Warehouse, folder: Path, *more: str) -> Place:
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    surface = Surface(warehouse)
    surface.start(TABLE, "theirs")
    surface.close()
    run(warehouse, f"INSERT INTO {TABLE} SELECT g, 'x' FROM generate_series(1, 50) g")
    return Place(warehouse, _written(folder, warehouse.endpoint(), *more))


@pytest.fixture
def place(warehouse: Warehouse, tmp_path: Path) -> Place:
    grant(warehouse)
    return _place(warehouse, tmp_path)


def _schema_of(report: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in report.items()}


@pytest.mark.parametrize(
    "switches",
    [Switches(), flipped("end_inclusive", "auto_create"), drawn(7)],
    ids=["default", "two flipped", "seed 7"],
)
def test_the_command_tells_exactly_the_settings_and_keeps_them(
    place: Place, switches: Switches, capsys: pytest.CaptureFixture[str]
) -> None:
    place.warehouse.configure(switches)
    before = place.foreign()
    assert place.call("--json") == 0
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert report["switches"] == dict(place.warehouse.switches().pairs())
    assert _schema_of(report) == REPORT
    assert [one["name"] for one in report["answers"]] == list(QUESTIONS)
    assert all(set(one) == KEYS for one in report["answers"])
    assert all(one["because"] for one in report["answers"] if one["answer"] is None)
    assert report["stand_in"] and report["reader_right"] and report["left"] == []
    assert "probe: reading (2 of 19)" in said.err
    kept = Path(report["file"])
    assert kept == place.config.parent / "state" / "probes" / "dws1.json" and kept.stat().st_mode & 0o777 == 0o600
    assert json.loads(kept.read_text("utf-8")) == {k: v for k, v in report.items() if k not in ("executed", "file")}
    secret = place.warehouse.etl_password_file.read_text("utf-8").strip()
    assert secret not in kept.read_text("utf-8") + said.out + said.err
    assert leftovers(place.warehouse) == [] and place.foreign() == before


def test_the_table_fits_80_columns_and_doctor_remembers(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.call("--reason", "a look") == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines()[:-1])) <= 80  # the last is a path
    assert "a stand-in, not the real server" in " ".join(shown.split())
    assert "Slotkeeper is correct for all of them" in " ".join(shown.split())
    assert "not asked" in shown and "it requires a resize of the cluster" in shown
    lines = Audit(StateFolder.open(place.config.parent / "state")).read().lines
    assert [(one.phase, one.action) for one in lines] == [
        (Phase.OUTCOME, "doctor --probe"),
        (Phase.INTENT, "doctor --probe"),
    ]
    assert lines[1].reason == "a look" and lines[0].outcome.endswith("reader right: True")
    main(["doctor", "--config", str(place.config)])
    assert "Slotkeeper is correct for all answers" in capsys.readouterr().out


def test_other_writers_do_not_make_it_tell_what_is_not_so(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    over = threading.Event()

    def write(number: int) -> None:
        connection = place.warehouse.connect()
        with connection.cursor() as cursor:
            while not over.is_set():
                cursor.execute(f"UPDATE {TABLE} SET note = 'y' WHERE id = {number}")
        connection.close()

    for switches in (Switches(), flipped("latest_inclusive", "register_moves_point", "xmin_includes_slots")):
        place.warehouse.configure(switches)
        over.clear()
        writers = [threading.Thread(target=write, args=(number,), daemon=True) for number in (1, 2)]
        for one in writers:
            one.start()
        try:
            assert place.call("--json") == 0
        finally:
            over.set()
            for one in writers:
                one.join(60)
        told = json.loads(capsys.readouterr().out)["switches"]
        right = dict(switches.pairs())
        assert {name: value for name, value in told.items() if value is not None} == {
            name: right[name] for name, value in told.items() if value is not None
        }
        unsure = {name for name, value in told.items() if value is None}
        assert unsure <= {"latest_inclusive", "register_moves_point", "xmin_includes_slots"}


def test_at_prod_it_is_a_dry_run_unless_consented_to(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grant(warehouse)
    place = _place(warehouse, tmp_path, 'environment = "PROD"')
    before = place.foreign()
    assert place.call() == 0
    shown = capsys.readouterr().out
    assert "dry run: nothing was changed" in shown and "DISTRIBUTE BY HASH (place)" in shown
    assert place.call("--json") == 0
    assert json.loads(capsys.readouterr().out)["to_type"] == {"confirm": "dws1"}
    for words, text in (
        (("--execute",), "needs a reason"),
        (("--execute", "--reason", "why"), "the name typed is not 'dws1'"),
        (("--execute", "--reason", "why", "--confirm", "dws2"), "the name typed is not 'dws1'"),
    ):
        assert place.call(*words) == 3
        assert text in capsys.readouterr().err
    assert place.foreign() == before and not (tmp_path / "state" / "audit.jsonl").exists()
    assert place.call("--execute", "--reason", "why", "--confirm", "dws1") == 0
    assert place.foreign() == before and leftovers(warehouse) == []


def test_what_cannot_be_probed_is_refused_in_one_line(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = _place(warehouse, tmp_path)
    before = place.foreign()

    def refused(code: int, *texts: str, words: tuple[str, ...] = (), source: str = "dws1") -> None:
        assert place.call(*words, source=source) == code
        said = capsys.readouterr()
        assert said.out == "" and all(text in said.err for text in texts), said.err
        assert len(said.err.splitlines()) <= 2 and "Traceback" not in said.err

    refused(2, "unknown source or sink 'nowhere'", "known: dws1", source="nowhere")
    typed = "CREATE SCHEMA probe; GRANT USAGE, CREATE ON SCHEMA probe TO etl"
    refused(3, "etl cannot create a table in any schema", typed)
    refused(3, "etl cannot create a table in schema ods", words=("--probe-schema", "ods"))
    grant(warehouse)
    refused(3, "or name a schema with --probe-schema: probe", words=("--probe-schema", "nowhere"))
    facts.say(warehouse, "enable_hstore_binlog_table", "off")
    refused(3, "no new table can have a binlog", "ask an administrator to set it to on")
    _written(tmp_path, warehouse.server.endpoint("postgres"))
    refused(3, "is not a GaussDB(DWS) cluster: it has no binlog functions")
    _written(tmp_path, replace(warehouse.endpoint(), port=1))
    refused(5, "Connection refused")
    with place.config.open("a", encoding="utf-8") as stream:
        stream.write(server("sinks", replace(warehouse.endpoint(), name="mart")))
    refused(3, "mart is a postgres sink, which has no probe", "run doctor without --probe", source="mart")
    assert main(["doctor", "--reason", "x", "--config", str(_written(tmp_path, warehouse.endpoint()))]) == 2
    assert [row for row in place.foreign() if row not in before] == [("probe",)]


def test_an_error_in_the_middle_leaves_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = place.foreign()

    def breaks(ctx: ProbeContext) -> Iterator[Found]:
        yield from ()
        assert leftovers(place.warehouse) != []
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(probe_run, "GROUPS", (*probe_run.GROUPS[:12], ("broken", (), breaks)))
        assert place.call() == 1
    assert "defect" in capsys.readouterr().err
    place.warehouse.dn_down("dn_2")
    assert place.call() == 5
    place.warehouse.dn_down(None)
    assert "pooler: failed to create" in capsys.readouterr().err
    assert leftovers(place.warehouse) == [] and place.foreign() == before
    outcomes = [one.outcome for one in Audit(StateFolder.open(place.config.parent / "state")).read().lines]
    assert [text.partition(":")[0] for text in outcomes if text] == ["failed", "failed"]


def test_a_group_that_fails_leaves_the_others(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    facts.without(place.warehouse, "pgxc_get_binlog_cursor_by_timestamp")
    facts.without(place.warehouse, "pgxc_register_full_sync_point")
    facts.without(place.warehouse, "pgxc_binlog_clear_target_slot")
    facts.without(place.warehouse, "pgxc_get_binlog_slots")
    assert place.call("--json") == 0
    answers = {one["name"]: one for one in json.loads(capsys.readouterr().out)["answers"]}
    for name, because in (
        ("cursor_timestamp_inclusive", "does not exist"),
        ("full_sync", "no pgxc_register_full_sync_point"),
        ("clear_clears", "no pgxc_binlog_clear_target_slot"),
        ("refresh_same_point", "does not report when"),
    ):
        assert answers[name]["answer"] is None and because in answers[name]["because"], answers[name]
    assert answers["auto_create"]["answer"] == "yes" and answers["reader_exact"]["answer"] == "yes"
    assert leftovers(place.warehouse) == []


def test_a_cluster_under_which_changes_could_be_lost_is_recognized(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its newest point is the first unsafe one, and it purges the registered point itself (design: not supported)."""
    place.warehouse.configure(flipped("purge_at_once"))
    run(
        place.warehouse,
        "DO $$ BEGIN EXECUTE replace(pg_get_functiondef('dws.purge_bound(oid,smallint)'::regprocedure), "
        "'coalesce(bound, safe))', 'coalesce(bound, safe) + 1)'); END $$",
    )
    assert place.call("--json") == 1
    report = json.loads(capsys.readouterr().out)
    (wrong,) = (one for one in report["answers"] if one["reader"] == "WRONG")
    assert (wrong["name"], wrong["answer"]) == ("registered_point_kept", "no") and "do not run a job here" in wrong[
        "because"
    ]
    assert report["reader_right"] is False
    place.warehouse.configure(flipped("purge_at_once", "latest_inclusive"))
    assert place.call("--json") == 0


def test_a_job_that_names_the_columns_otherwise_is_named(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.warehouse.configure(flipped("new_system_names"))
    sink = server("sinks", replace(place.warehouse.endpoint(), name="mart"))
    with place.config.open("a", encoding="utf-8") as stream:
        stream.write("\n" + sink + job("orders_rt", "theirs", TABLE, "mart.orders"))
    assert place.call() == 1
    assert "set new_system_value = false for orders_rt" in capsys.readouterr().out


def test_where_copy_is_refused_the_cursor_is_reported(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(session: DwsSession, *_: object) -> int:
        session.close()
        raise Unclassified("COPY of a function is not supported", code="0A000")

    monkeypatch.setattr(DwsSession, "copy_out", refuse)
    assert place.call("--json") == 0
    answers = {one["name"]: one["answer"] for one in json.loads(capsys.readouterr().out)["answers"]}
    assert [answers[name] for name in ("copy_allowed", "cursor_allowed", "reader_exact")] == ["no", "yes", "yes"]


def test_a_table_of_that_name_that_is_there_is_not_dropped(place: Place) -> None:
    run(
        place.warehouse,
        f"CREATE TABLE {SCHEMA}.slotkeeper_probe_x (id int)",
        f"ALTER TABLE {SCHEMA}.slotkeeper_probe_x OWNER TO etl",
    )
    password = place.warehouse.etl_password_file.read_text("utf-8").strip()

    def opened() -> DwsSession:
        return DwsSession(place.warehouse.endpoint(), password, "slotkeeper-test/probe")

    made, session = scratch.Scratch(SCHEMA, "slotkeeper_probe_x", stand_in=True), opened()
    with pytest.raises(SlotkeeperError, match="already exists"):
        made.create(session, made.plain)
    session.close()
    assert made.drop_all(opened) == [] and ("slotkeeper_probe_x",) in leftovers(place.warehouse)


def test_a_table_that_cannot_be_dropped_is_named_with_its_cure(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    holder = place.warehouse.connect(autocommit=False)

    def locked(ctx: ProbeContext) -> Iterator[Found]:
        with holder.cursor() as cursor:
            cursor.execute(f"SELECT count(*) FROM {ctx.table}")
        yield from ()

    monkeypatch.setattr(scratch, "MAKE_LIMIT_MS", 300)
    monkeypatch.setattr(probe_run, "GROUPS", (*probe_run.GROUPS[:2], ("locked", (), locked)))
    assert place.call("--json") == 1
    said = capsys.readouterr()
    (left,) = json.loads(said.out)["left"]
    assert left["cure"] == f"DROP TABLE {left['table']};" and left["cure"] in said.err
    assert place.call("--reason", "again") == 1  # the next one names it, and does not touch it
    assert f"found {left['table']} (owner etl" in capsys.readouterr().err
    holder.rollback()
    holder.close()
    tables = [row[0] for row in leftovers(place.warehouse) if row[0].startswith("slotkeeper") and "pkey" not in row[0]]
    run(place.warehouse, *(f"DROP TABLE {SCHEMA}.{name}" for name in tables))
    assert leftovers(place.warehouse) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_signal_ends_the_real_command_and_leaves_nothing(place: Place, number: signal.Signals) -> None:
    before = place.foreign()
    place.warehouse.dn_hanging("dn_2")
    command = [sys.executable, "-m", "slotkeeper.console", "doctor", "--probe", "dws1", "--config", str(place.config)]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: bool(leftovers(place.warehouse)), 30, "the scratch table")
        running.send_signal(number)
        place.warehouse.dn_hanging(None)
        _, said = running.communicate(timeout=120)
    finally:
        running.kill()
        running.wait()
    assert running.returncode == 130 and "no probe objects remain" in said and "Traceback" not in said
    assert leftovers(place.warehouse) == [] and place.foreign() == before
    assert Audit(StateFolder.open(place.config.parent / "state")).read().lines[0].outcome == "interrupted"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_while_it_cleans_up_waits_until_all_is_gone(
    place: Place, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(session: DwsSession, table: str) -> None:
        os.kill(os.getpid(), number)

    monkeypatch.setattr(scratch, "_clear", interrupted)
    assert place.call() == 130
    assert leftovers(place.warehouse) == []


def test_a_gtm_lite_is_followed_once_a_probe_has_recorded_one_point_per_transaction(
    place: Place,
) -> None:
    facts.say(place.warehouse, "gtm_option", "gtm-lite")
    loaded = load(place.config, {})
    endpoint = loaded.sources["dws1"].endpoint

    def refused() -> bool:
        proven = points_proven(loaded.state_dir, "dws1", endpoint.place)
        source = DwsSource(DwsSession(endpoint, resolve(endpoint.password), "test"), TABLE, "ours", BinlogOptions(True))
        source.points_proven = proven
        told = [one.text for one in check_source(loaded, loaded.sources["dws1"]) if one.level is Level.FAIL]
        try:
            source.admit()
        except Refused as error:
            assert "doctor --probe dws1" in error.hint and any("doctor --probe dws1" in one for one in told)
            return True
        finally:
            source.session.close()
        assert not any("gtm_option" in one for one in told)
        return False

    assert refused()
    assert place.call("--json") == 0
    assert not refused()
    assert not points_proven(loaded.state_dir, "dws1", "another:8000/db"), "a record of another server proves nothing"
    facts.say(place.warehouse, "gtm_option", "gtm-free")
    assert place.call("--json") == 3, "no record makes a GTM-Free acceptable"
