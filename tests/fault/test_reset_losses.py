"""A reset that finds something missing or moved ends as ROLLED BACK and reports it, as does the next start.

Missing: the slot on one DN or all, the table, progress rows. Moved: rows, by a step in progress. No command is
rejected permanently.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from slotkeeper.core.domain.progress import ProgressRow
from slotkeeper.core.domain.reset import DONE, ROLLED_BACK, Goal
from slotkeeper.core.domain.reset_files import MARKS
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import Busy, Refused, Trouble, TroubleName, Unclassified
from slotkeeper.core.slots import reset_apply
from slotkeeper.core.slots.reset_apply import Result
from slotkeeper.core.slots.reset_plan import Probe
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.wiring import worker
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.switches import Switches
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_fence import task_of
from tests.fault.test_reset import followed
from tests.support.mirror import At, Mirror, written
from tests.support.resetting import EARLIEST, LATEST, SNAPSHOT, Crash, CrashAt, Resetting
from tests.support.standin import drop_database, new_database, run

ONE = "DELETE FROM dws.slot WHERE dn = (SELECT ord FROM dws.node WHERE node_name = 'dn_2')"
ALL = "DELETE FROM dws.slot"


@dataclass
class Losing:
    """A reset's slot from which a test removes something; `again` restores all of it."""

    resetting: Resetting

    def __post_init__(self) -> None:
        self.keep()

    def keep(self) -> None:
        kept = "DROP TABLE IF EXISTS kept", "CREATE TABLE kept AS SELECT * FROM {}"
        self.at_source(kept[0], kept[1].format("dws.slot"))
        self.at_sink(kept[0], kept[1].format("slotkeeper_progress"))
        self.start = self.resetting.places()

    def again(self) -> None:
        run(self.resetting.mirror.warehouse, ALL, "INSERT INTO dws.slot SELECT * FROM kept")
        self.at_sink("DELETE FROM slotkeeper_progress", "INSERT INTO slotkeeper_progress SELECT * FROM kept")
        assert self.resetting.places() == self.start

    def at_source(self, *statements: str) -> None:
        run(self.resetting.mirror.warehouse, *statements)

    def at_sink(self, *statements: str) -> None:
        self.resetting.mirror.at_sink(*statements)

    def rows(self) -> dict[str, ProgressRow]:
        return {row.key.shard: replace(row, epoch=0) for row in self.resetting.rows()}

    def named(self) -> TroubleName:
        error = self.resetting.mirror.start().wait_error()
        assert isinstance(error, Trouble), error
        return error.name

    def over(self, result: Result, words: str) -> None:
        """Check that the reset is ROLLED BACK, gives the reason, and leaves nothing unfinished."""
        assert result.outcome == ROLLED_BACK
        assert words in result.sentence
        self.closed()

    def closed(self) -> None:
        assert not self.resetting.names("resets")
        assert self.resetting.on(lambda ctx: ctx.resets.open_entry()) is None


@pytest.fixture(scope="module")
def made(
    pg_server: Server, standin_template: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Losing]:
    """One slot for all tests of this file: each starts where the job was stopped."""
    database = "warehouse_losing"
    new_database(pg_server, database, template=standin_template)
    warehouse, folder = Warehouse.attach(pg_server, database), tmp_path_factory.mktemp("losing")
    resetting = followed(Mirror, warehouse, seed, folder)
    yield Losing(resetting)
    resetting.mirror.close()
    drop_database(pg_server, database)


@pytest.fixture
def losing(made: Losing) -> Iterator[Losing]:
    yield made
    made.again()


WIPED = (("after_begun", 1), ("after_rows", 1), ("after_false", 1), ("after_false", 2), ("after_true", 2))


def wiped_at(losing: Losing, how: str, point: str, nth: int) -> None:
    result = losing.resetting.reset(EARLIEST, At(point, lambda: losing.at_source(how), nth))
    losing.over(result, "SLOT LOST: dn_")
    assert losing.rows() == {name: row for name, (row, _) in losing.start.items()}, "rows are as in the backup"


def test_a_slot_lost_in_the_middle_of_a_reset_ends_it_rolled_back_and_the_next_start_names_the_loss(
    losing: Losing,
) -> None:
    for moment in [(ONE, *one) for one in WIPED] + [(ALL, *one) for one in WIPED[1::2]]:
        wiped_at(losing, *moment)
        if moment[1:] == WIPED[3]:
            assert losing.named() is TroubleName.SLOT_LOST
        losing.again()
    assert losing.resetting.reset(EARLIEST).outcome == DONE, "nothing is rejected permanently"


