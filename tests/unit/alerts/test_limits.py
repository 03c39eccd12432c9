"""Each limit of `[alerts]` controls the fault that it is named after, exactly to the second."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from slotkeeper.core.domain.fault import Severity
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.report import Condition, JobReport, JobStatus
from slotkeeper.core.domain.row_counts import Verified
from slotkeeper.core.judgement.facts import MIB, Facts, JobSeen, Limits, Machine
from slotkeeper.core.judgement.judge import judge
from tests.unit.alerts.made import T0

LIMITS = Limits(
    lag_warning=40, lag_critical=80, stuck_critical=70, silent_warning=50, silent_critical=90, crashes=100,
    disk_free=5 * MIB, verify_age=1_000,
)  # fmt: skip
SINK = Condition("sink", "sink mart", "refused", 0.0, ("dn_1",), 1)


def ago(seconds: float) -> datetime:
    return T0 - timedelta(seconds=seconds)


def equal(at: datetime) -> Verified:
    return Verified("orders", at, "equal", 0, 0, 0, 9, 9, 1.0, "")


def running(seconds: float = 0, *conditions: Condition) -> JobStatus:
    report = JobReport("orders", "r1", "RUNNING", conditions=conditions)
    return JobStatus(
        "orders", JobState.RUNNING, WantedState.RUN, run="r1", supervisor_alive=True, driver_alive=True, report=report,
        reported_at=ago(seconds), reported=True,
    )  # fmt: skip


def seen(limit: str, seconds: float) -> Facts:
    """The facts if the condition that this limit is about has lasted for `seconds`."""
    if limit == "disk_free":
        return Facts(T0, machine=Machine(free=int(seconds)), limits=LIMITS)
    job = {
        "lag_warning": JobSeen(running(), {"dn_1": seconds}),
        "lag_critical": JobSeen(running(), {"dn_1": seconds}),
        "stuck_critical": JobSeen(running(0, replace(SINK, since=ago(seconds).timestamp()))),
        "silent_warning": JobSeen(running(seconds)),
        "silent_critical": JobSeen(running(seconds)),
        "crashes": JobSeen(running(), crashes=(ago(seconds), ago(seconds))),
        "verify_age": JobSeen(running(), verified=equal(ago(seconds))),
    }[limit]
    if limit != "verify_age":
        job = replace(job, verified=equal(T0))
    return Facts(T0, (job,), limits=LIMITS)


@pytest.mark.parametrize(
    ("limit", "below", "above"),
    [
        ("lag_warning", None, Severity.WARNING),
        ("lag_critical", Severity.WARNING, Severity.CRITICAL),
        ("stuck_critical", Severity.WARNING, Severity.CRITICAL),
        ("silent_warning", None, Severity.WARNING),
        ("silent_critical", Severity.WARNING, Severity.CRITICAL),
        ("crashes", Severity.WARNING, None),
        ("disk_free", Severity.WARNING, None),
        ("verify_age", None, Severity.WARNING),
    ],
)
def test_a_limit_decides(limit: str, below: Severity | None, above: Severity | None) -> None:
    value = getattr(LIMITS, limit)
    for seconds, severity in ((value - 1, below), (value + 1, above)):
        found = judge(seen(limit, seconds))
        assert [one.severity for one in found] == ([] if severity is None else [severity]), found
