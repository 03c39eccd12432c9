"""The second pair as the product runs it: a supervisor, a separate driver, and workers that may be Spark's."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobState
from tests.support.sqlite_pair.pair import MakePair, SecondPair, supervised

TABLE, OTHER = "ods.t", "ods.other"


def written(pair: SecondPair, value: int) -> None:
    with pair.origin.transaction() as writing:
        for key in range(20):
            writing.put(TABLE, id=key, v=value + key)
        writing.put(OTHER, id=1, v=value)
        writing.delete(TABLE, id=3)


def goes_through(pair: SecondPair, folder: Path, runs_on: str, kill: bool) -> None:
    """Copy, stream, recover from a killed driver, stop; nothing is lost."""
    written(pair, 0)
    before = sum(pair.origin.events.values())
    with supervised(pair, folder, runs_on) as job:
        job.wait_for(JobState.RUNNING)
        written(pair, 100)
        pair.wait_equal()
        if kill:
            job.kill_driver()
            written(pair, 200)
            pair.wait_equal()
        report = job.wait_for(JobState.RUNNING).report
        assert report is not None
        assert (report.unit, report.place, report.keeps_positions) == ("transactions", "position", False)
        assert job.stop().state is JobState.STOPPED
    assert sum(pair.mirror.changes().values()) == sum(pair.origin.events.values()) - before


def test_a_supervised_job_gets_over_a_killed_driver(make_pair: MakePair, tmp_path: Path) -> None:
    goes_through(make_pair(TABLE, OTHER), tmp_path, "local", kill=True)


@pytest.mark.spark
@pytest.mark.chaos
def test_it_runs_on_spark(
    make_pair: MakePair, tmp_path: Path, spark_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(spark_cache))
    goes_through(make_pair(TABLE, OTHER), tmp_path, "spark", kill=False)
