"""A real job (tasks in threads) whose DN fails waits ten minutes for its next retry, or less after a command."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import LaneReport
from tests.support.local_driver import LOCAL
from tests.support.printed import typed
from tests.support.product import Mirrored, Product
from tests.support.waiting import until

SOON = 20.0
"""Seconds after which an immediate retry has to be done, which would otherwise wait ten minutes."""
pytestmark = pytest.mark.slow


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    made = Product(tmp_path / "product", rows=500, chunk=500)
    yield made
    made.close()


def waiting(product: Product, **retry: object) -> Mirrored:
    """A job with these long waits."""
    job = product.job("waiting")
    text = job.config.read_text(encoding="utf-8")
    keys = "".join(f"{key} = {json.dumps(value)}\n" for key, value in retry.items())
    job.config.write_text(f"{text}\n[jobs.waiting.retry]\n{keys}", encoding="utf-8")
    job.launch = LOCAL
    return job


def lane_of(job: Mirrored, dn: str) -> LaneReport | None:
    report = job.view().report
    return next((one for one in report.lanes if one.shard == dn), None) if report is not None else None


def retried(job: Mirrored, capfd: pytest.CaptureFixture[str], *more: str) -> tuple[int, str, str]:
    return typed(capfd, "--config", str(job.config), "jobs", "retry", job.name, *more)


def test_a_lane_that_waits_ten_minutes_resumes_at_the_first_question_once_its_dn_is_back(
    product: Product, capfd: pytest.CaptureFixture[str]
) -> None:
    job = waiting(product, wait_initial="10m", wait_max="10m")
    job.start()
    job.wait_state(JobState.RUNNING)
    product.write(rate=60.0)
    product.warehouse.dn_down("dn_2")

    def waits() -> bool:
        lane = lane_of(job, "dn_2")
        return lane is not None and lane.activity == "waiting" and "next in 5" in lane.retry

    until(waits, 60, "dn_2 waits ten minutes")
    product.quiet()
    product.warehouse.dn_down(None)
    asked = time.monotonic()
    code, out, err = retried(job, capfd, "--json")
    found = json.loads(out)
    assert code == 0 and "dn_2" in found["tried"], (out, err)
    job.wait_applied(job.expected(), SOON)
    took = time.monotonic() - asked
    print(f"tried, and everything applied, {took:.1f} s after it was asked for")
    assert took <= SOON
    until(lambda: (lane := lane_of(job, "dn_2")) is not None and not lane.retry, SOON, "nothing is retried")
    job.wait_equal()


def test_a_refused_login_is_not_tried_early_and_the_refusal_says_why(
    product: Product, capfd: pytest.CaptureFixture[str]
) -> None:
    job = waiting(product, wait_initial="10m", wait_max="10m")
    text = job.config.read_text(encoding="utf-8")
    head, sink, rest = text.partition("[sinks.")
    assert sink
    job.config.write_text(head + sink + rest.replace("user = ", 'user = "nobody_here" # ', 1), encoding="utf-8")
    job.start_again()
    until(lambda: "retrying 1, next in" in str(job.view().report), 60, "its second try is due later")
    code, out, err = retried(job, capfd)
    print(err)
    assert (code, out, "waiting for a new secret" in err) == (3, "", True), (out, err)
    assert job.view().state is JobState.PENDING
