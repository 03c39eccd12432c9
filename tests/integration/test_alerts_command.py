"""`slotkeeper alerts`: active faults, their notifications, acknowledgements and silences, and a test of the command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.monitor.snapshot import MonitorState
from slotkeeper.console.monitor.store_reader import Reader
from slotkeeper.console.views.alerts import alerts, firing
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.load import load
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.state.alerts import AckFile, AlertFile
from tests.integration.test_jobs_ensure import killed
from tests.support.jobs import SOON, Jobs
from tests.support.pager import Pager
from tests.support.waiting import until
from tests.unit.config.samples import added

FULL = 'disk_free = "16777216MiB"'


@pytest.fixture
def pager(tmp_path: Path) -> Pager:
    return Pager(tmp_path / "pager")


class Place:
    """A configuration whose state folder is that of the test's jobs."""

    def __init__(self, jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
        self.jobs = jobs
        self.config = jobs.folder / "slotkeeper.toml"
        self._capsys = capsys
        self.write("")

    def write(self, *alerts: str) -> None:
        folder = self.jobs.store.folder.path
        self.config.write_text(added("state", f'dir = "{folder}"') + "\n".join(["[alerts]", *alerts, ""]))

    def run(self, *words: str) -> tuple[int, str, str]:
        code = main(["--config", str(self.config), *words])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def alerts(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.run("alerts", "list", "--json")[1])["alerts"]
        return found


@pytest.fixture
def place(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> Place:
    return Place(jobs, capsys)


def test_nothing_wrong_is_said(place: Place) -> None:
    assert place.run("alerts", "list") == (0, "no current alerts\n", "")
    assert place.alerts() == []


def test_what_holds_is_listed_with_a_key_that_can_be_typed(place: Place) -> None:
    place.write(FULL)
    (one,) = place.alerts()
    assert (one["fault"]["rule"], one["sent_at"], one["ack"]) == ("disk_nearly_full", None, None)
    text = place.run("alerts", "list")[1]
    assert one["key"] in text and "disk_nearly_full" in text and len(one["key"]) == 8


def test_an_acknowledgement_made_here_counts_in_the_console_and_the_other_way_round(place: Place) -> None:
    place.write(FULL)
    (one,) = place.alerts()
    code, out, _ = place.run("alerts", "ack", one["key"], "--reason", "new disk ordered")
    meant = f"acknowledged until it ends or its severity rises: {one['key']} warning disk_nearly_full: this host: "
    assert code == 0 and out.startswith(meant) and "MiB free" in out
    (said,) = place.alerts()
    assert said["ack"]["reason"] == "new disk ordered" and said["ack"]["until"] is None

    reader = Reader(load(place.config, {}), place.jobs.store.folder.path, SystemClock())
    local, now = reader.local(), datetime.now(timezone.utc)
    (shown,) = alerts(MonitorState(local), now)
    assert firing([shown], local.acks, now) == []

    AckFile(place.jobs.store.folder).remove(shown.ack_keys[0], now)
    assert place.alerts()[0]["ack"] is None
    AckFile(place.jobs.store.folder).put(shown.ack_keys[0], replace(local.acks[shown.ack_keys[0]], by="li.wei"))
    assert place.alerts()[0]["ack"]["by"] == "li.wei"
    assert place.run("alerts", "unack", one["key"])[0] == 0 and place.alerts()[0]["ack"] is None
    reader.close()


def test_an_acknowledgement_ends_with_its_fault_where_only_a_console_looks(place: Place) -> None:
    place.write(FULL)
    place.run("alerts", "ack", place.alerts()[0]["key"])
    reader = Reader(load(place.config, {}), place.jobs.store.folder.path, SystemClock())
    assert len(reader.local().acks) == 1
    place.write()
    reader.loaded = load(place.config, {})
    assert reader.local().acks == {} == AckFile(place.jobs.store.folder).read()
    reader.close()


def test_a_silence_is_for_a_time(place: Place) -> None:
    place.write(FULL)
    code, out, _ = place.run("alerts", "silence", place.alerts()[0]["key"], "--for", "2h", "--reason", "known")
    assert code == 0 and out.startswith("silenced until 20")
    said = place.alerts()[0]["ack"]
    lasts = datetime.fromisoformat(said["until"]) - datetime.fromisoformat(said["at"])
    assert lasts.total_seconds() == 7_200


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("ack", "1"), "no current alert has the key '1'"),
        (("unack", "1"), "no current alert has the key '1'"),
        (("silence", "1", "--for", "1h"), "no current alert has the key '1'"),
        (("ack", "deadbeef"), "no current alert has the key 'deadbeef'"),
        (("ack", "\x1b[0m"), "no current alert has the key"),
        (("silence", "1", "--for", "ever"), "must be a duration"),
        (("silence", "1"), "Missing option '--for'"),
        (("test",), "no command in [alerts]"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(words: tuple[str, ...], says: str, place: Place) -> None:
    place.write(FULL)
    code, _, err = place.run("alerts", *words)
    assert code != 0 and says in err and "Traceback" not in err and "\x1b" not in err


def test_a_test_is_labelled_and_what_the_command_answered_is_said(place: Place, pager: Pager) -> None:
    place.write(f'command = "{pager.command}"')
    assert place.run("alerts", "test") == (0, "the command succeeded: paged\n", "")
    (told,) = pager.told()
    assert (told["kind"], told["fault"]["rule"], told["state_folder"]) == (
        "test", "test", str(place.jobs.store.folder.path),
    )  # fmt: skip
    pager.does("fail")
    code, out, err = place.run("alerts", "test")
    assert (code, out) == (1, "") and "exited with status 7: no route to the pager" in err
    assert AlertFile(place.jobs.store.folder).read().failure is None, "a manual test is not a failure of the service"


def test_jobs_ensure_tells_what_no_supervisor_does(place: Place, pager: Pager) -> None:
    place.jobs.start("paused")
    control.pause(place.jobs.store, "paused", Patience(SOON))
    killed(place.jobs, "paused")
    place.write(f'command = "{pager.command}"', 'gap = "1h"')
    assert place.run("jobs", "ensure")[0] == 0
    until(lambda: len(pager.told()) == 1, SOON, "it is reported")
    (told,) = pager.told()
    assert (told["fault"]["rule"], told["fault"]["job"], told["fault"]["severity"]) == (
        "job_dead",
        "paused",
        "critical",
    )
    place.run("jobs", "ensure")
    (one,) = place.alerts()
    assert one["sent_at"] is not None and len(pager.told()) == 1


def test_alerts_list_loads_no_driver() -> None:
    code = (
        "import sys, slotkeeper.console.commands.alerts;"
        " import slotkeeper.core.launch.alert_sender, slotkeeper.core.launch.supervisor;"
        " print([m for m in ('psycopg2', 'pyspark', 'textual', 'sqlglot') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
