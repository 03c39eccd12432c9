"""One table of four is lost, changed, rejected or dropped: only it stops, and it is restored while the others run."""

from __future__ import annotations

import copy
import random
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState, TableReport, WantedState
from slotkeeper.core.domain.reset import DONE
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.drivers import pg
from slotkeeper.demo.warehouse import Warehouse
from tests.property.test_random_runs import disturb
from tests.support.mirror import MakeMirror, Mirror
from tests.support.resetting import SNAPSHOT, Resetting
from tests.support.standin import run
from tests.support.waiting import until

TABLES = ("ods.w", "ods.x", "ods.y", "ods.z")
ALONE = TABLES[3]
OTHERS = TABLES[:3]
MOST = 1.5
"""The maximum increase of the others' 99th percentile while a table ends and is restored."""


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    for table in TABLES:
        warehouse.create_table(table, "id bigint NOT NULL, v bigint", ("id",))
        run(warehouse, f"INSERT INTO {table} SELECT n, 0 FROM generate_series(1, 300) n")
    mirror = make_mirror(warehouse, TABLES[0])
    channels = tuple(ChannelSpec(table, table.replace("ods.", "mart."), create_target=True) for table in TABLES)
    mirror.job = replace(mirror.job, channels=channels, on_existing="replace")
    return mirror


@dataclass
class Freshness:
    """Seconds from a commit at the source to its arrival at the sink, for the tables that continue."""

    before: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)

    def turn(self) -> None:
        """Count commits from now on as commits during the failure of the other table."""
        self.before, self.seen = self.seen, self.beside


@contextmanager
def measured(mirror: Mirror) -> Iterator[Freshness]:
    """Write a numbered row into each of the others ten times per second, and poll for the last of them."""
    found, done = Freshness(), threading.Event()
    found.seen = found.before
    committed: dict[int, float] = {}

    def write() -> None:
        with closing(mirror.warehouse.connect()) as source:
            number = 1_000
            while not done.wait(0.1):
                number += 1
                with pg.transaction(source) as cursor:
                    for table in OTHERS:
                        cursor.execute(f"INSERT INTO {table} VALUES ({number}, 0)")
                committed[number] = time.monotonic()

    def watch() -> None:
        least = " , ".join(f"(SELECT max(id) FROM {table.replace('ods.', 'mart.')})" for table in OTHERS)
        last = 1_000
        with closing(mirror.sink()) as sink:
            while not done.wait(0.02):
                with pg.transaction(sink) as cursor:
                    cursor.execute(f"SELECT least({least})")
                    there = int((cursor.fetchone() or (0,))[0] or 0)
                now = time.monotonic()
                for number in range(last + 1, there + 1):
                    if number in committed:
                        found.seen.append(now - committed[number])
                last = max(last, there)

    threads = [threading.Thread(target=one, daemon=True) for one in (write, watch)]
    for one in threads:
        one.start()
    try:
        yield found
    finally:
        done.set()
        for one in threads:
            one.join(30)


def wait_seen(found: list[float], count: int) -> None:
    """Wait until this number of commits has arrived in the sink."""
    until(lambda: len(found) >= count, 180, f"{count} commits of the others to be seen")


def p99(seconds: list[float]) -> float:
    return statistics.quantiles(seconds, n=100)[98]


# -- what ends a table, and what brings it back -----------------------------------------------------------------------


def reset(mirror: Mirror, folder: Path, table: str = ALONE) -> None:
    """Reset the slot of a stopped table to a snapshot, as its command does while the job runs."""
    of_one = copy.copy(mirror)
    of_one.job = mirror.job.of(table)
    assert Resetting(of_one, folder).reset(SNAPSHOT).outcome == DONE


def truncate(mirror: Mirror) -> None:
    mirror.source(f"TRUNCATE {ALONE}", f"INSERT INTO {ALONE} VALUES (1, 1)")


def add_column(mirror: Mirror) -> None:
    mirror.source(f"ALTER TABLE {ALONE} ADD COLUMN note text", f"INSERT INTO {ALONE} VALUES (1001, 1, 'new')")


