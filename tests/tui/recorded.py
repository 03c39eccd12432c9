"""Frames as a supervisor records them, made by the test: minutes of a job's life in a store with a test clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from slotkeeper.core.domain.report import JobReport, LaneReport
from slotkeeper.core.launch.launch import Limits
from slotkeeper.core.launch.supervisor import Recorder
from slotkeeper.core.state.sqlite import Store
from tests.tui.filled import StillClock

EVERY = timedelta(seconds=5)


def live(store: Store, clock: StillClock, job: str, until: datetime, *lanes: LaneReport, **more: object) -> None:
    """Let a started job run until `until`: each lane reads 500 events and 40 sync points a second.

    A lane that retries does not advance; its DN is not polled either.
    """
    run = f"run-{job}"
    recorder = Recorder(store, job, Limits())
    began = clock.at
    while clock.at <= until:
        gone = (clock.at - began).total_seconds()
        report = JobReport(job, run, "RUNNING", lanes=tuple(_moved(one, gone) for one in lanes), epoch=3)
        report = replace(report, changes=sum(one.changes for one in report.lanes))
        assert store.put_report(replace(report, **more))  # type: ignore[arg-type]
        recorder.tick(now=True)
        clock.at += EVERY
    clock.at -= EVERY


def _moved(lane: LaneReport, gone: float) -> LaneReport:
    if lane.retry:
        return replace(lane, polled_age=gone, read_s=0.0, write_s=0.0, register_s=0.0)
    latest = (lane.latest_at or 0) + int(gone * 40)
    at = latest - (lane.latest_at or 0) + (lane.at or 0)
    return replace(
        lane,
        position=f"{at}/-1",
        shown=str(at),
        latest=str(latest),
        at=at,
        latest_at=latest,
        changes=lane.changes + int(gone * 500),
        polled_age=0.5,
        read_s=gone * 0.1,
        write_s=gone * 0.5,
        register_s=gone * 0.02,
    )
