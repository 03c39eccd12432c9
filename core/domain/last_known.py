"""The last known report of a job without a process, worded in the past tense. Pure."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.domain.report import JobReport, LaneReport

ENDED = "ended"
"""The activity of a lane of a job without a process."""
WAS = "was "


def past(report: JobReport, seconds: float) -> JobReport:
    """Return the report of a job without a process, `seconds` after the report was made, without waits and retries.

    >>> lane = LaneReport("dn_1", 1, "running", "applying", None, None, None, 0, 4.0, retry="retrying 2, next in 4 s")
    >>> one = past(JobReport("orders", "r1", "RUNNING", lanes=(lane,)), 60.0).lanes[0]
    >>> (one.state, one.activity, one.retry, one.last_commit_age)
    ('was running', 'ended', '', 64.0)
    """
    lanes = tuple(_past(one, seconds) for one in report.lanes)
    return replace(report, lanes=lanes, conditions=(), lock_waits=(), source_waits=())


def _past(lane: LaneReport, seconds: float) -> LaneReport:
    stopped = lane.activity == Activity.STOPPED.value
    return replace(
        lane,
        state=f"{WAS}{lane.state}",
        activity=lane.activity if stopped else ENDED,
        retry="",
        last_commit_age=None if lane.last_commit_age is None else lane.last_commit_age + seconds,
        polled_age=None if lane.polled_age is None else lane.polled_age + seconds,
    )


def state_text(state: JobState, last_known: bool) -> str:
    """Return a job's state as text: "was RUNNING" if a process should be running but none is found.

    >>> state_text(JobState.RUNNING, True), state_text(JobState.FAILED, True)
    ('was RUNNING', 'FAILED')
    """
    return f"{WAS * (last_known and state.has_process)}{state.value}"
