"""Two hundred tables of MariaDB in one block: tables are added and dropped while the driver is killed."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import GONE, JobState
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.spec import ChannelSpec, TablePattern
from tests.support.pairs import MakeMysqlPair, MysqlPair
from tests.support.sqlite_pair.pair import Supervised, supervised
from tests.support.waiting import until

pytestmark = pytest.mark.chaos

TABLES, JOINED, KILLS = 200, 6, 4
WITHIN = 60.0
"""Seconds within which the rows of a new table are in its target."""


@pytest.fixture
def pair(make_mysql_pair: MakeMysqlPair) -> MysqlPair:
    made = make_mysql_pair(tables=TABLES)
    block = TablePattern("ods.*", "mart.{table}", ("ods.tmp_*",), ChannelSpec("", "", create_target=True))
    made.mirror.job = replace(made.mirror.job, channels=(), patterns=(block,))
    return made


def state_of(view: JobStatus, table: str) -> tuple[str, str]:
    tables = view.report.tables if view.report is not None else ()
    return next(((one.state, one.reason) for one in tables if one.source_table == table), ("", ""))


def passed(moment: float) -> bool:
    return time.monotonic() >= moment


def create(pair: MysqlPair, name: str) -> float:
    pair.run(f"CREATE TABLE ods.{name} (id BIGINT PRIMARY KEY, v BIGINT)")
    pair.run(f"INSERT INTO ods.{name} SELECT seq, 0 FROM seq_1_to_100")
    return time.monotonic()


def wait_mirrored(pair: MysqlPair, job: Supervised, *names: str) -> None:
    for name in names:
        channel = ChannelSpec(f"ods.{name}", f"mart.{name}")

        def mirrored(channel: ChannelSpec = channel) -> bool:
            running = state_of(job.view, channel.source_table)[0] == JobState.RUNNING.value
            return running and pair.compare(channel).equal

        until(mirrored, 240, f"{name} to be equal")


def test_new_tables_are_mirrored_within_a_minute_and_kills_lose_nothing(
    pair: MysqlPair, tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    names = ["t", *(f"t{number}" for number in range(2, TABLES + 1))]
    pair.run(*(f"INSERT INTO ods.{name} VALUES (1, 0), (2, 0)" for name in names))
    began = time.monotonic()
    with supervised(pair, tmp_path, "local") as job:
        job.wait_for(JobState.RUNNING)
        print(f"{TABLES} tables run after {time.monotonic() - began:.1f} s")
        for number in range(JOINED):
            made = create(pair, f"new{number}")
            pair.run(*(f"UPDATE ods.{name} SET v = v + 1 WHERE id = 1" for name in chance.sample(names, 20)))
            wait_mirrored(pair, job, f"new{number}")
            taken = time.monotonic() - made
            print(f"a new table is equal {taken:.1f} s after its rows")
            assert taken < WITHIN
        for number in range(KILLS):
            create(pair, f"killed{number}")
            moment = time.monotonic() + chance.random() * 22  # in the wait for a list, or in the start
            until(partial(passed, moment), 60, "the moment of the kill")
            job.kill_driver()
            pair.run(*(f"UPDATE ods.{name} SET v = v + 1 WHERE id = 1" for name in chance.sample(names, 20)))
        wait_mirrored(pair, job, *(f"killed{number}" for number in range(KILLS)))
        pair.run("DROP TABLE ods.t7, ods.new0")
        gone = ("ods.t7", "ods.new0")
        until(lambda: all(state_of(job.view, one)[1] == GONE for one in gone), 240, f"{gone} to be reported as dropped")
        job.wait_for(JobState.RUNNING)
        wait_mirrored(pair, job, *(name for name in names if name != "t7"))
        assert job.stop().state is JobState.STOPPED
