"""Send the notifications in the outbox to the command of `[alerts]`, one at a time, in a separate process.

Run as `python -m slotkeeper.core.launch.alert_sender --state-dir DIR`, with the command on standard input. No
supervisor waits for this process, and the command's time limit applies even if the supervisor that started this process
has exited. At most one sender runs per state folder. A notification is removed from the outbox once the command has
exited with 0; if the sender is killed before that, the notification is sent again.

The command leads its own process group. The whole group is killed at the time limit, or when the command exits and
leaves processes running. The size of the command's output is limited.
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
"""Maximum output of a command in bytes; a command that writes more is killed."""
_KEPT = 2_000
_POLL_SECONDS = 0.02
_KILLED_WITHIN = 2.0
"""Seconds to wait for the exit of a killed command; this is short because other notifications are waiting."""
_BLOCK = 65_536
_left: list[subprocess.Popen[bytes]] = []
"""Commands that could not be killed; they are kept so that their exit codes are still collected."""


@dataclass(frozen=True, slots=True)
class Sender:
    """The command and its time limit in seconds."""

    folder: StateFolder
    command: tuple[str, ...]
    seconds: float

    def send(self, one: Notification) -> Answer:
        return run(self.command, text_of(one, place_of(self.folder)), self.seconds)

    def empty(self) -> None:
        """Send all pending notifications to the command until it fails; do nothing if another process is sending."""
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
    """Return the host and the state folder for notifications."""
    return Place(socket.gethostname(), str(folder.path))


def reap() -> None:
    """Reap the senders that this process started; an exited sender stays in the process table until then."""
    _spawned[:] = [one for one in _spawned if one.poll() is None]


def spawn(folder: StateFolder, options: AlertOptions, given: Sequence[Waiting] = ()) -> None:
    """Start a sender that outlives this process, which does not wait for it. Raises OSError.

    `given` contains notifications that could not be stored for the sender, for example on a full disk; if it is empty,
    the sender sends the outbox.
    """
    values = [notification_values(one.notification) for one in given]
    text = json.dumps({"command": options.command, "seconds": options.command_timeout, "given": values})
    # the command's arguments can be secret, so they are not passed on the sender's command line
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
    """Return the notification to send now, recorded as started; None if none is pending."""
    with file.locked():
        state = file.read()
        if not state.outbox or not may_try(state.failure, _now()):
            return None
        # a notification is sent only if its start can be recorded first
        file.save(replace(state, outbox=begun(state.outbox)))
        return state.outbox[0].notification


def _now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a command."""

    code: int | None
    """The command's exit code (negative for a signal); None if it was killed or could not be started."""
    fault: str
    """The reason why the command failed; empty if it accepted the notification."""
    written: str = ""
    """The beginning of the command's output, as printable text."""

    @property
    def said(self) -> str:
        """The failure as text, with the beginning of the output."""
        return f"{self.fault}: {self.written}" if self.fault and self.written else self.fault


def run(words: Sequence[str], text: str, seconds: float) -> Answer:
    """Run the command with `text` as its standard input; wait at most `seconds` for its exit. Never raises."""
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
    """Return a descriptor from which a child can read text of any size, or leave it unread. Raises OSError.

    With a pipe, this process would have to keep writing until the child has read the whole text.
    """
    descriptor = os.memfd_create("slotkeeper-alert", os.MFD_CLOEXEC)
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _answer(child: subprocess.Popen[bytes], program: str, seconds: float) -> Answer:
    """Wait for the child's exit or its time limit; kill its group before reaping it, so that its pid is not reused."""
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
        # this user may not be allowed to kill a command that runs as another user (sudo)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
        code: int | None = None
        try:
            code = child.wait(_KILLED_WITHIN)
        except subprocess.TimeoutExpired:  # the command runs as another user, or hangs in a system call
            _left.append(child)
    said = safe(bytes(written).decode("utf-8", "replace").strip(), _KEPT // 2)
    if number > MOST_BYTES:
        return Answer(None, f"{program} wrote more than 1 MiB and was killed")
    if code is None:
        return Answer(None, f"{program} did not end within {seconds:g} s and could not be killed", said)
    if not ended:
        return Answer(None, f"{program} did not end within {seconds:g} s and was killed", said)
    if code < 0:
        return Answer(code, f"{program} was terminated by signal {-code}", said)
    return Answer(code, f"{program} exited with status {code}" if code else "", said)


def _drain(reading: int, written: bytearray) -> int:
    """Read the available output, at most MOST_BYTES, and keep its beginning; return the number of bytes read."""
    number = 0
    with suppress(BlockingIOError):
        while number <= MOST_BYTES and (block := os.read(reading, _BLOCK)):
            number += len(block)
            written += block[: max(0, _KEPT - len(written))]
    return number


def main() -> int:
    """Read the command from standard input and send all pending notifications; the next evaluation reports failures."""
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
