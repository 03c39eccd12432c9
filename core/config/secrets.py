"""Resolve references to secrets in the process that needs them; find jobs with unreadable password files."""

from __future__ import annotations

import shlex
import stat
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from slotkeeper.core import ownership
from slotkeeper.core.bounded import TooLong, output_of
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config import handover, masking
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.endpoint import Endpoint, Login, SecretRef
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError, SecretUnread
from slotkeeper.core.ownership import Complaint

COMMAND_LIMIT = 10.0
SIZE_MAX = 65_536
TTL = 5.0
"""Seconds for which all logins of this process reuse the output of a password command."""
AGAIN_LEAST = 0.5
AGAIN_MOST = 30.0
"""Minimum and maximum time in seconds before the command runs again after a server rejected its password. The time
doubles while the command prints the same password. It is shorter than the wait between two attempts of a job, so that
each attempt runs the command again."""


def resolve(ref: SecretRef) -> str:
    """Return the secret of a reference, or "" if it has none; raises SecretUnread, which names only the reference."""
    if not ref.how:
        return ""
    readers = {"file": _from_file, "env": _from_env, "command": _from_command}
    secret = readers[ref.how](ref)
    if not secret:
        raise SecretUnread(f"{place(ref)} is empty")
    if "\0" in secret:
        raise SecretUnread(f"{place(ref)} contains a NUL character, which a password cannot contain")
    masking.remember(secret, (ref.how, ref.ref))
    return secret


