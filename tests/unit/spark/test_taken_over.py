"""A driver that was replaced by another start records which process runs the job now."""

from __future__ import annotations

import argparse
from pathlib import Path
from types import SimpleNamespace

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.core.errors import Superseded, Unreachable
from slotkeeper.core.launch.verdict import SUPERSEDED, TAKEN_OVER
from slotkeeper.core.spark import job as driver
from slotkeeper.core.state.sqlite import Store
from tests.unit.config.samples import VALID

JOB, HOLDER = "orders_rt", "job orders_rt run r2 by root@elsewhere pid 5861, last report 0 s ago"


def no_answer() -> str:
    raise Unreachable("the sink does not answer", where="sink")


@pytest.mark.parametrize(
    ("holder", "said"),
    [(lambda: HOLDER, f": the later start is {HOLDER}"), (lambda: "", ""), (no_answer, "")],
    ids=["named", "none", "silent"],
)
def test_the_reason_names_host_and_pid_of_the_later_start_where_the_sink_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, holder: object, said: str
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(VALID, "utf-8")

    def replaced(*_: object, **__: object) -> None:
        raise Superseded("epoch 2 has taken over from this job's 1")

    sessions = SimpleNamespace(store=lambda: SimpleNamespace(holder=holder), close=lambda: None)
    monkeypatch.setattr(driver, "WiredSessions", lambda *_, **__: sessions)
    monkeypatch.setattr(driver, "open_runner", replaced)
    with Store.open(tmp_path / "state") as store:
        store.register_job(JOB, str(config))
        store.begin_run(JOB, "one", "")
        options = argparse.Namespace(
            config=str(config), job=JOB, run="one", owner="", wait_ms=None, state_dir=str(tmp_path / "state")
        )
        loaded, job = driver._job(options, store)
        wanted = driver.WantedStates(store, JOB)
        assert driver._drive(loaded, job, options, store, wanted, False) == SUPERSEDED
        row = store.job(JOB)
    assert row is not None and row.state is JobState.STOPPED
    assert row.reason == f"{TAKEN_OVER.reason}{said}"
