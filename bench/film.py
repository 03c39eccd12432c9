"""The animation of README.md: the console names a lock and the session that holds it; a slot is reset and the reset
undone.

It is recorded from a real run: the screens are as the console drew them; only their durations are set here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import pictures
from bench.__main__ import say
from bench.snapshots import USUAL, Look, console_of, names_of, slotkeeper
from bench.tmux import Tmux
from slotkeeper.core.domain.job import JobState
from slotkeeper.demo.incidents import play
from slotkeeper.demo.incidents.registry import INCIDENTS
from slotkeeper.demo.run import JOB, Demo

KEY_SECONDS, TYPED_SECONDS = 0.5, 0.15
LOCK = next(one for one in INCIDENTS if "lock_waits" in one.signal.rules)
REASON = "INC-4711 wrong filter"
NUMBER = "the number that is asked for"
_ASKED = re.compile(r"type (\d+) to confirm")


@dataclass(frozen=True, slots=True)
class Scene:
    """Keys, with tmux's names; words to type; strings to wait for; seconds for which the result is shown."""

    keys: tuple[str, ...] = ()
    words: str = ""
    waits: tuple[str, ...] = ()
    seconds: float = 2.0


WELL = (Scene(waits=("No problems", JOB), seconds=2.0),)
LOCKED = (
    Scene(waits=("locked by pid", "Impact "), seconds=4.0),
    Scene(("L",), waits=("Waiting and blocking ", "nightly_report"), seconds=4.0),
    Scene(("Escape",), waits=("[1 ",), seconds=1.0),
)
RELEASED = (Scene(waits=("No problems",), seconds=2.0),)
RESET = (
    Scene(("3",), waits=("[3 ", JOB), seconds=2.0),
    Scene(("/",), JOB, waits=(f"filter {JOB}",), seconds=0.5),
    Scene(("Enter",), waits=("1 of 1",), seconds=1.0),
    Scene((":",), f"rw {REASON}", waits=(f"rw {REASON}",), seconds=0.5),
    Scene(("Enter",), waits=(" WRITE ",), seconds=1.5),
    Scene(("a",), waits=("reset",), seconds=1.5),
    Scene(("r",), waits=("earliest", "snapshot"), seconds=2.0),
    Scene(("e",), waits=("1 Plan", "10 of 10"), seconds=5.0),
    Scene(("Enter",), waits=("You are about to", REASON), seconds=2.5),
    Scene(words=JOB, waits=("all fields are complete",), seconds=1.5),
    Scene(("Enter", "Enter"), waits=("done: reset to earliest",), seconds=4.0),
)
UNDONE = (
    Scene(("u",), waits=("1 Plan", " of "), seconds=3.0),
    Scene(("Enter",), waits=("You are about to", REASON), seconds=3.0),
    Scene(words=NUMBER, waits=("all fields are complete",), seconds=1.5),
    Scene(("Enter", "Enter"), waits=("done: ",), seconds=4.0),
)


def take(run: Demo, place: Path) -> None:
    """Record the animation, and write it."""
    frames: list[tuple[str, float]] = []
    names, world = names_of(run), run.world()
    with console_of(run, USUAL, Look.DARK) as tmux:

        def film(scenes: Sequence[Scene]) -> None:
            for screen, seconds in _seen(tmux, scenes):
                shown = pictures.renamed(screen, names)
                if frames and frames[-1][0] == shown:
                    frames[-1] = shown, frames[-1][1] + seconds
                else:
                    frames.append((shown, seconds))

        film(WELL)
        try:
            play.make(world, LOCK)
            film(LOCKED)
        finally:
            world.opened.close()
        film(RELEASED)
        slotkeeper(run, "jobs", "stop", JOB)
        run.wait_for(lambda: run.view().state is JobState.STOPPED)
        film(RESET)
        film(UNDONE)
    place.write_text(pictures.svg(frames, USUAL, "A lock is named; a slot is reset, and the reset undone"), "utf-8")
    say(f"{place.name}: {len(frames)} screens, {place.stat().st_size / 1024:.0f} KiB")


def _seen(tmux: Tmux, scenes: Sequence[Scene]) -> Iterator[tuple[str, float]]:
    """Yield the screens and their durations: a moment for each key, and for each word while it is typed."""
    for scene in scenes:
        for key in scene.keys:
            tmux.send(key)
            tmux.still(3.0)
            yield tmux.coloured(), KEY_SECONDS
        asked = _ASKED.search(tmux.text()) if scene.words == NUMBER else None
        words = asked[1] if asked is not None else scene.words
        for word in re.findall(r"\S+ ?", words):
            tmux.send("-l", word)
            tmux.still(2.0)
            yield tmux.coloured(), TYPED_SECONDS
        tmux.shows(*scene.waits)
        tmux.still(3.0)
        yield tmux.coloured(), scene.seconds
