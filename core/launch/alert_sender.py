"""Gives what waits in the outbox to the command of `[alerts]`, one after another, in a process of its own.

`python -m slotkeeper.core.launch.alert_sender --state-dir DIR`, with the command on its standard input: no supervisor
waits for it, and the limit of a command holds also where the supervisor that started it is gone. At most one lives for
a state folder. A notification is taken out when the command has ended with 0: killed in between, it is told once more.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from slotkeeper.core.alerts.rules import AlertState, Notification, Place, Waiting, begun, failed, may_try, text_of
from slotkeeper.core.config import handover, masking
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.judgement.limits import AlertOptions
from slotkeeper.core.launch import alert_command, identity
from slotkeeper.core.launch.alert_command import Answer
from slotkeeper.core.launch.identity import MARK
from slotkeeper.core.state.alerts import AlertFile, notification_of, notification_values
from slotkeeper.core.state.folder import StateFolder

_PYTHON = (sys.executable, "-P", "-m")
_spawned: list[subprocess.Popen[bytes]] = []


@dataclass(frozen=True, slots=True)
class Sender:
    """Who is told: the command's words and its limit in seconds."""

    folder: StateFolder
    command: tuple[str, ...]
    seconds: float

    def send(self, one: Notification) -> Answer:
        """Run the command with one notification."""
        return alert_command.run(self.command, text_of(one, place_of(self.folder)), self.seconds)

    def empty(self) -> None:
        """Give all that waits to the command, until it fails; nothing where somebody does so already."""
        file = AlertFile(self.folder, by=identity.of(os.getpid()))
        lock = file.try_sender()
        if lock is None:
            return
        try:
            while (one := _begin(file)) is not None:
                answer = self.send(one)
                _end(file, one, answer)
                if answer.fault:
                    return
        finally:
            lock.release()


def place_of(folder: StateFolder) -> Place:
    """Whose faults are told."""
    return Place(socket.gethostname(), str(folder.path))


def reap() -> None:
    """Note the end of senders that we started: one that has ended stays in the system's table until then."""
    _spawned[:] = [one for one in _spawned if one.poll() is None]


def spawn(folder: StateFolder, options: AlertOptions, given: Sequence[Waiting] = ()) -> None:
    """Start a sender, which outlives us; it is waited for by nobody. Raises OSError.

    `given` are notifications that could not be kept for it (a full disk); else it takes what waits in the outbox.
    """
    values = [notification_values(one.notification) for one in given]
    text = json.dumps({"command": options.command, "seconds": options.command_timeout, "given": values})
    # the command's arguments may be secret: they are on no command line of ours
    reading = alert_command.in_memory(text)
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
    """The notification that is to be told now, noted as begun; None where nothing waits."""
    with file.locked():
        state = file.read()
        if not state.outbox or not may_try(state.failure, _now()):
            return None
        file.save(replace(state, outbox=begun(state.outbox)))  # also where it is: what cannot be noted is not told
        return state.outbox[0].notification


def _end(file: AlertFile, one: Notification, answer: Answer) -> None:
    with file.locked():
        state = file.read()
        file.save(_after(state, one, answer, _now()))


def _after(state: AlertState, one: Notification, answer: Answer, now: datetime) -> AlertState:
    if answer.fault:
        return replace(state, failure=failed(state.failure, safe(answer.said, 300), now))
    first = state.outbox[:1]
    taken = bool(first) and first[0].begun and first[0].notification == one
    return replace(state, outbox=state.outbox[1:] if taken else state.outbox, failure=None)


def _now() -> datetime:
    return datetime.now(timezone.utc)


def main() -> int:
    """Take the command from our input, then empty the outbox; what goes wrong is told by the next evaluation."""
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
