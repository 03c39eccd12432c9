"""The read-only and plan-only commands of the runbook: typed as printed, over real servers and a stopped job."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.demo.warehouse import Warehouse
from tests.integration.test_looking_commands import TABLE, _java_is_not_asked
from tests.support.mirror import MakeMirror
from tests.support.polling import config, job
from tests.support.standin import Surface
from tests.unit.test_runbook import COMMANDS

__all__ = ["_java_is_not_asked"]
_LOOKING = (
    "alerts", "audit", "doctor", "errors list", "jobs list", "jobs logs", "jobs show", "locks", "slots history",
    "slots list", "slots peek", "slots preflight", "slots reset", "slots show", "status", "verify",
)  # fmt: skip
SAFE = [
    one
    for one in COMMANDS
    if one.removeprefix("slotkeeper ").startswith(_LOOKING) and "--execute" not in one and "ods.items" not in one
]
JOB = "orders_rt"
ANSWERS = {0: "fine", 1: "failed, or a warning", 2: "critical, by --exit-code", 3: "refused", 4: "different"}


def test_most_of_the_runbook_only_looks() -> None:
    assert len(SAFE) >= 20


@pytest.fixture
def file(warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path) -> Path:
    """A configuration of the runbook's job over real servers; its slot exists, and the job was never started."""
    warehouse.create_table(TABLE, "id bigint, note text", ("id",))
    mirror = make_mirror(warehouse, TABLE)
    client = Surface(warehouse)
    client.start(TABLE, JOB)
    client.close()
    return config(tmp_path, mirror.job.source, mirror.job.sink, job(JOB, JOB, TABLE, "mart.orders"))


@pytest.mark.parametrize("command", SAFE)
def test_it_answers(file: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """No defect, and no usage error: 2 is an answer of `status --exit-code` alone."""
    words = shlex.split(command)[1:]
    code = main([*words, "--config", str(file)])
    said = capsys.readouterr()
    assert code in ANSWERS and "defect" not in said.err, said.err
    assert code != 2 or "--exit-code" in words or "has no offset" in said.err, said.err
