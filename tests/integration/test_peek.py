"""Reading binlog rows from the stand-in: which rows are found and shown; no slot is ever created or moved."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config.load import load
from slotkeeper.core.config.secrets import login, resolve
from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.domain.inspection import Ask, Filter, Page
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.spec import BinlogOptions, TableAsked
from slotkeeper.core.errors import Refused
from slotkeeper.core.services import binlog_rows
from slotkeeper.core.sources import registry
from slotkeeper.core.sources.dws import words as dws_words
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.core.sources.dws.viewer import DwsViewer
from slotkeeper.core.sqltext import dotted
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.polling import job, server
from tests.support.standin import MakeWarehouse, Surface, run, slot_points

TABLE, FOREIGN = "ods.orders", "elsewhere"
HOSTILE = ["\x1b]52;c;aGFjaw==\x07", "\x9b31m", "\u202egnp.exe", "[@click=app.quit]q[/]", "a\u200bb", "x" * 100_000]


@dataclass(frozen=True)
class Place:
    """A warehouse with a followed table whose one slot is not Slotkeeper's, and a configuration that names the job's
    own slot.
    """

    warehouse: Warehouse
    surface: Surface
    config: Path

    def slots(self) -> list[tuple[Any, ...]]:
        return slot_points(self.warehouse)

    def dn_of(self, key: int) -> str:
        names = {node: name for name, node in self.warehouse.nodes()}
        return names[self.surface.value(f"SELECT t.xc_node_id FROM {TABLE} t WHERE id = {key}")]

    def peek(self, ask: Ask, unmask: bool = False) -> Page:
        return binlog_rows.rows(load(self.config, {}), "dws1", TABLE, ask, unmask)

    def call(self, *words: str) -> int:
        return main(["slots", "peek", TABLE, *words, "--config", str(self.config)])


Make = Callable[..., Place]


@pytest.fixture
def make(make_warehouse: MakeWarehouse, tmp_path: Path) -> Iterator[Make]:
    """Makes a setup: the source's environment, whether times are recorded, the server's switches."""
    found: list[Place] = []

    def made(environment: str = "", timed: bool = True, switches: Switches | None = None) -> Place:
        warehouse = make_warehouse(switches=switches)
        warehouse.create_table(TABLE, "id bigint, status text, amount numeric(10,2)", ("id",), timestamp=timed)
        more = (f'environment = "{environment}"',) if environment else ()
        endpoint = warehouse.endpoint()
        text = server("sources", replace(endpoint, name="dws1"), more) + server("sinks", replace(endpoint, name="mart"))
        text += job("orders_rt", "ours", TABLE, "mart.orders") + f'[state]\ndir = "{tmp_path / "state"}"\n'
        path = tmp_path / "slotkeeper.toml"
        path.write_text(text, encoding="utf-8")
        surface = Surface(warehouse)
        surface.start(TABLE, FOREIGN)
        found.append(Place(warehouse, surface, path))
        return found[-1]

    yield made
    for place in found:
        place.surface.close()


def write(place: Place) -> str:
    """Write the life of one order, with another row on the same DN and rows elsewhere; return the order's DN."""
    run(place.warehouse, f"INSERT INTO {TABLE} VALUES (1, 'NEW', 18.50), (2, NULL, 0), (3, '', 1)")
    dn = place.dn_of(1)
    run(
        place.warehouse,
        f"UPDATE {TABLE} SET status = 'PAID' WHERE id = 1",
        f"UPDATE {TABLE} SET amount = 17.50 WHERE id = 1",
        f"DELETE FROM {TABLE} WHERE id = 1",
    )
    return dn