def alter_as_printed(mirror: Mirror, said: TableReport) -> None:
    """Run the statements of the hint, as printed."""
    found = re.search(r"run in the sink: (.*?); then ", said.safe)
    assert found, said.safe
    mirror.at_sink(*re.findall(r"`([^`]+)`", found[1]))


def drop_target(mirror: Mirror) -> None:
    mirror.at_sink("DROP TABLE mart.z")
    mirror.source(f"UPDATE {ALONE} SET v = v + 1")


def drop_slot(mirror: Mirror) -> None:
    mirror.source(f"SELECT pgxc_binlog_clear_target_slot('{ALONE}', '{mirror.job.slot}')")


def poison(mirror: Mirror) -> None:
    mirror.at_sink("ALTER TABLE mart.z ADD CONSTRAINT small CHECK (v < 100)")
    mirror.source(f"UPDATE {ALONE} SET v = 100 WHERE id = 7")


def take_poison_away(mirror: Mirror, said: TableReport) -> None:
    assert said.reason
    mirror.at_sink("ALTER TABLE mart.z DROP CONSTRAINT small")


@dataclass(frozen=True)
class Cause:
    """The cause of a table's end. `cure` precedes the reset, if one is needed."""

    ends: Callable[[Mirror], None]
    cure: Callable[[Mirror, TableReport], None] | None = None
    resets: bool = True


CAUSES = {
    "truncate": Cause(truncate),
    "add column": Cause(add_column, alter_as_printed),
    "dropped target": Cause(drop_target),
    "poison": Cause(poison, take_poison_away, resets=False),
    "dropped slot": Cause(drop_slot),
}
QUICK = ("truncate", "poison")


def bring_back(mirror: Mirror, cause: Cause, folder: Path) -> None:
    """Bring the table from its end to RUNNING, while the others stream."""
    cause.ends(mirror)
    said = mirror.wait_table(ALONE, JobState.FAILED)
    if cause.cure is not None:
        cause.cure(mirror, said)
    if cause.resets:
        reset(mirror, folder)
    mirror.want(ALONE, WantedState.RUN, anew=True)
    mirror.wait_table(ALONE, JobState.RUNNING)


