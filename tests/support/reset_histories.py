"""Random histories of resets: any kind, any share replayed, then an undo, another reset or a snapshot.

`Story` plays one against a world in memory or a real one, and remembers what the plans have said. Whenever the state
says RUNNING the target equals the source, or a plan has said in words that it stays different.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from slotkeeper.core.domain.progress import LaneState
from slotkeeper.core.domain.reset import DONE, Goal, ResetPlan, TargetKind
from slotkeeper.core.errors import Refused
from slotkeeper.core.slots.reset_apply import Result

SAID = ("stays different", "older values stay")
"""What a plan says where the target will differ from the source although the state says RUNNING."""
KINDS = ("earliest", "latest", "point", "point", "time", "snapshot", "undo", "undo", "undo")


class Played(Protocol):
    """A slot, its source and its target."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def state(self) -> LaneState: ...
    def change(self, changes: int) -> None: ...
    def start(self, share: float) -> None:
        """Start the job, let it read that share of what is unread, and stop it."""

    def equal(self) -> bool:
        """Whether the target equals the source, as far as the lanes have come."""

    def point(self, draw: random.Random) -> str:
        """Some point of the binlog."""

    def time(self, draw: random.Random) -> str: ...
    def plan(self, goal: Goal) -> ResetPlan: ...
    def execute(self, made: ResetPlan) -> Result: ...


@dataclass
class Figures:
    """What happened in all histories; `wrong` are those that said RUNNING and differed."""

    histories: int = 0
    done: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    running: int = 0
    said: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """In a line."""
        done, refused = (", ".join(f"{n} {what}" for what, n in sorted(of.items())) for of in (self.done, self.refused))
        looks = f"{self.running} times RUNNING, {self.said} of them different as a plan had said"
        return f"{self.histories} histories: {done}; refused: {refused or 'none'}; {looks}; {len(self.wrong)} wrong"


class Story:
    """One history; `said` whether a plan has said that the target stays different, and by backup what held then."""

    def __init__(self, world: Played, draw: random.Random, figures: Figures, kinds: Sequence[str] = KINDS) -> None:
        self.world, self.draw, self.figures, self.kinds = world, draw, figures, kinds
        self.said = False
        self.backups: dict[str, bool] = {}
        self.acts: list[str] = []

    def play(self, acts: int) -> None:
        """Resets with starts between them, and at the end a start that reads everything."""
        self.figures.histories += 1
        self._start(1.0)
        for _ in range(acts):
            self._reset(self.draw.choice(self.kinds))
            self.world.change(self.draw.randrange(6))
            if self.draw.random() < 0.7:
                self._start(self.draw.choice((0.0, 0.2, 0.5, 0.8, 1.0)))
        self._start(1.0)

    def _start(self, share: float) -> None:
        copies = self.world.state not in (LaneState.RUNNING, LaneState.CATCHING_UP)
        self.world.start(share)
        self.acts.append(f"start {share} -> {self.world.state.value}")
        if copies and self.world.state in (LaneState.RUNNING, LaneState.CATCHING_UP):
            self.said = False
        self._look()

    def _reset(self, kind: str) -> None:
        try:
            plan = self.world.plan(self._goal(kind))
        except Refused as refused:
            self.figures.refused[str(refused).split(":")[0][:40]] += 1
            return
        if plan.failed:
            self.acts.append(f"refused {plan.goal.text}: {plan.failed[0].sentence}")
            self.figures.refused[plan.failed[0].name] += 1
            return
        before = self.said
        result = self.world.execute(plan)
        self.acts.append(f"{result.outcome} {plan.goal.text}: {[move.to.position for move in plan.moves]} {plan.notes}")
        if result.outcome != DONE:
            self.figures.refused[result.outcome] += 1
            return
        self.figures.done[plan.goal.kind.value] += 1
        self.backups[result.reset] = before
        says = any(word in note for word in SAID for note in plan.notes)
        self.said = self.said or says or self.backups.get(plan.goal.backup, False)
        self._look()

    def _look(self) -> None:
        if self.world.state is not LaneState.RUNNING:
            return
        self.figures.running += 1
        if self.world.equal():
            self.said = False
        elif self.said:
            self.figures.said += 1
        else:
            self.figures.wrong.append("\n".join(self.acts))

    def _goal(self, kind: str) -> Goal:
        some = tuple(name for name in self.world.names if self.draw.random() < 0.5)
        dns = some if self.draw.random() < 0.4 else ()
        if kind == "undo" and self.backups:
            backup = self.draw.choice(list(self.backups)[-3:])
            return Goal(TargetKind.BACKUP, backup=backup, dns=dns if self.draw.random() < 0.3 else ())
        if kind == "snapshot":
            return Goal(TargetKind.SNAPSHOT)
        if kind == "time":
            return Goal(TargetKind.TIME, at=self.world.time(self.draw), dns=dns)
        if kind in ("point", "undo"):
            return Goal(TargetKind.POINT, (("*", self.world.point(self.draw)),), dns=dns)
        return Goal(TargetKind(kind), dns=dns)
