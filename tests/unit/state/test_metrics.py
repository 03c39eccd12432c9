"""The ring of frames: frames are read back as written, stay small, and are dropped in time."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState, TableReport, WantedState
from slotkeeper.core.domain.locks import Blocker, LockWait
from slotkeeper.core.domain.report import Identity, JobReport, JobStatus, LaneReport
from slotkeeper.core.state.frames import GROUP, Base, Frame, Metrics, frame_of, text_of
from slotkeeper.core.state.sqlite import Store

AT = datetime(2026, 11, 21, 2, 28, tzinfo=timezone.utc)
EVERY = timedelta(seconds=5)
TABLES = (TableReport("ods.a", "m.a", "FAILED", "ods.a: gone", "SLOT LOST", "reset it", 1_790_000_000.5),)
EVE = Blocker(4711, "eve", "psql", "idle in transaction", 1_790_000_000.5, "LOCK TABLE m.a", transaction="3/4")
WAITS = (LockWait(1, "slotkeeper/orders/7", "m.a", "RowExclusiveLock", 1_790_000_001.5, None, (EVE,)),)
ME = Identity(7, "boot:ns:99", 7, "r1", "here")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as store:
        store.register_job("orders", "c.toml")
        store.register_job("stock", "c.toml")
        yield store


def frame(at: datetime, chance: random.Random, job: str = "orders", lanes: int = 24) -> Frame:
    """A busy job: every lane has advanced since the last frame."""
    step = int((at - AT).total_seconds())
    begun = 88_000_000 + step * 40
    made = tuple(
        LaneReport(
            f"dn_{6001 + n}_{6002 + n}", n - 1_000, "running", chance.choice(("idle", "applying", "registering")),
            f"{begun + ahead}/{chance.randint(-1, 9)}", f"{begun + 99}", f"{begun - 200}",
            1_000_000 + step * 500 + chance.randint(0, 99), chance.random() * 3,
            polled_age=chance.random(), read_s=step * 0.1, write_s=step * 0.3, register_s=step * 0.01,
            at=begun + ahead, latest_at=begun + 99, behind=99 - ahead, shown=f"{begun + ahead}",
        )
        for n, ahead in enumerate(chance.randint(0, 99) for _ in range(lanes))
    )  # fmt: skip
    report = JobReport(
        job, "r1", "RUNNING", epoch=3, lanes=made, changes=step, environment="PROD", tables=TABLES, lock_waits=WAITS
    )
    view = JobStatus(
        job, JobState.RUNNING, WantedState.RUN, run="r1", supervisor=ME, supervisor_alive=True, driver=ME,
        driver_alive=True, started_at=AT, changed_at=AT, report=report, reported_at=at, reported=True,
    )  # fmt: skip
    return Frame(view, at, {lane.shard: chance.random() * 9 for lane in made})


def filled(metrics: Metrics, number: int, lanes: int = 24, job: str = "orders") -> list[Frame]:
    chance = random.Random(1)
    base: Base | None = None
    made = [frame(AT + n * EVERY, chance, job, lanes) for n in range(number)]
    for one in made:
        base = metrics.add(one, base)
    return made


def rounded(one: Frame) -> Frame:
    """A frame as it is read back: seconds with one decimal."""
    assert one.view.report is not None

    def short(lane: LaneReport) -> LaneReport:
        ages = {"last_commit_age": lane.last_commit_age, "polled_age": lane.polled_age, "read_s": lane.read_s}
        ages |= {"write_s": lane.write_s, "register_s": lane.register_s}
        return replace(lane, **{name: round(age or 0.0, 1) for name, age in ages.items()})  # type: ignore[arg-type]

    report = replace(one.view.report, lanes=tuple(short(lane) for lane in one.view.report.lanes))
    return replace(
        one, view=replace(one.view, report=report), lags={dn: round(lag or 0.0, 1) for dn, lag in one.lags.items()}
    )


def test_a_frame_comes_back_as_it_was(store: Store) -> None:
    made = filled(Metrics(store), GROUP + 5)
    fresh = Metrics(store)
    assert fresh.frames(AT + 3 * EVERY) == [rounded(made[3])]
    assert [kept.frame for kept in fresh.since(0, AT)] == [rounded(one) for one in made]


def test_lanes_of_several_tables_come_out_by_their_names_and_older_frames_without_them_too() -> None:
    one = frame(AT, random.Random(1), lanes=2)
    assert one.view.report is not None
    lanes = tuple(
        replace(lane, source_table="ods.b", target="mart.b", label=f"ods.b {lane.shard}")
        for lane in one.view.report.lanes
    )
    view = replace(one.view, report=replace(one.view.report, lanes=lanes))
    several = replace(one, view=view, lags={lane.name: 1.0 for lane in lanes})
    found = frame_of(text_of(several)).view
    assert found.report is not None
    assert [lane.name for lane in found.report.lanes] == ["ods.b dn_6001_6002", "ods.b dn_6002_6003"]
    older = json.loads(text_of(one))
    for name in ("source_table", "target", "label", "waited"):
        del older["report"]["lanes"][name]
    again = frame_of(json.dumps(older).encode()).view
    assert again.report is not None
    assert [lane.name for lane in again.report.lanes] == ["dn_6001_6002", "dn_6002_6003"]


def test_a_frame_of_24_busy_lanes_takes_less_than_a_kilobyte(store: Store) -> None:
    filled(Metrics(store), 180)
    (row,) = store.read("SELECT avg(length(frame)) AS mean, max(length(frame)) AS most FROM frames")
    assert row["mean"] < 1_000
    assert row["most"] < 2_000


def test_the_last_frame_until_a_moment_is_found_for_each_job(store: Store) -> None:
    metrics = Metrics(store)
    filled(metrics, 10, lanes=1)
    filled(metrics, 3, lanes=1, job="stock")
    found = {one.view.name: one.at for one in metrics.frames(AT + timedelta(seconds=33))}
    assert found == {"orders": AT + 6 * EVERY, "stock": AT + 2 * EVERY}
    assert metrics.frames(AT - EVERY) == []


def test_moments_beside_one_are_found_across_a_gap(store: Store) -> None:
    metrics = Metrics(store)
    filled(metrics, 3, lanes=1)
    later = frame(AT + timedelta(hours=2), random.Random(2), lanes=1)
    metrics.add(later, None)
    assert metrics.beside(AT + timedelta(hours=1)) == ((AT + 2 * EVERY).timestamp(), later.at.timestamp())
    assert metrics.beside(AT - EVERY) == (None, AT.timestamp())
    assert len(metrics.times(AT, AT + EVERY)) == 2


def test_a_damaged_frame_is_left_out_and_so_are_those_that_need_it(store: Store) -> None:
    filled(Metrics(store), 2 * (GROUP + 1), lanes=1)
    with store.write() as sql:
        sql.execute("UPDATE frames SET frame = x'00ff' WHERE id = 1")
        sql.execute("UPDATE frames SET frame = x'' WHERE id = ?", (GROUP + 5,))
    found = Metrics(store).since(0, AT)
    assert [kept.id for kept in found] == [n for n in range(GROUP + 2, 2 * (GROUP + 1) + 1) if n != GROUP + 5]


def test_what_is_too_old_is_dropped_by_groups_and_the_rest_can_be_read(store: Store) -> None:
    metrics = Metrics(store)
    made = filled(metrics, 4 * GROUP, lanes=1)
    filled(metrics, 2, lanes=1, job="stock")
    now = made[-1].at
    metrics.prune("orders", now.timestamp(), seconds=5.0 * 2 * GROUP)
    left = [kept.frame.at for kept in Metrics(store).since(0, AT) if kept.frame.view.name == "orders"]
    assert now - left[0] <= timedelta(seconds=5.0 * 3 * GROUP + 5)
    assert left == [one.at for one in made if one.at >= left[0]]
    assert len(metrics.frames(AT)) == 1  # the other job has its own frames


def test_the_newest_group_stays_however_old_it_is(store: Store) -> None:
    metrics = Metrics(store)
    filled(metrics, 10, lanes=1)
    metrics.prune("orders", (AT + timedelta(days=30)).timestamp())
    assert metrics.frames(AT + timedelta(days=30))[0].at == AT + 9 * EVERY


def test_too_many_frames_are_dropped_too(store: Store) -> None:
    metrics = Metrics(store)
    filled(metrics, 5 * GROUP, lanes=1)
    metrics.prune("orders", AT.timestamp(), most=GROUP)
    (row,) = store.read("SELECT count(*) AS number FROM frames")
    assert GROUP <= row["number"] <= 2 * GROUP + 2


def test_events_until_a_moment_are_the_newest_first(store: Store) -> None:
    store.record_event("orders", "one")
    store.record_event("stock", "two")
    later = datetime.now(timezone.utc) + timedelta(seconds=1)
    assert [one.event for one in Metrics(store).events_until(later)] == ["two", "one"]
    assert Metrics(store).events_until(AT) == []


def test_the_newest_frame_is_the_one_recorded_last_also_where_the_clock_was_set_back(store: Store) -> None:
    """After the change, an hour's older frames have times between those of the new ones."""
    metrics, chance = Metrics(store), random.Random(1)
    for at in (AT, AT + 700 * EVERY, AT + 2 * EVERY):
        metrics.add(frame(at, chance, lanes=1), None)
    metrics.add(frame(AT, chance, "stock", lanes=1), None)
    assert {one.view.name: one.at for one in metrics.newest()} == {"orders": AT + 2 * EVERY, "stock": AT}
