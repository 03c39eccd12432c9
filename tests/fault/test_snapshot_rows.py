"""A snapshot without surprises: rows of both ends are counted, TRUNCATE is named, a loss needs a typed confirmation.

The reset reports once what it does with the target's rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core import row_filter
from slotkeeper.core.domain import row_counts
from slotkeeper.core.domain.audit import Phase
from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.reset import DONE, Goal, ResetPlan, TargetKind
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Refused
from slotkeeper.core.slots.reset_plan import ResetContext
from slotkeeper.core.sources.dws import slot as dws_slot
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.resetting import EARLIEST, SNAPSHOT, Crash, Resetting
from tests.support.standin import run

TABLE, TARGET = "ods.t", "mart.t"
REPLACE, MERGE = (Goal(TargetKind.SNAPSHOT, on_existing=how) for how in ("replace", "merge"))
ROWS = 40


@pytest.fixture
def resetting(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> Resetting:
    """A mirror of forty rows that has stopped; its configuration refuses a target with rows."""
    warehouse.create_table(TABLE, "id bigint NOT NULL, v text", ("id",))
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 'old' FROM generate_series(1, {ROWS}) n")
    mirror = make_mirror(warehouse, TABLE, TARGET)
    mirror.start().wait_running()
    mirror.stop()
    return Resetting(mirror, tmp_path / "state")


def number(mirror: Mirror, table: str = TARGET) -> int:
    return int(mirror.query(mirror.sink, f"SELECT count(*) FROM {table}")[0][0])


def words(plan: ResetPlan) -> str:
    return "; ".join(plan.notes)


def kill() -> None:
    raise Crash("killed")


def same_session(ctx: ResetContext) -> bool:
    """Whether a count that runs out of time leaves the session that it ran in."""
    assert ctx.resets.take_lease()
    before = ctx.resets.generation
    return ctx.target().count_rows(ctx.table.source.identify()).number is None and ctx.resets.generation == before


@contextmanager
def locked(mirror: Mirror) -> Iterator[None]:
    with closing(mirror.sink()) as connection, pg.transaction(connection) as cursor:
        connection.autocommit = False
        cursor.execute(f"LOCK TABLE {TARGET}")
        yield


def emptied(mirror: Mirror, left: int) -> None:
    """A TRUNCATE at the source, and a few new rows after it."""
    run(mirror.warehouse, f"TRUNCATE {TABLE}")
    run(mirror.warehouse, f"INSERT INTO {TABLE} SELECT n, 'new' FROM generate_series(1, {left}) n")


def test_after_truncate_the_reset_is_refused_without_the_number_and_the_audit_has_both_counts(
    resetting: Resetting,
) -> None:
    mirror = resetting.mirror
    emptied(mirror, 3)
    plan = resetting.plan(REPLACE)
    assert not plan.failed, plan.failed
    assert plan.rows is not None
    assert (plan.rows.source, plan.rows.target, plan.at_stake) == (RowCount(3), RowCount(ROWS), ROWS - 3)
    assert "the target would shrink by 37 rows: source 3, target 40" in words(plan)
    assert "TRUNCATE at the source is likely" in words(plan) and "the slot has no point left" in words(plan)
    for wrong in (None, 36, 38, ROWS):
        typed = "nothing" if wrong is None else wrong
        with pytest.raises(Refused, match=f"would shrink by 37 rows.*, but {typed} was typed") as refused:
            resetting.execute(plan, rows=wrong)
        assert refused.value.hint == "add --rows 37"
    assert {row.state for row in mirror.rows()} == {LaneState.RUNNING}, "nothing was begun"
    assert resetting.execute(plan, rows=37).outcome == DONE
    intent = next(line for line in resetting.lines() if line.phase is Phase.INTENT)
    assert (intent.result["rows at the source"], intent.result["rows in the target"]) == ("3", str(ROWS))
    copied = mirror.query(mirror.sink, "SELECT line::json -> 'result' ->> 'rows in the target' FROM slotkeeper_audit")
    assert (str(ROWS),) in copied
    assert len(resetting.voided) == 1, "the earlier comparison is no longer valid"
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert number(mirror) == 3


def test_what_the_reset_says_about_the_targets_rows_is_used_once(resetting: Resetting) -> None:
    mirror = resetting.mirror
    assert [check.name for check in resetting.plan(SNAPSHOT).failed] == ["target accepts copy"]
    mirror.at_sink(f"INSERT INTO {TARGET} VALUES (999, 'only here')")
    assert resetting.execute(resetting.plan(REPLACE), rows=1).outcome == DONE
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert resetting.reset(MERGE).outcome == DONE
    assert resetting.plan(SNAPSHOT).failed, "the configuration still refuses"
    mirror.at_sink(f"INSERT INTO {TARGET} VALUES (998, 'only here')")
    mirror.start().wait_running()
    mirror.stop()
    assert number(mirror) == ROWS + 1, "merged as in the second reset, not as in the first or in the configuration"


@pytest.mark.parametrize("moment", ["before_first_registration", "after_first_registration"])
def test_a_start_that_is_killed_before_its_copy_leaves_what_the_reset_said(resetting: Resetting, moment: str) -> None:
    mirror = resetting.mirror
    assert resetting.reset(REPLACE).outcome == DONE
    mirror.start(driver_probe=At(moment, kill)).wait_error()
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()


def test_a_later_reset_without_it_forgets_what_was_said(resetting: Resetting) -> None:
    mirror = resetting.mirror
    assert resetting.reset(REPLACE).outcome == DONE
    mirror.job = replace(mirror.job, on_existing="merge")
    assert resetting.reset(SNAPSHOT).outcome == DONE
    mirror.job = replace(mirror.job, on_existing="refuse")
    error = mirror.start().wait_error()
    assert isinstance(error, Refused) and "is not empty" in error.message


def test_an_undo_forgets_what_was_said(resetting: Resetting) -> None:
    mirror = resetting.mirror
    done = resetting.reset(REPLACE)
    assert resetting.undo(done.reset).outcome == DONE
    said = "SELECT DISTINCT state, copying FROM slotkeeper_progress"
    assert mirror.query(mirror.sink, said) == [("running", None)]


def test_a_merging_copy_takes_nothing_and_says_what_stays(resetting: Resetting) -> None:
    emptied(resetting.mirror, 3)
    plan = resetting.plan(MERGE)
    assert plan.at_stake == 0 and "rows that the source no longer has remain in the target" in words(plan)
    assert "TRUNCATE at the source is likely" in words(plan)
    assert resetting.execute(plan).outcome == DONE


def test_an_empty_target_needs_no_number(resetting: Resetting) -> None:
    resetting.mirror.at_sink(f"TRUNCATE {TARGET}")
    assert resetting.plan(SNAPSHOT).at_stake == 0
    resetting.mirror.at_sink(f"DROP TABLE {TARGET}")
    plan = resetting.plan(REPLACE)
    assert plan.rows is not None and (plan.rows.target, plan.at_stake) == (RowCount(0), 0)


def test_a_row_filter_counts_what_it_accepts(resetting: Resetting) -> None:
    channel = ChannelSpec(TABLE, TARGET, create_target=True, where=row_filter.read("id <= 10").text)
    resetting.mirror.job = replace(resetting.mirror.job, channels=(channel,))
    plan = resetting.plan(REPLACE)
    assert plan.rows is not None and (plan.rows.source, plan.at_stake) == (RowCount(10), ROWS - 10)


def test_a_source_that_was_emptied_behind_the_plan_makes_it_stale(resetting: Resetting) -> None:
    plan = resetting.plan(REPLACE)
    assert plan.at_stake == 0 and "TRUNCATE" not in words(plan)
    run(resetting.mirror.warehouse, f"DELETE FROM {TABLE} WHERE id > 2")
    with pytest.raises(Refused, match="is stale: the target would shrink by 38 rows"):
        resetting.execute(plan)
    assert {row.state for row in resetting.mirror.rows()} == {LaneState.RUNNING}


def test_a_mode_that_only_updates_takes_no_copy_that_replaces(resetting: Resetting) -> None:
    mirror = resetting.mirror
    mirror.job = replace(mirror.job, on_existing="merge", sink_options=SinkOptions(write_mode="update"))
    with pytest.raises(Refused, match="would leave the target empty"):
        resetting.plan(REPLACE)
    assert not resetting.plan(SNAPSHOT).failed


def test_other_resets_count_no_rows(resetting: Resetting) -> None:
    assert resetting.plan(EARLIEST).rows is None
    assert resetting.reset(EARLIEST).outcome == DONE
    assert resetting.voided == []


def test_a_count_that_takes_too_long_is_at_least_and_has_to_be_typed(
    resetting: Resetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_counts, "FEW", 20)
    monkeypatch.setattr(row_counts, "COUNT_LIMIT_MS", 1_500)
    monkeypatch.setattr(row_counts, "FEW_LIMIT_MS", 10_000)
    resetting.mirror.at_sink(
        "CREATE FUNCTION mart.slow() RETURNS boolean LANGUAGE plpgsql"
        " AS $$ BEGIN PERFORM pg_sleep(0.05); RETURN true; END $$",
        f"ALTER TABLE {TARGET} RENAME TO slow_t",
        f"CREATE VIEW {TARGET} AS SELECT id, v FROM mart.slow_t WHERE mart.slow()",
    )
    plan = resetting.plan(REPLACE)
    assert plan.rows is not None
    assert plan.rows.target == RowCount(20, at_least=True)
    assert (plan.rows.source, plan.at_stake) == (RowCount(ROWS), 20)
    assert "cannot determine whether the target would shrink: source 40, target >= 20" in words(plan)
    assert [one.ok for one in plan.checks if one.name == "rows counted"] == [None]


def test_a_locked_target_is_not_replaced_unseen_and_the_lease_stays(
    resetting: Resetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = resetting.plan(REPLACE)
    monkeypatch.setattr(row_counts, "COUNT_LIMIT_MS", 100)
    monkeypatch.setattr(row_counts, "FEW_LIMIT_MS", 100)
    with locked(resetting.mirror):
        unseen = resetting.plan(REPLACE)
        assert [check.name for check in unseen.failed] == ["rows counted"]
        assert "not counted within" in unseen.failed[0].sentence
        with pytest.raises(Refused, match="were not counted"):
            resetting.execute(plan)
        assert resetting.on(same_session), "the session holds the lease"
    assert resetting.execute(plan).outcome == DONE


@pytest.mark.parametrize(
    "statement",
    [
        pytest.param("SELECT count(*) FROM pg_catalog.not_there", id="no right to it"),
        pytest.param("SELECT pg_catalog.repeat('x', 2000000000)", id="no room for it"),
    ],
)
def test_a_source_that_refuses_to_be_counted_is_unknown(
    statement: str, resetting: Resetting, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = pg.sql.SQL(statement)
    monkeypatch.setattr(dws_slot, "count_statement", lambda *_: refused)
    plan = resetting.plan(REPLACE)
    assert plan.rows is not None and plan.rows.source.number is None
    assert plan.at_stake == ROWS
