"""Other armed consoles are named, and consoles that have exited are not."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from slotkeeper.core.launch import armed
from slotkeeper.core.launch import identity as processes
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import StateFolder

NOW = datetime.now(timezone.utc)


def noted_by(folder: StateFolder, pid: int, name: str = "armed-1", **more: Any) -> None:
    process = replace(processes.of(pid), **more)
    values: dict[str, Any] = {
        "who": "eva uid 1000",
        "reason": "INC-1",
        "until": (NOW + timedelta(minutes=9)).timestamp(),
    }
    values["process"] = [process.pid, process.started, process.session_id, process.host]
    ResetFiles(folder).save("console", name, json.dumps(values))


def test_a_console_never_names_itself(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path / "state")
    line, fault = armed.note(folder.path, "INC-1", NOW + timedelta(minutes=10))
    assert fault == ""
    assert armed.others(folder, NOW) == ()
    armed.forget(folder.path, line, "over")
    assert not ResetFiles(folder).names("console")


def test_another_that_lives_is_named_until_its_time_is_over_and_one_that_is_gone_is_not(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path / "state")
    noted_by(folder, 1)
    (one,) = armed.others(folder, NOW)
    assert (one.who, one.reason) == ("eva uid 1000", "INC-1")
    assert armed.others(folder, NOW + timedelta(minutes=9)) == ()
    noted_by(folder, 1, started="gone")
    assert armed.others(folder, NOW) == ()


def test_a_damaged_file_names_no_person(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path / "state")
    ResetFiles(folder).save("console", "armed-7", "{]")
    assert armed.others(folder, NOW) == ()
