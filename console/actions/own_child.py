"""Run one of the user's own commands for the console: without a shell, in its own session, with two audit lines.

`python -m slotkeeper.console.actions.own_child FOLDER FILE NAME MARK REASON KEY=VALUE...`. The file is read again
according to the same rules. If the argument list does not match MARK, the hash of the list that was shown, the command
does not run. The program's output is passed on up to a limit, so that it cannot fill the disk. After SIGINT or SIGTERM,
the program and the processes that it started in its session are ended, first with SIGTERM and after a few seconds with
SIGKILL.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from slotkeeper.console.actions import own
from slotkeeper.console.actions.own import ROW, OwnCommand
from slotkeeper.core.config import handover
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.redaction import masked
from slotkeeper.core.services.audit import audited
from slotkeeper.core.slots.change import Done
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.folder import StateFolder

ACTION = "own command"
REFUSED, INTERRUPTED, NOT_STARTED = 3, 130, 127
MOST_WRITTEN = 300_000
"""The maximum number of bytes of a program's output to retain."""
GRACE_SECONDS = 5.0
_TWICE = 2
QUIET_SECONDS = 0.5
"""Seconds for which output is still read after the program has ended, because its child processes can hold it open."""


_signals: list[int] = []
"""Signals received. They are checked when the program can be ended, never during a write to the audit."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return the program's exit code, 128 plus the signal that ended it, or 3 if it was refused."""
    folder, file, name, mark, reason, *pairs = sys.argv[1:] if argv is None else argv
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: _signals.append(number))
    try:
        found = own.read(Path(file))
        command = found.command(name)
        if command is None:
            raise Refused(
                f"unknown own command {safe(name, 40)}", next(iter(found.faults), f"it is not defined in {own.FILE}")
            )
        if command.mark != mark:
            raise Refused(
                f"own command {name} has changed since it was shown: {safe(command.text, 200)}", "request it again"
            )
        row = dict(pair.split("=", 1) for pair in pairs)
        return _run(Audit(StateFolder.open(Path(folder))), command, row, reason)
    except KeyboardInterrupt:
        return INTERRUPTED
    except SlotkeeperError as error:
        hint = f"\n  {error.hint}" if error.hint else ""
        sys.stderr.write(f"slotkeeper: {error.message}{hint}\n")
        return REFUSED


def program_of(word: str, path: str) -> str:
    """Return the path of a program, found in the absolute folders of PATH. Raises Refused if there is none."""
    parts = os.pathsep.join(part for part in path.split(os.pathsep) if part.startswith("/"))
    found = shutil.which(word, path=parts)
    if found is None:
        raise Refused(f"program {safe(word, 80)} was not found", "give its absolute path, or check PATH")
    return found


def environment(row: Mapping[str, str]) -> dict[str, str]:
    """Return the console's environment without secrets from a configuration, with the row's values set."""
    return {**handover.environment(), **{key: row.get(key, "") for key in ROW}}


def _run(audit: Audit, command: OwnCommand, row: Mapping[str, str], reason: str) -> int:
    env, ended = environment(row), [0]
    program = program_of(command.run[0], env.get("PATH", os.defpath))
    shown = {key: safe(masked(row.get(key, "")), 200) for key in ROW if row.get(key)}
    line = intent(ACTION, f"{command.name}: {safe(masked(command.text), 300)}", reason, shown)

    def act() -> Done:
        try:
            child = subprocess.Popen(
                command.run, executable=program, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise Refused(f"cannot start {command.name}: {safe(error, 120)}", "no program was run") from error
        with child:
            try:
                written = _passed_on(child)
            except BaseException:
                _end(child)
                raise
        ended[0] = child.returncode if child.returncode >= 0 else 128 - child.returncode
        return Done(f"{'failed: ' if ended[0] else ''}exit {ended[0]}", {"bytes written": str(written)})

    audited(audit, line, act, catches=BaseException)
    return ended[0]


def _passed_on(child: subprocess.Popen[bytes]) -> int:
    """Pass on the program's output until it has ended, and return its size in bytes."""
    assert child.stdout is not None
    source, written, until = child.stdout.fileno(), 0, float("inf")
    while time.monotonic() < until:
        if select.select([source], [], [], 0.1)[0]:
            piece = os.read(source, 65_536)
            if not piece:
                break
            _write(piece[: max(0, MOST_WRITTEN - written)])
            written += len(piece)
        if _signals:
            raise KeyboardInterrupt
        if until == float("inf") and _is_over(child):
            until = time.monotonic() + QUIET_SECONDS
    if written > MOST_WRITTEN:
        _write(f"\n... {written - MOST_WRITTEN:,} more bytes are not stored\n".encode())
    return written


def _is_over(child: subprocess.Popen[bytes]) -> bool:
    """Return whether the program has ended. The kernel does not reuse its pid until the exit status is read."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _write(piece: bytes) -> None:
    while piece:
        piece = piece[os.write(1, piece) :]


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the program and the processes it started in its session. A second signal skips the wait."""
    until = time.monotonic() + GRACE_SECONDS
    with suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        while not _is_over(child) and time.monotonic() < until and len(_signals) < _TWICE:
            time.sleep(0.05)
        os.killpg(child.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
