"""Three minutes of `make soak`: everything runs side by side, is equal at the end, and is in the report."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.terminal import ROOT

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(1_800)]
ROLES = ("console", "mysql_rt: JVM", "mysql_rt: worker", "orders_rt: driver", "orders_rt: supervisor", "query: driver")


def test_a_short_soak_ends_equal_and_reports_every_role(tmp_path: Path, seed: int) -> None:
    command = [sys.executable, "-m", "bench.soak", "--hours", "0.05", "--seed", str(seed)]
    env = {**os.environ, "SLOTKEEPER_REPORTS": str(tmp_path / "reports")}
    ended = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout[-3_000:] + ended.stderr[-3_000:]
    (report,) = (tmp_path / "reports").glob("soak-*.md")
    text = report.read_text("utf-8")
    assert "all tables, views and the changes of the query are equal" in text
    assert [role for role in ROLES if f"| {role} |" not in text] == []
