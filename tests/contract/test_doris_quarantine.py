"""A job into the stand-in for Doris with rows that its target rejects: quarantined, closed and replayed, despite
kills."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.quarantine import EntryState, QuarantineEntry, Wanted
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.errors import Refused, Trouble, TroubleName
from slotkeeper.core.services import verify
from slotkeeper.core.services.quarantine import discard, polling, replay
from slotkeeper.core.sinks.doris.sink import DorisSink
from slotkeeper.core.sinks.postgres.progress.beside import BesideReplays
from slotkeeper.core.state.folder import StateFolder
from tests.fault.test_doris_kills import LOST, watched
from tests.support.pairs import TABLE, TARGET, DorisPair
from tests.support.sqlite_pair.kills import Killed, Kills
from tests.support.waiting import until

NARROW = "id BIGINT NOT NULL, v SMALLINT"
BAD = 99_999
"""Too large for a SMALLINT only."""


@pytest.fixture
def pair(doris_pair: DorisPair, monkeypatch: pytest.MonkeyPatch) -> DorisPair:
    """A job that quarantines; the target's column is narrower than declared, as after a change by another user."""
    made(doris_pair, NARROW)
    options = SinkOptions(on_bad_row="quarantine", quarantine_limit=20)
    doris_pair.mirror.job = replace(doris_pair.mirror.job, sink_options=options)
    monkeypatch.setattr("slotkeeper.core.sinks.doris.shape.fits", lambda source, there: True)
    return doris_pair


def made(pair: DorisPair, columns: str) -> None:
    pair.doris.tables.drop("mart", "t")
    pair.doris.create(TARGET, columns, ("id",))


def cure(pair: DorisPair) -> None:
    """Restore the target's wide column and keep its rows."""
    pair.doris.tables.widen("mart", "t", "v", "BIGINT")


def entries(pair: DorisPair, *states: EntryState) -> list[QuarantineEntry]:
    with polling(pair.mirror.job) as found:
        wanted = Wanted(states or (EntryState.QUARANTINED,), slot=pair.mirror.job.slot, limit=10_000)
        return [one for id in found.page(wanted) if (one := found.entry(id.id)) is not None]


def in_quarantine(pair: DorisPair) -> list[int]:
    return sorted(int(one.key[0]) for one in entries(pair))


def at_target(pair: DorisPair) -> dict[int, int | None]:
    return {int(row[0]): row[1] for row in pair.doris.tables.query("SELECT id, v FROM mart.t")[1]}


def wait(pair: DorisPair, target: dict[int, int | None], quarantined: list[int]) -> None:
    def reached() -> bool:
        if pair.mirror.error is not None:
            raise pair.mirror.error
        return at_target(pair) == target and in_quarantine(pair) == quarantined

    until(reached, 30, f"{target} and {quarantined} in quarantine")


def test_bad_rows_of_a_copy_and_of_the_stream_are_held_and_replayed(pair: DorisPair, tmp_path: Path) -> None:
    pair.write((1, 1), (2, BAD), (3, 3))
    pair.mirror.start().wait_running()
    assert at_target(pair) == {1: 1, 3: 3}
    (one,) = entries(pair)
    assert (one.kind, one.values, one.column, one.sqlstate) == ("c", (("id", "2"), ("v", str(BAD))), "v", "22P02")
    assert "the value cannot be cast" in one.message
    assert "_load_error_log?file=" in one.message
    assert str(BAD) not in one.message

    pair.write((3, BAD), (4, 4), (5, BAD))
    wait(pair, {1: 1, 3: 3, 4: 4}, [2, 3, 5])
    pair.write((5, 5), (2, None))  # a later change of each ends its entry
    wait(pair, {1: 1, 3: 3, 4: 4, 5: 5}, [3])
    assert {one.reason for one in entries(pair, EntryState.SUPERSEDED)} == {"a later change"}

    folder = StateFolder.open(tmp_path)
    (still,) = replay(pair.mirror.job, folder, [entries(pair)[0].id], "too early")
    assert (still.state, still.sqlstate) == (EntryState.QUARANTINED, "22P02")
    compared = verify.verify(pair.mirror.job, True, lambda left, right: None)
    assert (compared.equal, compared.quarantined.count) == (True, 1), (
        "equal except for this row, so verify exits with 4"
    )
    cure(pair)
    (done,) = replay(pair.mirror.job, folder, [entries(pair)[0].id], "it is wide now")
    assert done.state is EntryState.REPLAYED
    wait(pair, {1: 1, 3: BAD, 4: 4, 5: 5}, [])
    (over,) = entries(pair, EntryState.REPLAYED)
    assert over.reason == "it is wide now"
    assert pair.equal()
    assert pair.doris.transactions.running() == []


