"""Gives what waits in the outbox to the command of `[alerts]`, one after another, in a process of its own.

`python -m slotkeeper.core.launch.alert_sender --state-dir DIR`, with the command on its standard input: no supervisor
waits for it, and the limit of a command holds also where the supervisor that started it has exited. At most one runs
for a state folder. A notification is taken out when the command has ended with 0: killed in between, it is sent once
more.

The command leads a process group of its own, which is killed whole: at the limit, or when the command itself has ended
and left something running. What it writes is bounded.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from slotkeeper.core.alerts.rules import Notification, Place, Waiting, begun, failed, may_try, text_of
from slotkeeper.core.config import handover, masking
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.judgement.facts import AlertOptions
from slotkeeper.core.launch import identity
from slotkeeper.core.launch.identity import MARK
from slotkeeper.core.state.alerts import AlertFile, notification_of, notification_values
from slotkeeper.core.state.folder import StateFolder

_PYTHON = (sys.executable, "-P", "-m")
_spawned: list[subprocess.Popen[bytes]] = []
MOST_BYTES = 1 << 20
"""A command that writes more than this is killed: no process reads it."""
_KEPT = 2_000
_POLL_SECONDS = 0.02
_KILLED_WITHIN = 2.0
"""Seconds that the end of a killed command is waited for; what waits after it must be sent all the same."""
_BLOCK = 65_536
_left: list[subprocess.Popen[bytes]] = []
"""What could not be killed, kept so that its end is still noted."""


@dataclass(frozen=True, slots=True)
class Sender:
    """The command's words and its limit in seconds."""

    folder: StateFolder
    command: tuple[str, ...]
    seconds: float

    def send(self, one: Notification) -> Answer:
        return run(self.command, text_of(one, place_of(self.folder)), self.seconds)

    def empty(self) -> None:
        """Give all that waits to the command, until it fails; nothing where another process does so."""
        file = AlertFile(self.folder, by=identity.of(os.getpid()))
        lock = file.try_sender()
        if lock is None:
            return
        try:
            while (one := _begin(file)) is not None:
                answer = self.send(one)
                with file.locked():
                    state = file.read()
                    if answer.fault:
                        file.save(replace(state, failure=failed(state.failure, safe(answer.said, 300), _now())))
                        return
                    first = state.outbox[:1]
                    taken = bool(first) and first[0].begun and first[0].notification == one
                    file.save(replace(state, outbox=state.outbox[1:] if taken else state.outbox, failure=None))
        finally:
            lock.release()


def place_of(folder: StateFolder) -> Place:
    """The host and the state folder that a notification names."""
    return Place(socket.gethostname(), str(folder.path))


def reap() -> None:
    """Note the end of senders that we started: one that has ended stays in the system's table until then."""
    _spawned[:] = [one for one in _spawned if one.poll() is None]


def spawn(folder: StateFolder, options: AlertOptions, given: Sequence[Waiting] = ()) -> None:
    """Start a sender, which outlives us; no process waits for it. Raises OSError.

    `given` are notifications that could not be kept for it (a full disk); else it takes what waits in the outbox.
    """
    values = [notification_values(one.notification) for one in given]
    text = json.dumps({"command": options.command, "seconds": options.command_timeout, "given": values})
    # the command's arguments may be secret: they are on no command line of Slotkeeper
    reading = in_memory(text)
    env = {name: value for name, value in handover.environment().items() if name != MARK}
    try:
        child = subprocess.Popen(
            [*_PYTHON, "slotkeeper.core.launch.alert_sender", "--state-dir", str(folder.path)],
            stdin=reading, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=env,
            cwd=Path("/"),
        )  # fmt: skip
    finally:
        os.close(reading)
    _spawned.append(child)


def _begin(file: AlertFile) -> Notification | None:
    """The notification to send now, noted as started; None where nothing waits."""
    with file.locked():
        state = file.read()
        if not state.outbox or not may_try(state.failure, _now()):
            return None
        # also where it is noted: what cannot be noted is not sent
        file.save(replace(state, outbox=begun(state.outbox)))
        return state.outbox[0].notification


