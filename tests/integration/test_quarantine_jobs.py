"""Whole jobs that meet bad rows: in the copy, in the stream, up to the limit, and the result of replays."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.quarantine import EntryState, QuarantineEntry, Wanted
from slotkeeper.core.domain.spec import ChannelSpec, SinkOptions
from slotkeeper.core.errors import Busy, Refused, Trouble, TroubleName
from slotkeeper.core.services import verify
from slotkeeper.core.services.quarantine import discard, polling, quarantine_of, replay
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.demo.warehouse import Warehouse
from tests.support import standin
from tests.support.mirror import At, MakeMirror, Mirror
from tests.support.resetting import EARLIEST, Resetting

TABLE = "ods.t"
CHECKS = {
    1: ("n <> 1", "x", "23514"),
    2: ("n <> 2 OR v::integer > 0", "x", "22P02"),
    3: ("n <> 3 OR v::smallint > 0", "99999", "22003"),
    4: ("n <> 4 OR v::date > '2000-01-01'", "2026-02-30", "22008"),
    5: ("n <> 5 OR v::date > '2000-01-01'", "never", "22007"),
    6: ("n <> 6 OR 100 / length(v) > 0", "", "22012"),
    7: ("n <> 7 OR ln(length(v)) > 0", "", "2201E"),
    8: ("n <> 8 OR sqrt(-length(v)) > 0", "x", "2201F"),
    9: ("n <> 9 OR substring(v FROM 1 FOR -1) > ''", "x", "22011"),
    10: ("n <> 10 OR v ~ v", "(", "2201B"),
    11: ("n <> 11 OR decode(v, 'hex') > ''", "xyz", "22023"),
}
"""Conditions of the target by number: the text that violates each, and the SQLSTATE of the violation."""
KINDS = len(CHECKS) + 1
"""With the text that must not be NULL, number 12."""
TEXTS = " ".join(f"WHEN {n} THEN '{text}'" for n, (_, text, _) in CHECKS.items())


def rows(first: int, last: int, every: int) -> str:
    """INSERT rows, one bad row in `every`: its number determines how it is bad."""
    bad = f"CASE WHEN g % {every} = 0 THEN 1 + (g / {every}) % {KINDS} ELSE 0 END"
    return (
        f"INSERT INTO {TABLE} SELECT g % 4, g, n, CASE n WHEN {KINDS} THEN NULL {TEXTS} ELSE 'row ' || g END"
        f" FROM (SELECT g, {bad} AS n FROM generate_series({first}, {last}) g) s"
    )


def mirror_of(warehouse: Warehouse, make_mirror: MakeMirror, limit: int = 100, existing: str = "refuse") -> Mirror:
    """A job that holds bad rows, into a target with all those conditions."""
    columns = "place integer NOT NULL, id bigint NOT NULL, n integer, v text"
    warehouse.create_table(TABLE, columns, ("place", "id"), ("place",))
    mirror = make_mirror(warehouse, TABLE)
    mirror.job = replace(
        mirror.job,
        on_existing=existing,
        channels=(ChannelSpec(TABLE, "mart.orders"),),
        sink_options=SinkOptions(auto_flush_batch_size=2_000, on_bad_row="quarantine", quarantine_limit=limit),
    )
    checks = "".join(f", CONSTRAINT c{n} CHECK ({check})" for n, (check, *_) in CHECKS.items())
    columns = f"place integer, id bigint, n integer, v text NOT NULL, PRIMARY KEY (place, id){checks}"
    mirror.at_sink("CREATE SCHEMA mart", f"CREATE TABLE mart.orders ({columns})")
    return mirror


def cure(mirror: Mirror) -> None:
    drops = ", ".join(f"DROP CONSTRAINT c{n}" for n in CHECKS)
    mirror.at_sink(f"ALTER TABLE mart.orders {drops}, ALTER COLUMN v DROP NOT NULL")


def entries(mirror: Mirror, *states: EntryState) -> list[QuarantineEntry]:
    with polling(mirror.job) as found:
        return list(found.page(Wanted(states or (EntryState.QUARANTINED,), slot=mirror.job.slot, limit=10_000)))


def wait_applied(mirror: Mirror, events: int, seconds: float = 120) -> None:
    mirror._until(lambda: sum(mirror.changes().values()) >= events, seconds, f"{events} events")


def hundred_bad(warehouse: Warehouse, make_mirror: MakeMirror, folder: StateFolder, half: int) -> dict[str, float]:
    """50 bad rows in a copy of `half` rows and 50 in as many streamed rows; then one more, the fix, and replays."""
    mirror, took = mirror_of(warehouse, make_mirror), {}
    standin.run(warehouse, rows(1, half, half // 50))
    began = time.monotonic()
    mirror.start().wait_running(120)
    took["copy"] = time.monotonic() - began
    assert len(entries(mirror)) == 50
    began = time.monotonic()
    mirror.source(rows(half + 1, 2 * half, half // 50))
    wait_applied(mirror, half)
    took["stream"] = time.monotonic() - began
    found = entries(mirror)
    assert len(found) == 100
    assert len({one.sqlstate for one in found}) >= 10
    assert {one.sqlstate for one in found} == {"23502", *(code for *_, code in CHECKS.values())}
    assert all(one.constraint or one.column or one.sqlstate.startswith("22") for one in found)
    assert {one.shard for one in found if one.kind == "I"} <= {"dn_1", "dn_2", "dn_3", "dn_4"}
    assert mirror.difference() == (100, 0)

    mirror.source(f"UPDATE {TABLE} SET n = 1, v = 'one more' WHERE id = 1")
    error = mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name is TroubleName.QUARANTINE_FULL
    assert "quarantine_limit = 100" in str(error)
    assert len(entries(mirror)) == 100

    cure(mirror)
    began = time.monotonic()
    done = replay(mirror.job, folder, [one.id for one in found], "the checks are gone")
    took["replay"] = time.monotonic() - began
    assert {one.state for one in done} == {EntryState.REPLAYED}
    assert entries(mirror) == []
    mirror.start().wait_running()
    mirror.wait_equal()
    mirror.stop()
    assert all(one.nothing_done for one in replay(mirror.job, folder, [found[0].id], "again"))
    return took


@pytest.mark.parametrize("half", [5_000, pytest.param(50_000, marks=pytest.mark.chaos)])
def test_a_hundred_bad_rows_among_many_thousand(
    half: int, warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    took = hundred_bad(warehouse, make_mirror, StateFolder.open(tmp_path), half)
    print({name: round(seconds, 2) for name, seconds in took.items()})


# -- small jobs ------------------------------------------------------------------------------------------------------


def small(warehouse: Warehouse, make_mirror: MakeMirror, existing: str = "refuse") -> Mirror:
    """A job over 40 rows, number 20 bad."""
    mirror = mirror_of(warehouse, make_mirror, existing=existing)
    values = "g % 4, g, CASE g WHEN 20 THEN 1 ELSE 0 END, 'x'"
    standin.run(warehouse, f"INSERT INTO {TABLE} SELECT {values} FROM generate_series(1, 40) g")
    return mirror


def keys(mirror: Mirror, *states: EntryState) -> list[tuple[str, str]]:
    return sorted((entry.key[1], entry.kind) for entry in entries(mirror, *states))


def applied(mirror: Mirror, *statements: str) -> None:
    """Change the source, and wait until the job has read all of it."""
    before = sum(mirror.changes().values())
    events = sum(statement.startswith("UPDATE") + 1 for statement in statements)
    mirror.source(*statements)
    wait_applied(mirror, before + events)


def update(id: int, n: int) -> str:
    return f"UPDATE {TABLE} SET n = {n} WHERE id = {id}"


def test_a_replay_beside_a_running_job_and_what_later_changes_leave_of_it(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    folder = StateFolder.open(tmp_path)
    mirror = small(warehouse, make_mirror)
    mirror.start().wait_running()
    applied(mirror, update(1, 1), update(2, 1), update(3, 1), f"UPDATE {TABLE} SET id = 104, n = 1 WHERE id = 4")
    assert keys(mirror) == [("1", "U"), ("104", "U"), ("2", "U"), ("20", "c"), ("3", "U"), ("4", "B")]
    assert mirror.query(mirror.sink, "SELECT n FROM mart.orders WHERE id IN (1, 2, 3, 4)") == [(0,)] * 4
    applied(mirror, update(1, 100), f"DELETE FROM {TABLE} WHERE id = 2")
    by_key = {entry.key[1]: entry for entry in entries(mirror, *EntryState)}
    over = replay(mirror.job, folder, [by_key["1"].id, by_key["2"].id], "too late")
    assert [(one.state, one.nothing_done) for one in over] == [(EntryState.SUPERSEDED, True)] * 2
    still = replay(mirror.job, folder, [by_key["3"].id], "not cured yet")
    assert [(one.state, one.sqlstate, one.where) for one in still] == [(EntryState.QUARANTINED, "23514", "c1")]
    cure(mirror)
    done = replay(mirror.job, folder, [one.id for one in quarantine_of(mirror.job)], "cured")
    assert {one.state for one in done} == {EntryState.REPLAYED}
    assert sorted(len(one.ids) for one in done) == [1, 1, 2]
    assert entries(mirror) == []
    mirror.wait_equal()
    assert {entry.reason for entry in entries(mirror, EntryState.REPLAYED)} == {"cured"}
    mirror.stop()
    with pytest.raises(Refused, match="needs a reason"):
        replay(mirror.job, folder, [by_key["3"].id], " ")
    with pytest.raises(Refused, match="unknown entry 999 of job"):
        discard(mirror.job, folder, [999], "typo")


def test_a_job_that_no_longer_holds_rows_does_not_start_while_some_are_held(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = small(warehouse, make_mirror)
    mirror.start().wait_running()
    mirror.stop()
    quarantining, options = mirror.job, replace(mirror.job.sink_options, on_bad_row="stop")
    mirror.job = replace(mirror.job, sink_options=options)
    assert "has 1 rows in quarantine, but" in str(mirror.start().wait_error())
    done = discard(quarantining, StateFolder.open(tmp_path), [entries(mirror)[0].id], "not wanted")
    assert done[0].state is EntryState.DISCARDED
    mirror.start().wait_running()
    mirror.stop()
    assert mirror.difference() == (1, 0)


@pytest.mark.parametrize("existing", ["replace", "merge"])
def test_a_copy_into_rows_holds_bad_ones_and_archives_what_was_held_before(
    warehouse: Warehouse, make_mirror: MakeMirror, existing: str
) -> None:
    mirror = small(warehouse, make_mirror, existing)
    mirror.at_sink("INSERT INTO mart.orders VALUES (1, 1, 0, 'old'), (3, 999, 0, 'old')")
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, binlog=False))
    for times in (1, 2):
        mirror.start().join()
        assert mirror.error is None
        assert keys(mirror) == [("20", "c")]
        assert len(entries(mirror, EntryState.ARCHIVED)) == times - 1
    assert mirror.difference() == (1, 0 if existing == "replace" else 1)
    assert {entry.ended_by for entry in entries(mirror, EntryState.ARCHIVED)} == {"copy"}
    assert entries(mirror)[0].shard == "*"


def test_a_reset_archives_what_will_be_read_again_and_an_undo_brings_it_back(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    mirror = small(warehouse, make_mirror)
    resetting = Resetting(mirror, tmp_path / "state")
    mirror.start().wait_running()
    applied(mirror, update(1, 1), update(2, 1))
    mirror.stop()
    before = keys(mirror)
    assert before == [("1", "U"), ("2", "U"), ("20", "c")]
    plan = resetting.plan(EARLIEST)
    assert "2 rows in quarantine after the new points will be archived: the job reads them again" in plan.notes
    reset = resetting.execute(plan).reset
    assert keys(mirror) == [("20", "c")]
    assert {entry.ended_by for entry in entries(mirror, EntryState.ARCHIVED)} == {reset}
    back = resetting.undo(reset)
    assert keys(mirror) == before
    resetting.reset(EARLIEST)
    mirror.start().wait_running()
    mirror._until(lambda: keys(mirror) == before, 60, "the rows to be read again")
    mirror.stop()
    assert len(entries(mirror, EntryState.ARCHIVED)) == 2
    resetting.undo(reset)
    assert keys(mirror) == before, "no change that was read again was applied twice"
    assert back.outcome == "done"


def test_verify_tells_held_keys_apart(warehouse: Warehouse, make_mirror: MakeMirror) -> None:
    mirror = small(warehouse, make_mirror)
    mirror.start().wait_running()
    applied(mirror, f"UPDATE {TABLE} SET id = 104, n = 1 WHERE id = 4")
    mirror.stop()
    found = verify.verify(mirror.job, False, lambda done, known: None)
    assert found.equal
    assert sorted(found.quarantined.keys) == [("0", "104"), ("0", "20"), ("0", "4")]
    mirror.at_sink("DELETE FROM mart.orders WHERE id = 5")
    found = verify.verify(mirror.job, False, lambda done, known: None)
    assert (found.missing.keys, found.quarantined.count) == ((("1", "5"),), 3)


@pytest.mark.parametrize(
    "point", ["before_isolated_chunk", "before_chunk_commit", "before_isolated_step", "after_commit"]
)
def test_a_worker_that_fails_around_a_careful_step_is_tried_again(
    warehouse: Warehouse, make_mirror: MakeMirror, point: str
) -> None:
    def fail() -> None:
        raise Busy("a test", where="sink")

    probe = At(point, fail)
    mirror = small(warehouse, make_mirror)
    mirror.start(probe).wait_running()
    applied(mirror, update(1, 1), update(2, 100))
    assert probe.done.is_set()
    assert sum(mirror.changes().values()) == 4
    assert keys(mirror, *EntryState) == [("1", "U"), ("20", "c")]
    mirror.stop()
    assert mirror.difference() == (2, 1), "number 1 is unchanged and number 20 is absent"
