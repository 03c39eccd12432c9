"""The audit retains every line, newest first, reports unreadable ones, rejects actions it cannot record, and is
chained."""

from __future__ import annotations

import json
import os
import pwd
import stat
import subprocess
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from slotkeeper.core.domain.audit import FIRST, Actor, AuditLine, Compared, CopiedHead, Phase, compare
from slotkeeper.core.services.audit import audited
from slotkeeper.core.slots.change import Done
from slotkeeper.core.state import audit as audits
from slotkeeper.core.state.audit import Audit, actor
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder

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


def test_an_empty_audit_is_valid_and_a_damaged_line_is_counted(audit: Audit) -> None:
    assert audit.read().lines == ()
    audit.append(line(1))
    with audit.file.open("a") as file:
        file.write('{"at": "torn\n{"at": "2026-11-21T03:04:05+00:00"}\n')
    audit.append(line(2))
    assert [one.action_id for one in audit.read().lines] == ["id2", "id1"]
    assert audit.read().damaged == 2


def test_where_it_cannot_be_written_the_action_is_refused(audit: Audit) -> None:
    audit.file.mkdir()
    with pytest.raises(StateError, match="is a link or not a regular file"):
        audit.append(line())


def test_who_acts_is_the_login_with_its_sudo_user_and_ssh_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "eva")
    monkeypatch.setenv("SSH_CONNECTION", "10.0.0.9 5022 10.0.0.1 22")
    found = actor()
    assert (found.sudo_user, found.origin, found.pid) == ("eva", "10.0.0.9", os.getpid())
    assert found.text.endswith("(claimed: sudo by eva, from 10.0.0.9)")


def test_the_actor_is_the_uid_and_another_name_in_the_environment_is_a_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, "alice_who_is_not_here")
    found = actor()
    assert (found.uid, found.os_user) == (os.getuid(), pwd.getpwuid(os.getuid()).pw_name)
    assert found.who == f"alice_who_is_not_here (claimed) uid {os.getuid()}"
    assert f"{found.os_user}@{found.host} uid {os.getuid()}" in found.text
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, found.os_user)
    assert actor().who == f"{found.os_user} uid {os.getuid()}"


@pytest.mark.parametrize(
    "wrong",
    [
        {"at": "2026-11-21T03:04:05"},
        {"at": 7},
        {"reason": None},
        {"what": ["x"]},
        {"result": {"dn_1": 7}},
        {"result": []},
        {"phase": "between"},
        {"actor": None},
        {"actor": {"os_user": 7, "host": "h", "pid": 1}},
        {"actor": {"os_user": "a", "host": "h", "pid": "1"}},
        {"actor": {"os_user": "a", "host": "h", "pid": 1, "uid": "0"}},
        {"actor": {"os_user": "a", "host": "h", "pid": 1, "more": "x"}},
        {"before": 7},
        {"unknown": "x"},
    ],
    ids=str,
)
def test_a_line_of_wrong_types_counts_as_damaged_and_the_others_are_read(
    audit: Audit, wrong: dict[str, object]
) -> None:
    audit.append(line(1))
    with audit.file.open("a") as file:
        file.write(json.dumps(line(2).as_json() | wrong) + "\n")
        file.write("[]\n7\n" + "[" * 5_000 + "\n")
    audit.append(line(3))
    found = audit.read()
    assert [one.action_id for one in found.lines] == ["id3", "id1"] and found.damaged == 4
    assert not audit.chain().broken, "it continues from the last complete line"


# -- the chain


def written(audit: Audit, number: int = 5) -> list[str]:
    """Write `number` lines and return their hashes."""
    return [audit.append(line(each)) for each in range(1, number + 1)]


def test_unchanged_lines_form_a_chain(audit: Audit) -> None:
    heads = written(audit)
    chain = audit.chain()
    assert (chain.broken, chain.damaged, [link.digest for link in chain.whole]) == ((), (), heads)
    assert chain.whole[0].before == FIRST


@pytest.mark.parametrize("change", ["removed", "changed", "swapped", "added", "first removed", "made unreadable"])
def test_a_line_that_was_removed_changed_or_added_is_found(audit: Audit, change: str) -> None:
    written(audit)
    lines = audit.file.read_bytes().splitlines(keepends=True)
    changed = {
        "removed": [*lines[:2], *lines[3:]],
        "changed": [*lines[:2], lines[2].replace(b"ods.t", b"ods.u"), *lines[3:]],
        "swapped": [lines[0], lines[2], lines[1], *lines[3:]],
        "added": [*lines[:2], lines[1], *lines[2:]],
        "first removed": lines[1:],
        "made unreadable": [*lines[:2], lines[2].replace(b'"at"', b'"ta"'), *lines[3:]],
    }[change]
    audit.file.write_bytes(b"".join(changed))
    chain = audit.chain()
    assert chain.broken, change
    assert all("audit.jsonl:" in sentence for sentence in chain.broken)


