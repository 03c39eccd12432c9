"""The printed promise of a job is complete: how often a change takes effect, and each option that omits changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec, SinkOptions
from slotkeeper.core.domain.traits import Delivery, SinkTraits, delivery, limits, promise
from slotkeeper.core.services.doctor import promise_of

NOWHERE = Endpoint("none", "localhost", 1, "none", "none")
JOB = JobSpec("j", NOWHERE, NOWHERE, "s", (ChannelSpec("ods.a", "mart.a"),))
WHOLE = SinkTraits(True, True)
PAGE = (Path(__file__).parents[3] / "docs" / "delivery.md").read_text("utf-8")


def followed(**more: Any) -> JobSpec:
    return replace(JOB, **{"binlog": BinlogOptions(binlog=True), **more})


def test_a_sink_of_one_transaction_promises_exactly_once_and_nothing_is_left_out() -> None:
    assert promise(WHOLE, followed()) == Delivery.EXACTLY_ONCE.value
    assert promise_of(followed()) == promise_of(followed(sink_kind="dws")) == Delivery.EXACTLY_ONCE.value


@pytest.mark.parametrize(
    ("sink", "wanted"),
    [
        (SinkTraits(True, False), Delivery.EXACTLY_ONCE),
        (SinkTraits(False, True), Delivery.EQUAL_IN_THE_END),
        (SinkTraits(False, False), Delivery.AT_LEAST_ONCE),
    ],
)
def test_a_sink_that_cannot_commit_rows_and_progress_together_repeats_and_counts(
    sink: SinkTraits, wanted: Delivery
) -> None:
    assert delivery(sink) is wanted
    assert "counted" in wanted.value or wanted is Delivery.EXACTLY_ONCE


WEAKER: dict[str, dict[str, Any]] = {
    "binlog = false": {"binlog": BinlogOptions()},
    "start": {"start": "2026-11-20T00:00:00Z"},
    'on_existing = "merge"': {"on_existing": "merge"},
    "ignore_delete": {"sink_options": SinkOptions(ignore_delete=True)},
    "write_mode": {"sink_options": SinkOptions(write_mode="update")},
    'conflict_strategy = "ignore"': {"sink_options": SinkOptions(conflict_strategy="ignore")},
    "ignore_null_when_update": {"sink_options": SinkOptions(ignore_null_when_update=True)},
    'on_bad_row = "quarantine"': {"sink_options": SinkOptions(on_bad_row="quarantine")},
    "binlog_ignore_update_before": {"binlog": BinlogOptions(binlog=True, binlog_ignore_update_before=True)},
}


@pytest.mark.parametrize("option", WEAKER)
def test_each_option_that_weakens_it_is_named_and_is_on_the_page(option: str) -> None:
    job = followed(**WEAKER[option])
    (said,) = limits(job)
    assert said.startswith(option) and promise(WHOLE, job).endswith(f"; but {said}")
    assert option.split(" = ")[0] in PAGE
