"""Rows of a binlog as text: pairs, changed columns, the history of a key, and masked values."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.console.monitor.snapshot import TableSeen
from slotkeeper.console.views import binlog as models
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.inspection import Ask, Filter
from slotkeeper.core.slots.status import SlotOnShard, SlotView, TableSlots
from slotkeeper.core.sources.dws.position import place
from tests.tui.pages import LESS, LIFE, NEW, PAID, page, row


def cells(key: str, *columns: str, hidden: bool = False) -> list[str]:
    found = next(one for one in models.binlog_rows(page(), hidden) if one.key == key)
    return [found.cells[name] for name in columns]


def test_a_B_is_the_half_of_the_U_that_follows_it_at_once_and_of_no_other() -> None:
    found = models.shown_rows(page())
    pairs = {one.key: one.pair.position.text for one in found if one.pair}
    assert pairs == {
        "88512305/3": "88512305/4",
        "88512305/4": "88512305/3",
        "88512318/2": "88512318/3",
        "88512318/3": "88512318/2",
    }
    lone = models.shown_rows(page(row(5, 2, "B", *NEW), row(5, 4, "U", *PAID), row(6, 3, "U", *LESS)))
    assert [one.pair for one in lone] == [None] * 3 and [one.changed for one in lone] == [(), None, None]


def test_what_changed_is_named_and_unknown_where_an_old_image_holds_its_key_only() -> None:
    assert [cells(key, "mark", "changed") for key in ("88512305/4", "88512318/3", "88512329/2")] == [
        [">", "status"],
        [">", "amount"],
        ["-", "(pk only)"],
    ]
    short = page(
        row(5, 2, "B", "4711", None, None), row(5, 3, "U", *PAID), row(6, 2, "B", *PAID), row(6, 3, "U", *PAID)
    )
    assert [one.cells["changed"] for one in models.binlog_rows(short, False)] == ["(pk only)", "?", "", "nothing"]


def test_a_changed_key_is_a_change_and_two_keys_histories() -> None:
    moved = page(row(5, 2, "B", "1", "a", "0"), row(5, 3, "U", "2", "a", "0"))
    assert models.shown_rows(moved)[1].changed == ("order_id",)
    of = {key: models.net_effect(models.history(moved, {"order_id": key})) for key in ("1", "2", "3")}
    assert of == {"1": "<  net: key changed", "2": ">  net: updated", "3": "no rows"}


def test_null_nothing_and_absent_are_three_things() -> None:
    assert cells("88512310/2", "v1", "v2") == ["''", "NULL"]
    assert cells("88512329/2", "v0", "v1", "v2") == ["4711", "", ""]


def test_hidden_values_leave_the_key_and_what_changed() -> None:
    assert cells("88512318/3", "v0", "v1", "v2", "changed", hidden=True) == ["4711", "***", "***", "amount"]
    assert cells("88512310/2", "v1", "v2", hidden=True) == ["''", "NULL"]
    shown = models.images(page(), "88512318/3", True)
    assert [(one.cells["mark"], one.cells["before"], one.cells["after"]) for one in shown] == [
        ("", "4711", "4711"),
        ("", "***", "***"),
        ("*", "***", "***"),
    ]


def test_key_columns_come_first_then_those_that_changed_and_none_is_cut_without_saying_so() -> None:
    found = page()
    rows = models.binlog_rows(found, False)
    for width in (60, 80, 100):
        columns = models.binlog_columns(found, rows, width)
        assert sum(one.width + 1 for one in columns) <= width
        assert models.left_out(found, columns) == 3 - sum(one.key.startswith("v") for one in columns)
    values = [one.label for one in models.binlog_columns(found, rows, 80) if one.key.startswith("v")]
    assert values == ["order_id", "status", "amount"]
    late = replace(found, rows=LIFE[4:])
    narrow = models.binlog_columns(late, models.binlog_rows(late, False), 62)
    assert [one.label for one in narrow if one.key.startswith("v")] == ["order_id", "amount"]


def test_without_times_there_is_no_column_for_them() -> None:
    timeless = page(*(replace(one, time_us=None) for one in LIFE))
    assert "time" not in [one.key for one in models.binlog_columns(timeless, models.binlog_rows(timeless, False), 80)]


def test_who_has_read_to_where_is_said_from_the_last_look() -> None:
    seen = TableSeen(
        "dws1",
        "ods.orders",
        slots=TableSlots(
            "dws1",
            "ods.orders",
            (
                SlotView("orders_rt", "j", True, (SlotOnShard("dn_1", place(88_512_322), place(88_512_318)),)),
                SlotView("orders_dr", None, True, (SlotOnShard("dn_1", place(88_512_331), place(88_512_331)),)),
                SlotView("elsewhere", None, True, (SlotOnShard("dn_2", place(1), place(1)),)),
            ),
        ),
    )
    said = models.read_so_far(page(), seen, {"order_id": "4711"})
    assert said[0] == "orders_rt has read to 88512318 (I B U B U)"
    assert said[1:] == ["orders_dr has read to 88512331 (all)", "elsewhere ?"]
    assert "not known yet" in models.read_so_far(page(), None, {})[0]


def test_what_was_asked_for_is_one_line() -> None:
    ask = Ask("dn_1", up_to=place(9), filter=Filter(("I", "d"), {"order_id": "4711"}))
    assert models.said_of(ask, page()) == "DN dn_1  88512300..9  Id  key order_id=4711"
    assert models.said_of(Ask(slot="s"), None) == "DN ?  s..latest  IdBU"


def test_the_tables_are_those_of_the_configuration(tmp_path: object) -> None:
    from pathlib import Path

    from tests.unit.config.samples import SECOND_JOB, VALID

    path = Path(str(tmp_path)) / "c.toml"
    path.write_text(VALID + SECOND_JOB, encoding="utf-8")
    (place,) = models.places_of(load(path, {}).jobs.values())
    assert (place.table, place.jobs, place.slot) == ("ods.orders", ("orders_rt", "second"), "orders_slot")
    assert models.place_rows([place], {})[0].cells["dns"] == "?"
