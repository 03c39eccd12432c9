"""Tables whose names and columns are those that our own statements use, or that need quotes at both ends."""

from __future__ import annotations

from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.sqltext import dotted
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import run

_OWN = """
    excluded base n r s t x b k g e f q h d w picked wanted new_rows old_rows new old point sequence kind unit key
    pair ended ends segment events texts c1 c2 v1 r1 k0 place writes deletes paired leads follows sync_point
    event_sequence slotkeeper_last slotkeeper_n slotkeeper_more tg_op found dn xid seq typ ts_us csn own
"""
OWN = tuple(_OWN.split())
"""Aliases, variables and columns of ours, of the stand-in's and of the statements in between."""

WIDE = "é" * 31 + "x"
"""63 bytes: the longest name that a server keeps."""

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
    """A channel for each table."""
    return tuple(ChannelSpec(table, target, create_target=True) for table, (target, _, _) in TABLES.items())


def make(warehouse: Warehouse) -> None:
    """Make all of them, each with three rows."""
    for table, (_, key, columns) in TABLES.items():
        shape = [f"{_quoted(name)} bigint" for name in key] + [f"{_quoted(name)} text" for name in columns]
        warehouse.create_table(dotted(table), ", ".join(shape), key)
        run(warehouse, *(_insert(table, number) for number in (1, 2, 3)))


def change(warehouse: Warehouse) -> None:
    """Insert, update, move a key that is not the distribution's, and delete in each of them."""
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