def test_rows_are_found_in_order_with_null_and_empty_apart_and_no_slot_is_touched(make: Make) -> None:
    place = make()
    dn = write(place)
    before = place.slots()
    assert {row[1] for row in before} == {FOREIGN}
    page = place.peek(Ask(dn=dn, filter=Filter(key={"id": "1"})))
    assert [row.kind for row in page.rows] == ["I", "B", "U", "B", "U", "d"]
    assert [row.position for row in page.rows] == sorted(row.position for row in page.rows)
    assert page.rows[0].values == ("1", "NEW", "18.50") and page.rows[4].values == ("1", "PAID", "17.50")
    assert all(row.time_us for row in page.rows) and page.whole and page.identity.key == ("id",)
    for key, status in (("2", None), ("3", "")):
        (row,) = place.peek(Ask(dn=place.dn_of(int(key)), filter=Filter(key={"id": key}))).rows
        assert row.values[1] == status
    assert place.slots() == before


def test_a_page_is_cut_and_the_next_continues_where_it_ended_inside_a_transaction(make: Make) -> None:
    place = make()
    run(place.warehouse, f"INSERT INTO {TABLE} SELECT g, 'x', g FROM generate_series(1, 100) g")
    dn = place.dn_of(1)
    start: Position | None = DwsPosition(0)
    whole = place.peek(Ask(dn=dn, after=start))
    pieces: list[Position] = []
    while True:
        page = place.peek(Ask(dn=dn, after=start, most=7))
        pieces += [row.position for row in page.rows]
        assert len(page.rows) <= 7
        if page.whole:
            break
        start = page.on
    assert pieces == [row.position for row in whole.rows] and len(pieces) > 14
    newest = place.peek(Ask(dn=dn, most=3))
    assert [row.position for row in newest.rows] == pieces[-3:] and newest.begun is None


def test_a_slot_says_where_to_begin_and_a_drained_one_shows_the_last_rows(make: Make) -> None:
    place = make()
    write(place)
    dn = place.dn_of(2)
    unread = place.peek(Ask(dn=dn, slot=FOREIGN))
    assert unread.begun is not None and unread.rows
    for _, node in place.warehouse.nodes():
        place.surface.register_both(TABLE, FOREIGN, node, (unread.latest.pair[0] if unread.latest else 0) + 5)
    drained = place.peek(Ask(dn=dn, slot=FOREIGN))
    assert drained.begun is None and drained.rows == unread.rows
    assert "no unread rows" in drained.notes[0]
    nobody = place.peek(Ask(dn=dn, slot="nobody"))
    assert "is unknown" in nobody.notes[0] and {row[1] for row in place.slots()} == {FOREIGN}


def test_a_changed_key_is_a_delete_of_one_key_and_a_write_of_another(make: Make) -> None:
    place = make()
    place.warehouse.create_table("ods.lines", "cust bigint, line int, note text", ("cust", "line"), ("cust",))
    place.surface.start("ods.lines", FOREIGN)
    run(place.warehouse, "INSERT INTO ods.lines VALUES (1, 1, 'a')", "UPDATE ods.lines SET line = 2")
    found: list[Any] = []
    for name, _ in place.warehouse.nodes():
        found += binlog_rows.rows(load(place.config, {}), "dws1", "ods.lines", Ask(dn=name)).rows
    assert [(row.kind, row.values) for row in found] == [
        ("I", ("1", "1", "a")), ("B", ("1", "1", "a")), ("U", ("1", "2", "a")),
    ]  # fmt: skip


def test_types_points_and_times_narrow_what_is_shown(make: Make) -> None:
    place = make()
    dn = write(place)
    every = place.peek(Ask(dn=dn, after=DwsPosition(0))).rows
    kinds = place.peek(Ask(dn=dn, after=DwsPosition(0), filter=Filter(("d", "I")))).rows
    assert {row.kind for row in kinds} == {"d", "I"}
    upto = place.peek(Ask(dn=dn, after=DwsPosition(0), up_to=every[0].position.place))
    assert {row.position.place for row in upto.rows} == {every[0].position.place}
    late = place.peek(Ask(dn=dn, time="2000-01-01T00:00:00+00:00"))
    assert late.rows == every
    after = place.peek(Ask(dn=dn, time="2100-01-01T00:00:00+00:00"))
    assert "no record at or after" in after.notes[0] and after.rows == every


