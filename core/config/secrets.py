"""From a reference to the secret, in the process that needs it.

Next door: `core.domain.endpoint.SecretRef`; `core.config.masking` remembers what is resolved, to take it out of texts;
`core.config.handover` has the variables that a parent has taken out of the environment.
"""

from __future__ import annotations

import shlex
import stat
import subprocess
from pathlib import Path

from core.config import handover, masking
from core.domain.endpoint import SecretRef
from core.domain.text import safe
from core.errors import ConfigError

COMMAND_LIMIT = 10.0
SIZE_MAX = 65_536


def resolve(ref: SecretRef) -> str:
    """The secret that a reference stands for, "" for no reference; raises ConfigError naming the reference only."""
    if not ref.how:
        return ""
    readers = {"file": _from_file, "env": _from_env, "command": _from_command}
    secret = readers[ref.how](ref)
    if not secret:
        raise ConfigError(f"{place(ref)} is empty")
    if "\0" in secret:
        raise ConfigError(f"{place(ref)} holds a NUL character, which no password can")
    masking.remember(secret)
    return secret


def place(ref: SecretRef) -> str:
    """A reference in words; of a command only its program, since its arguments may be secret themselves."""
    if ref.how == "file":
        return f"{ref.word}_file {safe(ref.ref)}"
    if ref.how == "env":
        return f"the variable {safe(ref.ref)} ({ref.word}_env)"
    return f"{ref.word}_command {safe(ref.ref.split(maxsplit=1)[0])} ..."


def complaint(ref: SecretRef) -> str:
    """What is unsafe or missing about a reference, as a sentence, or ""; reads and runs nothing."""
    if ref.how != "file":
        return ""
    try:
        mode = Path(ref.ref).stat().st_mode
    except OSError as error:
        return f"{place(ref)}: {error.strerror or 'cannot be read'}"
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        return f"{place(ref)} is open to others (mode {stat.S_IMODE(mode):04o}); chmod 600 it"
    return ""


def too_plain(ref: SecretRef) -> str:
    """What a secret that cannot be masked risks, as a sentence, or ""; reads a file or a variable, runs no command."""
    if ref.how not in ("file", "env"):
        return ""
    try:
        plain = not masking.maskable(resolve(ref))
    except ConfigError:
        return ""
    rule = f"fewer than {masking.SHORTEST} characters, or one plain word or number of fewer than {masking.PLAIN}"
    return f"{place(ref)} holds {rule}: it cannot be masked where a server repeats it" if plain else ""


def _from_file(ref: SecretRef) -> str:
    where = place(ref)
    try:
        with Path(ref.ref).open("rb") as stream:
            raw = stream.read(SIZE_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{where} cannot be read: {error.strerror or type(error).__name__}") from None
    return _line(raw, where)


def _from_env(ref: SecretRef) -> str:
    found = handover.value(ref.ref)
    if found is None:
        raise ConfigError(f"{place(ref)} is not set")
    return found


def _from_command(ref: SecretRef) -> str:
    where = place(ref)
    try:
        words = shlex.split(ref.ref)
    except ValueError:
        raise ConfigError(f"{where} is not a command: a quote is not closed") from None
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_LIMIT,
            check=False,
            env=handover.environment(),
        )
    except subprocess.TimeoutExpired:
        raise ConfigError(f"{where} has not ended within {COMMAND_LIMIT:.0f} s") from None
    except OSError as error:
        raise ConfigError(f"{where} cannot be run: {error.strerror or type(error).__name__}") from None
    if done.returncode:
        # its own words are not repeated: they may hold the secret
        raise ConfigError(f"{where} ended with status {done.returncode}", "run the command by hand to see why")
    return _line(done.stdout, where)


def _line(raw: bytes, where: str) -> str:
    """Text without the one newline that editors and commands put at its end."""
    if len(raw) > SIZE_MAX:
        raise ConfigError(f"{where} holds more than 64 KiB, which no password does")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{where} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\r\n") else text.removesuffix("\n")
