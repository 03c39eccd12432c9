"""Any sequence of resets and undos with crashes: undone in reverse order, every row and point is as before.

An example has at least five operations over four DNs. An exception that nothing catches interrupts at least one of
them at a random step, as a kill would; `resume` completes it, and may be interrupted too.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from slotkeeper.core.domain.audit import Phase as AuditPhase
from slotkeeper.core.domain.reset import BACKED_UP, DONE, ROLLED_BACK, Goal, TargetKind
from slotkeeper.core.errors import Refused
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.resetting import EARLIEST, LATEST, SNAPSHOT, Crash, CrashAt, Resetting, point
from tests.support.standin import run

pytestmark = pytest.mark.slow
TABLE = "ods.t"
EXAMPLES = 5
DNS = ("dn_1", "dn_2", "dn_3", "dn_4")

STEP = st.tuples(
    st.sampled_from(("earliest", "latest", "point", "point", "snapshot", "undo", "undo")),
    st.floats(0, 1),
    st.sets(st.sampled_from(DNS), max_size=3),
    st.integers(0, 60),
)
SEQUENCES = st.lists(STEP, min_size=5, max_size=8).filter(lambda steps: any(0 < crash <= 24 for *_, crash in steps))


@dataclass
class Told:
    """Counts over all examples, so that a run shows what it covered."""

    examples: int = 0
    operations: int = 0
    crashes: int = 0


def goal_of(resetting: Resetting, how: str, where: float, dns: set[str], backups: list[str]) -> Goal:
    scope = tuple(sorted(dns))
    if how == "undo" and backups:
        return Goal(TargetKind.BACKUP, backup=backups[int(where * (len(backups) - 1))])
    if how == "snapshot":
        return SNAPSHOT
    if how == "point" or how == "undo":
        highest = max(number for _, _, number in resetting.points())
        lowest = min(number for _, _, number in resetting.points())
        return replace(point(int(lowest + where * (highest - lowest))), dns=scope)
    return replace(EARLIEST if how == "earliest" else LATEST, dns=scope)


def carried_out(resetting: Resetting, goal: Goal, crash: int, told: Told) -> None:
    """Plan and execute with a crash at step `crash`, then resume until it is complete."""
    plan = resetting.plan(goal)
    if plan.failed:
        return
    before = resetting.places()
    try:
        resetting.execute(plan, CrashAt(crash))
    except Crash:
        told.crashes += 1
        if resetting.places() != before or resetting.names("resets"):
            assert resetting.names("resets"), "a half-moved slot goes unreported"
            ended(resetting, random.Random(crash).randrange(0, 12), told)
    told.operations += 1
    assert not resetting.names("resets")


def ended(resetting: Resetting, crash: int, told: Told) -> None:
    try:
        result = resetting.resume(CrashAt(crash))
    except Crash:
        told.crashes += 1
        if not resetting.names("resets"):
            return
        result = resetting.resume()
    assert result.outcome in (DONE, ROLLED_BACK)


def history(resetting: Resetting) -> list[Any]:
    return list(reversed(resetting.on(lambda ctx: ctx.resets.history(10_000))))


def example(resetting: Resetting, steps: list[Any], told: Told) -> None:
    start, known, crashed = resetting.places(), len(history(resetting)), told.crashes
    states: dict[str, Any] = {}
    for how, where, dns, crash in steps:
        before, names = resetting.places(), set(resetting.names("backups"))
        try:
            carried_out(resetting, goal_of(resetting, how, where, dns, list(states)), crash, told)
        except Refused:  # after a snapshot the copy has not started: there is no position to move
            assert resetting.places() == before
        new = set(resetting.names("backups")) - names
        assert resetting.places() == before or new, "every change had a backup first"
        states |= dict.fromkeys(sorted(new), before)
    if told.crashes == crashed:
        plan, before = resetting.plan(SNAPSHOT), resetting.places()
        with pytest.raises(Crash):
            resetting.execute(plan, CrashAt(point="after_rows"))
        told.crashes += 1
        states[resetting.names("resets")[0]] = before
        assert resetting.resume().outcome == DONE
    mine = [entry for entry in history(resetting)[known:] if entry.step != BACKED_UP]
    for entry in reversed(mine):
        if entry.step == DONE and entry.id in states:
            assert resetting.undo(entry.id).outcome == DONE
            assert resetting.places() == states[entry.id]
    assert resetting.places() == start
    intents = {line.action_id for line in resetting.lines() if line.phase is AuditPhase.INTENT}
    assert {entry.id for entry in mine} <= intents
    told.examples += 1


def prepared(warehouse: Warehouse, make_mirror: MakeMirror) -> Mirror:
    warehouse.create_table(TABLE, "id bigint NOT NULL, v integer", ("id",))
    mirror = make_mirror(warehouse, TABLE, "mart.t")
    mirror.start().wait_running()
    for number in range(6):
        run(
            warehouse,
            f"INSERT INTO {TABLE} SELECT n, {number} FROM generate_series({number * 10}, {number * 10 + 9}) n",
        )
    run(warehouse, f"UPDATE {TABLE} SET v = v + 1 WHERE id % 3 = 0", f"DELETE FROM {TABLE} WHERE id % 7 = 0")
    mirror.wait_equal()
    mirror.stop()
    run(warehouse, f"INSERT INTO {TABLE} SELECT n, 0 FROM generate_series(100, 130) n")
    mirror.job = replace(mirror.job, on_existing="replace")
    return mirror


def many(resetting: Resetting, seed: int, examples: int) -> Told:
    told = Told()

    @seeded(seed)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # one mirror serves all examples, so that none can be repeated alone
    )
    @given(SEQUENCES)
    def each(steps: list[Any]) -> None:
        example(resetting, steps, told)

    print(f"seed {seed}")
    each()
    print(told)
    return told


def test_what_is_undone_is_as_it_was(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path) -> None:
    resetting = Resetting(prepared(warehouse, make_mirror), tmp_path / "state")
    told = many(resetting, seed, EXAMPLES)
    assert told.crashes >= told.examples
    resetting.mirror.start().wait_running()
    resetting.mirror.wait_equal()
    resetting.mirror.stop()


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_500_sequences(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path) -> None:
    resetting = Resetting(prepared(warehouse, make_mirror), tmp_path / "state")
    assert many(resetting, seed, 500).crashes >= 500
