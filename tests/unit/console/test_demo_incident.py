"""`slotkeeper demo --incident`: its messages before anything is started."""

from __future__ import annotations

import json

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.demo.incidents.registry import INCIDENTS


def test_all_incidents_are_listed_for_people_and_for_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--incident", "list"]) == 0
    said = capsys.readouterr().out
    assert all(one.name in said and one.page in said for one in INCIDENTS)
    assert main(["demo", "--incident", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["incident"] for one in found] == [one.name for one in INCIDENTS]
    assert all(one["runbook"].startswith("`slotkeeper docs runbook#") and one["cure"] for one in found)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--incident", "nope"], "unknown incident 'nope'"),
        (["--read-by", "stream"], "--read-by stream and --source dws cannot be used together"),
        (["--incident", "binlogs-purged"], "--incident binlogs-purged and --source dws cannot be used together"),
        (["--incident", "slot-expired", "--source", "mysql"], "--incident slot-expired and --source mysql cannot"),
        (["--incident", "slot-expired", "--keep"], "--keep and --incident cannot be used together"),
    ],
)
def test_what_cannot_be_is_said_before_anything_starts(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *words]) == 2
    assert said in capsys.readouterr().err
