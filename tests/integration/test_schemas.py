"""Every command that prints JSON, against real servers and FAKE drivers: all output conforms to the schemas.

`tests.support.promised` checks each value against its schema, here and in every other test.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bench.schemas import SCHEMAS
from bench.schemas.looking import LOG
from slotkeeper.console.__main__ import main
from slotkeeper.console.commands import doctor
from slotkeeper.core.launch import control
from slotkeeper.demo.warehouse import Warehouse
from tests.integration.test_quarantine_jobs import TABLE, mirror_of
from tests.support import promised, standin
from tests.support.jobs import FAKE, Jobs
from tests.support.mirror import MakeMirror, Mirror
from tests.support.polling import config, job

JOB, PAIR, NEVER = "orders_rt", "pair_rt", "never_rt"
VIEWS = {one for one in SCHEMAS if one.startswith("views ")}
NOT_HERE = {"demo", LOG, "alert", "alerts list", "alerts test", "locks end", "upgrade"} | VIEWS
"""They have their own tests: a demo starts a real Spark, alerts need a command that takes them, and a session that is
ended one that waits after it. `tests/integration/test_upgrade.py` has versions to upgrade from."""


@dataclass
class Place:
    """A stopped job with two rows in quarantine, one of two tables that only reports to run, one that never ran."""

    mirror: Mirror
    config: Path
    capfd: pytest.CaptureFixture[str]

    @property
    def slot(self) -> tuple[str, str]:
        return TABLE, self.mirror.job.slot

    def call(self, *words: str, code: int = 0) -> Any:
        self.capfd.readouterr()
        ended = main([*words, "--config", str(self.config)])
        said = self.capfd.readouterr()
        assert ended == code, (words, ended, said)
        return json.loads(said.out.splitlines()[-1])


@pytest.fixture(autouse=True)
def _fake_drivers(monkeypatch: pytest.MonkeyPatch, jobs: Jobs) -> Iterator[None]:
    real = control.start

    def started(store: Any, job: str, config: str, launch: object = None, **more: Any) -> object:
        tables = ["ods.a", "ods.b"] if job == PAIR else []
        fake = replace(FAKE, extra=("--config", str(jobs.config(job, tables=tables))))
        return real(store, job, config, fake, **more)

    monkeypatch.setattr(control, "start", started)
    monkeypatch.setattr(doctor, "_ask_java", lambda: {"version": "21", "home": "/j", "origin": "PATH"})
    yield


@pytest.fixture
def place(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path, jobs: Jobs, capfd: pytest.CaptureFixture[str]
) -> Place:
    mirror = mirror_of(warehouse, make_mirror)
    mirror.job = replace(mirror.job, name=JOB)
    standin.run(warehouse, f"INSERT INTO {TABLE} SELECT g % 4, g, g / 3 * 100, 'row' FROM generate_series(1, 10) g")
    standin.run(warehouse, f"UPDATE {TABLE} SET n = 1 WHERE id <= 2")
    mirror.start().wait_running()
    mirror._until(lambda: mirror.heard.rows_quarantined == 2, 30, "the job to tell how many it holds")
    mirror.stop()
    written = config(
        tmp_path, mirror.job.source, mirror.job.sink,
        job(JOB, mirror.job.slot, TABLE, "mart.orders"),
        job(PAIR, "pair", "ods.a", "mart.a", others=[("ods.b", "mart.b")]),
        job(NEVER, "never", "ods.c", "mart.c"),
    )  # fmt: skip
    return Place(mirror, written, capfd)


def look(place: Place, entry: str) -> None:
    for words, code in {
        ("config", "check"): 0,
        ("config", "show"): 0,
        ("jobs", "list"): 0,
        ("status",): 0,
        ("jobs", "show", JOB): 0,
        ("jobs", "logs", JOB): 0,
        ("slots", "list"): 3,
        ("slots", "list", TABLE): 0,
        ("slots", "show", *place.slot): 0,
        ("slots", "preflight", TABLE): 3,
        ("slots", "peek", TABLE): 0,
        ("errors", "list"): 0,
        ("errors", "show", JOB, entry): 0,
        ("errors", "discard", JOB, entry): 0,
        ("audit", "list"): 0,
        ("audit", "verify"): 0,
        ("doctor",): 1,
        ("verify", JOB): 4,
        ("locks",): 0,
        ("slots", "history", *place.slot): 0,
        ("sync", "show"): 0,
    }.items():
        place.call(*words, "--json", code=code)
    place.call("slots", "peek", TABLE, "--jsonl")
    with_error = place.config.read_text("utf-8").replace('into = "mart.c"', "into = 7")
    broken = place.config.with_name("refused.toml")
    broken.write_text(with_error, "utf-8")
    sound, place.config = place.config, broken
    assert place.call("config", "check", "--json", code=2)["refused"]
    assert any(one["refused"] for one in place.call("jobs", "list", "--json"))
    place.config = sound


def steer(place: Place, jobs: Jobs) -> None:
    """Run the verbs of jobs and of their tables, over FAKE drivers."""
    for verb in ("start", "pause", "resume", "restart"):
        place.call("jobs", verb, JOB, "--json")
    place.call("jobs", "retry", JOB, "--json")
    place.call("jobs", "limit", JOB, "--rows", "5000", "--json")
    place.call("jobs", "limit", JOB, "--configured", "--json")
    place.call("jobs", "recopy", JOB, TABLE, "--cancel", "--json")
    place.call("jobs", "ensure", "--json")
    assert place.call("jobs", "drain", JOB, "--json")["left"] == {}
    place.mirror.source(f"INSERT INTO {TABLE} VALUES (1, 77, 100, 'late')")
    assert place.call("jobs", "drain", JOB, "--wait", "0s", "--json", code=1)["left"]
    place.call("jobs", "show", JOB, "--json")
    place.call("jobs", "stop", JOB, "--json")
    place.call("jobs", "start", PAIR, "--json")
    for verb in ("pause", "resume", "stop", "start", "restart"):
        place.call("jobs", verb, PAIR, "--table", "ods.b", "--json")
    place.call("jobs", "retry", PAIR, "--table", "ods.b", "--json")
    assert len(place.call("jobs", "show", PAIR, "--json")["report"]["tables"]) == 2
    place.call("status", "--json")
    place.call("jobs", "stop", PAIR, "--json")
    place.call("jobs", "cancel", PAIR, "--confirm", PAIR, "--reason", "no more", "--json")


def change(place: Place, entry: str) -> None:
    """Run the verbs of slots and of quarantined rows, as dry runs and executed."""
    done = ("--execute", "--reason", "a test", "--json")
    for verb in ("create", "drop"):
        plan = place.call("slots", verb, TABLE, "elsewhere", "--json")
        rows = ("--rows", plan["to_type"]["rows"] or "0") if verb == "drop" else ()
        named = ("--confirm", "elsewhere", "--confirm-table", TABLE, *rows)
        place.call("slots", verb, TABLE, "elsewhere", *named, *done)
    place.call("slots", "register", *place.slot, "--json")
    place.call("errors", "replay", JOB, entry, "--reason", "perhaps", "--json", code=1)
    place.call("errors", "discard", JOB, entry, "--confirm", JOB, "--rows", "1", *done)
    consent = ("--confirm", place.slot[1], *done)
    place.call("slots", "reset", *place.slot, "--to", "snapshot", "--json", code=3)
    plan = place.call("slots", "reset", *place.slot, "--to", "earliest", "--json")
    reset = place.call("slots", "reset", *place.slot, "--plan", plan["id"], *consent)
    undo = place.call("slots", "undo", reset["reset"], "--json")
    place.call("slots", "undo", reset["reset"], "--plan", undo["id"], "--rows", str(undo["at_stake"]), *consent)
    assert len(place.call("slots", "history", *place.slot, "--json")["resets"]) == 2


def test_every_command_that_prints_json_prints_what_is_promised(place: Place, jobs: Jobs) -> None:
    promised.printed.clear()
    entry = str(place.call("errors", "list", "--json")["entries"][0]["id"])
    place.call("jobs", "list", "--json")
    steer(place, jobs)
    look(place, entry)
    change(place, entry)
    place.call("doctor", "--json", code=1)
    place.call("docs", "--json")
    place.call("audit", "list", "--limit", "1000", "--json")
    lines = [json.loads(one) for one in (jobs.folder / "state" / "audit.jsonl").read_text("utf-8").splitlines()]
    assert len(lines) > 20
    assert [fault for one in lines for fault in promised.broken(LOG, one)] == []
    assert set(SCHEMAS) - promised.printed == NOT_HERE
