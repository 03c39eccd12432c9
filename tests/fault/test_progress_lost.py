"""PROGRESS LOST of a table with an odd name: the printed statements can be pasted, and fix it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.commands import reset
from slotkeeper.core.domain.reset import Goal, TargetKind
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.core.sqltext import dotted, literal
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror
from tests.support.resetting import SNAPSHOT, Resetting
from tests.support.standin import run

TABLE = "ods.Order Lines"


def test_what_is_printed_of_an_odd_name_can_be_pasted_and_a_drop_leads_out_of_progress_lost(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    warehouse.create_table(dotted(TABLE), "id bigint NOT NULL, v text", ("id",))
    mirror = make_mirror(warehouse, TABLE, "mart.t")
    mirror.start().wait_running()
    run(warehouse, f"INSERT INTO {dotted(TABLE)} SELECT n, 'row ' || n FROM generate_series(1, 40) n")
    mirror.wait_equal()
    mirror.stop()
    resetting = Resetting(mirror, tmp_path / "state")
    plan = resetting.plan(Goal(TargetKind.EARLIEST))
    assert shlex.split(" ".join(reset._how(plan, "")).replace("\\ ", ""))[:5] == [
        *("slotkeeper", "slots", "reset", TABLE, mirror.job.slot)
    ]
    printed = [text.partition(": ")[2] for text in plan.sql if text.startswith("source")]
    assert printed and all(literal(dotted(TABLE)) in text for text in printed)

    mirror.at_sink("DELETE FROM slotkeeper_progress")
    filled = mirror.start().wait_error()
    assert isinstance(filled, Refused) and "do not empty the target" in filled.hint
    mirror.job = replace(mirror.job, on_existing="replace")
    lost = mirror.start().wait_error()
    assert isinstance(lost, Trouble) and lost.name is TroubleName.PROGRESS_LOST
    assert "slots drop" in lost.hint and "on_existing" in lost.hint
    with pytest.raises(Refused, match="no progress rows"):
        resetting.plan(SNAPSHOT)
    with warehouse.connect_etl() as session, session.cursor() as cursor:
        cursor.execute(f"SELECT pgxc_binlog_clear_target_slot({literal(dotted(TABLE))}, '{mirror.job.slot}')")
    mirror.start().wait_running().wait_equal()
    mirror.stop()
