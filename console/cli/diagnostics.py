"""The only writer of stderr: errors and their hints, progress, and the exit code of each kind of error.

An error that Slotkeeper raises on purpose is shown with its own message. Any other error is a defect: stderr gets
one line, and the traceback goes to a log file that only its owner can read. Secrets are removed from both.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from enum import IntEnum
from pathlib import Path

from slotkeeper.console.cli import context
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError, ErrorKind, SlotkeeperError
from slotkeeper.core.redaction import masked

_LIMIT = 2_000
_TYPED = 20_000
"""The maximum length of hints. It is high, because a truncated command cannot be typed."""
LOG_BYTES = 1 << 20
"""The size at which the log of defects is rotated; one older file is retained."""


class ExitCode(IntEnum):
    """The exit code of a command (design section 9). DIFFERENT is a result, not an error."""

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
    """Write an error to stderr and return its exit code. The traceback of a defect is appended to `log`."""
    if isinstance(error, SlotkeeperError) and error.kind is not ErrorKind.DEFECT:
        _say(str(error), error.hint)
        return ExitCode.USAGE if isinstance(error, ConfigError) else EXIT_CODES[error.kind]
    name = type(error).__name__
    what = str(error) if isinstance(error, SlotkeeperError) else f"unexpected {name}"
    _say(f"{what}; this is a defect", _logged(error, log))
    return ExitCode.FAILED


def usage(message: str, hint: str = "") -> ExitCode:
    """Report an invalid command line on stderr and return the exit code."""
    _say(message, hint)
    return ExitCode.USAGE


def with_hint(error: SlotkeeperError) -> str:
    """Return the error and its hint on one line."""
    return f"{error}" + (f" ({error.hint})" if error.hint else "")


def warn(message: str) -> None:
    """Write a warning to stderr: something works but needs attention."""
    _say(f"warning: {message}")


def note(message: str) -> None:
    """Write a progress message to stderr, which scripts can ignore."""
    _say(message)


def _say(message: str, hint: str = "") -> None:
    text = f"slotkeeper: {context.pasteable(safe(message, _LIMIT))}\n"
    if hint:
        text += f"  {context.pasteable(safe(hint, _TYPED))}\n"
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:  # stderr is closed; the exit code still reports the result
        pass


def _logged(error: BaseException, log: Path) -> str:
    """Append the traceback to the log. Return the path of the log, or the reason why it was not written."""
    import traceback

    lines = masked("".join(traceback.format_exception(error)))
    stamp = datetime.now(timezone.utc).isoformat(timespec="seconds")
    try:
        with os.fdopen(_appending(log), "a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(f"{stamp} defect\n" + "".join(safe(each, 10_000) + "\n" for each in lines.splitlines()))
    except OSError as failed:
        return f"could not write the log {log}: {failed.strerror or type(failed).__name__}"
    return f"details: {log}"


def _appending(log: Path) -> int:
    """Open the log, rotated if it is too long. Raises OSError if it is a link or not a regular file."""
    from slotkeeper.core.ownership import make_folder

    make_folder(log.parent)
    with suppress(FileNotFoundError):
        if log.lstat().st_size > LOG_BYTES:
            log.replace(log.with_name(f"{log.name}.1"))
    # O_NOFOLLOW: another user of the folder cannot redirect the log. O_NONBLOCK: a FIFO cannot block this process.
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(log, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file")
    return descriptor


FIRST, AGAIN, AT_LEAST = 1.0, 1.0, 24.0
"""Seconds before the first line, between lines if another percent is done, and between any two lines at most."""
_MONOTONIC = SystemClock().monotonic


class Progress:
    """Progress lines of one operation, at a readable rate. `total` can change while it runs."""

    def __init__(self, what: str, unit: str, monotonic: Callable[[], float] = _MONOTONIC) -> None:
        self._what, self._unit, self._monotonic = safe(what, 200), unit, monotonic
        self._began = monotonic()
        self._said_at, self._said = self._began + FIRST - AGAIN, ""

    def at(self, done: int, total: int) -> None:
        """Report that `done` of `total` units are done."""
        now = self._monotonic()
        share = f"{done / total:.2f}" if total else ""
        if now - self._said_at < (AGAIN if share != self._said else AT_LEAST):
            return
        from slotkeeper.console.views.how_far import HowFar, pace, time_left

        self._said_at, self._said = now, share
        took = now - self._began
        left, rate = time_left(done, total, took), pace(done, self._unit, took)
        note(HowFar(self._what, min(done, total), total, self._unit, left, rate).line)