def _now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command answered."""

    code: int | None
    """Its exit code (negative: a signal), None where it was killed or could not be started."""
    fault: str
    """Empty where it took the notification."""
    written: str = ""
    """The beginning of what it wrote, made visible."""

    @property
    def said(self) -> str:
        """Its failure as text, with the beginning of its output."""
        return f"{self.fault}: {self.written}" if self.fault and self.written else self.fault


def run(words: Sequence[str], text: str, seconds: float) -> Answer:
    """Start the command with a text on its standard input and wait for its end, `seconds` at most; never raises."""
    program = safe(words[0], 200)
    try:
        given = in_memory(text)
    except OSError as error:
        return Answer(None, f"{program} cannot be started: {error.strerror or error}")
    try:
        child = subprocess.Popen(
            words, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env=handover.environment(), cwd=Path("/"),
        )  # fmt: skip
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        return Answer(None, f"{program} cannot be started: {reason}")
    finally:
        os.close(given)
    return _answer(child, program, seconds)


def in_memory(text: str) -> int:
    """A descriptor from which a child reads a text, however much it is and whether it reads it or not. Raises OSError.

    A pipe would have to be fed for as long as the child does not read.
    """
    descriptor = os.memfd_create("slotkeeper-alert", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _answer(child: subprocess.Popen[bytes], program: str, seconds: float) -> Answer:
    """Follow it to its end or its limit. Its group is killed before it is reaped: no other process has its id."""
    assert child.stdout is not None
    reading = child.stdout.fileno()
    os.set_blocking(reading, False)
    end, written, number = time.monotonic() + seconds, bytearray(), 0
    unreaped = os.WEXITED | os.WNOHANG | os.WNOWAIT
    try:
        while not (ended := os.waitid(os.P_PID, child.pid, unreaped)):
            if time.monotonic() >= end or number > MOST_BYTES:
                break
            number += _drain(reading, written)
            time.sleep(_POLL_SECONDS)
        _drain(reading, written)
    finally:
        # a command that has become another user's (sudo) may not be ours to kill
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
        code: int | None = None
        try:
            code = child.wait(_KILLED_WITHIN)
        except subprocess.TimeoutExpired:  # another user's, or in a call that hangs
            _left.append(child)
    said = safe(bytes(written).decode("utf-8", "replace").strip(), _KEPT // 2)
    if number > MOST_BYTES:
        return Answer(None, f"{program} wrote more than 1 MiB and was killed")
    if code is None:
        return Answer(None, f"{program} has not ended within {seconds:g} s and could not be killed", said)
    if not ended:
        return Answer(None, f"{program} has not ended within {seconds:g} s and was killed", said)
    if code < 0:
        return Answer(code, f"{program} was ended by signal {-code}", said)
    return Answer(code, f"{program} ended with status {code}" if code else "", said)


def _drain(reading: int, written: bytearray) -> int:
    """Read what is there, MOST_BYTES at most, keep its beginning; how much it was."""
    number = 0
    with suppress(BlockingIOError):
        while number <= MOST_BYTES and (block := os.read(reading, _BLOCK)):
            number += len(block)
            written += block[: max(0, _KEPT - len(written))]
    return number


def main() -> int:
    """Take the command from our input, then empty the outbox; the next evaluation reports what goes wrong."""
    masking.mask_tracebacks()
    parser = argparse.ArgumentParser(prog="slotkeeper.core.launch.alert_sender")
    parser.add_argument("--state-dir", required=True)
    folder = StateFolder.open(Path(parser.parse_args().state_dir))
    found: Mapping[str, Any] = json.loads(sys.stdin.read())
    sender = Sender(folder, tuple(found["command"]), float(found["seconds"]))
    try:
        for one in found["given"]:
            sender.send(notification_of(one))
        if not found["given"]:
            sender.empty()
    except SlotkeeperError:
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
