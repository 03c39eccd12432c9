"""The first line names the present culprit, with the act that is its own: incidents alone, and two at once.

What is expected is written down in `tests.support.culprits` before anything runs. Each scene is a supervised job
without Spark; the judgement is sampled once a second from the scene's begin until its cure, and its acts are done as
they are printed until no fault is left. The table of a run is docs/reports/first-line-<date>.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from slotkeeper.demo.incidents import play
from slotkeeper.demo.incidents.record import VERIFY, AtSink, ByHand, Incident, World
from slotkeeper.demo.incidents.registry import named
from slotkeeper.demo.warehouse import Warehouse
from tests.support.culprits import SINGLES, Scene, drawn
from tests.support.first_line import ALERTS, SETTLES, Doer, Sampling, Tally
from tests.support.nights import world
from tests.support.report import Page

SHARE = 0.95
"""Of all samples of a run: those that name the present culprit first."""
PAIRS, IN_MAKE_TEST = 40, (3, 3)
STAYS = 6.0
"""Seconds of samples after a fault has to be named."""
TOLD = 60.0


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(
        "first-line",
        "The first line: whose fault, and which act",
        "Scenes over a real job (tasks in threads) and the stand-in on PostgreSQL, the judgement sampled once a second."
        " Samples count from 5 s after a fault has begun. Expected is what was written down before the run, the first"
        " before the others.",
        ("scene", "expected", "samples", "named", "calm", "wrong first lines", "wrong acts", "acts done", "left"),
    )


Total = dict[str, int]


@pytest.fixture(scope="module")
def total() -> Total:
    """Samples and named ones of all scenes of a run."""
    return {"samples": 0, "named": 0}


def merged(scene: Scene) -> Incident:
    """What the world of a scene has to have from the start on."""
    incidents = [named(name) for name in scene.names]
    options = {key: value for one in incidents for key, value in one.options.items()}
    return replace(incidents[0], options=options, small_disk=any(one.small_disk for one in incidents))


class Stage:
    """A scene in its world: plays it, and counts what is said meanwhile."""

    def __init__(self, scene: Scene, made: World, sampling: Sampling) -> None:
        self.scene, self.made, self.sampling = scene, made, sampling
        self.tally = Tally()
        self.acts = {name: _acts(named(name), made) for name in scene.names}

    def play(self) -> None:
        """Make each once the one before is told and has stayed so, and count the samples of that time."""
        for number, name in enumerate(self.scene.names, 1):
            incident = named(name)
            play.make(self.made, incident)
            if incident.signal.why:  # nobody can tell before it is asked
                self.made.begins()
                play.run(self.made, VERIFY)
            began = self.made.began.timestamp() - (time.time() - time.monotonic())
            start = began + SINGLES[name].late + SETTLES
            expected = [SINGLES[one] for one in self.scene.expected(number)]
            self._wait(start + STAYS)
            self.tally.count([one for one in self.sampling.samples if one.at >= start], expected)

    def _wait(self, moment: float) -> None:
        self.sampling.until(lambda one: one.at >= moment, moment - time.monotonic() + 30.0)

    def colleague(self, words: str) -> bool:
        """Does by hand what belongs to the fault that is first now: the incident's record has it."""
        now = self.sampling.samples[-1]
        names = sorted(self.scene.names, key=lambda name: not (now.faults and SINGLES[name].is_of(now.faults[0])))
        for name in names:
            if name == "sink-deadlock":  # whoever holds the lock cannot be had
                continue
            acts = self.acts[name]
            if acts:
                for act in acts:
                    act()
                acts.clear()
                return True
        return False


def _acts(incident: Incident, made: World) -> list[Callable[[], object]]:
    return [
        partial(made.at_sink, step.text) if isinstance(step, AtSink) else partial(step.act, made)
        for step in incident.cure
        if isinstance(step, AtSink | ByHand)
    ]


Played = Callable[[Scene], None]


@pytest.fixture
def played(
    warehouse: Warehouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seed: int,
    page: Page,
    total: Total,
) -> Iterator[Played]:
    def play_it(scene: Scene) -> None:
        if merged(scene).small_disk and os.geteuid():
            pytest.skip("only root can mount a small disk")
        with world(merged(scene), warehouse, tmp_path, monkeypatch, capsys, seed) as made:
            text = made.config.read_text(encoding="utf-8")  # a demo on a small disk has [alerts], the last table
            made.config.write_text(text.partition("\n[alerts]\n")[0] + ALERTS, encoding="utf-8")
            with Sampling(made) as sampling:
                stage = Stage(scene, made, sampling)
                stage.play()
                agrees = sampling.agrees()
                doer = Doer(stage.colleague, made, sampling)
                left = doer.until_calm()
        tally = stage.tally
        total["samples"] += tally.samples
        total["named"] += tally.named
        page.add(
            scene.name, ", ".join(scene.expected(len(scene.names))), tally.samples, tally.named, tally.calm,
            "<br>".join(f"{number} x {line}" for line, number in tally.wrong.items()) or "-",
            "<br>".join(tally.acts) or "-",
            "<br>".join((*doer.walk.by_hand, *(f"`{one.text}` ({one.code})" for one in doer.walk.typed))) or "-",
            left or "-",
        )  # fmt: skip
        assert not tally.calm, tally.wrong
        assert not tally.acts, list(tally.acts)
        assert not left, (left, doer.walk)
        assert agrees, "`status --json` says something else"
        assert tally.named >= SHARE * tally.samples, tally.wrong

    yield play_it


@pytest.mark.chaos
@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", list(SINGLES))
def test_an_incident_is_named_first_and_ends_by_its_own_act(name: str, played: Played) -> None:
    played(Scene((name,)))


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", range(PAIRS))
def test_of_two_incidents_the_one_that_the_order_puts_first_is_named(number: int, played: Played, seed: int) -> None:
    scene = drawn(seed, 0, PAIRS)[number]
    print(f"seed {seed}: {scene.name}")
    played(scene)
