"""Four incidents, with commands as users type them: each is caused, shown, rejected and fixed on Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from slotkeeper.core.config import handover

pytestmark = [pytest.mark.spark, pytest.mark.chaos]


@pytest.mark.parametrize("name", ["slot-expired", "driver-killed", "half-open-line", "sink-deadlock"])
def test_an_incident_of_the_demo_ends_cured(name: str, tmp_path: Path, seed: int) -> None:
    words = ["--headless", "--json", "--incident", name, "--rows", "5000", "--rate", "100/s", "--seed", str(seed)]
    ended = subprocess.run(
        [sys.executable, "-m", "slotkeeper.console", "demo", *words, "--spark-master", "local[2]"],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env=handover.environment(),
        cwd=tmp_path,
    )
    print(ended.stderr)
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert (found["incident"], found["refused"], found["cured"], found["why"]) == (name, True, True, [])
    assert found["shown_at"] >= found["t0"] and found["signal"] and "slotkeeper: t0 " in ended.stderr
