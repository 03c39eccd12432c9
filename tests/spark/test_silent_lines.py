"""The product over connections that go silent: the job reports it within ten seconds, and a stop takes at most ten."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from tests.support.product import Mirrored, Product
from tests.support.proxy import Line, Proxy, proxy
from tests.support.report import Page
from tests.support.waiting import until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.chaos]
SAID_WITHIN = 10.0
STOPPED_WITHIN = 10.0
SIDES = ["source", "sink"]


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory, spark_cache: Path, seed: int) -> Iterator[Product]:
    """Servers with 20,000 rows that all tests of this module share; the copy has many small chunks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(spark_cache))
        made = Product(tmp_path_factory.mktemp("product") / "p", rows=20_000, seed=seed, chunk=250)
        yield made
        made.close()


@pytest.fixture(scope="module")
def page() -> Page:
    about = (
        "The line to one server goes silent while a job is in a phase: nothing comes through either way, no line ends,"
        " and new ones are accepted. Seconds until `jobs show` names that side, and of `jobs stop` from then on."
    )
    columns = ("phase", "silent", "said after seconds", "stopped after seconds")
    return Page("silent-jobs", "Jobs on Spark whose server goes silent", about, columns)


@pytest.fixture
def lines(product: Product) -> Iterator[dict[str, Proxy]]:
    """The proxies between a test's jobs and their servers, by side."""
    with proxy(product.warehouse.server.port) as source, proxy(product.sink.port) as sink:
        yield {"source": source, "sink": sink}
        product.quiet()
        for job in product.jobs:
            job.end()
            job.drop_slot()
        product.warehouse.purge()


def job_over(product: Product, lines: dict[str, Proxy], name: str) -> Mirrored:
    made = product.job(name)
    text = made.config.read_text("utf-8")
    for side, port in (("sources", lines["source"].port), ("sinks", lines["sink"].port)):
        text = re.sub(rf'(\[{side}\.[^\]]+\](?:\n(?!\[).*)*?\nhost = )"[^"]*"', r'\1"127.0.0.1"', text)
        text = re.sub(rf"(\[{side}\.[^\]]+\](?:\n(?!\[).*)*?\nport = )\d+", rf"\g<1>{port}", text)
    made.config.write_text(text, "utf-8")
    return made


def says(job: Mirrored, side: str) -> bool:
    """Whether `jobs show` would name the side that does not answer, or whose connection ends."""
    return re.search(rf"\b{side} \S+ \(.*(does not answer|closed|reset|refused)", job.view().reason) is not None


def said_after(job: Mirrored, side: str) -> float:
    """Return the seconds until it is reported."""
    began = time.monotonic()
    until(lambda: says(job, side), SAID_WITHIN, f"{side} to be named, not: {job.view().reason}")
    return time.monotonic() - began


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("phase", ["idle", "streaming", "copying", "paused"])
def test_a_line_that_goes_silent_is_said_and_a_stop_is_obeyed(
    product: Product, lines: dict[str, Proxy], page: Page, side: str, phase: str
) -> None:
    job = job_over(product, lines, f"silent_{phase}_{side}").start()
    if phase in ("streaming", "copying"):
        product.write(300.0)
    if phase == "copying":
        job.wait_copying(0.05)
    else:
        job.wait_state(JobState.RUNNING)
    if phase == "paused":
        job.pause()
    lines[side].set(Line.BLACK_HOLE)
    said = said_after(job, side)
    stopped = job.stop()
    page.add(phase, side, said, stopped)
    assert said < SAID_WITHIN
    assert stopped < STOPPED_WITHIN
    assert job.left() == []
    lines[side].set(Line.THROUGH)
    job.start_again()
    product.quiet()
    job.wait_equal()
    assert job.stop() < STOPPED_WITHIN


@pytest.mark.parametrize("side", SIDES)
def test_a_job_that_starts_before_a_silent_server_says_so_and_a_stop_is_obeyed(
    product: Product, lines: dict[str, Proxy], page: Page, side: str
) -> None:
    job = job_over(product, lines, f"silent_start_{side}")
    lines[side].set(Line.BLACK_HOLE)
    job.start_again()
    said = said_after(job, side)
    stopped = job.stop()
    page.add("start", side, said, stopped)
    assert said < SAID_WITHIN
    assert stopped < STOPPED_WITHIN
    assert job.left() == []


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("line", [Line.CUT, Line.HALF_OPEN, Line.SLOW])
def test_a_job_over_a_broken_line_says_so_and_a_stop_is_obeyed(
    product: Product, lines: dict[str, Proxy], page: Page, side: str, line: Line
) -> None:
    job = job_over(product, lines, f"{line.name.lower()}_{side}").start()
    product.write(300.0)
    job.wait_state(JobState.RUNNING)
    lines[side].set(line)
    said = 0.0 if line is Line.SLOW else said_after(job, side)
    stopped = job.stop()
    page.add(f"streaming, {line.name}", side, said or "", stopped)
    assert said < SAID_WITHIN
    assert stopped < STOPPED_WITHIN
    assert job.left() == []
    lines[side].set(Line.THROUGH)
    job.start_again()
    product.quiet()
    job.wait_equal()


@pytest.mark.parametrize("side", SIDES)
def test_a_job_continues_by_itself_once_the_connection_works_again(
    product: Product, lines: dict[str, Proxy], side: str
) -> None:
    job = job_over(product, lines, f"silent_while_{side}").start()
    product.write(300.0)
    job.wait_state(JobState.RUNNING)
    lines[side].set(Line.BLACK_HOLE)
    said_after(job, side)
    lines[side].set(Line.THROUGH)
    until(lambda: not says(job, side), 60, "the job to say no more that it waits")
    product.quiet()
    job.wait_equal()
