"""`slots create`, `register` and `drop` against real servers: dry runs by default, confirmed, observed, audited."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.audit import AuditLine, Phase
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.jobs import Jobs
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import job, server
from tests.support.standin import MakeWarehouse, Surface, run

TABLE, JOB, FOREIGN = "ods.orders", "orders_rt", "elsewhere"


@dataclass(frozen=True)
class Place:
    """A warehouse with a followed table, a job, and a configuration over both."""

    mirror: Mirror
    config: Path
    surface: Surface

    @property
    def warehouse(self) -> Warehouse:
        return self.mirror.warehouse

    @property
    def slot(self) -> str:
        return self.mirror.job.slot

    def points(self, slot: str) -> dict[str, set[int]]:
        """Return both points of a slot by DN, read from the server's store."""
        rows = self.mirror.query(
            self.warehouse.connect,
            f"SELECT n.node_name, s.sync_point FROM dws.slot s JOIN dws.node n ON n.ord = s.dn "
            f"WHERE s.slot_name = '{slot}'",
        )
        found: dict[str, set[int]] = {}
        for name, point in rows:
            found.setdefault(str(name), set()).add(int(point))
        return found

    def call(self, *words: str) -> int:
        return main([*words, "--config", str(self.config)])

    def execute(self, verb: str, slot: str, *more: str) -> int:
        return self.call("slots", verb, TABLE, slot, "--execute", "--reason", "a test", "--confirm", slot, *more)

    def audited(self) -> list[AuditLine]:
        return list(reversed(Audit(StateFolder.open(self.config.parent / "state")).read().lines))

    def insert(self, first: int, last: int) -> None:
        self.mirror.source(f"INSERT INTO {TABLE} SELECT g, 'x' FROM generate_series({first}, {last}) g")


def _place(warehouse: Warehouse, mirror: Mirror, folder: Path, environment: str = "") -> Place:
    path = folder / "slotkeeper.toml"
    more = (f'environment = "{environment}"',) if environment else ()
    text = server("sources", mirror.job.source, more) + server("sinks", mirror.job.sink)
    text += job(JOB, mirror.job.slot, TABLE, "mart.orders")
    path.write_text(f'{text}[state]\ndir = "{folder / "state"}"\n', encoding="utf-8")
    return Place(mirror, path, Surface(warehouse))


@pytest.fixture
def place(make_warehouse: MakeWarehouse, make_mirror: MakeMirror, tmp_path: Path) -> Iterator[Place]:
    warehouse = make_warehouse()
    warehouse.create_table(TABLE, "id bigint, note text", ("id",), ttl_s=600)
    found = _place(warehouse, make_mirror(warehouse, TABLE), tmp_path)
    yield found
    found.surface.close()


