"""The reported state of a table is never ahead of its own progress rows, and does not wait for other tables."""

from __future__ import annotations

import random
import threading
from contextlib import closing
from dataclasses import replace
from functools import partial

import pytest

from slotkeeper.core.domain.job import JobState, TableReport
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_several_channels import TABLES, mirror_of
from tests.property.test_random_runs import disturb
from tests.support.mirror import Heard, MakeMirror
from tests.support.told_states import ToldStates, of_mirror, watched
from tests.support.waiting import until


def test_a_table_whose_lanes_all_run_is_running_while_another_still_catches_up(
    warehouse: Warehouse, make_mirror: MakeMirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror, tell = mirror_of(warehouse, make_mirror), Heard.table
    with closing(mirror.sink()) as holder, holder.cursor() as cursor:

        def hold(heard: Heard, report: TableReport) -> None:
            """Once the first copy has ended: change a row of the last table, whose target another session locks."""
            tell(heard, report)
            if report.state == JobState.CATCHING_UP.value and not held.is_set():
                held.set()
                cursor.execute("BEGIN")
                cursor.execute("SELECT 1 FROM mart.c WHERE id = 1 FOR UPDATE")
                mirror.source(*(f"UPDATE {table} SET v = v + 1 WHERE id = 1" for table in TABLES))

        held = threading.Event()
        monkeypatch.setattr(Heard, "table", hold)
        with watched(partial(of_mirror, mirror), 0.1) as states:
            mirror.start()
            try:
                for table in TABLES[:2]:
                    mirror.wait_table(table, JobState.RUNNING)
                assert held.is_set()
                assert mirror.heard.tables[TABLES[2]].state == JobState.CATCHING_UP.value
            finally:
                cursor.execute("ROLLBACK")
            mirror.wait_table(TABLES[2], JobState.RUNNING)
            mirror.wait_equal()
            mirror.stop()
    assert states.wrong == []
    assert states.samples > 0


def test_no_table_is_reported_further_than_its_rows_however_its_job_is_disturbed(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int
) -> None:
    chance = random.Random(seed)
    mirror = mirror_of(warehouse, make_mirror)
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=20))
    with watched(partial(of_mirror, mirror), 0.05) as states:
        mirror.start()
        for _ in range(6):
            until(partial(_judged, states, states.samples), 60, "a state to be told")
            how = chance.choice(("end sink sessions", "end source sessions", "stop and start"))
            print(f"seed {seed}: {how}", flush=True)
            mirror.source(f"UPDATE {chance.choice(TABLES)} SET v = v + 1 WHERE id < {chance.randrange(2, 200)}")
            disturb(mirror, how)
        mirror.wait_running().wait_equal()
        until(lambda: {one.state for one in mirror.heard.tables.values()} == {"RUNNING"}, 60, "all to be RUNNING")
        mirror.stop()
    assert states.wrong == []


def _judged(states: ToldStates, before: int) -> bool:
    return states.samples > before


def test_the_judge_finds_states_reported_too_early_and_too_late() -> None:
    states = ToldStates()
    states.judge({"a": "RUNNING", "b": "PENDING"}, [("a", "running"), ("a", "catching up"), ("b", "running")], 0.0)
    assert states.wrong == ["a is reported RUNNING, its rows say CATCHING UP"]
    states = ToldStates()
    for second in range(5):
        states.judge({"a": "SNAPSHOT"}, [("a", "catching up")], float(second))
    assert states.wrong == [f"a is reported SNAPSHOT, its rows say CATCHING UP for {second}.0 s" for second in (3, 4)]
