"""`jobs cancel` and `jobs drain`: final and audited; "now" only if the server itself reports that all is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.cli import diagnostics
from slotkeeper.console.commands import slots
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.launch import control
from slotkeeper.core.slots.preflight import Rate
from slotkeeper.core.state.audit import Audit
from tests.support.jobs import Jobs
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job
from tests.support.standin import MakeWarehouse, Surface

TABLE, JOB = "ods.orders", "orders_rt"


@dataclass
class Place:
    """A mirror whose engine runs here, and a FAKE driver that makes the state store show RUNNING."""

    mirror: Mirror
    config: Path
    jobs: Jobs

    def call(self, *words: str) -> int:
        return main([*words, "--config", str(self.config)])

    def insert(self, first: int, last: int) -> None:
        self.mirror.source(f"INSERT INTO {TABLE} SELECT g, 'x' FROM generate_series({first}, {last}) g")


@pytest.fixture
def place(make_warehouse: MakeWarehouse, make_mirror: MakeMirror, tmp_path: Path, jobs: Jobs) -> Place:
    warehouse = make_warehouse()
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    path = config(tmp_path, mirror.job.source, mirror.job.sink, job(JOB, mirror.job.slot, TABLE, "mart.orders"))
    return Place(mirror, path, jobs)


def test_a_running_job_is_drained_and_the_server_agrees(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.jobs.start(JOB)
    place.mirror.start().wait_running()
    place.insert(1, 500)
    assert place.call("jobs", "drain", JOB, "--wait", "40s", "--json") == 0
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["drained"], found["left"]) == (True, {}) and found["at"].endswith("Z")
    surface = Surface(place.mirror.warehouse)
    assert surface.value("SELECT pgxc_consumed_binlog_records(%s, 0)", (TABLE,)) == 1
    surface.close()
    assert place.call("jobs", "drain", JOB, "--wait", "20s") == 0
    assert capsys.readouterr().out.startswith(f"{TABLE} is drained at 20")
    assert place.call("slots", "preflight", TABLE, "--for", "vacuum full") == 0
    assert place.call("slots", "preflight", TABLE) == 3
    place.mirror.stop()


def test_a_forgotten_slot_keeps_a_job_from_being_drained_and_is_named(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    surface = Surface(place.mirror.warehouse)
    surface.start(TABLE, "forgotten")
    surface.close()
    place.jobs.start(JOB)
    place.mirror.start().wait_running()
    place.insert(1, 200)
    place.mirror.wait_equal()
    assert place.call("jobs", "drain", JOB, "--wait", "1s") == 1
    said = capsys.readouterr()
    assert "not drained" in said.out and "slot forgotten (both points)" in said.out
    assert all(f"dn_{n}" in said.out for n in range(1, 5)) and "forgotten" in said.err
    place.mirror.stop()


def test_a_job_that_does_not_stream_is_refused_and_one_that_stops_ends_the_wait(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place.jobs.store.register_job(JOB, str(place.config))
    assert place.call("jobs", "drain", JOB) == 3
    assert "only a RUNNING or CATCHING UP job can be drained" in capsys.readouterr().err
    assert place.call("jobs", "drain", "nobody") == 2
    place.jobs.start(JOB)
    place.mirror.warehouse.dn_down("dn_2")
    monkeypatch.setattr(diagnostics, "note", lambda text: control.stop(place.jobs.store, JOB))
    assert place.call("jobs", "drain", JOB, "--wait", "1m") == 1
    assert f"job {JOB} is STOPPED" in capsys.readouterr().err


def test_a_dn_that_is_down_is_waited_for_and_named_at_the_limit(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    place.jobs.start(JOB)
    place.mirror.warehouse.dn_down("dn_2")
    assert place.call("jobs", "drain", JOB, "--wait", "600ms") == 1
    assert "dn_2" in capsys.readouterr().out


def test_cancelling_is_final_typed_reasoned_and_audited(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    jobs = place.jobs
    jobs.start(JOB)
    words = ("jobs", "cancel", JOB)
    assert place.call(*words, "--reason", "r") == 3
    assert place.call(*words, "--confirm", "other", "--reason", "r") == 3
    assert place.call(*words, "--confirm", JOB) == 3
    assert place.call(*words, "--confirm", JOB, "--reason", "r") == 3
    assert "stop it first" in capsys.readouterr().err
    assert Audit(jobs.store.folder).read().lines == ()
    assert place.call("jobs", "stop", JOB) == 0
    assert place.call(*words, "--confirm", JOB, "--reason", "not needed any more") == 0
    assert "CANCELLED" in capsys.readouterr().out
    assert jobs.view_of_job(JOB).state is JobState.CANCELLED
    outcome, intent, *stop = Audit(jobs.store.folder).read().lines
    assert [line.action for line in stop] == ["jobs stop", "jobs stop"]
    assert (intent.action, intent.reason, intent.result) == ("jobs cancel", "not needed any more", {"state": "STOPPED"})
    assert outcome.outcome == "CANCELLED"
    assert place.call("jobs", "start", JOB) == 3
    assert place.call(*words, "--confirm", JOB, "--reason", "again") == 3
    assert place.call("jobs", "cancel", "nobody", "--confirm", "nobody", "--reason", "r") == 3


def test_the_rate_of_a_living_job_is_taken_from_two_of_its_reports(place: Place) -> None:
    store = place.jobs.store
    assert slots.rate_of(store, JOB) is None
    place.jobs.start(JOB)
    assert slots.rate_of(store, JOB) == Rate(JOB, 0.0)


def test_preflight_estimates_by_the_owning_jobs_rate_and_says_where_it_has_none(
    place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    surface = Surface(place.mirror.warehouse)
    surface.start(TABLE, place.mirror.job.slot)
    surface.close()
    place.insert(1, 200)
    words = ("slots", "preflight", TABLE, "--json")
    assert place.call(*words) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["unread"], found["drain_seconds"]) == (200, None) and "is not running here" in found["drain"]
    place.jobs.start(JOB)
    assert place.call(*words) == 3
    assert "is not applying any changes" in json.loads(capsys.readouterr().out)["drain"]
