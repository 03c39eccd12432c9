"""The audit files: append-only JSON lines in the state folder, each flushed to disk before the action continues.

The lines are linked (`slotkeeper.core.domain.audit`). A writer holds the folder's audit lock, so that the members of a
team take turns writing to a shared folder. A full file is renamed to a numbered name and retained, up to `KEPT` files.
The owner of the files can rewrite all of them, but the copies in sinks reveal this.
"""

from __future__ import annotations

import errno
import os
import pwd
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from slotkeeper.core.bounded import size_of
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.audit import (
    ACCEPT,
    FIRST,
    SEAL,
    Actor,
    AuditLine,
    Chain,
    Link,
    Phase,
    judge,
    link_of,
    linked,
    seal,
)
from slotkeeper.core.domain.audit import digest as digest_of
from slotkeeper.core.domain.text import many
from slotkeeper.core.errors import Busy
from slotkeeper.core.state.faults import StateError, cannot_write
from slotkeeper.core.state.folder import StateFolder

FILE = "audit.jsonl"
MOST_BYTES = 1_048_576
"""Size in bytes at which a file is full (about 2,500 lines), small because the console rereads the newest file."""
KEPT = 50
LOCK_SECONDS = 5.0
_NUMBERED = re.compile(r"audit-(\d{6})\.jsonl")
_NO_LOGIN = 2**32 - 1
_TAIL = 65_536


def actor() -> Actor:
    """Return the process's user from the kernel, and claims from the environment, such as an SSH client's address."""
    try:
        account = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # no account has this user id (in a container)
        account = str(os.getuid())
    try:
        noted: int | None = int(Path("/proc/self/loginuid").read_text("ascii"))
    except (OSError, ValueError):
        noted = None
    named = next((name for key in ("LOGNAME", "USER", "LNAME") if (name := os.environ.get(key))), account)
    origin = os.environ.get("SSH_CONNECTION", "").split(" ")[0]
    sudo = os.environ.get("SUDO_USER", "")
    claimed = "" if named == account else named
    login_uid = None if noted == _NO_LOGIN else noted
    return Actor(account, socket.gethostname(), os.getpid(), sudo, origin, os.getuid(), login_uid, claimed)


def intent(action: str, what: str, reason: str, result: Mapping[str, str] | None = None) -> AuditLine:
    """Return the line to write before an action."""
    of = (actor(), action, os.urandom(8).hex())
    return AuditLine(SystemClock().utc(), *of, Phase.INTENT, what, reason, result=result or {})


def outcome(line: AuditLine, said: str, result: Mapping[str, str]) -> AuditLine:
    """Return the line to write after an action."""
    return replace(line, at=SystemClock().utc(), phase=Phase.OUTCOME, outcome=said, result=dict(result))


@dataclass(frozen=True, slots=True)
class Read:
    """The lines read, newest first; `damaged` is the number of unreadable lines in the files that were opened."""

    lines: tuple[AuditLine, ...]
    damaged: int
    whole: bool = True


