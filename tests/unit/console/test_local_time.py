"""Times on screens and in tables are UTC with the local time next to it; programs read UTC alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone

import pytest

from slotkeeper.console.cli import output
from slotkeeper.console.cli.output import CLOCK, SHORT, both

WINTER = datetime(2026, 1, 31, 23, 30, 5, tzinfo=timezone.utc)
SUMMER = datetime(2026, 7, 1, 10, 0, 0, tzinfo=timezone.utc)
InZone = Callable[[str], None]


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[InZone]:
    """Sets TZ for this process, as the environment of a program does."""

    def set_zone(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("zone", "moment", "form", "shown"),
    [
        ("UTC", WINTER, CLOCK, "23:30:05Z"),
        ("Europe/Berlin", WINTER, SHORT, "01-31 23:30:05Z (02-01 00:30:05+01:00)"),
        ("Europe/Berlin", SUMMER, SHORT, "07-01 10:00:00Z (12:00:00+02:00)"),
        ("America/St_Johns", SUMMER, CLOCK, "10:00:00Z (07:30:00-02:30)"),
        ("Asia/Kathmandu", SUMMER, CLOCK, "10:00:00Z (15:45:00+05:45)"),
    ],
)
def test_the_local_time_stands_beside_utc(in_zone: InZone, zone: str, moment: datetime, form: str, shown: str) -> None:
    in_zone(zone)
    assert both(moment, form) == shown


def test_a_table_has_both_and_json_has_utc(in_zone: InZone, capsys: pytest.CaptureFixture[str]) -> None:
    in_zone("Asia/Shanghai")
    output.table(["at", "started"], [[SUMMER, output.second(SUMMER)]])
    assert capsys.readouterr().out.splitlines()[-1].split("  ") == ["2026-07-01T10:00:00Z (18:00:00+08:00)"] * 2
    output.as_json({"at": SUMMER})
    assert json.loads(capsys.readouterr().out) == {"at": "2026-07-01T10:00:00Z"}