def test_a_table_without_times_says_so_and_shows_rows_all_the_same(make: Make) -> None:
    place = make(timed=False)
    dn = write(place)
    assert [row.time_us for row in place.peek(Ask(dn=dn)).rows][:1] == [None]
    with pytest.raises(Refused, match="has no binlog times"):
        place.peek(Ask(dn=dn, time="2000-01-01T00:00:00+00:00"))


@pytest.mark.parametrize(
    "switches",
    [
        Switches(start_inclusive=False, end_inclusive=True, latest_inclusive=True),
        Switches(new_system_names=False),
        Switches(auto_create=False, full_old_images=False),
    ],
    ids=["other bounds", "old names", "key-only images"],
)
def test_what_the_vendor_does_not_document_changes_no_row(make: Make, switches: Switches) -> None:
    place = make(timed=switches.new_system_names, switches=switches)
    if not switches.new_system_names:
        text = place.config.read_text(encoding="utf-8").replace(
            "binlog = true", "binlog = true\nnew_system_value = false"
        )
        place.config.write_text(text, encoding="utf-8")
    dn = write(place)
    page = place.peek(Ask(dn=dn, filter=Filter(key={"id": "1"})))
    assert [row.kind for row in page.rows] == ["I", "B", "U", "B", "U", "d"]
    assert page.rows[-1].values == (("1", "PAID", "17.50") if switches.full_old_images else ("1", None, None))


def test_names_that_are_not_there_are_refused_by_name(make: Make) -> None:
    place = make()
    for ask, said in ((Ask(dn="dn_9"), "dn_9"), (Ask(filter=Filter(key={"nope": "1"})), "nope")):
        with pytest.raises(Refused, match=said):
            place.peek(ask)
    assert main(["slots", "peek", "no.such", "--config", str(place.config)]) == 3


