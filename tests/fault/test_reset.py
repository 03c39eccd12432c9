"""A reset moves to the position in its plan, and replays and skips exactly the predicted changes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from random import Random

import pytest

from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.reset import DONE, ROLLED_BACK, Goal, TargetKind
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.errors import Busy, Refused
from slotkeeper.core.sources.dws import slot as dws_slot
from slotkeeper.core.sqltext import statements
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror, orders, written
from tests.support.resetting import EARLIEST, LATEST, SNAPSHOT, Crash, CrashAt, Resetting, point, replay
from tests.support.standin import MakeWarehouse, run
from tests.support.waiting import until


@pytest.fixture
def resetting(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path) -> Resetting:
    return followed(make_mirror, warehouse, seed, tmp_path)


def followed(make_mirror: MakeMirror, warehouse: Warehouse, seed: int, folder: Path) -> Resetting:
    """A mirror that has followed changes on every DN, registered some and was stopped; its binlog has all of them."""
    mirror = orders(make_mirror, warehouse, seed)
    mirror.start().wait_running()
    first = {row.key: row.registered for row in mirror.rows()}
    with written(mirror, seed, changes=150):
        pass
    mirror.wait_applied(mirror.booked())
    # after the next check of the target
    until(lambda: all(row.registered != first[row.key] for row in mirror.rows()), 30, "every DN to be registered")
    mirror.stop()
    return Resetting(mirror, folder / "state")


def read_on(mirror: Mirror, expected: dict[str, int]) -> None:
    """Start, wait until the expected number of rows is counted, and compare both tables."""
    mirror.start().wait_running()
    mirror.wait_applied({dn: number for dn, number in expected.items() if number})
    mirror.stop()


def test_earliest_replays_exactly_what_the_plan_foretold(resetting: Resetting) -> None:
    before = resetting.mirror.changes()
    plan = resetting.plan(EARLIEST)
    assert not plan.failed, plan.failed
    assert sum(move.read_again.total for move in plan.moves) == sum(before.values()) > 0
    result = resetting.execute(plan)
    assert result.outcome == DONE
    assert {row.state for row in resetting.mirror.rows()} == {LaneState.CATCHING_UP}
    read_again = {move.seen.row.key.shard: move.read_again.total for move in plan.moves}
    read_on(resetting.mirror, {dn: number + read_again[dn] for dn, number in before.items()})


def test_a_point_of_one_dn_moves_that_dn_alone(resetting: Resetting) -> None:
    mirror, before = resetting.mirror, resetting.mirror.changes()
    rows = {row.key.shard: row for row in mirror.rows()}
    first = resetting.plan(EARLIEST).moves[1].seen
    name, old = first.row.key.shard, first.row.position
    assert first.first is not None and old is not None
    plan = resetting.plan(point((first.first.pair[0] + old.pair[0]) // 2, name))
    assert [move.seen.row.key.shard for move in plan.moves if move.back] == [name]
    resetting.execute(plan)
    now = {row.key.shard: row for row in mirror.rows()}
    assert all(now[dn].position == rows[dn].position for dn in rows if dn != name)
    read_again = next(move.read_again.total for move in plan.moves if move.back)
    read_on(mirror, {**before, name: before[name] + read_again})


def test_latest_skips_exactly_the_rows_that_were_typed(resetting: Resetting, seed: int) -> None:
    mirror, before, old = resetting.mirror, resetting.mirror.changes(), resetting.mirror.booked()
    with written(mirror, seed + 1, changes=60):
        pass
    unread = sum(mirror.booked().values()) - sum(old.values())
    plan = resetting.plan(LATEST)
    assert plan.skipped == unread > 0
    for wrong in (None, unread - 1, unread + 1):
        with pytest.raises(Refused, match=f"{unread} changes would be skipped"):
            resetting.execute(plan, rows=wrong)
    assert resetting.execute(plan).outcome == DONE
    mirror.start().wait_running()
    mirror.stop()
    assert mirror.changes() == before
    assert mirror.difference() != (0, 0)


def test_a_snapshot_copies_again(resetting: Resetting) -> None:
    mirror = resetting.mirror
    assert [check.name for check in resetting.plan(SNAPSHOT).failed] == ["target accepts copy"]
    mirror.job = replace(mirror.job, on_existing="replace")
    mirror.at_sink("DELETE FROM mart.orders WHERE order_no % 3 = 0")
    assert resetting.reset(SNAPSHOT).outcome == DONE
    assert {row.position for row in mirror.rows()} == {None}
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_a_snapshot_makes_up_for_a_lost_slot_and_nothing_else_does(resetting: Resetting) -> None:
    mirror = resetting.mirror
    backup = resetting.reset(EARLIEST).reset
    mirror.start().wait_running()
    mirror.stop()
    run(mirror.warehouse, f"SELECT pgxc_binlog_clear_target_slot('{mirror.table}', '{mirror.job.slot}')")
    for goal in (EARLIEST, LATEST, Goal(TargetKind.BACKUP, backup=backup)):
        assert resetting.plan(goal).failed
    assert resetting.points() == [], "planning makes no slot"
    mirror.job = replace(mirror.job, on_existing="replace")
    assert resetting.reset(SNAPSHOT).outcome == DONE
    assert resetting.points() == []
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_a_time_is_the_smallest_point_of_any_dn(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> None:
    warehouse.create_table("ods.t", "id bigint NOT NULL, v text", ("id",), timestamp=True)
    mirror = make_mirror(warehouse, "ods.t", "mart.t")
    mirror.start().wait_running()
    run(warehouse, "INSERT INTO ods.t SELECT n, 'one' FROM generate_series(1, 40) n")
    at = datetime.now(timezone.utc)
    for number in range(100, 130):
        run(warehouse, f"INSERT INTO ods.t VALUES ({number}, 'two')")
    mirror.wait_equal()
    mirror.stop()
    before, resetting = mirror.changes(), Resetting(mirror, tmp_path / "state")
    plan = resetting.plan(Goal(TargetKind.TIME, at=at.isoformat()))
    assert not plan.failed, plan.failed
    assert sum(move.read_again.total for move in plan.moves) == 30
    assert len({move.to.position for move in plan.moves}) == 1
    assert any("sync point" in note for note in plan.notes)
    resetting.execute(plan)
    read_again = {move.seen.row.key.shard: move.read_again.total for move in plan.moves}
    mirror.start().wait_running().wait_equal()
    mirror.stop()
    assert mirror.changes() == {dn: number + read_again[dn] for dn, number in before.items()}
    with pytest.raises(Refused, match="has no offset"):
        resetting.plan(Goal(TargetKind.TIME, at="2026-01-31T08:30:00"))


@pytest.mark.parametrize("which", ["committed earlier", "not shown yet"])
def test_a_time_skips_nothing_of_that_time_whose_point_is_smaller_than_the_first_found(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, which: str
) -> None:
    """The stopped job has read nothing of that time, so each point too far is a skip; 3 and 4 lie on one DN, 1 on
    another.
    """
    warehouse.create_table("ods.t", "id bigint NOT NULL, v text", ("id",), timestamp=True)
    warehouse.time_cursor_by_time()
    mirror = make_mirror(warehouse, "ods.t", "mart.t")
    mirror.start().wait_running().stop()
    writer = warehouse.connect(False)
    with writer.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        at = cursor.fetchall()[0][0]
        cursor.execute("INSERT INTO ods.t VALUES (3, 'written first')")
        if which == "not shown yet":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")  # its point is assigned here
            run(warehouse, "INSERT INTO ods.t VALUES (1, 'committed')")
        else:
            run(warehouse, "INSERT INTO ods.t VALUES (4, 'written last, committed first')")
            writer.commit()
    resetting = Resetting(mirror, tmp_path / "state")
    plan = resetting.plan(Goal(TargetKind.TIME, at=at.isoformat()))
    writer.commit()
    writer.close()
    assert not plan.failed, plan.failed
    assert resetting.execute(plan).outcome == DONE
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_a_table_without_times_takes_no_time(resetting: Resetting) -> None:
    with pytest.raises(Refused, match="no binlog timestamps"):
        resetting.plan(Goal(TargetKind.TIME, at=datetime.now(timezone.utc).isoformat()))


def test_a_server_that_refuses_to_go_back_changes_nothing(
    make_warehouse: MakeWarehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path
) -> None:
    resetting = followed(make_mirror, make_warehouse(switches=Switches(backward_allowed=False)), seed, tmp_path)
    before = resetting.places()
    result = resetting.reset(EARLIEST)
    assert result.outcome == ROLLED_BACK
    assert "snapshot" in result.sentence
    assert resetting.places() == before
    resetting.mirror.start().wait_running()
    resetting.mirror.stop()


def test_what_was_purged_after_the_plan_is_counted_and_rolled_back(resetting: Resetting) -> None:
    before, plan = resetting.places(), resetting.plan(EARLIEST)
    result = resetting.execute(plan, lambda at: resetting.mirror.warehouse.purge() if at == "after_rows" else None)
    assert result.outcome == ROLLED_BACK
    assert "purged meanwhile" in result.sentence
    assert resetting.places() == before


def test_a_partial_registration_is_shown_and_finished(resetting: Resetting) -> None:
    resetting.mirror.warehouse.partial_registration("dn_2", 1)
    with pytest.raises(Busy, match=r"1 of 4 DNs .* dn_2: registration with checkpoint false reached 0 of 1 nodes"):
        resetting.reset(EARLIEST)
    entry = resetting.on(lambda ctx: ctx.resets.open_entry())
    assert "dn_2" in entry.outcome
    with pytest.raises(Refused, match="is unfinished"):
        resetting.reset(EARLIEST)
    error = resetting.mirror.start().wait_error()
    assert isinstance(error, Refused) and "reset" in error.message
    assert resetting.resume().outcome == DONE
    resetting.mirror.start().wait_running()
    resetting.mirror.stop()


def test_a_backup_is_written_before_anything_changes(resetting: Resetting) -> None:
    before = resetting.places()
    with pytest.raises(Crash):
        resetting.reset(EARLIEST, CrashAt(point="after_backup_row"))
    assert resetting.places() == before
    (backup,) = resetting.names("backups")
    file = resetting.folder / "backups" / f"{backup}.json"
    assert file.stat().st_mode & 0o777 == 0o600
    assert not resetting.names("resets")
    assert resetting.undo(backup).outcome == DONE


def test_after_a_snapshot_reset_another_target_is_not_a_changed_channel(resetting: Resetting) -> None:
    mirror = resetting.mirror
    mirror.job = replace(
        mirror.job, channels=(ChannelSpec(mirror.table, "mart.other", create_target=True),), on_existing="replace"
    )
    assert isinstance(mirror.start().wait_error(), Refused)
    assert resetting.reset(SNAPSHOT).outcome == DONE
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_a_kernel_that_lists_no_slots_is_asked_about_ours_only(resetting: Resetting) -> None:
    run(resetting.mirror.warehouse, "DROP FUNCTION pg_catalog.pgxc_get_binlog_slots(text, integer)")
    before = resetting.places()
    plan = resetting.plan(EARLIEST)
    assert {check.name for check in plan.checks if check.ok is None} == {"time to TTL"}
    done = resetting.execute(plan)
    assert done.outcome == DONE
    assert resetting.undo(done.reset).outcome == DONE
    assert resetting.places() == before


def test_a_count_that_takes_too_long_is_at_least(resetting: Resetting, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = statements("slotkeeper.core.sources.dws", "retention.sql")
    slow = texts["count"].replace("GROUP BY", "AND pg_sleep(0.2) IS NOT NULL GROUP BY")
    monkeypatch.setitem(texts, "count", slow)
    monkeypatch.setattr(dws_slot, "COUNT_LIMIT_MS", 300)
    plan = resetting.plan(EARLIEST)
    total = sum(resetting.mirror.changes().values())
    assert sum(move.read_again.total for move in plan.moves) == total
    assert any(move.effect.startswith("applies >= ") for move in plan.moves)
    assert resetting.execute(plan).outcome == DONE


def part_replayed(resetting: Resetting, seed: int) -> str:
    """Reset to the first record and replay about half of it; return the reset's id."""
    backup = resetting.reset(EARLIEST).reset
    replay(resetting.mirror, 0.5, Random(seed))
    assert {row.state for row in resetting.mirror.rows()} == {LaneState.CATCHING_UP}
    return backup


