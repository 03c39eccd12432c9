"""Tables and columns of any name are mirrored: named like our own aliases, or with what only quotes can carry."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.services.verify import verify
from slotkeeper.core.sqltext import dotted
from slotkeeper.demo.warehouse import Warehouse
from tests.support import odd_names
from tests.support.mirror import MakeMirror
from tests.support.polling import config, job
from tests.support.standin import run


def test_names_of_our_own_and_names_that_need_quotes_are_copied_streamed_and_verified(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    odd_names.make(warehouse)
    mirror = make_mirror(warehouse, "ods.t")
    mirror.job = replace(
        mirror.job, channels=odd_names.channels(), sink_options=SinkOptions(ignore_null_when_update=True)
    )
    mirror.start().wait_running()
    odd_names.change(warehouse)
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
    table, target = "ods.it's 100% {odd} %s \\x é", f"mart.{odd_names.WIDE}"
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