def test_what_stood_before_a_bad_last_event_of_a_key_is_applied(pair: DorisPair) -> None:
    pair.write((1, 1), (2, 2), (3, 3))
    pair.mirror.start().wait_running()
    with closing(pair.warehouse.connect(False)) as line:
        with line.cursor() as cursor:
            cursor.execute(f"DELETE FROM {TABLE} WHERE id = 1")
            cursor.execute(f"INSERT INTO {TABLE} VALUES (1, {BAD})")  # ended, and made again as a bad row
            cursor.execute(f"UPDATE {TABLE} SET v = {BAD} WHERE id = 2")
            cursor.execute(f"UPDATE {TABLE} SET v = 20 WHERE id = 2")  # a bad event before a good one: no entry
            cursor.execute(f"UPDATE {TABLE} SET v = 30 WHERE id = 3")
            cursor.execute(f"UPDATE {TABLE} SET v = {BAD} WHERE id = 3")
        line.commit()
    wait(pair, {2: 20, 3: 30}, [1, 3])


def test_a_step_of_bad_rows_alone_moves_on(pair: DorisPair) -> None:
    pair.mirror.start().wait_running()
    pair.write((1, BAD))
    wait(pair, {}, [1])
    pair.write((2, 2))
    wait(pair, {2: 2}, [1])


def test_one_row_more_than_the_limit_stops_the_job_and_leaves_nothing_of_the_step(pair: DorisPair) -> None:
    options = replace(pair.mirror.job.sink_options, quarantine_limit=2)
    pair.mirror.job = replace(pair.mirror.job, sink_options=options)
    pair.write((1, BAD), (2, BAD))
    pair.mirror.start().wait_running()
    pair.write((3, BAD), (4, 4))
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.QUARANTINE_FULL
    assert in_quarantine(pair) == [1, 2]


def test_a_discarded_entry_leaves_the_target_as_it_is_until_its_key_changes(pair: DorisPair, tmp_path: Path) -> None:
    pair.write((1, 1), (2, BAD))
    pair.mirror.start().wait_running()
    (one,) = entries(pair)
    (done,) = discard(pair.mirror.job, StateFolder.open(tmp_path), [one.id], "not wanted")
    assert done.state is EntryState.DISCARDED
    pair.write((2, 2))
    wait(pair, {1: 1, 2: 2}, [])


def test_a_job_that_is_set_back_to_stop_does_not_start_over_entries(pair: DorisPair) -> None:
    pair.write((1, BAD))
    pair.mirror.start().wait_running()
    pair.mirror.stop()
    pair.mirror.job = replace(pair.mirror.job, sink_options=SinkOptions())
    pair.mirror.start()
    error = pair.mirror.wait_error()
    assert isinstance(error, Refused)
    assert "1 rows in quarantine" in error.message


