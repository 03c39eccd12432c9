"""The command of `[alerts]` can hang, fail, flood or leave a process behind: its time limit ends both."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from slotkeeper.core.alerts.rules import Kind, Notification, Place, text_of
from slotkeeper.core.config import handover
from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.launch import alert_sender
from slotkeeper.core.launch.alert_sender import Answer
from tests.support.pager import Pager
from tests.support.waiting import until
from tests.unit.alerts.made import T0, a_fault


@pytest.fixture
def pager(tmp_path: Path) -> Pager:
    return Pager(tmp_path / "pager")


def run(pager: Pager, seconds: float = 20.0, text: str = '{"a": 1}\n') -> Answer:
    return alert_sender.run(pager.command.split(), text, seconds)


def test_it_gets_the_notification_on_its_input_and_its_answer_is_kept(pager: Pager) -> None:
    assert run(pager) == Answer(0, "", "paged")
    assert pager.told() == [{"a": 1}]


def test_one_that_fails_is_reported_with_its_words(pager: Pager) -> None:
    pager.does("fail")
    found = run(pager)
    assert found.code == 7 and found.said.endswith("exited with status 7: no route to the pager")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["/nowhere/page"], "/nowhere/page cannot be started: No such file or directory"),
        (["/dev/null"], "/dev/null cannot be started: Permission denied"),
        (["/bin/sh", "-c", "kill -9 $$"], "/bin/sh was terminated by signal 9"),
        (["page\x1b]0;x\x07"], "cannot be started"),
        (["/bin/pa\0ge"], "cannot be started"),
    ],
)
def test_what_cannot_be_run_is_reported_and_never_raised(words: list[str], says: str) -> None:
    found = alert_sender.run(words, "{}", 5.0)
    assert says in found.fault and "\x1b" not in found.fault


def test_one_that_hangs_is_killed_at_its_limit(pager: Pager) -> None:
    pager.does("hang")
    began = time.monotonic()
    found = run(pager, 1.5)
    assert found.code is None and found.fault.endswith("did not end within 1.5 s and was killed")
    assert time.monotonic() - began < 15


def test_one_that_floods_is_killed_and_nothing_of_it_is_held(pager: Pager) -> None:
    pager.does("flood")
    found = run(pager)
    assert found.fault.endswith("wrote more than 1 MiB and was killed") and len(found.said) < 1_000


def test_what_it_started_is_killed_with_it(pager: Pager) -> None:
    pager.does("fork")
    assert run(pager, 3.0).code is None
    pid = int((pager.folder / "grandchild").read_text("ascii"))
    until(lambda: _is_gone(pid), 10, "the grandchild is gone")


def test_what_it_leaves_running_is_killed_once_it_has_ended(tmp_path: Path) -> None:
    left = tmp_path / "left"
    began = time.monotonic()
    found = alert_sender.run(["/bin/sh", "-c", f"sleep 600 & echo $! > {left}; echo fine"], "{}", 30.0)
    assert found == Answer(0, "", "fine") and time.monotonic() - began < 20
    until(lambda: _is_gone(int(left.read_text("ascii"))), 10, "what it left is gone")


def test_it_need_not_read_what_it_is_given() -> None:
    assert alert_sender.run(["/bin/true"], "x" * 10_000_000, 20.0) == Answer(0, "")


def test_no_secret_is_in_its_environment(pager: Pager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DWS1_PASSWORD", "pl4nted-hunter2")
    monkeypatch.setattr(handover, "_named", {"DWS1_PASSWORD"})
    run(pager)
    found = json.loads((pager.folder / "environment").read_text("utf-8"))
    assert "PATH" in found and "DWS1_PASSWORD" not in found


def test_the_message_says_all_that_the_fault_says() -> None:
    fault = Fault(
        "sink_fails", Party.SINK, "sink mart", Severity.CRITICAL, "refused \u2028", "4 of 4 DNs wait", "bring it back",
        T0, "orders", "ods.orders", "mart", "try 7", "5 min",
    )  # fmt: skip
    text = text_of(Notification(Kind.AGAIN, fault, T0, T0), Place("h1", "/state"))
    assert text.endswith("}\n") and text.isascii() and text.count("\n") == 1
    found = json.loads(text)
    assert found["fault"].keys() == set(Fault.__dataclass_fields__)
    assert (found["schema"], found["kind"], found["at"]) == (1, "again", "2026-01-31T08:00:00.000Z")
    assert (found["host"], found["state_folder"], found["id"]) == ("h1", "/state", fault.id)
    assert found["fault"]["since"] == found["began"] == "2026-01-31T08:00:00.000Z"
    none = json.loads(text_of(Notification(Kind.FIRED, a_fault(job=""), T0, T0), Place("h1", "/state")))["fault"]
    assert [none[name] for name in ("since", "job", "table", "thing", "value", "limit")] == [None] * 6


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return "\nState:\tZ" in Path(f"/proc/{pid}/status").read_text("ascii")
