"""Commands about a job from MySQL, into PostgreSQL and into the stand-in for Doris: each command answers."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.core.domain.job import JobState
from slotkeeper.demo.doris.server import DorisStandin
from tests.support.pairs import TABLE, MysqlPair
from tests.support.printed import typed_bare
from tests.support.sqlite_pair.pair import supervised

pytestmark = pytest.mark.chaos


@dataclass
class Typed:
    """A pair whose copy is done and whose job is stopped, and commands on its configuration."""

    pair: MysqlPair
    config: Path
    capfd: pytest.CaptureFixture[str]

    @property
    def place(self) -> list[str]:
        return [TABLE, self.pair.mirror.job.slot]

    def call(self, *words: str) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        return typed_bare(self.capfd, *words, "--config", str(self.config))

    def json(self, *words: str, code: int = 0) -> Any:
        got, out, err = self.call(*words, "--json")
        assert got == code, (words, got, out, err)
        return json.loads(out)

    def execute(self, *verb: str, plan: dict[str, Any]) -> None:
        words = [*verb, "--execute", "--plan", plan["id"], "--reason", "a test", "--confirm", self.place[1]]
        if plan["at_stake"]:
            words += ["--rows", str(plan["at_stake"])]
        code, out, err = self.call(*words)
        assert code == 0, (out, err)

    def runs_on(self) -> None:
        """The job resumes from its position, until both tables are equal."""
        self.pair.mirror.start()
        self.pair.wait_equal()
        self.pair.mirror.stop()


@pytest.fixture(params=["postgres", "doris"])
def typed(
    request: pytest.FixtureRequest,
    mysql_pair: MysqlPair,
    doris: DorisStandin,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> Typed:
    if request.param == "doris":
        mysql_pair.into(doris)
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_100")
    mysql_pair.mirror.start().wait_running()
    mysql_pair.write((1, 10), (2, None), (101, 5))
    mysql_pair.wait_equal()
    mysql_pair.mirror.stop()
    return Typed(mysql_pair, mysql_pair.config(tmp_path), capfd)


def test_commands_that_look_know_the_pair(typed: Typed) -> None:
    name = typed.pair.mirror.job.name
    assert typed.json("verify", name)["equal"] is True
    (table,) = typed.json("slots", "list")["tables"]
    assert (table["table"], [slot["slot"] for slot in table["slots"]]) == (TABLE, [typed.place[1]])
    shown = typed.json("slots", "show", *typed.place)
    assert shown["job"] == name and len(shown["dns"]) == 1
    typed.pair.write((1, 11))
    rows = typed.json("slots", "peek", TABLE)["rows"]
    assert [row["values"]["v"] for row in rows if row["type"] == "U"][-1] == "11"
    assert typed.json("verify", name, code=4)["equal"] is False
    typed.runs_on()


def test_a_reset_is_carried_out_and_undone(typed: Typed) -> None:
    plan = typed.json("slots", "reset", *typed.place, "--to", "earliest")
    typed.execute("slots", "reset", *typed.place, plan=plan)
    (entry,) = typed.json("slots", "history", *typed.place)["resets"]
    assert (entry["target"], entry["step"]) == ("earliest", "done")
    undo = ("slots", "undo", entry["backup"])
    typed.execute(*undo, plan=typed.json(*undo))
    typed.pair.write((3, 30))
    typed.runs_on()


def test_a_reset_to_a_time_reads_everything_since_again(typed: Typed) -> None:
    moment = typed.pair.rows("SELECT date_format(utc_timestamp(), '%Y-%m-%dT%H:%i:%sZ')")[0][0]
    typed.pair.write((4, 40))
    typed.runs_on()
    typed.pair.write((5, 50))
    reset = ("slots", "reset", *typed.place)
    typed.execute(*reset, plan=typed.json(*reset, "--to", "time", "--time", str(moment)))
    typed.runs_on()


def test_a_reset_to_a_snapshot_copies_again(typed: Typed) -> None:
    reset = ("slots", "reset", *typed.place)
    plan = typed.json(*reset, "--to", "snapshot", "--on-existing", "replace")
    typed.execute(*reset, plan=plan)
    typed.pair.write((6, 60))
    typed.runs_on()


def test_a_table_that_changed_its_shape_is_a_failed_job_in_status_and_alerts(
    mysql_pair: MysqlPair, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mysql_pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_100")
    with supervised(mysql_pair, tmp_path, "local") as job:
        job.wait_for(JobState.RUNNING)
        typed = Typed(mysql_pair, tmp_path / "slotkeeper.toml", capfd)
        assert typed.json("jobs", "show", mysql_pair.mirror.job.name)["state"] == "RUNNING"
        code, _, err = typed.call("status", "--exit-code")
        assert code in (0, 1), err
        mysql_pair.run(f"ALTER TABLE {TABLE} ADD COLUMN w INT")
        job.wait_for(JobState.FAILED)
        code, out, _ = typed.call("status", "--exit-code")
        assert code == 2 and "SCHEMA CHANGED" in out
        alerts = typed.json("alerts", "list")["alerts"]
        assert any("SCHEMA CHANGED" in json.dumps(one) for one in alerts), alerts
