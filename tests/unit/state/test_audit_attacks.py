"""Attacks on the audit's files: which of them the files alone reveal, and which of them a stored head reveals."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.core.domain.audit import FIRST, Actor, AuditLine, CopiedHead, Phase, compare
from slotkeeper.core.services.audit import Proof, SinkProof
from slotkeeper.core.state import audit as audits
from slotkeeper.core.state.audit import Audit
from slotkeeper.core.state.folder import StateFolder

AT = datetime(2026, 11, 21, 3, 4, 5, tzinfo=timezone.utc)
LINES = 12
Lines = list[bytes]


def line(number: int) -> AuditLine:
    who = Actor("dba", "host1", 42, uid=1000)
    at = AT + timedelta(seconds=number)
    return AuditLine(at, who, "slots reset", f"id{number}", Phase.INTENT, f"dws1 ods.t slot s{number}", reason="why")


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audit:
    """An audit with room for twelve lines: two full files and the newest file."""
    monkeypatch.setattr(audits, "MOST_BYTES", 1_500)
    monkeypatch.setattr(audits, "KEPT", 3)
    return Audit(StateFolder.open(tmp_path / "state"))


def head_of(audit: Audit) -> CopiedHead:
    """Write the lines, and return the newest head as a sink stores it."""
    heads = [audit.append(line(number)) for number in range(1, LINES + 1)]
    return CopiedHead(heads[-1], line(LINES).at, f"slots reset intent id{LINES}")


def proofs(audit: Audit, head: CopiedHead) -> tuple[bool, bool]:
    """Whether `audit verify` exits with 4, without and with the stored head."""
    chain = audit.chain()
    return Proof(chain).differs, Proof(chain, (SinkProof("mart", compare(chain, [head])),)).differs


def relinked(lines: Lines) -> Lines:
    before, found = FIRST, []
    for one in lines:
        values = json.loads(one) | {"before": before}
        found.append(json.dumps(values, sort_keys=True, separators=(",", ":")).encode())
        before = hashlib.sha256(found[-1]).hexdigest()
    return found


def without(lines: Lines, *names: str) -> Lines:
    """The lines without `before`, and without these facts of the actor."""
    found = []
    for one in map(json.loads, lines):
        del one["before"]
        actor = {name: value for name, value in one["actor"].items() if name not in names}
        found.append(json.dumps(one | {"actor": actor}, sort_keys=True, separators=(",", ":")).encode())
    return found


def edited(lines: Lines, number: int, old: bytes, new: bytes) -> Lines:
    assert old in lines[number], "else nothing is changed"
    return [*lines[:number], lines[number].replace(old, new), *lines[number + 1 :]]


def inserted(lines: Lines) -> Lines:
    return [*lines[:2], lines[1].replace(b"id2", b"id99"), *lines[2:]]


ON_LINES: dict[str, Callable[[Lines], Lines]] = {
    "remove a line": lambda lines: [*lines[:2], *lines[3:]],
    "reorder two lines": lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
    "edit a line": lambda lines: edited(lines, 2, b"ods.t", b"ods.u"),
    "change a time": lambda lines: edited(lines, 2, b"03:04:08", b"03:04:07"),
    "change an actor": lambda lines: edited(lines, 2, b'"uid":1000', b'"uid":1001'),
    "insert a line": inserted,
    "remove the first lines": lambda lines: lines[2:],
    "strip `before` from each line": without,
    "strip `before` and remove a line": lambda lines: without([*lines[:2], *lines[3:]]),
    "strip `before` and `uid`, and remove a line": lambda lines: without([*lines[:2], *lines[3:]], "uid", "login_uid"),
    "truncate: remove the newest lines": lambda lines: lines[:-1],
    "edit the newest line": lambda lines: edited(lines, LINES - 1, b"ods.t", b"ods.u"),
    "edit a line and link all later lines again": lambda lines: relinked(edited(lines, 2, b"ods.t", b"ods.u")),
    "remove a line and link all later lines again": lambda lines: relinked([*lines[:2], *lines[3:]]),
    "replace the file with other lines": lambda lines: relinked(without(edited(lines[:1], 0, b"ods.t", b"ods.u"))),
    "delete the file": lambda lines: [],
}
"""Each gets the lines of one file and returns the lines after the attack."""


def roll_back(audit: Audit) -> CopiedHead:
    """Restore a copy of the folder that was taken before the newest lines."""
    for number in range(1, 3):
        audit.append(line(number))
    kept = audit.file.read_bytes()
    head = audit.append(line(3))
    audit.file.write_bytes(kept)
    return CopiedHead(head, line(3).at, "slots reset intent id3")


def fork(audit: Audit) -> CopiedHead:
    """Restore an older copy, and let the program continue from there."""
    head = roll_back(audit)
    audit.append(line(4))
    audit.append(line(5))
    return head


def drop_a_file(audit: Audit) -> CopiedHead:
    head = head_of(audit)
    (audit.file.parent / "audit-000002.jsonl").unlink()
    return head


def pretend_rotation(audit: Audit) -> CopiedHead:
    """Leave other lines, enough for the program to drop the oldest files in order."""
    head = head_of(audit)
    for file in audit.file.parent.glob("audit*.jsonl"):
        file.unlink()
    for number in range(100, 126):
        audit.append(line(number))
    assert audit.chain().rotated_out, "else nothing is pretended"
    return head


ON_FOLDERS: dict[str, Callable[[Audit], CopiedHead]] = {
    "roll back to an earlier copy": roll_back,
    "fork: roll back, then continue": fork,
    "remove a numbered file": drop_a_file,
    "pretend that old files were dropped": pretend_rotation,
}


def on_lines(audit: Audit, attack: str, monkeypatch: pytest.MonkeyPatch) -> CopiedHead:
    monkeypatch.setattr(audits, "MOST_BYTES", 1_048_576)
    head = head_of(audit)
    lines = audit.file.read_bytes().splitlines()
    audit.file.write_bytes(b"".join(one + b"\n" for one in ON_LINES[attack](lines)))
    return head


def described() -> dict[str, bool]:
    """For each attack, whether the files alone reveal it according to docs/security.md."""
    page = Path("docs/security.md").read_text("utf-8").partition("## The audit")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (found|not found) \| found \|$", page, re.MULTILINE)
    return {attack: alone == "found" for attack, alone in rows}


def test_the_page_lists_every_attack() -> None:
    assert set(described()) == {*ON_LINES, *ON_FOLDERS}


@pytest.mark.parametrize("attack", [*ON_LINES, *ON_FOLDERS])
def test_an_attack_is_found_with_the_stored_head_and_without_it_as_the_page_says(
    audit: Audit, attack: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = ON_FOLDERS[attack](audit) if attack in ON_FOLDERS else on_lines(audit, attack, monkeypatch)
    alone, with_head = proofs(audit, head)
    assert with_head, "a stored head reveals every attack"
    assert alone == described()[attack]


def test_unchanged_lines_are_found_to_be_right(audit: Audit) -> None:
    assert proofs(audit, head_of(audit)) == (False, False)
