"""The nights: each incident shows, what somebody in a hurry would type is refused, the way out ends in equal tables.

The job is a supervised one without Spark, the commands are those of the runbook, word for word. Next door:
`core.embedded.incidents` has the records.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from console.commands.demo_incident import Night
from core.embedded.incidents.record import Incident
from core.embedded.incidents.registry import INCIDENTS
from core.embedded.warehouse import Warehouse
from tests.support.nights import world

OFTEN = ("dead-slot", "poison-row", "clock-skew", "disk-full")
"""The quicker ones, of each group at least one; the others are played by the chaos run."""
NIGHTS = [pytest.param(one, id=one.name, marks=() if one.name in OFTEN else (pytest.mark.chaos,)) for one in INCIDENTS]


@pytest.mark.parametrize("incident", NIGHTS)
def test_a_night_shows_is_refused_and_is_cured(
    incident: Incident,
    warehouse: Warehouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    seed: int,
) -> None:
    if incident.small_disk and os.geteuid():
        pytest.skip("only root can mount a small disk")
    with world(incident, warehouse, tmp_path, monkeypatch, capsys, seed) as made:
        night = Night(incident, made)
        night.play(lambda: None)
    print(night.values())
    assert night.fine, night.why
