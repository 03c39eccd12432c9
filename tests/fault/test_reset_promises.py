"""Twelve random resets: the plan matches the result, counted in the rows of the target.

Before each reset every row of the target is marked. A row that is written afterwards has lost its mark, so that rows
that were replayed, skipped or replaced are counted without asking the job, its progress rows or the plan.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from random import Random

from slotkeeper.console.actions.preview import of_reset
from slotkeeper.console.commands.reset import to_type, undo_of
from slotkeeper.core.domain.reset import DONE, Goal, ResetPlan, TargetKind
from slotkeeper.core.sources.dws.position import ours
from slotkeeper.demo.warehouse import Warehouse
from tests.support.mirror import MakeMirror, Mirror
from tests.support.resetting import EARLIEST, LATEST, Resetting, point
from tests.support.standin import run

ROUNDS = int(os.environ.get("SLOTKEEPER_RESETS", "12"))
MARKED = -1


@dataclass
class World:
    """A table whose keys are each inserted once, so that each change is a row; its job, and its unread changes."""

    mirror: Mirror
    resetting: Resetting
    draw: Random
    times: list[str] = field(default_factory=list)
    unread: set[int] = field(default_factory=set)
    extra: set[int] = field(default_factory=set)
    _next: int = 1_000

    def write(self, rows: int) -> None:
        """Insert rows; note the time only if a change follows it, because a reset to a later time is refused."""
        if rows:
            self.times.append(datetime.now(timezone.utc).isoformat())
        keys = range(self._next, self._next + rows)
        self._next += rows
        for key in keys:
            run(self.mirror.warehouse, f"INSERT INTO ods.t VALUES ({key}, {key})")
        self.unread |= set(keys)

    def source(self) -> set[int]:
        return {key for (key,) in self.mirror.query(self.mirror.warehouse.connect, "SELECT id FROM ods.t")}

    def target(self) -> dict[int, bool]:
        """Its keys, and whether each was written since they were marked."""
        found = self.mirror.query(self.mirror.sink, f"SELECT id, v <> {MARKED} FROM mart.t")
        return dict(found)

    def goal(self, kind: str) -> Goal:
        if kind == "earliest":
            return EARLIEST
        if kind == "latest":
            return LATEST
        if kind == "time":
            return Goal(TargetKind.TIME, at=self.draw.choice(self.times))
        if kind in ("replace", "merge"):
            return Goal(TargetKind.SNAPSHOT, on_existing=kind)
        seen = [move.seen for move in self.resetting.plan(EARLIEST).moves]
        least = max(ours(one.first).point for one in seen if one.first is not None)
        most = min(ours(one.latest).point for one in seen if one.latest is not None)
        dns = () if kind == "point" else (self.draw.choice(seen).row.key.shard,)
        return point(self.draw.randint(least, most), *dns)

    def read_on(self, before: dict[str, int], plan: ResetPlan) -> None:
        """Start the job, let it read everything, and stop it."""
        self.mirror.start().wait_running()
        if plan.rows is None:
            expected = sum(before.values()) + self.applied(plan)
            self.mirror._until(lambda: sum(self.mirror.changes().values()) >= expected, 60, f"{expected} changes")
        else:
            self.mirror._until(lambda: self.source() <= self.target().keys(), 60, "every row to be copied")
        self.mirror.stop()

    def applied(self, plan: ResetPlan) -> int:
        return sum(move.read_again.total for move in plan.moves) + len(self.unread) - plan.skipped


def promised(plan: ResetPlan) -> str:
    """The plan as text, on screens and in the shell."""
    sections = of_reset(plan, to_type(plan), undo_of(plan)).sections(full=False)
    return " ".join(text for section in sections for _, _, text in section.lines)


def kinds(draw: Random) -> Iterator[str]:
    """Yield each kind in turn, in an order that is drawn again for each round."""
    every = ["earliest", "latest", "point", "point of one", "time", "replace", "merge"]
    while True:
        yield from draw.sample(every, len(every))


def followed(warehouse: Warehouse, make_mirror: MakeMirror, folder: Path, draw: Random) -> World:
    warehouse.create_table("ods.t", "id bigint NOT NULL, v bigint", ("id",), timestamp=True)
    run(warehouse, "INSERT INTO ods.t SELECT n, n FROM generate_series(1, 40) n")
    mirror = make_mirror(warehouse, "ods.t", "mart.t")
    mirror.start().wait_running()
    world = World(mirror, Resetting(mirror, folder / "state"), draw)
    world.write(60)
    mirror.wait_equal()
    mirror.stop()
    world.unread.clear()
    return world


def test_what_a_plan_said_is_what_happened_to_the_rows(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path
) -> None:
    draw, done, figures = Random(seed), 0, [0, 0, 0]
    print(f"seed {seed}")
    world = followed(warehouse, make_mirror, tmp_path, draw)
    mirror = world.mirror
    for kind in kinds(draw):
        world.write(draw.randrange(12))
        plan = world.resetting.plan(world.goal(kind))
        if plan.failed:
            print(f"{kind}: refused, {', '.join(check.sentence for check in plan.failed)}")
            continue
        mirror.at_sink(f"UPDATE mart.t SET v = {MARKED}")
        if kind == "merge":
            world.extra.add(-len(world.extra) - 1)
            mirror.at_sink(f"INSERT INTO mart.t VALUES ({min(world.extra)}, {MARKED})")
            plan = world.resetting.plan(plan.goal)
        before, held = mirror.changes(), world.target()
        assert not any(held.values())
        again, said = sum(move.read_again.total for move in plan.moves), promised(plan)
        assert world.resetting.execute(plan).outcome == DONE
        world.read_on(before, plan)
        now, source = world.target(), world.source()
        written = {key for key, is_new in now.items() if is_new}
        if plan.rows is None:
            assert len(written) == again + len(world.unread) - plan.skipped, (kind, plan.goal.text)
            assert len(world.unread - now.keys()) == plan.skipped, "skipped changes were not applied"
            assert now.keys() == held.keys() | written, "and nothing else has changed"
            assert sum(mirror.changes().values()) - sum(before.values()) == len(written)
            for number, words in ((again, "applied again"), (plan.skipped, "SKIPPED")):
                assert (f"{number:,} change" in said and words in said) if number else f"{words}:" not in said, said
        else:
            assert (written, plan.rows.source.number) == (source, len(source)), "each row was copied once"
            kept = set(held) - source if kind == "merge" else set()
            assert now.keys() == source | kept and world.extra >= kept
            assert plan.rows.target.number == len(held)
            assert (f"replaces {len(held)} rows" in said) is (kind == "replace"), said
            world.extra &= kept
        replaced = len(held) if kind == "replace" else 0
        print(f"{plan.goal.text}: {again} replayed, {plan.skipped} skipped, {replaced} replaced")
        figures = [one + more for one, more in zip(figures, (again, plan.skipped, replaced), strict=True)]
        world.unread.clear()
        done += 1
        if done >= ROUNDS and (all(figures) or done == 3 * ROUNDS):
            break
    print(f"{done} plans: {figures[0]} rows replayed, {figures[1]} skipped, {figures[2]} replaced, as they had said")
    assert all(figures), "each of the three was drawn"


def test_a_plan_that_replaces_rows_names_who_uses_the_target_and_what_publishes_it(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path
) -> None:
    world = followed(warehouse, make_mirror, tmp_path, Random(seed))
    run(warehouse, "SELECT * FROM pgxc_register_full_sync_point('ods.t', 'another')")
    said = promised(world.resetting.plan(world.goal("replace")))
    assert "current users of the target: no other session; later users are unknown" in said
    assert "other slots of ods.t keep their positions: another" in said
    world.mirror.at_sink("CREATE PUBLICATION downstream FOR TABLE mart.t")
    with closing(world.mirror.sink()) as reader, reader.cursor() as cursor:
        cursor.execute("SET application_name = 'nightly_report'")
        cursor.execute("BEGIN")
        cursor.execute("SELECT count(*), pg_backend_pid() FROM mart.t")
        pid = cursor.fetchall()[0][1]
        said = promised(world.resetting.plan(world.goal("replace")))
    assert f"current users of the target: pid {pid} (nightly_report); published by downstream" in said, said
