"""The example units of docs/systemd restrict the service, also according to systemd itself if it is installed."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from slotkeeper.console.cli.diagnostics import ExitCode
from tests.unit.test_runbook import refused_by_parser

FOLDER = Path(__file__).parents[2] / "docs" / "systemd"
UNITS = sorted(FOLDER.glob("*.service"))
AGENT, ENSURE, RUN = (FOLDER / f"slotkeeper-{name}.service" for name in ("agent", "ensure", "run@"))
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
HARDENING = {
    *LIMITS,
    "AmbientCapabilities",
    "LockPersonality",
    "ProtectClock",
    "ProtectControlGroups",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ReadWritePaths",
    "RestrictRealtime",
    "SystemCallArchitectures",
    "User",
}
MOST_EXPOSED = 40
"""The exposure by `systemd-analyze security`, in tenths: 9.6 for a service without restrictions; up to 5 is "OK"."""


def lines(unit: Path) -> dict[str, str]:
    """The settings of a unit by name; no setting occurs twice in a unit."""
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


def test_what_jobs_write_to_outlives_the_service_that_starts_them() -> None:
    found = lines(ENSURE)
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


def test_all_services_have_the_same_limits() -> None:
    limits = [{name: lines(unit).get(name) for name in HARDENING} for unit in UNITS]
    assert limits[0] == limits[1] == limits[2]
    assert None not in limits[0].values()


def test_a_job_that_is_a_service_is_stopped_gracefully_and_restarted_only_where_a_restart_can_help() -> None:
    found = lines(RUN)
    assert (found["Type"], found["KillMode"], found["Restart"]) == ("exec", "mixed", "on-failure")
    need_a_person = {ExitCode.USAGE, ExitCode.REFUSED}
    assert {int(code) for code in found["RestartPreventExitStatus"].split()} == {int(code) for code in need_a_person}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_command_line_takes_what_a_service_starts(unit: Path) -> None:
    words = shlex.split(lines(unit)["ExecStart"].replace("%i", "orders_rt"))
    assert not refused_by_parser(shlex.join(["slotkeeper", *words[1:]]))


def test_there_are_units() -> None:
    assert UNITS == [AGENT, ENSURE, RUN]
