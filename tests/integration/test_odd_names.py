"""Tables and columns of any name are mirrored: names equal to the product's aliases, or with characters to quote."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.services.verify import verify
from slotkeeper.core.sqltext import dotted
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.polling import config, job
from tests.support.standin import run

_OWN = """
    excluded base n r s t x b k g e f q h d w picked wanted new_rows old_rows new old point sequence kind unit key
    pair ended ends segment events texts c1 c2 v1 r1 k0 place writes deletes paired leads follows sync_point
    event_sequence slotkeeper_last slotkeeper_n slotkeeper_more tg_op found dn xid seq typ ts_us csn own
"""
OWN = tuple(_OWN.split())
"""Aliases, variables and columns of the product, of the stand-in and of the statements in between."""

WIDE = "é" * 31 + "x"
"""63 bytes: the longest name that a server accepts."""

TABLES = {
    "ods.excluded": ("mart.excluded", ("excluded", "base"), (*OWN[2:], "type")),
    "ods.t": ("mart.s", ("slotkeeper_n", "slotkeeper_more", "k0"), ("slotkeeper_target", "t", "order", "user")),
    "ods.Order Lines-2024": ("mart.Order Lines-2024", ("Key 1",), ("100%", "%s", "it's", "a`b", 'q"q', "{0}")),
    "ods.2024": ("mart.select", ("1",), ("\u540d\u524d", "A")),
    f"ods.{WIDE}": (f"mart.{WIDE}", ("id",), ("v",)),
    "ods.it's 100% {odd} %s \\x": ("mart.it's 100% {odd} %s \\x", ("id",), ("v",)),
}
"""Source table: its target, key columns and other columns."""


def channels() -> tuple[ChannelSpec, ...]:
    return tuple(ChannelSpec(table, target, create_target=True) for table, (target, _, _) in TABLES.items())


def make(warehouse: Warehouse) -> None:
    for table, (_, key, columns) in TABLES.items():
        shape = [f"{_quoted(name)} bigint" for name in key] + [f"{_quoted(name)} text" for name in columns]
        warehouse.create_table(dotted(table), ", ".join(shape), key)
        run(warehouse, *(_insert(table, number) for number in (1, 2, 3)))


def change(warehouse: Warehouse) -> None:
    """Insert, update, change a key column other than the distribution's, and delete in each of them."""
    for table, (_, key, columns) in TABLES.items():
        name, first, last = dotted(table), _quoted(key[0]), _quoted(key[-1])
        moved = f"UPDATE {name} SET {last} = 40 WHERE {first} = 2" if len(key) > 1 else _insert(table, 5)
        run(
            warehouse,
            _insert(table, 4),
            f"UPDATE {name} SET {_quoted(columns[0])} = 'later' WHERE {first} = 1",
            moved,
            f"DELETE FROM {name} WHERE {first} = 3",
        )


def _insert(table: str, number: int) -> str:
    _, key, columns = TABLES[table]
    values = [str(number)] * len(key) + ["'v'"] * len(columns)
    return f"INSERT INTO {dotted(table)} VALUES ({', '.join(values)})"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_names_of_our_own_and_names_that_need_quotes_are_copied_streamed_and_verified(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    make(warehouse)
    mirror = make_mirror(warehouse, "ods.t")
    mirror.job = replace(mirror.job, channels=channels(), sink_options=SinkOptions(ignore_null_when_update=True))
    mirror.start().wait_running()
    change(warehouse)
    mirror.wait_equal()
    mirror.stop()
    for part in mirror.job.narrowed:
        assert verify(part, False, lambda *_: None).equal, part.channel.source_table


def test_a_row_filter_over_a_column_named_like_one_of_verifys_own_is_compared(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    warehouse.create_table("ods.orders", "id bigint, k0 bigint", ("id",))
    run(warehouse, "INSERT INTO ods.orders SELECT n, n FROM generate_series(1, 9) n")
    mirror = make_mirror(warehouse, "ods.orders")
    mirror.job = replace(mirror.job, channels=(replace(mirror.job.channel, where='"k0" > 2'),))
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog=False))
    mirror.start().join()
    mirror.at_sink("UPDATE mart.orders SET k0 = 0 WHERE id = 7")
    assert verify(mirror.job, False, lambda *_: None).different.count == 1


def test_every_command_that_names_a_table_takes_a_name_of_any_spelling(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, target = "ods.it's 100% {odd} %s \\x é", f"mart.{WIDE}"
    warehouse.create_table(dotted(table), "id bigint, v text", ("id",))
    run(warehouse, f"INSERT INTO {dotted(table)} VALUES (1, 'a')")
    mirror = make_mirror(warehouse, table, target)
    mirror.start().wait_running()
    mirror.source(f"INSERT INTO {dotted(table)} VALUES (2, 'b')")
    mirror.wait_equal()
    mirror.stop()
    text = job("odd", mirror.job.slot, table.replace("\\", "\\\\"), target)
    path = config(tmp_path, mirror.job.source, mirror.job.sink, text)

    def told(*words: str) -> str:
        code = main([*words, "--config", str(path)])
        said = capsys.readouterr()
        assert code in (0, 3), (words, said)  # 3: not now, by a gate
        return said.out

    place = [table, mirror.job.slot]
    told("config", "check")
    told("doctor")
    told("verify", "odd")
    assert json.loads(told("slots", "list", "--json"))["tables"][0]["table"] == table
    told("slots", "show", *place)
    told("slots", "preflight", table, "--json")
    assert json.loads(told("slots", "peek", table, "--json"))
    plan = json.loads(told("slots", "reset", *place, "--to", "earliest", "--json"))
    told("slots", "reset", *place, "--execute", "--plan", plan["id"], "--reason", "r", "--confirm", mirror.job.slot)
    assert len(json.loads(told("slots", "history", *place, "--json"))["resets"]) == 1
