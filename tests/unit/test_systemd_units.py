"""The example units of docs/systemd: what a service may do is limited, and systemd itself agrees where it is there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = sorted((Path(__file__).parents[2] / "docs" / "systemd").glob("*.service"))
LIMITS = {
    "UMask": "0077",
    "LimitCORE": "0",
    "NoNewPrivileges": "yes",
    "PrivateTmp": "yes",
    "ProtectSystem": "strict",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX AF_NETLINK",
    "CapabilityBoundingSet": "",
    "PrivateDevices": "yes",
    "ProtectKernelTunables": "yes",
    "RestrictNamespaces": "yes",
}
MOST_EXPOSED = 40
"""Tenths: what `systemd-analyze security` calls exposure, 9.6 for a service without limits; 5 and less is "OK"."""


def lines(unit: Path) -> dict[str, str]:
    """The settings of a unit by name; none of these units has one twice."""
    text = [line for line in unit.read_text("utf-8").splitlines() if "=" in line and not line.startswith("#")]
    found = dict(line.split("=", 1) for line in text)
    assert len(found) == len(text)
    return found


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_service_runs_as_a_user_and_with_limits(unit: Path) -> None:
    found = lines(unit)
    assert found.items() >= LIMITS.items()
    assert found["User"] not in ("", "root")
    assert found["ReadWritePaths"] == "/srv/slotkeeper"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_what_jobs_write_to_outlives_the_service_that_starts_them(unit: Path) -> None:
    found = lines(unit)
    assert (found["Type"], found["KillMode"]) == ("oneshot", "process")
    kept = found["RuntimeDirectory"], found["RuntimeDirectoryPreserve"], found["RuntimeDirectoryMode"]
    assert kept == ("slotkeeper", "yes", "0700")
    assert "TMPDIR=/run/slotkeeper" in found["Environment"].split(), "PrivateTmp removes the /tmp of an ended service"


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_finds_a_service_little_exposed(unit: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None or "--offline" not in subprocess.check_output([program, "--help"], text=True):
        pytest.skip("no systemd-analyze that reads files (systemd 250 or later)")
    words = [program, "security", "--offline=true", "--no-pager", f"--threshold={MOST_EXPOSED}", str(unit)]
    told = subprocess.run(words, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout[-200:] + told.stderr


def test_there_is_a_unit() -> None:
    assert [unit.name for unit in UNITS] == ["slotkeeper-ensure.service"]
