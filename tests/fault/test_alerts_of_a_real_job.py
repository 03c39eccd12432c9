"""A hanging DN of a real job is reported to a FAKE pager without a console: once at its start and once at its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from tests.support.local_driver import LOCAL
from tests.support.pager import Pager
from tests.support.product import Product
from tests.support.waiting import until

WITHIN = 60.0
"""Seconds within which a hanging DN has to be reported."""
pytestmark = pytest.mark.chaos  # most of a minute: the test waits for the limit itself


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    made = Product(tmp_path / "product", rows=500, chunk=500)
    yield made
    made.close()


def test_a_dn_held_back_fires_within_60_s_is_not_repeated_within_the_gap_and_is_cleared_once(
    product: Product, tmp_path: Path
) -> None:
    pager = Pager(tmp_path / "pager")
    job = product.job("paged")
    with job.config.open("a", encoding="utf-8") as file:
        file.write(f'\n[alerts]\ncommand = "{pager.command}"\ncommand_timeout = "1m"\ngap = "1h"\n')
    job.launch = replace(LOCAL, limits=replace(LOCAL.limits, frame_every=1.0))
    job.start()
    job.wait_state(JobState.RUNNING)
    product.write(rate=60.0)
    before = len(pager.told())

    held = time.time()
    product.warehouse.dn_hanging("dn_2")
    until(lambda: "fired" in pager.kinds("dn_fails"), WITHIN, "it is reported")
    (one,) = [each for each in pager.told() if each["fault"]["rule"] == "dn_fails"]
    assert (one["fault"]["name"], one["fault"]["job"], one["fault"]["party"]) == ("dn_2", "paged", "dn")
    took = datetime.fromisoformat(one["at"]).timestamp() - held
    print(f"told {took:.1f} s after dn_2 began to hang")
    assert took <= WITHIN

    frames = _frames(product)
    until(lambda: _frames(product) > frames + 20, 60, "four evaluations more")
    assert pager.kinds("dn_fails") == ["fired"], "no repeated notification within the interval"
    product.warehouse.dn_hanging(None)
    until(lambda: pager.kinds("dn_fails") == ["fired", "cleared"], 60, "its end is reported")
    frames = _frames(product)
    until(lambda: _frames(product) > frames + 12, 60, "two evaluations more")
    assert pager.kinds("dn_fails") == ["fired", "cleared"]
    for each in pager.told()[before:]:
        print(each["kind"], each["fault"]["rule"], each["text"])
        assert pager.kinds(each["fault"]["rule"]).count("fired") == 1, "and everything else that it caused"


def _frames(product: Product) -> int:
    """The supervisor records a frame a second here, and evaluates every five."""
    (row,) = product.store.read("SELECT max(id) AS n FROM frames")
    return int(row["n"] or 0)