@pytest.mark.parametrize("name", QUICK)
def test_a_table_that_ends_is_brought_back_while_the_others_stream_and_all_are_equal(
    name: str, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running().wait_equal()
    with measured(mirror) as fresh:
        wait_seen(fresh.before, 5)
        bring_back(mirror, CAUSES[name], tmp_path / "state")
    mirror.wait_equal()
    assert not mirror.ended()
    assert {mirror.heard.tables[table].state for table in OTHERS} == {JobState.RUNNING.value}
    mirror.stop()


@pytest.mark.chaos
@pytest.mark.parametrize("name", CAUSES)
def test_the_others_are_as_fresh_as_before_beside_a_table_that_ends_and_comes_back(
    name: str, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running().wait_equal()
    with measured(mirror) as fresh:
        wait_seen(fresh.before, 50)
        fresh.before.clear()
        wait_seen(fresh.before, 400)
        fresh.turn()
        bring_back(mirror, CAUSES[name], tmp_path / "state")
        wait_seen(fresh.beside, 400)
    mirror.wait_equal()
    mirror.stop()
    before, beside = p99(fresh.before), p99(fresh.beside)
    print(
        f"{name}: p50 {statistics.median(fresh.before):.3f} s and {statistics.median(fresh.beside):.3f} s,"
        f" p99 {before:.3f} s before, {beside:.3f} s beside ({beside / before:.2f})"
    )
    assert beside <= MOST * before


def write(mirror: Mirror, draw: random.Random) -> None:
    changes = []
    for table in draw.sample(TABLES, draw.randint(1, 4)):
        low = draw.randint(1, 300)
        changes.append(f"UPDATE {table} SET v = v + 1 WHERE id BETWEEN {low} AND {low + 9}")
        changes.append(f"DELETE FROM {table} WHERE id = {draw.randint(1, 300)}")
        changes.append(f"INSERT INTO {table} VALUES ({draw.randint(1, 300)}, 0) ON CONFLICT (id) DO NOTHING")
    mirror.source(*changes)


def at_one_table(mirror: Mirror, draw: random.Random, folder: Path) -> str:
    """Act on one table, while the others may be in any state; returns the action."""
    table = draw.choice(TABLES)
    what = draw.choice(("pause", "resume", "restart", "stop", "reset", "lose its slot", "job again"))
    if what == "pause":
        mirror.want(table, WantedState.PAUSE)
    elif what in ("resume", "restart"):
        mirror.want(table, WantedState.RUN, anew=what == "restart")
    elif what == "stop":
        mirror.want(table, WantedState.STOP)
    elif what == "lose its slot":
        mirror.source(f"SELECT pgxc_binlog_clear_target_slot('{table}', '{mirror.job.slot}')")
    elif what == "job again":
        mirror.stop()
        mirror.start()
    else:
        mirror.want(table, WantedState.STOP)
        until(lambda: rests(mirror, table), 90, f"{table} to rest")
        reset(mirror, folder, table)
        mirror.want(table, WantedState.RUN, anew=True)
    if mirror.ended():
        mirror.start()
    return f"{what} {table}"


def rests(mirror: Mirror, table: str) -> bool:
    """Whether a table has fully stopped; a table without a report yet has not. A job without any running table ends."""
    if mirror.ended():
        return True
    known = mirror.heard.tables.get(table)
    return known is not None and known.rests


@pytest.mark.slow
@pytest.mark.parametrize("turns", [6, pytest.param(60, marks=pytest.mark.chaos)])
def test_whatever_is_done_about_single_tables_all_end_equal(
    turns: int, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, seed: int
) -> None:
    draw, story = random.Random(seed), []
    mirror = mirror_of(warehouse, make_mirror)
    mirror.start().wait_running()
    for _ in range(turns):
        write(mirror, draw)
        if draw.random() < 0.5:
            how = draw.choice(("end sink sessions", "end source sessions"))
            disturb(mirror, how)
            story.append(how)
        story.append(at_one_table(mirror, draw, tmp_path / "state"))
        write(mirror, draw)
    print(story)
    for table in TABLES:
        mirror.want(table, WantedState.STOP)
        until(lambda table=table: rests(mirror, table), 90, f"{table} to rest")  # type: ignore[misc]
        reset(mirror, tmp_path / "state", table)
        mirror.want(table, WantedState.RUN, anew=True)
        if mirror.ended():
            mirror.start()
        mirror.wait_table(table, JobState.RUNNING, 120)
    mirror.wait_equal(120)
    mirror.stop()


def test_a_table_that_is_behind_its_slot_while_it_streams_says_what_to_type(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.keepalive = 0.5
    mirror.start().wait_running().wait_equal()
    older = f"slotkeeper_progress WHERE source_table = '{ALONE}'"
    mirror.at_sink(f"CREATE TABLE public.older AS SELECT * FROM {older}")
    mirror.source(f"UPDATE {ALONE} SET v = v + 1")
    mirror.wait_equal()
    moved = "SELECT count(*) FROM slotkeeper_progress p JOIN public.older o USING (source_table, shard)"
    differ = f"{moved} WHERE p.registered <> o.registered"
    until(lambda: mirror.query(mirror.sink, differ)[0][0], 30, "a point to be registered")
    mirror.at_sink(
        "UPDATE slotkeeper_progress p SET position = o.position, registered = o.registered, changes = o.changes"
        " FROM public.older o WHERE (p.source_table, p.shard) = (o.source_table, o.shard)"
    )
    mirror.source(f"UPDATE {ALONE} SET v = v + 1")
    said = mirror.wait_table(ALONE, JobState.FAILED)
    assert said.trouble in ("SINK OLDER", "SLOT MOVED")
    assert f"`slotkeeper slots reset {ALONE} {mirror.job.slot} --to snapshot`" in said.safe
    mirror.stop()
