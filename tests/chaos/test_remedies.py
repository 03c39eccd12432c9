"""Each remedy that the console prints, done word for word by somebody who sees nothing but the screen, ends cured.

The eleven faults of `test_told_in_time` and all incidents, each made over a real job, with the console in a
terminal of 80x24: its configuration is named by --config for the eleven, by $SLOTKEEPER_CONFIG for the incidents. What
the screen calls an act by hand is done by the record's step; everything else is typed as it stands there. The table of
a run is docs/reports/remedies-<date>.md.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from slotkeeper.core.config.load import CONFIG_VARIABLE
from slotkeeper.core.domain.job import JobEvent, JobState
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo.incidents import play
from slotkeeper.demo.incidents.record import AtSink, ByHand, Incident, World
from slotkeeper.demo.incidents.registry import INCIDENTS
from slotkeeper.demo.run import JOB, SINK_DATABASE
from slotkeeper.demo.warehouse import Warehouse
from tests.chaos.test_told_in_time import ROWS, Night, Row
from tests.support.local_driver import LOCAL
from tests.support.nights import world
from tests.support.on_call import CALM, OnCall, Typed, Walk
from tests.support.product import Product
from tests.support.report import Page
from tests.support.shells import desk, shell
from tests.support.terminal import Terminal, console
from tests.support.told import Watcher
from tests.support.waiting import until

ALERTS = '\n[alerts]\ncrashes = "15s"\ndisk_free = "1m"\n'
"""A crash is told for ten minutes, and here it is waited for that it is told no more; the small disk of an incident has
less room than is usual."""
IN_MAKE_TEST = ("a colleague pauses the job",)
SHOWN = 120.0
_SHORT = re.compile(r"--config [^\s`]+")
_numbers = count(1)


def _fits_again(night: Night) -> None:
    night.product.at_sink(f"ALTER TABLE mart.{night.job.name} DROP CONSTRAINT told; SELECT 1")


OTHERS_ACTS = {"a row does not fit": _fits_again}
"""What a colleague does where the row of `test_told_in_time` has no cure."""
NOT_HIS = ("somebody locks the target",)
"""Where the colleague who is asked cannot be had, so that what the screen says instead is done."""


def _params(names: list[tuple[str, object]]) -> list[object]:
    return [
        pytest.param(one, id=name.replace(" ", "_"), marks=() if name in IN_MAKE_TEST else pytest.mark.chaos)
        for name, one in names
    ]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(
        "remedies",
        "Remedies done word for word",
        "A program that reads the console at 80x24 and nothing else, and does what the worst fault's remedy says until"
        " no fault is left; each job a real one (tasks in threads) over the stand-in on PostgreSQL.",
        ("fault", "read on the screen", "by hand", "typed", "calm after, s", "tables equal"),
    )


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    made = Product(tmp_path_factory.mktemp("remedies") / "product", rows=2_000, chunk=2_000)
    yield made
    made.close()


@pytest.fixture
def night(product: Product, row: Row) -> Iterator[Night]:
    job = product.job(f"cured_{next(_numbers)}")
    job.launch = job.launch if row.spark else LOCAL
    with job.config.open("a", encoding="utf-8") as file:
        file.write(ALERTS)
    job.start()
    job.wait_state(JobState.RUNNING)
    with ExitStack() as ends, Terminal(console(job.config, "--ascii")) as terminal:
        terminal.shows(CALM)
        product.write(rate=60.0)
        yield Night(product, job, Watcher(terminal, product.store, job.config), ends)
    product.quiet()
    job.stop()
    product.store.apply(job.name, JobEvent.CANCELLED, "over")


@pytest.mark.parametrize("row", _params([(row.name, row) for row in ROWS]))
def test_a_faults_remedy_cures_it(row: Row, night: Night, page: Page, tmp_path: Path) -> None:
    terminal, product = night.watcher.terminal, night.product

    def colleague(words: str) -> bool:
        act = OTHERS_ACTS.get(row.name, row.cure)
        if act is None or row.name in NOT_HIS:
            return False
        act(night)
        return True

    row.make(night)
    terminal.until(lambda: CALM not in terminal.screen.text, f"{row.name} to show", SHOWN)
    desks = {
        "sink": desk(product.sink, SINK_DATABASE),
        "source": desk(product.warehouse.server, product.warehouse.database),
    }
    walk = _walked(OnCall(terminal, shell(tmp_path), desks, colleague, tmp_path), row.name, page)
    product.quiet()
    until(lambda: night.job.view().state is JobState.RUNNING, 60, f"{night.job.name} to be RUNNING")
    until(lambda: night.job.compare().equal, 60, f"equal tables after {walk}")
    _told(page, row.name, walk, "yes")


@pytest.mark.parametrize("incident", _params([(one.name, one) for one in INCIDENTS]))
def test_an_incidents_remedy_cures_it(
    incident: Incident,
    warehouse: Warehouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seed: int,
    page: Page,
) -> None:
    with world(incident, warehouse, tmp_path, monkeypatch, capsys, seed) as made:
        text = made.config.read_text(encoding="utf-8")  # a demo on a small disk has [alerts], the last of its tables
        made.config.write_text(text.partition("\n[alerts]\n")[0] + ALERTS, encoding="utf-8")
        named = {CONFIG_VARIABLE: str(made.config)}  # and not by --config, as in the rows above
        with Terminal([sys.executable, "-m", "slotkeeper.console.__main__", "--ascii"], env=named) as terminal:
            terminal.shows(CALM)
            play.make(made, incident)
            play.run(made, incident.signal.command)
            terminal.until(lambda: CALM not in terminal.screen.text, f"{incident.name} to show", SHOWN)
            desks = {
                "sink": desk(made.sink, made.sink_database),
                "source": desk(warehouse.server, warehouse.database),
            }
            someone = _colleague(incident, made)
            walk = _walked(OnCall(terminal, shell(tmp_path, **named), desks, someone, tmp_path), incident.name, page)
            _running(made)
            equal = made.run(("verify", JOB))
            assert equal.code == 0, (equal, walk)
            _told(page, incident.name, walk, "yes")


def _colleague(incident: Incident, made: World) -> Callable[[str], bool]:
    """Does the record's acts, where it has some that no command of ours does."""
    acts = [step for step in incident.cure if isinstance(step, AtSink | ByHand)]

    def asked(words: str) -> bool:
        if not acts or incident.name == "sink-deadlock":  # whoever holds the lock cannot be had
            return False
        for step in acts:
            if isinstance(step, AtSink):
                made.at_sink(step.text)
            else:
                step.act(made)
        acts.clear()
        return True

    return asked


def _running(made: World) -> None:
    with Store.open(made.state) as store:
        until(lambda: observe(store, JOB).state is JobState.RUNNING, 60, "the job to be RUNNING")


def _walked(on_call: OnCall, name: str, page: Page) -> Walk:
    try:
        return on_call.until_calm()
    except AssertionError:
        _told(page, name, on_call.walk, "NOT CURED")
        raise


def _told(page: Page, name: str, walk: Walk, equal: str) -> None:
    read = "<br>".join(dict.fromkeys(walk.read))
    typed = "<br>".join(f"{_where(one)}`{one.text}` ({one.code})" for one in walk.typed)
    shown = [_SHORT.sub("--config FILE", text) for text in (read, typed or "-")]
    page.add(name, shown[0], "<br>".join(walk.by_hand) or "-", shown[1], f"{walk.seconds:.0f}", equal)


def _where(one: Typed) -> str:
    """Where it was typed, for what is not a shell."""
    return "" if one.where == "shell" else f"at the {one.where}: "