def test_a_slot_lost_in_the_middle_of_a_reset_where_asking_makes_none(losing: Losing) -> None:
    warehouse = losing.resetting.mirror.warehouse
    warehouse.configure(Switches(auto_create=False))
    try:
        for how, moment in ((ONE, WIPED[3]), (ALL, WIPED[1])):
            wiped_at(losing, how, *moment)
            losing.again()
    finally:
        warehouse.configure(Switches())


def test_a_slot_lost_after_the_last_look_of_a_reset_is_named_by_the_next_start(losing: Losing) -> None:
    wipe = At("after_outcome", lambda: losing.at_source(ONE))
    assert losing.resetting.reset(EARLIEST, wipe).outcome == DONE
    assert losing.named() is TroubleName.SLOT_LOST


def crashed(losing: Losing, probe: Probe) -> None:
    with pytest.raises(Crash):
        losing.resetting.reset(EARLIEST, probe)
    assert losing.resetting.names("resets")


def test_a_slot_lost_before_or_during_a_resume_ends_the_reset(losing: Losing) -> None:
    for how, point in ((ONE, "after_rows"), (ONE, "after_false"), (ALL, "after_false")):
        crashed(losing, CrashAt(point=point))
        losing.at_source(how)
        losing.over(losing.resetting.resume(), "SLOT LOST: dn_")
        losing.again()
    crashed(losing, CrashAt(point="after_rows"))
    losing.over(losing.resetting.resume(At("after_true", lambda: losing.at_source(ONE))), "SLOT LOST: dn_")
    losing.again()
    crashed(losing, CrashAt(point="after_rows"))
    losing.at_source(ALL)
    with pytest.raises(Crash):
        losing.resetting.resume(CrashAt(point="after_going_back"))
    losing.over(losing.resetting.resume(), "SLOT LOST: dn_")
    assert losing.named() is TroubleName.SLOT_LOST


def test_a_resume_promises_no_undo_of_a_completed_reset_that_has_none(losing: Losing) -> None:
    losing.at_source(ALL)
    with pytest.raises(Crash):
        losing.resetting.reset(replace(SNAPSHOT, on_existing="merge"), CrashAt(point="after_done"))
    result = losing.resetting.resume()
    assert (result.outcome, result.no_undo[:17]) == (DONE, "the slot was lost")


@pytest.mark.parametrize("goals", [(EARLIEST, LATEST), (LATEST, EARLIEST)])
def test_of_several_completed_resets_whose_markers_are_left_only_the_newest_is_reported_to_the_job(
    losing: Losing, goals: tuple[Goal, Goal]
) -> None:
    resetting = losing.resetting
    resetting.events.clear()
    for goal in goals:
        with pytest.raises(Crash):
            resetting.reset(goal, CrashAt(point="after_done"))
    newest = resetting.on(lambda ctx: ctx.resets.history())[0]
    assert resetting.resume().reset == newest.id
    assert [text.split(":")[0] for text in resetting.events] == [f"reset {newest.id}"]
    assert resetting.names(MARKS) == []
    with pytest.raises(Refused, match="no unfinished reset"):
        resetting.resume()


def test_a_slot_lost_while_a_reset_goes_back_ends_it(losing: Losing) -> None:
    warehouse = losing.resetting.mirror.warehouse
    warehouse.configure(Switches(backward_allowed=False))
    try:
        result = losing.resetting.reset(EARLIEST, At("after_going_back", lambda: losing.at_source(ONE)))
    finally:
        warehouse.configure(Switches())
    losing.over(result, "during the rollback: SLOT LOST: dn_2")
    assert "--to snapshot" in result.sentence


def test_a_reset_that_somebody_else_moves_the_slot_under_ends_and_the_next_start_names_it(losing: Losing) -> None:
    far = "UPDATE dws.slot SET sync_point = sync_point + 1000000 WHERE dn = 2"
    result = losing.resetting.reset(EARLIEST, At("after_rows", lambda: losing.at_source(far)))
    losing.over(result, "SLOT MOVED: ")
    assert losing.named() is TroubleName.SLOT_MOVED


def test_an_unknown_error_on_the_way_back_is_tried_once_more_by_a_resume_and_then_ends_it(
    losing: Losing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: object) -> None:
        raise Unclassified("the source says what no job knows", where="source")

    with monkeypatch.context() as patched:
        patched.setattr(reset_apply, "_register", unknown)
        with pytest.raises(Busy, match="is unfinished: the source says what no job knows"):
            losing.resetting.reset(EARLIEST)
        losing.over(losing.resetting.resume(), "the source says what no job knows")
    assert losing.rows() == {name: row for name, (row, _) in losing.start.items()}


