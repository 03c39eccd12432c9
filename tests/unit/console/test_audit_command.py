"""`audit verify`, `accept` and `export` over a state folder without sinks: exit codes, and the bytes of lines."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder

AT = datetime(2026, 11, 21, 3, 4, 5, tzinfo=timezone.utc)


def line(number: int, uid: int | None = 1000) -> AuditLine:
    who = Actor("dba", "host1", 42, uid=uid)
    return AuditLine(
        AT + timedelta(minutes=number), who, "slots drop", f"id{number}", Phase.INTENT, "dws1 ods.t slot s"
    )


@pytest.fixture
def audit(tmp_path: Path) -> Audit:
    return Audit(StateFolder.open(tmp_path / "state"))


def call(audit: Audit, *words: str) -> int:
    return main(["audit", *words, "--state-dir", str(audit.file.parent)])


def earlier(audit: Audit, uid: int | None = None) -> None:
    """Two lines as a version without a chain wrote them, then one of this version."""
    for number in (1, 2):
        values = line(number, uid).as_json()
        if uid is None:
            for name in ("uid", "login_uid", "claimed"):
                del values["actor"][name]
        with audit.file.open("a") as file:
            file.write(json.dumps(values, separators=(",", ":")) + "\n")
    audit.file.chmod(0o600)
    audit.append(line(3))


def test_lines_without_a_hash_are_a_difference_until_a_person_accepts_them(
    audit: Audit, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier(audit)
    assert call(audit, "verify") == 4
    said = " ".join(capsys.readouterr().out.split())
    assert "UNLINKED: 2 lines (the first: audit.jsonl:1) have no hash of the line before them." in said
    assert "`slotkeeper audit accept --reason TEXT`" in said
    assert call(audit, "accept") == 3
    assert call(audit, "accept", "--reason", "compared with the backup of Monday") == 0
    assert "2 lines accepted" in capsys.readouterr().out
    audit.append(line(5))
    assert call(audit, "verify", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["differs"], found["unlinked"], found["accepted"], found["lines"]) == (False, 0, 2, 5)
    assert "whether 2 unlinked lines were unchanged before they were accepted" in found["unproven"]


@pytest.mark.parametrize("number", [0, 1])
def test_an_accepted_line_that_is_changed_or_removed_is_found(
    audit: Audit, number: int, capsys: pytest.CaptureFixture[str]
) -> None:
    earlier(audit)
    assert call(audit, "accept", "--reason", "why") == 0
    lines = audit.file.read_bytes().splitlines(keepends=True)
    for changed in (lines[:number] + lines[number + 1 :], [one.replace(b"ods.t", b"ods.u", 1) for one in lines[:1]]):
        rest = [] if len(changed) > 1 else lines[1:]
        audit.file.write_bytes(b"".join([*changed, *rest]))
        assert call(audit, "verify") == 4
        assert "BROKEN" in capsys.readouterr().out


def test_lines_that_have_lost_their_hash_are_not_accepted(audit: Audit, capsys: pytest.CaptureFixture[str]) -> None:
    earlier(audit, uid=1000)
    before = audit.file.read_bytes()
    assert call(audit, "verify") == 4
    assert "its hash was removed" in capsys.readouterr().out
    assert call(audit, "accept", "--reason", "why") == 3
    assert "nothing was accepted" in capsys.readouterr().err
    assert audit.file.read_bytes() == before


def test_lines_are_exported_as_they_are_stored(audit: Audit, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for number in range(1, 5):
        audit.append(line(number))
    stored = audit.file.read_bytes()
    assert call(audit, "export") == 0
    assert capfdbinary.readouterr().out == stored
    assert call(audit, "export", "--since", "2026-11-21T03:07:05Z") == 0
    assert capfdbinary.readouterr().out == b"".join(stored.splitlines(keepends=True)[2:])
    with audit.file.open("ab") as file:
        file.write(b"another line \x1b[2J\n")
    assert call(audit, "export") == 0
    said = capfdbinary.readouterr()
    assert said.out == stored and b"1 line of" in said.err and b"cannot be read" in said.err
    assert call(audit, "export", "--since", "yesterday") == 2
