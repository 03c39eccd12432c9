"""The first line names the current culprit and its own action, for single incidents and for two at once.

The expected results are written down in `tests.support.culprits` before anything runs. Each scene is a supervised job
without Spark; the judgement is sampled once a second from the scene's start until its fix, and its actions are carried
out as printed until no fault is left. The table of a run is written to reports/first-line-<date>.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from slotkeeper.demo.incidents import play
from slotkeeper.demo.incidents.record import VERIFY, Incident, World
from slotkeeper.demo.incidents.registry import named
from tests.support.culprits import SINGLES, Scene, borrowed, drawn
from tests.support.first_line import SETTLES, Doer, Sample, Sampling, Tally
from tests.support.printed import bare
from tests.support.provoked import AT_CONNECTIONS, AT_MARIADB, AT_POSTGRES, IN_QUARANTINE, OF_ROWS, Provoked
from tests.support.report import Page
from tests.support.scenes import NOT_TO_BE_HAD, MakeWorld, alerts_soon, manual_acts

SHARE = 0.95
"""The minimum share of a scene's samples that name the current culprit first."""
PAIRS, IN_MAKE_TEST = 40, (3, 3)
STAYS = 6.0
"""Seconds after which a fault has to be named; samples count from then on."""
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


def merged(scene: Scene) -> Incident:
    """Return the setup that the world of a scene needs from its start."""
    incidents = [named(name) for name in scene.names]
    options = {key: value for one in incidents for key, value in one.options.items()}
    return replace(incidents[0], options=options, small_disk=any(one.small_disk for one in incidents))


class Stage:
    """Plays a scene in its world and counts what is reported meanwhile."""

    def __init__(self, scene: Scene, made: World, sampling: Sampling) -> None:
        self.scene, self.made, self.sampling = scene, made, sampling
        self.tally = Tally()
        self.passed = False
        """Whether the last fault was named, and can end before the first sample that counts."""
        self.acts = {name: manual_acts(named(name), made) for name in scene.names}

    def play(self) -> None:
        """Make each incident once the one before it is reported and has stayed reported; count the samples of that
        time.
        """
        for number, name in enumerate(self.scene.names, 1):
            incident = named(name)
            play.make(self.made, incident)
            if incident.signal.why:  # no party can report it before a check is run
                self.made.begins()
                play.run(self.made, VERIFY)
            began = self.made.began.timestamp() - (time.time() - time.monotonic())
            start = began + SINGLES[name].late + SETTLES
            expected = [SINGLES[one] for one in self.scene.expected(number)]
            self._wait(start + STAYS)
            samples = [one for one in self.sampling.samples if one.at >= began]
            self.tally.count([one for one in samples if one.at >= start], expected)
            self.passed = expected[0].passes and any(one.faults and expected[0].is_of(one.faults[0]) for one in samples)

    def comes_to_name(self, number: int) -> Sample | None:
        """Make this incident; the first sample that names the expected fault first, None if no sample does."""
        play.make(self.made, named(self.scene.names[number - 1]))
        expected = SINGLES[self.scene.expected(number)[0]]
        asked = len(self.sampling.samples)
        return self.sampling.until(lambda one: bool(one.faults) and expected.is_of(one.faults[0]), TOLD, asked)

    def _wait(self, moment: float) -> None:
        self.sampling.until(lambda one: one.at >= moment, moment - time.monotonic() + 30.0)

    def colleague(self, words: str) -> bool:
        """Carries out the manual action of a fault, as in the incident's record."""
        said = [one for one in self.sampling.samples[-1].faults if words in one.do]
        mine = [name for name in self.scene.names if any(map(SINGLES[name].is_of, said))]
        return self._does([name for name in mine or self.scene.names if name != NOT_TO_BE_HAD])

    def hidden(self, words: str) -> bool:
        """Ends the second incident if it is not reported for a job that has ended."""
        return self._does([name for name in self.scene.names if name not in self.scene.expected(len(self.scene.names))])

    def _does(self, names: Sequence[str]) -> bool:
        for acts in (self.acts[name] for name in names):
            if acts:
                while acts:
                    acts.pop(0)()
                return True
        return False


