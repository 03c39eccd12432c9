"""Resets of a mirror's slot, with a state folder of their own, and what both ends hold as one comparable value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from slotkeeper.core.domain.audit import AuditLine
from slotkeeper.core.domain.progress import ProgressRow
from slotkeeper.core.domain.reset import Check, Goal, ResetPlan, TargetKind
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.driver import Store
from slotkeeper.core.services import reset as reset_service
from slotkeeper.core.slots import reset_apply
from slotkeeper.core.slots import reset_apply as resume
from slotkeeper.core.slots import reset_plan as plan
from slotkeeper.core.slots.reset_apply import ResetOrder, Result
from slotkeeper.core.slots.reset_plan import Probe, ResetContext, silent
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.wiring import worker
from tests.support.mirror import Mirror


class Crash(Exception):
    """What a probe raises in place of a kill: nobody catches it."""


@dataclass
class CrashAt:
    """Raises Crash at the nth call; `seen` are the points passed."""

    nth: int = 0
    point: str = ""
    seen: list[str] = field(default_factory=list)

    def __call__(self, point: str) -> None:
        self.seen.append(point)
        if len(self.seen) == self.nth or point == self.point:
            raise Crash(point)


def at_rest() -> Check:
    return Check("job at rest", True, "never started here")


@dataclass
class Resetting:
    """Resets of one mirror; `events` are what the job was told, `voided` the resets that ended its comparisons."""

    mirror: Mirror
    folder: Path
    at_rest: Callable[[], Check] = at_rest
    events: list[str] = field(default_factory=list)
    voided: list[str] = field(default_factory=list)
    _source: pg.Connection | None = None
    _sink: Store | None = None

    def on(self, act: Callable[[ResetContext], Any], probe: Probe = silent, steal: str = "") -> Any:
        """Do something with a bench of its own, as one command would."""
        folder = StateFolder.open(self.folder)
        with reset_service.reset_context(self.mirror.job, folder, self.at_rest, self.events.append, steal) as ctx:
            ctx.probe, ctx.void = probe, self.voided.append
            return act(ctx)

    def plan(self, goal: Goal) -> ResetPlan:
        def act(ctx: ResetContext) -> ResetPlan:
            made = plan.make(ctx, goal)
            plan.keep(ctx, made)
            return made

        return self.on(act)  # type: ignore[no-any-return]

    def order(self, made: ResetPlan) -> ResetOrder:
        return ResetOrder(made.id, "a test", self.mirror.job.slot, made.at_stake or None)

    def execute(self, made: ResetPlan, probe: Probe = silent, **other: Any) -> Result:
        order = replace(self.order(made), **other)
        return self.on(lambda ctx: reset_apply.execute(ctx, order), probe)  # type: ignore[no-any-return]

    def reset(self, goal: Goal, probe: Probe = silent) -> Result:
        return self.execute(self.plan(goal), probe)

    def resume(self, probe: Probe = silent) -> Result:
        return self.on(resume.resume, probe)  # type: ignore[no-any-return]

    def undo(self, backup: str, probe: Probe = silent) -> Result:
        return self.reset(Goal(TargetKind.BACKUP, backup=backup), probe)

    def lines(self) -> list[AuditLine]:
        return list(reversed(Audit(StateFolder.open(self.folder)).read().lines))

    def names(self, kind: str) -> list[str]:
        return sorted(path.stem for path in (self.folder / kind).glob("*.json"))

    def places(self) -> dict[str, Any]:
        """Rows (but their epoch) and points by DN: what an undo has to bring back."""
        found: dict[str, Any] = {row.key.shard: (self._row(row), {}) for row in self.rows()}
        for shard, flag, point in self.points():
            found[shard][1][flag] = point
        return found

    def points(self) -> list[tuple[str, bool, int]]:
        slot = self.mirror.job.slot
        statement = (
            "SELECT n.node_name::text, s.checkpoint, s.sync_point FROM dws.slot s JOIN dws.node n ON n.ord = s.dn"
            f" WHERE s.slot_name = '{slot}' ORDER BY 1, 2"
        )
        self._source = self._source or self.mirror.warehouse.connect()
        with self._source.cursor() as cursor:
            cursor.execute(statement)
            return [(dn, flag, point) for dn, flag, point in cursor.fetchall()]

    def rows(self) -> list[ProgressRow]:
        """The progress rows, over a session that stays."""
        job = self.mirror.job
        self._sink = self._sink or worker.open_progress(job, "test", worker.who(job, "test"))
        return self._sink.rows()

    @staticmethod
    def _row(row: ProgressRow) -> ProgressRow:
        return replace(row, epoch=0)


def point(number: int, *dns: str) -> Goal:
    return Goal(TargetKind.POINT, (("*", str(number)),), dns=dns)


EARLIEST, LATEST, SNAPSHOT = (Goal(TargetKind(name)) for name in ("earliest", "latest", "snapshot"))
