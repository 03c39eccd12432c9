"""One program text in each Spark series of docs/dataframes.md: a table, a range, a stream whose Pythons are killed.

Each version is installed once under `.cache/spark`, beside the packages of this environment, which it overrides.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pyspark
import pytest

from slotkeeper.core.dataframe.reader.faults import BATCH, WHOLE
from tests.support.frames import JOB
from tests.support.report import Page
from tests.support.sides import TABLE, Side, side_of, texts
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1500)]
ROOT = Path(__file__).parents[2]
VERSIONS = {"4.0": "4.0.5", "4.1": "4.1.4", "4.2": "4.2.1", "4.3": "4.3.0"}
"""The newest release of each series."""
KILLS = 30
KINDS = ("dws", "mysql", "hologres")


@pytest.fixture(scope="module")
def page() -> Page:
    about = "Kills are of Spark's Python processes, at random, between writes. Equal: target and source at the end."
    columns = ("Spark", "source", "rows", "a stream", "kills", "failures", "equal", "seconds")
    return Page("spark-versions", "Spark versions", about, columns)


def environment(series: str) -> dict[str, str]:
    """The variables with which a Python imports this version, installed if it is missing."""
    version = VERSIONS[series]
    if version == pyspark.__version__:
        return dict(os.environ)
    place = ROOT / ".cache" / "spark" / version
    if not (place / "pyspark" / "version.py").exists():
        part = place.with_name(f"{version}.part")
        shutil.rmtree(part, ignore_errors=True)
        uv = shutil.which("uv")
        pip = [uv, "pip", "install", "--python", sys.executable] if uv else [sys.executable, "-m", "pip", "install"]
        more = {"DIST_EXTRA_CONFIG": str(Path(sys.prefix, "build.cfg"))}  # as in the Makefile: its jars do not shrink
        words = [*pip, "-q", "--target", str(part), f"pyspark=={version}"]
        subprocess.run(words, check=True, env=os.environ | more, timeout=900)
        part.rename(place)
    return os.environ | {"PYTHONPATH": f"{place}{os.pathsep}{ROOT}"}


class Program:
    """The program of `frame_version` as a process, and what it has printed."""

    def __init__(self, series: str, config: Path, folder: Path) -> None:
        self.log = folder / "log"
        words = [sys.executable, "-m", "tests.support.frame_version", str(config), JOB, str(folder)]
        with self.log.open("wb") as log, (folder / "errors").open("wb") as errors:
            self.started = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=log, stderr=errors, cwd=ROOT, env=environment(series)
            )
        self.errors = folder / "errors"

    def said(self, fact: str) -> list[list[str]]:
        """The words after each `fact`, in the order of its lines."""
        lines = [line.split() for line in self.log.read_text("utf-8", "replace").splitlines()]
        return [line[1:] for line in lines if line[:1] == [fact]]

    def wait(self, fact: str, count: int = 1) -> list[list[str]]:
        def there() -> bool:
            assert len(self.said(fact)) >= count or self.started.poll() is None, self.whole()
            return len(self.said(fact)) >= count

        until(there, 300, f"the program to print {fact}")
        return self.said(fact)

    def ask(self, line: str) -> None:
        assert self.started.stdin is not None
        self.started.stdin.write(f"{line}\n".encode())
        self.started.stdin.flush()

    def whole(self) -> str:
        return self.log.read_text("utf-8", "replace")[-3000:] + self.errors.read_text("utf-8", "replace")[-2000:]

    def pythons(self) -> list[psutil.Process]:
        """The Pythons of Spark: those of tasks, of the source and of the sink."""
        with suppress(psutil.Error):
            below = psutil.Process(self.started.pid).children(recursive=True)
            return [one for one in below if any("pyspark" in word for word in one.cmdline()) and "python" in one.name()]
        return []

    def end(self) -> None:
        below = psutil.Process(self.started.pid).children(recursive=True) if self.started.poll() is None else []
        self.started.kill()
        assert self.started.stdin is not None
        self.started.stdin.close()
        for one in below:
            with suppress(psutil.Error):
                one.kill()
        self.started.wait(30)


def ranged(series: str, side: Side) -> bool:
    """Whether a range is read: its slot has to exist, and a stream that copies the table makes its own."""
    return series in BATCH and side.job.source_kind == "dws"


@pytest.fixture(params=[(series, kind) for kind in KINDS for series in VERSIONS], ids="-".join)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, Side, Program]]:
    series, kind = request.param
    side = side_of(request, kind)
    side.write(*((key, key) for key in range(5)))
    if ranged(series, side):
        side.mirror.query(
            side.mirror.warehouse.connect,
            f"SELECT count(*) FROM pgxc_register_full_sync_point('{TABLE}', 'frames_slot')",
        )
        side.write((7, 7), (7, None))
    program = Program(series, side.configured(tmp_path / "c", JOB), tmp_path)
    yield series, side, program
    program.end()


def test_a_version_reads_tables_and_streams_exactly_once_or_refuses_streams_by_one_line(
    run: tuple[str, Side, Program], page: Page, seed: int
) -> None:
    (series, side, program), chance, begun = run, random.Random(seed), time.monotonic()
    assert program.wait("version") == [[VERSIONS[series]]]
    assert program.wait("rows") == [["5", "2"]]
    program.ask("range" if ranged(series, side) else "no range")
    if ranged(series, side):
        assert program.wait("changes") == [["2", "2"]]
    if series in BATCH:
        ((*why,),) = program.wait("failed")
        what = f"pyspark {VERSIONS[series]} runs spark.read only, no stream of changes and no writer"
        assert f"{what}; action: install pyspark {' or '.join(WHOLE)}" in " ".join(why)
        assert program.started.wait(60) == 0, program.whole()
        page.add(VERSIONS[series], side.job.source_kind, True, "refused", 0, 0, "", time.monotonic() - begun)
        return
    program.wait("started")
    until(lambda: texts(side.source()) == texts(side.target()), 200, "the copy")
    for _ in range(KILLS):
        side.write(*((chance.randrange(30), chance.choice((None, chance.randrange(99)))) for _ in range(8)))
        if chance.random() < 0.4:
            until(lambda: texts(side.source()) == texts(side.target()), 300, "a batch after the last kill")
        if there := program.pythons():
            with suppress(psutil.Error):
                chance.choice(there).kill()
    until(lambda: texts(side.source()) == texts(side.target()), 300, "source and target to be equal")
    program.ask("stop")
    ((failed,),) = program.wait("done")
    assert program.started.wait(60) == 0, program.whole()
    page.add(VERSIONS[series], side.job.source_kind, True, True, KILLS, failed, True, time.monotonic() - begun)


@pytest.mark.parametrize("series", WHOLE)
def test_a_version_with_streams_calls_a_source_in_the_order_that_registering_needs(
    series: str, page: Page, tmp_path: Path
) -> None:
    begun = time.monotonic()
    words = ["tests/spark/test_source_calls.py", "-q", "-n", "0", "-p", "no:cacheprovider", "--basetemp"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path / "p")],
        check=False,
        cwd=ROOT,
        env=environment(series),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    page.add(VERSIONS[series], "a recorder of calls", "", True, 0, 0, "", time.monotonic() - begun)