class Audit:
    """The audit of one state folder."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    @property
    def file(self) -> Path:
        return self._folder.path / FILE

    @property
    def place(self) -> str:
        """The host and the folder, with which sinks identify this audit."""
        return f"{socket.gethostname()}:{self._folder.path}"

    def append(self, line: AuditLine) -> str:
        """Write one line, flush it to the disk and return its hash.

        Raises StateError if that fails; the action must then not be executed.
        """
        try:
            with self._locked():
                self._rotate()
                before, torn = self._end()
                text = linked(line, before)
                self._write((b"\n" if torn else b"") + text + b"\n")
        except OSError as error:
            raise cannot_write(self.file, error, "the audit ") from error
        return digest_of(text)

    def read(self, limit: int = 200) -> Read:
        """Return the newest lines, or none if no action was ever recorded. Files beyond the limit are not opened."""
        lines: list[AuditLine] = []
        damaged = 0
        for file in [self.file, *reversed(self._numbered())]:
            found = self._links(file)
            lines += [link.line for link in reversed(found) if link.line is not None]
            damaged += sum(link.line is None for link in found)
            if len(lines) >= limit:
                break
        return Read(tuple(lines[:limit]), damaged)

    def stored(self) -> list[tuple[AuditLine | None, bytes]]:
        """Return all lines, oldest first, each with the bytes that its hash covers; an unreadable line is None."""
        with self._unchanging():
            contents = [self._content(file) for file in (*self._numbered(), self.file)]
        texts = [text for content in contents for text in content.split(b"\n") if text]
        return [(link_of("", 0, text).line, text) for text in texts]

    def accept(self, chain: Chain, reason: str) -> None:
        """Record that this chain's unlinked lines are accepted as they are; raises StateError like `append`."""
        what = f"{many(len(chain.unlinked), 'line')} of an earlier version"
        self.append(outcome(intent(ACCEPT, what, reason), "accepted", {SEAL: seal(chain.unlinked)}))

    def chain(self) -> Chain:
        """Return all lines, oldest first, and whether each line is linked to the line before it."""
        with self._unchanging():
            numbered = self._numbered()
            links = [link for file in (*numbered, self.file) for link in self._links(file)]
        numbers = [_number(file) for file in numbered]
        rotated_out = bool(numbers) and numbers[0] > 1 and len(numbers) >= KEPT
        judged = judge(links, rotated_out)
        followed = {number - 1 for number in numbers}
        gone = [f"the file after {file.name} is missing" for file in numbered[:-1] if _number(file) not in followed]
        if numbers and numbers[0] > 1 and not rotated_out:
            gone.insert(0, f"the files before {numbered[0].name} are missing")
        # numbered files must be full; otherwise, fifty empty files would look like the regular deletion of all earlier
        # files
        gone += [f"{file.name} is not full: lines are missing" for file in numbered if size_of(file) < MOST_BYTES]
        return replace(judged, broken=(*gone, *judged.broken))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with self._folder.locked("_audit", "chain", LOCK_SECONDS):
                yield
        except Busy as error:
            raise StateError(f"the audit {self.file} is locked by another program", "try again") from error

    def _unchanging(self) -> AbstractContextManager[None]:
        """Return a lock under which all files can be read without changes; does not create a missing folder."""
        return self._locked() if self._folder.path.exists() else nullcontext()

    def _numbered(self) -> list[Path]:
        """Return the full files, oldest first."""
        if not self._folder.path.exists():
            return []
        return sorted(path for path in self._folder.path.iterdir() if _NUMBERED.fullmatch(path.name))

    def _rotate(self) -> None:
        """Rename a full file to the next number; delete the oldest files beyond the limit."""
        if not self.file.exists() or self.file.stat().st_size < MOST_BYTES:
            return
        numbered = self._numbered()
        number = _number(numbered[-1]) + 1 if numbered else 1
        self.file.rename(self.file.with_name(f"audit-{number:06d}.jsonl"))
        for oldest in numbered[: max(0, len(numbered) + 1 - KEPT)]:
            oldest.unlink(missing_ok=True)

    def _end(self) -> tuple[str, bool]:
        """Return the hash that the next line references, and whether the file ends in the middle of a line."""
        torn = False
        for file in [self.file, *reversed(self._numbered())]:
            raw = self._tail(file)
            torn = torn or (file == self.file and bool(raw) and not raw.endswith(b"\n"))
            found = next((link for link in reversed(self._links(file, raw)) if link.line is not None), None)
            if found is None and len(raw) >= _TAIL:
                found = next((link for link in reversed(self._links(file)) if link.line is not None), None)
            if found is not None:
                return found.digest, torn
        return FIRST, torn

    def _links(self, file: Path, raw: bytes | None = None) -> list[Link]:
        texts = (self._content(file) if raw is None else raw).split(b"\n")
        return [link_of(file.name, number, text) for number, text in enumerate(texts, 1) if text]

    def _content(self, file: Path) -> bytes:
        try:
            return self._folder.read(file)
        except FileNotFoundError:
            return b""

    def _tail(self, file: Path) -> bytes:
        """Return the last bytes of a file; the first line can be incomplete. Empty if the file is missing."""
        try:
            with os.fdopen(self._folder.open_to_read(file), "rb") as stream:
                stream.seek(max(0, stream.seek(0, os.SEEK_END) - _TAIL))
                return stream.read(_TAIL)
        except FileNotFoundError:
            return b""

    def _write(self, content: bytes) -> None:
        descriptor = self._folder.append(self.file)
        try:
            written = os.write(descriptor, content)
            if written != len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _number(file: Path) -> int:
    return int(file.stem.removeprefix("audit-"))