def test_a_dn_that_hangs_ends_the_look_and_not_the_patience(
    make: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotkeeper.core.sources.dws.session.STATUS_LIMIT_MS", 300)
    place = make()
    dn = write(place)
    place.warehouse.dn_hanging(dn)
    try:
        assert place.call("--dn", dn) == 5
        assert "statement timeout" in capsys.readouterr().err
    finally:
        place.warehouse.dn_hanging(None)
    assert place.call("--dn", dn) == 0


def test_the_command_prints_for_people_at_80_columns_and_as_json(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make()
    dn = write(place)
    before = place.slots()
    assert place.call("--dn", dn, "--key", "id=1") == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert "CHANGED" in shown and "status" in shown and f"on {dn}" in shown
    assert place.call("--dn", dn, "--key", "id=1", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["type"] for row in found["rows"]] == ["I", "B", "U", "B", "U", "d"]
    assert [row["changed"] for row in found["rows"] if row["type"] == "U"] == [["status"], ["amount"]]
    assert found["rows"][0]["time"].endswith("Z") and found["columns"][0] == {
        "name": "id",
        "type": "bigint",
        "key": True,
    }
    assert place.call("--dn", dn, "--key", "id=1", "--types", "d", "--jsonl") == 0
    (only,) = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (only["type"], only["values"]["id"]) == ("d", "1")
    for words in (
        ("--types", "x"),
        ("--key", "id"),
        ("--to", "soon"),
        ("--time", "now"),
        ("--slot", "a", "--from", "1"),
    ):
        assert place.call(*words) == 2, words
    assert place.slots() == before


def test_hostile_values_are_visible_text_and_long_ones_are_told_apart(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make()
    connection = place.warehouse.connect()
    with connection.cursor() as cursor:
        for number, text in enumerate(HOSTILE):
            cursor.execute(f"INSERT INTO {TABLE} VALUES (%s, %s, 0)", (number, text))
        cursor.execute(f"UPDATE {TABLE} SET status = status || 'y' WHERE id = {len(HOSTILE) - 1}")
    connection.close()
    changed = []
    for name, _ in place.warehouse.nodes():
        for words in ((), ("--json",), ("--jsonl",)):
            assert place.call("--dn", name, "--newest", *words) == 0
            out = capsys.readouterr().out
            assert all(" " <= letter <= "~" or letter == "\n" for letter in out.replace("\u200b", "")), out[:200]
            changed += [row["changed"] for row in json.loads(out)["rows"]] if words == ("--json",) else []
    assert ["status"] in changed


def test_values_of_prod_are_masked_until_they_are_asked_for_and_the_audit_keeps_who_did(
    make: Make, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    place = make("PROD")
    dn = write(place)
    for words in ((), ("--json",), ("--jsonl",)):
        assert place.call("--dn", dn, "--key", "id=1", *words) == 0
        out = capsys.readouterr().out
        assert "PAID" not in out and "18.50" not in out and "***" in out and "status" in out
    audit = Audit(StateFolder.open(tmp_path / "state"))
    assert audit.read().lines == ()
    assert place.call("--dn", dn, "--key", "id=1", "--unmask", "--reason", "INC-7") == 0
    assert "PAID" in capsys.readouterr().out
    outcome, intent = audit.read().lines
    assert (intent.phase, intent.reason, outcome.phase) == (Phase.INTENT, "INC-7", Phase.OUTCOME)
    assert outcome.outcome == "shown: 6 rows" and list(outcome.result) == [dn]
    audit.file.unlink()
    audit.file.mkdir()
    assert place.call("--dn", dn, "--unmask") == 3
    said = capsys.readouterr()
    assert "PAID" not in said.out and "audit" in said.err


def test_without_a_slot_or_point_the_jobs_slot_says_where_to_begin(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    place = make()
    place.surface.start(TABLE, "ours")
    write(place)
    assert place.call("--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["from"] is not None and found["rows"][0]["type"] == "I"
    assert {row[1] for row in place.slots()} == {FOREIGN, "ours"}


def test_the_printed_sql_registers_what_is_registered_and_moves_no_point(make: Make) -> None:
    place = make()
    before = place.slots()
    seen = {(one.shard, one.checkpoint): one for one in DwsViewer(_session(place)).points(TABLE) or ()}
    live, durable = seen["dn_2", False], seen["dn_2", True]
    text = dws_words.register(TABLE, FOREIGN, "dn_2", live.point, durable.point, live.xmin)
    assert place.surface.rows(text) == [(1, 1)]
    assert len(place.surface.rows(dws_words.status(TABLE))) == len(before)
    again = place.slots()
    assert [row[:5] for row in again] == [row[:5] for row in before]
    assert {row[2] for row, old in zip(again, before, strict=True) if row[5] != old[5]} == {1}  # only dn_2


def test_a_name_with_capitals_is_asked_for_as_it_is_written(make: Make) -> None:
    place, table = make(), "Ods.Order Lines"
    place.warehouse.create_table(dotted(table), "id bigint, status text", ("id",))
    place.surface.start(dotted(table), FOREIGN)
    run(place.warehouse, f"INSERT INTO {dotted(table)} VALUES (1, 'NEW')")
    page = binlog_rows.rows(load(place.config, {}), "dws1", table, Ask(filter=Filter(key={"id": "1"})))
    assert [row.values for row in page.rows] == [("1", "NEW")]
    source = load(place.config, {}).sources["dws1"].endpoint
    with closing(registry.open("dws").connect(login(source, "test"), polls=True)) as session:
        inspector = session.table(TableAsked(table, "", BinlogOptions())).inspector
        read_table = inspector.read()
        assert read_table is not None and {one.slot for one in read_table.points or ()} == {FOREIGN}
        assert inspector.unread and inspector.unread()
    assert place.surface.rows(dws_words.status(table))


def _session(place: Place) -> DwsSession:
    source = load(place.config, {}).sources["dws1"].endpoint
    return DwsSession(source, resolve(source.password), "test")