def noted(name: str, expected: str, tally: Tally, doer: Doer, page: Page, *, passed: bool = False) -> list[str]:
    """The differences of a scene; its row is added to the page. `passed`: it was named, and may have no sample."""
    done = (*doer.walk.manual_acts, *(f"`{bare(one.text)}` ({one.code})" for one in doer.walk.typed))
    lines = [f"{number} x {line}" for line, number in tally.wrong.items()]
    page.add(
        name, expected, tally.samples, tally.named, tally.calm, "<br>".join(lines) or "-",
        "<br>".join(tally.acts) or "-", "<br>".join(done) or "-", doer.left or "-",
    )  # fmt: skip
    is_told = (tally.samples > 0 or passed) and tally.named >= SHARE * tally.samples and not tally.calm
    wrong = ([] if is_told else lines or ["no sample"]) + list(tally.acts)
    return [f"{name}: {one}" for one in (*wrong, *([f"left: {doer.left}"] if doer.left else []))]


Played = Callable[[Scene], None]


@pytest.fixture
def played(make_world: MakeWorld, page: Page) -> Played:
    def play_it(scene: Scene) -> None:
        with make_world(merged(scene)) as made:
            alerts_soon(made)
            with Sampling(made) as sampling:
                stage = Stage(scene, made, sampling)
                stage.play()
                agrees = sampling.agrees()
                doer = Doer(stage.colleague, made, sampling, stage.hidden)
                doer.until_calm()
        wrong = noted(
            scene.name, ", ".join(scene.expected(len(scene.names))), stage.tally, doer, page, passed=stage.passed
        )
        assert not wrong, "\n".join(wrong)
        assert agrees, "`status --json` differs"

    return play_it


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", range(sum(IN_MAKE_TEST)))
def test_a_drawn_scene_comes_to_name_its_culprit_first_with_the_act_that_is_its_own(
    number: int, make_world: MakeWorld, seed: int
) -> None:
    scene = drawn(seed, *IN_MAKE_TEST, cheap=True)[number]
    print(f"seed {seed}: {scene.name}")
    with make_world(merged(scene)) as made, Sampling(made) as sampling:
        stage = Stage(scene, made, sampling)
        for count in range(1, len(scene.names) + 1):
            found = stage.comes_to_name(count)
            expected = SINGLES[scene.expected(count)[0]]
            assert found is not None, (scene.expected(count), sampling.samples[-1].first)
            assert expected.has_act(found.faults[0]), found.faults[0].do
            assert not [one for one in found.faults if borrowed(one)], found.faults


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


class Provocation:
    """One code in a world that several codes share: provoked, counted, and ended by its own action."""

    def __init__(self, one: Provoked, made: World, sampling: Sampling) -> None:
        self.one, self.made, self.sampling = one, made, sampling
        self.tally = Tally()
        self.cured = False

    def play(self) -> Doer:
        """The doer of the actions; its `left` is the fault that they did not end."""
        self.one.make(self.made)
        start = time.monotonic() + self.one.culprit.late + SETTLES
        self.sampling.until(lambda sample: sample.at >= start + STAYS, SETTLES + STAYS + 40.0)
        self.tally.count([sample for sample in self.sampling.samples if sample.at >= start], [self.one.culprit])
        doer = Doer(self._cure, self.made, self.sampling)
        if self.one.looks:
            doer.do_first()
            self._cure("")
        doer.until_calm(still=30.0)
        if not self.cured:
            self.one.cure(self.made)
        return doer

    def _cure(self, _words: str) -> bool:
        if self.cured:
            return False
        self.one.cure(self.made)
        self.cured = True
        return True


@pytest.mark.chaos
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize(
    ("codes", "of"),
    [
        pytest.param(AT_POSTGRES, "sink-deadlock", id="postgresql"),
        pytest.param(OF_ROWS, "sink-deadlock", id="rows"),
        pytest.param(IN_QUARANTINE, "poison-row", id="quarantine"),
        pytest.param(AT_CONNECTIONS, "sink-deadlock", id="connections"),
        pytest.param(AT_MARIADB, "binlogs-purged", id="mariadb"),
    ],
)
def test_a_servers_code_is_named_first_and_ends_by_its_own_act(
    codes: Sequence[Provoked], of: str, make_world: MakeWorld, page: Page
) -> None:
    wrong: list[str] = []
    with make_world(named(of)) as made, Sampling(made) as samples:
        for one in codes:
            provocation = Provocation(one, made, samples)
            doer = provocation.play()
            name = f"{one.name} ({one.by})" if one.by else one.name
            wrong += noted(name, one.culprit.code, provocation.tally, doer, page)
    assert not wrong, "\n".join(wrong)