@dataclass(slots=True)
class _Printed:
    """The last output of a command, shared by all sessions of this process; times are in monotonic seconds."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    plain: str = ""
    until: float = 0.0
    again: float = 0.0
    refused: dict[str, str] = field(default_factory=dict)
    accepted: dict[str, str] = field(default_factory=dict)
    """The last rejected and the last accepted password, by server."""

    def now(self, read: Callable[[], str], clock: Callable[[], float]) -> str:
        with self.lock:  # concurrent callers wait for this one run of the command
            if clock() >= self.until:
                self.plain = read()
                refused = self.plain in self.refused.values()
                self.again = min(AGAIN_MOST, self.again * 2 or AGAIN_LEAST) if refused else 0.0
                self.until = clock() + (self.again or TTL)
            return self.plain

    def drop(self, plain: str, server: str) -> None:
        with self.lock:
            if plain == self.plain and plain != self.refused.get(server):
                self.refused[server], self.again, self.until = plain, 0.0, 0.0

    def keep(self, plain: str, server: str) -> None:
        with self.lock:
            self.accepted[server] = plain
            if plain == self.refused.get(server):
                del self.refused[server]
                self.again = 0.0


_printed: dict[SecretRef, _Printed] = {}
_clock = SystemClock()


@dataclass(frozen=True, slots=True)
class Reference:
    """A secret that is specified by a reference; implements `slotkeeper.core.domain.endpoint.Secret`.

    A file or a variable is read each time. A command runs at most once in `TTL` seconds, regardless of how many
    sessions log in at the same time, and runs again when its output is rejected for the first time. Several servers can
    share a reference; `server` distinguishes them, because a server may still use the older password.
    """

    ref: SecretRef
    server: str = ""

    def now(self) -> str:
        if self.ref.how != "command":
            return resolve(self.ref)
        return self._shared().now(lambda: resolve(self.ref), _clock.monotonic)

    def refused(self, plain: str) -> None:
        self._shared().drop(plain, self.server)

    def taken(self, plain: str) -> None:
        self._shared().keep(plain, self.server)

    def accepted(self) -> str:
        return self._shared().accepted.get(self.server, "")

    def hidden_in(self, text: str) -> str:
        return masking.without_newest(text, (self.ref.how, self.ref.ref))

    def _shared(self) -> _Printed:
        return _printed.setdefault(self.ref, _Printed())


def login(endpoint: Endpoint, name: str) -> Login:
    """Return the login for sessions with this name; raises ConfigError if a secret cannot be read now."""
    key_password, password = Reference(endpoint.sslpassword), Reference(endpoint.password, endpoint.place)
    for secret in (key_password, password):
        secret.now()
    return Login(replace(endpoint, key_password=key_password), password, name)


def place(ref: SecretRef) -> str:
    """Return a reference as text; for a command only the program, because its arguments may contain secrets."""
    if ref.how == "file":
        return f"{ref.word}_file {safe(ref.ref)}"
    if ref.how == "env":
        return f"the variable {safe(ref.ref)} ({ref.word}_env)"
    return f"{ref.word}_command {safe(ref.ref.split(maxsplit=1)[0])} ..."


def complaint(ref: SecretRef) -> str:
    """Return a sentence about what is unsafe or missing in a reference, or ""; reads no secret and runs no command."""
    if ref.how != "file":
        return ""
    try:
        mode = Path(ref.ref).stat().st_mode
        if found := ownership.check(Path(ref.ref), place(ref)):
            return f"{found.text}; {found.hint}"
    except OSError as error:
        return f"{place(ref)}: {error.strerror or 'cannot be read'}"
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        return f"{place(ref)} is accessible to other users (mode {stat.S_IMODE(mode):04o}); set mode 0600"
    return ""


def foreign(ref: SecretRef) -> Complaint | None:
    """Return the reason why another user could have written a file, or None; `resolve` would reject such a file.

    The file itself is not read.
    """
    if ref.how != "file":
        return None
    try:
        return ownership.check(Path(ref.ref), place(ref))
    except (OSError, ValueError):  # a missing file is reported when it is needed
        return None


def too_plain(ref: SecretRef) -> str:
    """Return the risk of a secret that cannot be masked, or ""; reads a file or a variable, but runs no command."""
    if ref.how not in ("file", "env"):
        return ""
    try:
        plain = not masking.maskable(resolve(ref))
    except ConfigError:
        return ""
    rule = f"fewer than {masking.SHORTEST} characters, or one plain word or number of fewer than {masking.PLAIN}"
    return f"{place(ref)} contains {rule}: it cannot be masked in server messages" if plain else ""


def _from_file(ref: SecretRef) -> str:
    where = place(ref)
    try:
        raw = ownership.read(Path(ref.ref), where, SIZE_MAX + 1)
    except ownership.NotOurs as error:
        raise SecretUnread(error.message, error.hint) from None
    except OSError as error:
        raise SecretUnread(f"{where} cannot be read: {error.strerror or type(error).__name__}") from None
    return _line(raw, where)


def _from_env(ref: SecretRef) -> str:
    found = handover.value(ref.ref)
    if found is None:
        raise SecretUnread(f"{place(ref)} is not set")
    return found


def _from_command(ref: SecretRef) -> str:
    import subprocess

    where = place(ref)
    try:
        words = shlex.split(ref.ref)
    except ValueError:
        raise SecretUnread(f"{where} is not a command: a quote is not closed") from None
    try:
        code, written = output_of(words, COMMAND_LIMIT, SIZE_MAX, env=handover.environment())
    except TooLong:
        raise SecretUnread(f"{where} writes more than 64 KiB, the limit for a password") from None
    except subprocess.TimeoutExpired:
        raise SecretUnread(f"{where} did not exit within {COMMAND_LIMIT:.0f} s") from None
    except OSError as error:
        raise SecretUnread(f"{where} cannot be run: {error.strerror or type(error).__name__}") from None
    if code:
        # the command's own output is not repeated: it may contain the secret
        raise SecretUnread(f"{where} exited with status {code}", "run the command yourself to see why")
    return _line(written, where)


def _line(raw: bytes, where: str) -> str:
    """Return the text without the single newline that editors and commands append."""
    if len(raw) > SIZE_MAX:
        raise SecretUnread(f"{where} contains more than 64 KiB, the limit for a password")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise SecretUnread(f"{where} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\r\n") else text.removesuffix("\n")


def unreadable(loaded: Loaded) -> dict[str, ConfigError]:
    """Return the jobs with an unreadable password file, each with the error of the last such file."""
    found = {}
    for name, job in loaded.jobs.items():
        ends = (job.source, job.sink, job.store_at[0])
        salts = [channel.salt for channel in job.channels]
        refs = dict.fromkeys(
            [job.spark.secret, *salts, *(ref for end in ends for ref in (end.password, end.sslpassword))]
        )
        for ref in (one for one in refs if one.how == "file"):
            try:
                resolve(ref)
            except ConfigError as error:
                found[name] = error
    return found
