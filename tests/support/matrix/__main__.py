"""The chaos matrix: each victim is harmed in each phase of one running job; what happens is judged and reported.

    python -m tests.support.matrix --seed 1 --victims driver,host --phases stream,copy --runner local

Each cell ends equal, without a person or after the printed remedies of a named error were typed. Anything else is a
finding: the run then prints it, makes a new product, and continues.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from tests.support.matrix import phases
from tests.support.matrix.phases import POINTS, Moment
from tests.support.matrix.victims import VICTIMS
from tests.support.matrix.world import JOB, World
from tests.support.memory import memory_disk
from tests.support.report import Page

PHASES = ("idle", "stream", *POINTS)
NOT_APPLICABLE: dict[tuple[str, str], str] = {
    **{
        ("console", phase): "the console only reads; nothing of this phase depends on it"
        for phase in PHASES
        if phase not in ("idle", "stream", "reset")
    },
    **{
        ("failover to an older copy", phase): "the older copy is from before the phase, whichever point it has reached"
        for phase in ("after commit", "half registered")
    },
}


@dataclass(frozen=True, slots=True)
class Cell:
    """The result of one cell."""

    victim: str
    phase: str
    seed: str
    outcome: str
    seconds: float | None
    equal: bool | None
    note: str = ""

    @property
    def safe(self) -> bool:
        return bool(self.equal)


def why_not(victim: str, phase: str, runner: str, root: bool) -> str:
    """Why a cell does not apply; "" if it does.

    >>> why_not("JVM", "idle", "local", True), why_not("driver", "idle", "local", True)
    ('tasks run in threads, without Spark', '')
    """
    one = VICTIMS[victim]
    if one.spark and runner != "spark":
        return "tasks run in threads, without Spark"
    if one.root and not root:
        return "only root can mount a small disk"
    return NOT_APPLICABLE.get((victim, phase), "")


class Run:
    """One matrix; a new world is made after each cell that has failed."""

    def __init__(self, folder: Path, runner: str, seed: int, log: Path) -> None:
        self.folder, self.runner, self.seed, self.log = folder, runner, seed, log
        self.cells: list[Cell] = []
        self._world: World | None = None
        self._worlds = 0

    def world(self) -> World:
        if self._world is None:
            self._worlds += 1
            made = World(self.folder / f"w{self._worlds}" / "p", self.runner, self.seed, self.log)
            self._world = made
            made.must("jobs", "start", JOB, "--wait", "5m")
            made.settle(person=False)
            made.refuse_differences()
        return self._world

    def close(self) -> None:
        world, self._world = self._world, None
        if world is not None:
            try:
                phases.closed(world)
                world.load.quiet()
            finally:
                world.close()

    def play(self, victim: str, phase: str) -> Cell:
        seed = f"{self.seed}/{victim}/{phase}"
        try:
            cell = self._played(victim, phase, seed)
        except Exception as error:
            print("".join(traceback.format_exception(error)), file=sys.stderr, flush=True)
            cell = Cell(victim, phase, seed, f"FINDING: {' '.join(str(error).split())[:200]}", None, False)
            self._given_up()
        self.cells.append(cell)
        return cell

    def _given_up(self) -> None:
        try:
            self.close()
        except Exception as error:
            print(f"the end of the world: {error!r}", file=sys.stderr, flush=True)

    def _played(self, victim: str, phase: str, seed: str) -> Cell:
        world, draw = self.world(), random.Random(seed)
        one = VICTIMS[victim]
        world.troubles.clear()
        world.say(f"{victim} x {phase} ...")
        one.before(world)
        moment: Moment = phases.enter(world, phase, draw)
        delivered = draw.random() < 0.5
        drawn = one.harm(world, moment, draw)
        began = time.monotonic()
        if moment.stop is not None:
            moment.stop.release(delivered or not _breaks(victim))
            world.gate(moment.stop.point.side).pass_all()
            drawn += ", what waited " + ("arrived" if delivered or not _breaks(victim) else "was lost")
        moment.leave()
        world.load.start()
        world.settle(person=True)
        seconds = time.monotonic() - began
        world.load.quiet()
        world.settle(person=True)
        world.refuse_differences()
        refused = [*moment.refused, *world.troubles]
        outcome = f"refused: {', '.join(sorted(set(refused)))}" if refused else "recovered"
        world.say(f"{victim} x {phase} ({drawn}): {outcome}, {seconds:.1f} s")
        return Cell(victim, phase, seed, outcome, seconds, True, drawn)


def _breaks(victim: str) -> bool:
    """Whether what was on its way can be lost with the victim."""
    return victim not in ("console", "supervisor", "frozen tree", "slow", "disk full", "clock step")


def summary(cells: list[Cell]) -> str:
    """The shares of applicable cells that were safe, and that recovered without a person."""
    done = [cell for cell in cells if cell.outcome != "not applicable"]
    if not done:
        return "no applicable cell"
    safe = sum(cell.safe for cell in done)
    alone = sum(cell.outcome == "recovered" for cell in done)
    times = sorted(cell.seconds for cell in done if cell.seconds is not None)
    longest = f", median {times[len(times) // 2]:.1f} s, longest {times[-1]:.1f} s" if times else ""
    return (
        f"{len(done)} applicable cells: {safe} safe ({safe / len(done):.0%}), {alone} recovered without a person"
        f" ({alone / len(done):.0%}){longest}"
    )


def _chosen(asked: str, known: list[str]) -> list[str]:
    """The names of a list, in their order; all for an empty one. Each word of the list can be a part of a name."""
    words = [word.strip() for word in asked.split(",") if word.strip()]
    unknown = [word for word in words if not any(word in name for name in known)]
    if unknown:
        raise SystemExit(f"matrix: unknown name {unknown[0]!r} (known: {', '.join(known)})")
    return [name for name in known if not words or any(word in name for word in words)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make matrix ARGS=...", description="the chaos matrix")
    parser.add_argument("--victims", default="", help="names, separated by commas; default all")
    parser.add_argument("--phases", default="", help="names, separated by commas; default all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runner", choices=("spark", "local"), default="spark")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    victims, moments = _chosen(asked.victims, list(VICTIMS)), _chosen(asked.phases, list(PHASES))
    about = "One job of two tables and a view; source: stand-in for DWS, sink: PostgreSQL. Runner: " + asked.runner
    page = Page("matrix", "The chaos matrix", about, ("victim", "phase", "seed", "outcome", "seconds", "equal"))
    cells = [(victim, phase) for phase in moments for victim in victims]
    reasons = {cell: why_not(*cell, asked.runner, os.geteuid() == 0) for cell in cells}
    for (victim, phase), why in reasons.items():
        if why:
            print(f"not applicable: {victim} x {phase}: {why}", flush=True)
            page.add(victim, phase, "-", f"not applicable: {why}", "-", "-")
    print(f"seed {asked.seed}, runner {asked.runner}, {sum(not why for why in reasons.values())} cells", flush=True)
    with tempfile.TemporaryDirectory(dir=memory_disk(with_programs=True), prefix="slotkeeper-matrix-") as place:
        run = Run(Path(place), asked.runner, asked.seed, page.file.with_suffix(".log"))
        try:
            for victim, phase in (cell for cell in cells if not reasons[cell]):
                cell = run.play(victim, phase)
                page.about = f"{about}. {summary(run.cells)}."
                seconds = "-" if cell.seconds is None else f"{cell.seconds:.1f}"
                page.add(victim, phase, cell.seed, cell.outcome, seconds, bool(cell.equal))
        finally:
            run.close()
    print(summary(run.cells), flush=True)
    return 0 if all(cell.safe for cell in run.cells) else 1


if __name__ == "__main__":
    sys.exit(main())