def test_an_undo_is_refused_once_the_replay_has_started(resetting: Resetting, seed: int) -> None:
    mirror = resetting.mirror
    backup = part_replayed(resetting, seed)
    assert mirror.difference() != (0, 0), "the target contains older values"
    before, plan = resetting.places(), resetting.plan(Goal(TargetKind.BACKUP, backup=backup))
    assert [check.name for check in plan.failed] == ["replay not started"]
    with pytest.raises(Refused, match="the replay has started: start the job to finish it, or reset to a snapshot"):
        resetting.execute(plan)
    assert resetting.places() == before
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert resetting.undo(backup).outcome == DONE, "the replay is complete: no older value remains"
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_an_undo_before_the_replay_has_started_puts_everything_back(resetting: Resetting) -> None:
    before = resetting.places()
    backup = resetting.reset(EARLIEST).reset
    assert resetting.undo(backup).outcome == DONE
    assert resetting.places() == before


@pytest.mark.parametrize("kind", ["latest", "point"])
def test_a_reset_that_passes_the_rest_of_a_replay_says_that_older_values_stay(
    resetting: Resetting, seed: int, kind: str
) -> None:
    mirror = resetting.mirror
    was = max(row.position.pair[0] for row in mirror.rows() if row.position)
    first = part_replayed(resetting, seed)
    plan = resetting.plan(LATEST if kind == "latest" else point(was))
    assert any("the target retains older values" in note for note in plan.notes), plan.notes
    assert plan.voids and plan.at_stake > 0
    done = resetting.execute(plan)
    assert {row.state for row in mirror.rows()} == {LaneState.CATCHING_UP}
    assert resetting.voided == [done.reset], "an older comparison is no longer valid"
    mirror.start().wait_running()
    mirror.stop()
    assert mirror.difference() != (0, 0)
    (check,) = resetting.plan(Goal(TargetKind.BACKUP, backup=first)).failed
    assert "a later reset skipped a part of the replay: undo that reset first" in check.sentence
    assert resetting.undo(done.reset).outcome == DONE
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_an_undo_of_one_dn_is_refused_for_that_dn_alone(resetting: Resetting, seed: int) -> None:
    mirror = resetting.mirror
    goal = replace(EARLIEST, dns=("dn_2",))
    backup = resetting.reset(goal).reset
    replay(mirror, 0.5, Random(seed))
    (check,) = resetting.plan(Goal(TargetKind.BACKUP, backup=backup)).failed
    assert check.sentence.startswith("dn_2: the replay has started")
    others = resetting.plan(Goal(TargetKind.BACKUP, backup=backup, dns=("dn_1", "dn_3", "dn_4")))
    assert not others.failed
    assert {move.to.state for move in others.moves} == {LaneState.CATCHING_UP}


def test_an_undo_behind_a_snapshot_that_cut_a_replay_short_is_refused(resetting: Resetting, seed: int) -> None:
    """The rows await a copy and the target still holds older values."""
    mirror = resetting.mirror
    mirror.job = replace(mirror.job, on_existing="replace")
    backup = part_replayed(resetting, seed)
    snapshot = resetting.reset(SNAPSHOT).reset
    (check,) = resetting.plan(Goal(TargetKind.BACKUP, backup=backup)).failed
    assert "undo that reset first, or reset to a snapshot" in check.sentence
    (check,) = resetting.plan(Goal(TargetKind.BACKUP, backup=snapshot, dns=("dn_1",))).failed[:1]
    assert "remove --dn" in check.sentence
    assert resetting.undo(snapshot).outcome == DONE
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