def test_a_replay_that_is_killed_once_armed_is_ended_by_the_job(
    pair: DorisPair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.write((1, BAD), (2, 2))
    pair.mirror.start().wait_running()
    cure(pair)
    real = BesideReplays.arm

    def die(*given: object) -> bool:
        assert real(*given)  # type: ignore[arg-type]
        raise Killed("replay")

    pair.mirror.stop()
    with monkeypatch.context() as killed:
        killed.setattr(BesideReplays, "arm", die)
        killed.setattr(DorisSink, "abort", lambda *given: None)  # a killed process reports nothing more
        with pytest.raises(Killed):
            replay(pair.mirror.job, StateFolder.open(tmp_path), [entries(pair)[0].id], "killed")
    pair.mirror.start().wait_running()
    pair.write((2, 20))
    wait(pair, {1: BAD, 2: 20}, [])
    assert [one.reason for one in entries(pair, EntryState.REPLAYED)] == ["killed"]


def test_replays_beside_a_busy_job_find_their_gap(pair: DorisPair, tmp_path: Path) -> None:
    pair.write(*((key, BAD) for key in range(5)))
    pair.mirror.start().wait_running()
    cure(pair)
    folder = StateFolder.open(tmp_path)
    ids = [one.id for one in entries(pair)]
    for id in ids:
        pair.write(*((100 + id * 10 + one, one) for one in range(10)))
        (done,) = replay(pair.mirror.job, folder, [id], "while it runs")
        assert done.state is EntryState.REPLAYED
    pair.wait_equal()


@pytest.mark.chaos
@pytest.mark.parametrize("count", [3, pytest.param(40, marks=pytest.mark.timeout(3600))])
def test_killed_workers_and_lost_answers_among_bad_rows_lose_and_double_nothing(
    pair: DorisPair, monkeypatch: pytest.MonkeyPatch, count: int, seed: int
) -> None:
    print(f"seed {seed}")
    chance, mirror = random.Random(seed), pair.mirror
    options = replace(mirror.job.sink_options, quarantine_limit=100_000)
    mirror.job = replace(mirror.job, sink_options=options)
    kills = Kills(chance)
    mirror.make_runner = lambda: kills.runner(mirror.capacity)
    watched(monkeypatch, kills.here)
    mirror.start()
    mirror.wait_running()
    wrote: dict[int, int | None] = {}

    def some() -> None:
        changes = [(chance.randrange(200), chance.choice([1, 2, None, BAD])) for _ in range(6)]
        pair.write(*dict(changes).items())
        wrote.update(dict(changes))

    for _ in range(count):
        pair.doris.faults.plan(*chance.choice(LOST))
        kills.arm()
        until(lambda: _hit(pair, kills, some), 60, "a worker to be killed")
    kills.disarm()
    bad = sorted(key for key, value in wrote.items() if value == BAD)

    def settled() -> bool:
        if mirror.error is not None:
            raise mirror.error
        good = {key: value for key, value in wrote.items() if value not in (None, BAD)}
        there = {key: value for key, value in at_target(pair).items() if key not in bad}
        return there == good and in_quarantine(pair) == bad

    try:
        until(settled, 120, "every good row, and every bad one in quarantine")
    except AssertionError:
        there = at_target(pair)
        unlike = {key: (value, there.get(key)) for key, value in wrote.items() if value not in (BAD, there.get(key))}
        extra = {key: value for key, value in there.items() if key not in wrote}
        lacking = sorted(set(bad) ^ set(in_quarantine(pair)))
        print(f"unlike {unlike}, beyond {extra}, in or out of quarantine {lacking}; rows {mirror.rows()}")
        print(f"retries {mirror.heard.retries[-5:]}, loads {pair.doris.transactions.running()}, {dict(kills.at)}")
        raise
    mirror.stop()
    kills.wait_for_all()
    print(f"{dict(kills.at)}, {kills.lived_on} lived on, {len(bad)} of {len(wrote)} keys in quarantine")
    assert {row.decided for row in mirror.rows()} == {None}
    assert [one for one in entries(pair) if one.reason] == []


def _hit(pair: DorisPair, kills: Kills, write: object) -> bool:
    if pair.mirror.error is not None:
        raise pair.mirror.error
    if kills.hit.is_set():
        return True
    assert callable(write)
    write()
    return kills.hit.wait(0.05)
