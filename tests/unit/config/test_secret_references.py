"""A reference is resolved at each login: the value is cached for a few seconds, and dropped at the first rejection."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest

from slotkeeper.core.config import secrets
from slotkeeper.core.config.secrets import AGAIN_LEAST, AGAIN_MOST, TTL, Reference
from slotkeeper.core.domain.endpoint import SecretRef


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(secrets, "_clock", made)
    monkeypatch.setattr(secrets, "_printed", {})
    return made


class Command:
    def __init__(self, folder: Path) -> None:
        self._file, self._log, script = folder / "secret", folder / "runs", folder / "print.sh"
        script.write_text(f"#!/bin/sh\necho run >> {self._log}\ncat {self._file}\n")
        script.chmod(0o700)
        self.reference = Reference(SecretRef("command", str(script)))

    def prints(self, plain: str) -> None:
        self._file.write_text(plain)

    @property
    def runs(self) -> int:
        return len(self._log.read_text().splitlines()) if self._log.exists() else 0


@pytest.fixture
def command(tmp_path: Path, clock: Clock) -> Command:
    made = Command(tmp_path)
    made.prints("first-0ne")
    return made


def test_logins_that_come_at_once_share_one_run_of_a_command(command: Command) -> None:
    gate, found = threading.Barrier(12), list[str]()

    def log_in() -> None:
        gate.wait(30)
        found.append(command.reference.now())

    logins = [threading.Thread(target=log_in) for _ in range(12)]
    for one in logins:
        one.start()
    for one in logins:
        one.join(30)
    assert (found, command.runs) == (["first-0ne"] * 12, 1)


def test_an_answer_serves_for_a_few_seconds(command: Command, clock: Clock) -> None:
    command.reference.now()
    command.prints("second-0ne")
    clock.now = TTL - 0.1
    assert command.reference.now() == "first-0ne"
    clock.now = TTL
    assert command.reference.now() == "second-0ne"


def test_the_first_refusal_drops_the_answer_at_once(command: Command) -> None:
    command.reference.now()
    command.prints("second-0ne")
    command.reference.refused("first-0ne")
    assert command.reference.now() == "second-0ne"
    command.reference.refused("first-0ne")
    assert (command.reference.now(), command.runs) == ("second-0ne", 2)


def test_a_refused_password_that_is_printed_again_makes_the_command_run_more_and_more_seldom(
    command: Command, clock: Clock
) -> None:
    moments = []
    for tenth in range(3000):
        clock.now = tenth / 10
        before = command.runs if tenth % 5 == 0 else 0
        if tenth % 5 == 0:
            command.reference.refused(command.reference.now())
            moments += [clock.now] if command.runs > before else []
    gaps = [later - one for one, later in itertools.pairwise(moments[1:])]
    assert gaps == sorted(gaps) and gaps[0] <= 2 * AGAIN_LEAST and gaps[-1] == AGAIN_MOST


def test_a_file_is_read_at_each_login(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    for plain in ("first-0ne", "second-0ne"):
        file.write_text(plain)
        assert Reference(SecretRef("file", str(file))).now() == plain


@pytest.mark.parametrize("how", ["command", "file"])
def test_two_servers_that_share_a_reference_are_each_asked_with_what_they_took_last(
    command: Command, tmp_path: Path, how: str
) -> None:
    ref = command.reference.ref if how == "command" else SecretRef("file", str(tmp_path / "secret"))
    early, late = Reference(ref, "early"), Reference(ref, "late")
    for one in (early, late):
        one.taken(one.now())
    command.prints("second-0ne")
    early.refused("first-0ne")
    early.taken(early.now())
    assert (early.accepted(), late.accepted()) == ("second-0ne", "first-0ne")


def test_a_server_that_takes_a_password_does_not_make_the_command_run_for_one_that_refuses_it(
    command: Command, clock: Clock
) -> None:
    takes, refuses = Reference(command.reference.ref, "takes"), Reference(command.reference.ref, "refuses")
    for second in range(60):
        clock.now = float(second)
        takes.taken(takes.now())
        refuses.refused(refuses.now())
    assert command.runs < 12
