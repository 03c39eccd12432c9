"""The audit keeps every line, newest first, says what it cannot read, and refuses where it cannot write."""

from __future__ import annotations

import getpass
import os
import stat
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from core.domain.audit import Actor, AuditLine, Phase
from core.state import audit as audit_module
from core.state.audit import Audit, actor
from core.state.faults import StateError
from core.state.folder import StateFolder

AT = datetime(2026, 11, 21, 3, 4, 5, 678000, tzinfo=timezone.utc)
WHO = Actor("dba", "host1", 42, "eva", "10.0.0.9")


def line(number: int = 1, phase: Phase = Phase.INTENT, **more: str) -> AuditLine:
    result = {"dn_1": "10500 -> 10400", "dn_2": "\x1b[31mhostile"}
    at = AT + timedelta(seconds=number)
    return AuditLine(at, WHO, "slot reset", f"id{number}", phase, "dws1 ods.t slot s", result=result, **more)


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(StateFolder.open(tmp_path / "state"))


def test_what_was_written_is_read_newest_first_and_only_its_owner_may(audit: Audit) -> None:
    lines = [line(1, reason="why"), line(1, Phase.OUTCOME, outcome="done", plan="p1"), line(2)]
    for one in lines:
        audit.append(one)
    assert audit.read().lines == tuple(reversed(lines))
    assert audit.read(1).lines == (lines[-1],)
    assert stat.S_IMODE(audit.file.stat().st_mode) == 0o600
    assert "\x1b" not in audit.file.read_text(), "hostile bytes stay escaped in the file"


def test_nothing_done_is_no_error_and_a_damaged_line_is_counted(audit: Audit) -> None:
    assert audit.read().lines == ()
    audit.append(line(1))
    with audit.file.open("a") as file:
        file.write('{"at": "torn\n{"at": "2026-11-21T03:04:05+00:00"}\n')
    audit.append(line(2))
    assert [one.action_id for one in audit.read().lines] == ["id2", "id1"]
    assert audit.read().damaged == 2


def test_where_it_cannot_be_written_the_action_is_refused(audit: Audit) -> None:
    audit.file.mkdir()
    with pytest.raises(StateError, match="cannot be written"):
        audit.append(line())


def test_the_audit_does_not_grow_without_a_limit_and_its_newest_lines_stay(
    audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_module, "MOST_BYTES", 1_000)
    for number in range(60):
        audit.append(line(number))
    files = sorted(one.name for one in audit.file.parent.glob("audit.jsonl*"))
    assert files == ["audit.jsonl", *(f"audit.jsonl.{number}" for number in range(1, audit_module.OLDER + 1))]
    longest = 1_000 + max(len(text) for text in audit.file.read_text().splitlines()) + 1
    assert all(one.stat().st_size <= longest for one in audit.file.parent.glob("audit.jsonl*"))
    assert [one.action_id for one in audit.read(8).lines] == [f"id{number}" for number in range(59, 51, -1)]
    assert 8 < len(audit.read(100).lines) < 60


def test_who_acts_without_a_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 64001")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert actor().os_user == f"uid {os.geteuid()}"


def test_who_acts_is_the_login_with_its_sudo_user_and_ssh_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "eva")
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.9 5022 10.0.0.1 22")
    found = actor()
    assert (found.sudo_user, found.origin, found.pid) == ("eva", "10.0.0.9", os.getpid())
    assert found.text.endswith("(sudo by eva) from 10.0.0.9")