def test_the_time_left_is_shown_at_80_columns_and_as_json(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.surface.start(TABLE, place.slot)
    place.surface.start(TABLE, FOREIGN)
    place.insert(1, 40)
    run(place.warehouse, "UPDATE dws.slot SET sync_timestamp = now() - interval '500 s' WHERE checkpoint AND dn = 2")
    assert place.call("slots", "show", TABLE, FOREIGN, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["retained"]["ttl_seconds"], found["retained"]["ttl_is_default"]) == (600, False)
    assert found["severity"] == "critical" and 90 <= found["seconds_left"] <= 100
    by_dn = {dn["shard"]: dn for dn in found["dns"]}
    assert {dn["severity"] for name, dn in by_dn.items() if name != "dn_3"} == {"fine"}
    assert {dn["registered_by"] for dn in by_dn.values()} == {"server"}
    assert {dn["behind"] for dn in by_dn.values()} == {"both"}
    assert sum(dn["unread"] for dn in by_dn.values()) == 40
    for words in (("slots", "show", TABLE, FOREIGN), ("slots", "list")):
        assert place.call(*words) == 0
        shown = capsys.readouterr().out
        assert "critical" in shown and "10m00s" in shown and max(map(len, shown.splitlines())) <= 80


def test_where_the_server_is_silent_our_own_registration_counts_and_is_marked(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.insert(1, 10)
    place.mirror.start().wait_running()
    place.mirror.stop()
    gone = ("pgxc_get_binlog_slots", "pgxc_get_binlog_consume_progress")
    statements = [f"DROP FUNCTION pg_catalog.{name}(text, integer)" for name in gone]
    run(place.warehouse, *statements, settings=("SET allow_system_table_mods = on",))
    assert place.call("slots", "show", TABLE, place.slot, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert {dn["registered_by"] for dn in found["dns"]} == {"ours"} and len(found["dns"]) == 4
    assert all(dn["live"] is None and dn["our_live"] for dn in found["dns"])
    assert 500 < found["seconds_left"] <= 600
    assert any("ours" in text for text in found["retained"]["untold"])
    assert place.call("slots", "show", TABLE, place.slot) == 0
    assert "ours" in capsys.readouterr().out


@pytest.mark.parametrize("auto_create", [True, False])
def test_a_created_slot_is_what_the_first_start_of_its_job_expects(
    place: Place, capsys: pytest.CaptureFixture[str], auto_create: bool
) -> None:
    place.warehouse.configure(Switches(auto_create=auto_create))
    assert place.call("slots", "create", TABLE, place.slot) == 0
    assert "dry run" in capsys.readouterr().out
    assert place.points(place.slot) == {}
    assert place.audited() == []
    assert place.execute("create", place.slot) == 0
    assert place.points(place.slot) == {f"dn_{n}": {0} for n in range(1, 5)}
    intent, outcome = place.audited()
    assert (intent.phase, outcome.phase, intent.action_id == outcome.action_id) == (Phase.INTENT, Phase.OUTCOME, True)
    assert (intent.action, intent.reason, outcome.outcome) == ("slots create", "a test", "created on every DN")
    assert outcome.result["dn_4"].startswith("live 0, durable 0")
    assert place.execute("create", place.slot) == 3
    assert "already" in capsys.readouterr().err
    place.insert(1, 10)
    place.mirror.start().wait_running()
    place.mirror.wait_equal()
    place.mirror.stop()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--reason", "r", "--confirm", "other"), "the typed name is not"),
        (("--confirm", FOREIGN), "needs a reason"),
        (("--reason", "r", "--confirm", FOREIGN), "no configured job owns it"),
        (("--reason", "r", "--confirm", FOREIGN, "--confirm-table", TABLE), "would lose 40 unread rows"),
        (
            ("--reason", "r", "--confirm", FOREIGN, "--confirm-table", TABLE, "--rows", "39"),
            "would lose 40 unread rows, but 39 was typed",
        ),
    ],
)
@pytest.mark.parametrize("verb", ["register", "drop"])
def test_what_is_not_consented_to_is_refused_with_one_line(
    place: Place, capsys: pytest.CaptureFixture[str], verb: str, words: tuple[str, ...], said: str
) -> None:
    place.surface.start(TABLE, FOREIGN)
    place.insert(1, 40)
    before = place.points(FOREIGN)
    assert place.call("slots", verb, TABLE, FOREIGN, "--execute", *words) == 3
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 2
    assert place.points(FOREIGN) == before and place.audited() == []


def test_registering_moves_the_slot_to_now_and_shows_what_was_observed(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.surface.start(TABLE, place.slot)
    before = place.points(place.slot)
    place.insert(1, 40)
    assert place.call("slots", "register", TABLE, place.slot) == 0
    shown = capsys.readouterr().out
    assert "40 unread rows" in shown and "PROGRESS LOST" in shown and "--rows 400" in shown
    assert max(map(len, shown.splitlines()[:-1])) <= 80
    assert place.execute("register", place.slot, "--rows", "40", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["done"]["outcome"] == "registered on every DN"
    after = place.points(place.slot)
    assert all(max(after[dn]) > max(before[dn]) and len(after[dn]) == 1 for dn in before)
    assert all(text.startswith("observed") and "0 unread" in text for text in found["done"]["result"].values())


def test_a_partial_registration_is_said_per_dn(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.surface.start(TABLE, place.slot)
    place.insert(1, 40)
    place.warehouse.partial_registration("dn_2")
    assert place.execute("register", place.slot, "--rows", "40") == 1
    shown = capsys.readouterr().out
    assert "not registered on dn_2" in shown and "not moved: live" in shown
    assert place.audited()[-1].outcome == "not registered on dn_2"
    assert place.audited()[-1].result["dn_2"].startswith("not moved")


def test_a_dropped_slot_is_gone_and_the_loser_was_named(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.surface.start(TABLE, place.slot)
    place.surface.start(TABLE, FOREIGN)
    place.insert(1, 40)
    assert place.call("slots", "drop", TABLE, place.slot) == 0
    shown = capsys.readouterr().out
    assert f"job {JOB} loses 40 unread rows" in shown and FOREIGN in shown
    assert place.execute("drop", place.slot, "--rows", "40") == 0
    assert "dropped; 8 points cleared" in capsys.readouterr().out
    assert place.points(place.slot) == {} and len(place.points(FOREIGN)) == 4
    assert place.execute("drop", FOREIGN, "--rows", "40", "--confirm-table", TABLE) == 0
    assert "no longer recorded" in capsys.readouterr().out
    assert [line.result["dn_1"] for line in place.audited() if line.phase is Phase.OUTCOME] == ["gone", "gone"]
    assert place.call("audit", "list") == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 2 + 4
    assert place.call("audit", "list", "--json", "--limit", "1") == 0
    assert json.loads(capsys.readouterr().out)["lines"][0]["outcome"] == "dropped; 8 points cleared"


def test_a_kernel_that_cannot_drop_says_when_the_ttl_does(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.surface.start(TABLE, place.slot)
    gone = "DROP FUNCTION pg_catalog.pgxc_binlog_clear_target_slot(text, text)"
    run(place.warehouse, gone, settings=("SET allow_system_table_mods = on",))
    before = place.points(place.slot)
    assert place.call("slots", "drop", TABLE, place.slot) == 0
    assert "abandon" in capsys.readouterr().out
    assert place.execute("drop", place.slot) == 0
    assert "nothing was sent" in capsys.readouterr().out
    assert place.points(place.slot) == before
    assert place.audited()[-1].action == "slots abandon" and "by its TTL at 20" in place.audited()[-1].outcome


def test_a_prod_source_asks_for_the_tables_name(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    warehouse = make_warehouse()
    warehouse.create_table(TABLE, "id bigint", ("id",))
    place = _place(warehouse, make_mirror(warehouse, TABLE), tmp_path, "PROD")
    assert place.execute("create", place.slot) == 3
    assert "PROD" in capsys.readouterr().err and place.points(place.slot) == {}
    assert place.execute("create", place.slot, "--confirm-table", TABLE) == 0
    place.surface.close()


def test_nothing_is_changed_while_the_owning_job_lives(
    place: Place, jobs: Jobs, capsys: pytest.CaptureFixture[str]
) -> None:
    place.surface.start(TABLE, place.slot)
    jobs.start(JOB)
    for verb in ("register", "drop"):
        assert place.execute(verb, place.slot) == 3
        assert place.call("slots", verb, TABLE, place.slot) == 3
        assert f"job {JOB} is RUNNING" in capsys.readouterr().err
    assert place.execute("drop", place.slot, "--confirm-table", TABLE) == 3
    assert len(place.points(place.slot)) == 4 and place.audited() == []


def test_a_job_that_runs_on_another_machine_is_seen_by_its_lease(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.mirror.start().wait_running()
    assert place.execute("drop", place.slot) == 3
    assert "lease" in capsys.readouterr().err
    place.mirror.stop()
    assert place.execute("drop", place.slot) == 0
    assert "SLOT LOST" in capsys.readouterr().out


def test_an_audit_that_cannot_be_written_refuses_the_action(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.surface.start(TABLE, place.slot)
    with Store.open(place.config.parent / "state"):
        (place.config.parent / "state" / "audit.jsonl").mkdir()
    assert place.execute("drop", place.slot) != 0
    assert "audit" in capsys.readouterr().err
    assert len(place.points(place.slot)) == 4


def test_an_action_that_fails_leaves_an_outcome_with_what_can_be_seen(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from slotkeeper.core.errors import Unreachable
    from slotkeeper.core.sources.dws.slot import DwsTable

    def lost(self: Any) -> int:
        raise Unreachable("the line broke")

    place.surface.start(TABLE, place.slot)
    monkeypatch.setattr(DwsTable, "clear", lost)
    assert place.execute("drop", place.slot) == 5
    outcome = place.audited()[-1]
    assert outcome.outcome == "failed: the line broke" and set(outcome.result) == {"dn_1", "dn_2", "dn_3", "dn_4"}
