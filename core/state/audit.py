"""The audit file: append-only JSON lines in the state folder, flushed to the disk before an action goes on.

It helps honest people to find out what happened; it claims nothing against somebody who owns the file.
Next door: `core.domain.audit` is a line, `core.state.folder` the folder.
"""

from __future__ import annotations

import errno
import getpass
import json
import os
import socket
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from core.clock import SystemClock
from core.domain.audit import Actor, AuditLine, Phase
from core.errors import Busy
from core.state.faults import cannot_write
from core.state.folder import StateFolder

FILE = "audit.jsonl"
MOST_BYTES = 16 << 20
"""A file that is longer is put aside; with the older ones that is some 250,000 actions."""
OLDER = 4
_LOCK_SECONDS = 2.0


def actor() -> Actor:
    """Who runs this program; the SSH client's address is the shell's own word for it."""
    origin = os.environ.get("SSH_CONNECTION", "").split(" ")[0]
    return Actor(_login(), socket.gethostname(), os.getpid(), os.environ.get("SUDO_USER", ""), origin)


def _login() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user without a name, as containers have
        return f"uid {os.geteuid()}"


def intent(action: str, what: str, reason: str, result: Mapping[str, str] | None = None) -> AuditLine:
    """The line that is written before an action."""
    return AuditLine(
        SystemClock().utc(), actor(), action, uuid.uuid4().hex[:16], Phase.INTENT, what, reason, result=result or {}
    )


def outcome(line: AuditLine, said: str, result: Mapping[str, str]) -> AuditLine:
    """The line that is written after it."""
    return replace(line, at=SystemClock().utc(), phase=Phase.OUTCOME, outcome=said, result=dict(result))


@dataclass(frozen=True, slots=True)
class Read:
    """Lines, the newest first; `damaged` counts lines that cannot be read.

    Not `whole`: older lines that were asked for are in the file only.
    """

    lines: tuple[AuditLine, ...]
    damaged: int
    whole: bool = True


class Audit:
    """The audit of one state folder."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    @property
    def file(self) -> Path:
        """Where the lines are."""
        return self._folder.path / FILE

    def append(self, line: AuditLine) -> None:
        """Write one line and flush it to the disk; raises StateError where that fails, and then nothing may be done."""
        text = json.dumps(line.as_json(), ensure_ascii=True, separators=(",", ":")) + "\n"
        self._bound()
        descriptor = self._folder.append(self.file)
        try:
            _write_all(descriptor, text.encode())
            os.fsync(descriptor)
        except OSError as error:
            raise cannot_write(self.file, error, "the audit ") from error
        finally:
            os.close(descriptor)

    def read(self, limit: int = 200) -> Read:
        """The newest lines; none where nothing was ever done."""
        lines: list[AuditLine] = []
        damaged = 0
        for file in (self.file, *self._older()):
            try:
                texts = self._folder.read(file).decode("utf-8", "replace").splitlines()
            except FileNotFoundError:
                break
            found = [_parsed(text) for text in reversed(texts)]
            lines += [line for line in found if line is not None]
            damaged += found.count(None)
            if len(lines) >= limit:
                break
        return Read(tuple(lines[:limit]), damaged)

    def _older(self) -> list[Path]:
        return [self.file.with_name(f"{FILE}.{number}") for number in range(1, OLDER + 1)]

    def _bound(self) -> None:
        """Put a file aside that has grown too long, and drop the oldest; whoever has it open writes its line there."""
        if not self._is_long():
            return
        with suppress(Busy), self._folder.locked("audit", "rotate", _LOCK_SECONDS):
            if not self._is_long():
                return
            files = [self.file, *self._older()]
            try:
                for newer, later in reversed(list(pairwise(files))):
                    with suppress(FileNotFoundError):
                        newer.rename(later)
            except OSError as error:
                raise cannot_write(self.file, error, "the audit ") from error

    def _is_long(self) -> bool:
        try:
            return self.file.lstat().st_size >= MOST_BYTES
        except FileNotFoundError:
            return False


def _parsed(text: str) -> AuditLine | None:
    try:
        return AuditLine.parse(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None


def _write_all(descriptor: int, content: bytes) -> None:
    """One write: lines of several programs that append at once do not mix."""
    written = os.write(descriptor, content)
    if written != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