@pytest.mark.parametrize("kept", [1, 40, -2, -1])
def test_a_crash_in_the_middle_of_a_line_breaks_nothing_that_comes_after(audit: Audit, kept: int) -> None:
    written(audit, 2)
    whole = audit.file.read_bytes()
    length = len(whole.splitlines(keepends=True)[1])
    cut = len(whole) - length + kept if kept > 0 else len(whole) + kept
    with audit.file.open("r+b") as file:
        file.truncate(cut)
    audit.append(line(3))
    chain = audit.chain()
    torn = kept != -1  # a line that lacks only its line end is complete
    assert (len(chain.damaged), chain.broken, len(chain.whole)) == (int(torn), (), 3 - torn)
    assert audit.read().lines[0] == line(3)


def test_a_full_file_gets_a_number_and_the_next_begins_with_its_last_hash(
    audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audits, "MOST_BYTES", 1_000)
    heads = written(audit, 12)
    files = sorted(path.name for path in audit.file.parent.glob("audit*.jsonl"))
    assert files[0] == "audit-000001.jsonl" and files[-1] == "audit.jsonl" and len(files) > 3
    chain = audit.chain()
    assert (chain.broken, [link.digest for link in chain.whole]) == ((), heads)
    assert [one.action_id for one in audit.read(9).lines] == [f"id{each}" for each in range(12, 3, -1)]
    (audit.file.parent / files[1]).unlink()
    assert "the file after audit-000001.jsonl is missing" in audit.chain().broken
    (audit.file.parent / files[0]).unlink()
    assert "the files before audit-000003.jsonl are missing" in audit.chain().broken


def test_the_oldest_files_go_beyond_the_limit_and_that_is_said(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "MOST_BYTES", 1_000)
    monkeypatch.setattr(audits, "KEPT", 2)
    written(audit, 12)
    assert len(list(audit.file.parent.glob("audit-*.jsonl"))) == 2
    chain = audit.chain()
    assert chain.rotated_out and not chain.broken


def test_empty_files_with_numbers_do_not_say_that_lines_were_dropped_in_order(audit: Audit) -> None:
    copied = [CopiedHead(head, line(number).at, "one") for number, head in enumerate(written(audit, 3), 1)]
    audit.file.unlink()
    for number in range(2, 2 + audits.KEPT):
        (audit.file.parent / f"audit-{number:06d}.jsonl").touch(mode=0o600)
    audit.append(line(100))
    chain = audit.chain()
    assert "audit-000002.jsonl is not full: lines are missing" in chain.broken
    assert compare(chain, copied).older == 3


def test_writers_that_append_at_once_make_one_chain(audit: Audit) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from slotkeeper.core.state import audit\n"
        "from slotkeeper.core.state.folder import StateFolder\n"
        "audit.LOCK_SECONDS = 60.0\n"
        "made = audit.Audit(StateFolder.open(Path(sys.argv[1])))\n"
        "for number in range(10):\n"
        "    made.append(audit.intent('a', f'{sys.argv[2]} {number}', 'why'))\n"
    )
    words = [sys.executable, "-c", code, str(audit.file.parent)]
    writers = [subprocess.Popen([*words, str(number)]) for number in range(4)]
    assert [one.wait(120) for one in writers] == [0] * 4
    chain = audit.chain()
    assert (len(chain.whole), chain.broken, chain.damaged) == (40, (), ())


def test_a_line_outside_the_chain_is_of_an_earlier_version_or_a_strangers(audit: Audit) -> None:
    audit.file.write_text(json.dumps(line(1).as_json()) + "\n", encoding="utf-8")
    audit.append(line(2))
    assert ([link.place for link in audit.chain().unlinked], audit.chain().broken) == (["audit.jsonl:1"], ())
    with audit.file.open("a") as file:
        file.write(json.dumps(line(3).as_json()) + "\n")
    assert "the line was not written by Slotkeeper" in audit.chain().broken[0]


def test_what_a_sink_knows_and_the_file_has_not_is_named(audit: Audit) -> None:
    heads = written(audit)
    copied = [CopiedHead(heads[number], AT + timedelta(seconds=number + 1), f"a{number}") for number in (0, 3)]
    assert compare(audit.chain(), copied) == Compared(2, (), 1)
    lines = audit.file.read_bytes().splitlines(keepends=True)
    audit.file.write_bytes(b"".join(lines[:3]))
    assert not audit.chain().broken, "the end of a chain proves nothing by itself"
    found = compare(audit.chain(), copied)
    assert len(found.missing) == 1 and found.missing[0].startswith("a3 of 2026-11-21T03:04:09Z")
    audit.file.unlink()
    assert len(compare(audit.chain(), copied).missing) == 2


def test_an_act_begins_once_its_intent_is_on_the_disk_and_not_at_all_where_it_cannot_be_written(
    audit: Audit, monkeypatch: pytest.MonkeyPatch
) -> None:
    said, flushed = list[object](), list[str]()
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    def act() -> Done:
        said.append([one.phase for one in audit.read().lines])
        said.append(list(flushed))
        return Done("done", {})

    monkeypatch.setattr(os, "fsync", noted)
    audited(audit, line(), act)
    assert said[0] == [Phase.INTENT] and audit.file.name in flushed and said[1] == flushed[: len(flushed) // 2]
    assert [one.phase for one in audit.read().lines] == [Phase.OUTCOME, Phase.INTENT]

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError):
        audited(audit, line(2), act)
    assert len(said) == 2, "nothing was done"
