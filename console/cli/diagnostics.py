"""The only writer of stderr: what went wrong and what to do next, how far a command is, and each kind's exit code.

An error that we raise on purpose is shown in its own words. Anything else is a defect: one line, and the traceback in
a log file that only its owner can read. Secrets are taken out of both.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from enum import IntEnum
from pathlib import Path

from slotkeeper.console.cli import context
from slotkeeper.console.views.how_far import HowFar, pace, time_left
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError, ErrorKind, SlotkeeperError
from slotkeeper.core.ownership import make_folder
from slotkeeper.core.redaction import masked

_LIMIT = 2_000
_TYPED = 20_000
"""Of what is to be typed: cut it is of no use."""
LOG_BYTES = 1 << 20
"""A log of defects that is longer is rotated; one older file is retained."""


class ExitCode(IntEnum):
    """What the command says to a script (design section 9); DIFFERENT is a result, no error."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    REFUSED = 3
    DIFFERENT = 4
    UNREACHABLE = 5


EXIT_CODES: Mapping[ErrorKind, ExitCode] = {
    ErrorKind.TRANSIENT: ExitCode.UNREACHABLE,
    ErrorKind.CONTENTION: ExitCode.FAILED,
    ErrorKind.ACCESS: ExitCode.FAILED,
    ErrorKind.LOGIN: ExitCode.FAILED,
    ErrorKind.TOPOLOGY: ExitCode.REFUSED,
    ErrorKind.DATA: ExitCode.FAILED,
    ErrorKind.OVERSIZE: ExitCode.FAILED,
    ErrorKind.OPERATOR: ExitCode.REFUSED,
    ErrorKind.CONFIG: ExitCode.USAGE,
    ErrorKind.SUPERSEDED: ExitCode.FAILED,
    ErrorKind.UNKNOWN: ExitCode.FAILED,
    ErrorKind.DEFECT: ExitCode.FAILED,
}


def report(error: BaseException, log: Path) -> ExitCode:
    """Write the error to stderr and return its exit code; a defect's traceback goes to `log`."""
    if isinstance(error, SlotkeeperError) and error.kind is not ErrorKind.DEFECT:
        _say(str(error), error.hint)
        return ExitCode.USAGE if isinstance(error, ConfigError) else EXIT_CODES[error.kind]
    name = type(error).__name__
    what = str(error) if isinstance(error, SlotkeeperError) else f"unexpected {name}"
    _say(f"{what}; this is a defect", _logged(error, log))
    return ExitCode.FAILED


def usage(message: str, hint: str = "") -> ExitCode:
    """Write to stderr what is wrong with the command line; the exit code."""
    _say(message, hint)
    return ExitCode.USAGE


def with_hint(error: SlotkeeperError) -> str:
    """The error and its hint on one line."""
    return f"{error}" + (f" ({error.hint})" if error.hint else "")


def warn(message: str) -> None:
    """Write a warning to stderr: something works but needs attention."""
    _say(f"warning: {message}")


def note(message: str) -> None:
    """Write a line of progress to stderr; a script never needs it."""
    _say(message)


def _say(message: str, hint: str = "") -> None:
    text = f"slotkeeper: {context.pasteable(safe(message, _LIMIT))}\n"
    if hint:
        text += f"  {context.pasteable(safe(hint, _TYPED))}\n"
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:  # stderr is closed; the exit code still tells
        pass


def _logged(error: BaseException, log: Path) -> str:
    """Append the traceback to the log; says where it is, or why it is nowhere."""
    lines = masked("".join(traceback.format_exception(error)))
    stamp = datetime.now(timezone.utc).isoformat(timespec="seconds")
    try:
        with os.fdopen(_appending(log), "a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{stamp} defect\n" + "".join(safe(each, 10_000) + "\n" for each in lines.splitlines()))
    except OSError as failed:
        return f"no log could be written to {log}: {failed.strerror or type(failed).__name__}"
    return f"details: {log}"


def _appending(log: Path) -> int:
    """A descriptor of the log, rotated where it has grown too long; OSError for a link or no regular file."""
    make_folder(log.parent)
    with suppress(FileNotFoundError):
        if log.lstat().st_size > LOG_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))
    # O_NOFOLLOW: a user who can write to the folder must not redirect the log; O_NONBLOCK: nor block us
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(log, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


FIRST, AGAIN, AT_LEAST = 1.0, 1.0, 24.0
"""Seconds before the first line, and between two: where another hundredth is done, and at least."""
_MONOTONIC = SystemClock().monotonic


class Progress:
    """Lines of progress for one thing, at a readable pace; `total` can change meanwhile."""

    def __init__(self, what: str, unit: str, monotonic: Callable[[], float] = _MONOTONIC) -> None:
        self._what, self._unit, self._monotonic = safe(what, 200), unit, monotonic
        self._began = monotonic()
        self._said_at, self._said = self._began + FIRST - AGAIN, ""

    def at(self, done: int, total: int) -> None:
        """Report that `done` of `total` is done."""
        now = self._monotonic()
        share = f"{done / total:.2f}" if total else ""
        if now - self._said_at < (AGAIN if share != self._said else AT_LEAST):
            return
        self._said_at, self._said = now, share
        took = now - self._began
        left, rate = time_left(done, total, took), pace(done, self._unit, took)
        note(HowFar(self._what, min(done, total), total, self._unit, left, rate).line)