def test_progress_rows_lost_in_the_middle_of_a_reset_end_it_and_the_next_start_names_the_loss(losing: Losing) -> None:
    one, ctx = "DELETE FROM slotkeeper_progress WHERE shard = 'dn_2'", "DELETE FROM slotkeeper_progress"
    for point in ("after_begun", "after_silence", "after_rows", "after_false", "after_compare"):
        for how in (one, ctx):
            if (point, how) in (("after_compare", one), ("after_false", ctx)):
                continue  # there, the thread that deletes the others has locked one row
            taken = At(point, lambda how=how: losing.at_sink(how))  # type: ignore[misc]
            result = losing.resetting.reset(EARLIEST, taken)
            if point == "after_compare":
                assert result.outcome == DONE, "the last check is complete"
                losing.closed()
            else:
                losing.over(result, "PROGRESS LOST: ")
            left = losing.rows() if how == one else {}
            assert left == {name: row for name, (row, _) in losing.start.items() if name in left}
            if (point, how) == ("after_rows", one):
                assert losing.named() is TroubleName.PROGRESS_LOST
            losing.again()


def test_progress_rows_lost_before_a_resume_end_the_reset(losing: Losing) -> None:
    for how in ("DELETE FROM slotkeeper_progress WHERE shard = 'dn_2'", "DELETE FROM slotkeeper_progress"):
        for point in ("after_begun", "after_rows"):
            crashed(losing, CrashAt(point=point))
            losing.at_sink(how)
            result = losing.resetting.resume()
            assert result.outcome == ROLLED_BACK
            losing.closed()
            losing.again()


def test_a_row_that_a_person_moved_is_left_and_the_others_go_back(losing: Losing) -> None:
    moved = "UPDATE slotkeeper_progress SET position = '77/1' WHERE shard = 'dn_2'"
    result = losing.resetting.reset(EARLIEST, At("after_rows", lambda: losing.at_sink(moved)))
    losing.over(result, "dn_2: position ")
    rows = losing.rows()
    assert rows["dn_2"].position == DwsPosition(77, 1)
    assert {name: row for name, row in rows.items() if name != "dn_2"} == {
        name: row for name, (row, _) in losing.start.items() if name != "dn_2"
    }


def stepped(losing: Losing) -> Callable[[], object]:
    """Commit the pending steps, like a worker that was in the middle of a step."""

    def step() -> None:
        before = losing.rows()
        entries.close_kept(losing.resetting.mirror.job)
        outcome = worker.ENTRIES.stream(task_of(losing.resetting.mirror))
        assert not [lane.error for lane in outcome.lanes if lane.error]
        assert losing.rows() != before

    return step


@pytest.mark.parametrize(("goal", "point"), [(EARLIEST, "after_backup_row"), (LATEST, "after_begun")])
def test_a_step_that_lands_between_the_look_and_the_epoch_makes_the_plan_stale(
    losing: Losing, goal: Goal, point: str, seed: int
) -> None:
    resetting, mirror = losing.resetting, losing.resetting.mirror
    with written(mirror, seed, changes=40):
        pass
    result = resetting.reset(goal, At(point, stepped(losing)))
    landed = losing.rows()
    losing.over(result, "stale; changed: dn_1: position ")
    assert sum(row.changes for row in landed.values()) == sum(mirror.booked().values()), "the step's rows are kept"
    entries.close_kept(mirror.job)
    mirror.start().wait_running()
    mirror.wait_applied(mirror.booked())
    mirror.stop()
    losing.keep()


def test_a_registration_that_lands_between_the_look_and_the_epoch_makes_the_plan_stale(losing: Losing) -> None:
    record = "UPDATE slotkeeper_progress SET registered = '1' || registered WHERE shard = 'dn_2'"
    result = losing.resetting.reset(EARLIEST, At("after_begun", lambda: losing.at_sink(record)))
    losing.over(result, "stale; changed: dn_2: registered ")


def test_a_table_dropped_in_the_middle_of_a_reset_ends_it(losing: Losing) -> None:
    # the last test of this file: the table is not recreated
    table = losing.resetting.mirror.table
    drop = At("after_false", lambda: losing.at_source(f"DROP TABLE {table}"))
    losing.over(losing.resetting.reset(EARLIEST, drop), "SCHEMA CHANGED")
    assert losing.rows() == {name: row for name, (row, _) in losing.start.items()}
