"""Pass secrets from environment variables to child processes without using the child's environment.

A variable that a configuration names as a secret (`password_env`, `secret_env`) is removed from the environment of
every child process. A child that may need it gets an anonymous file instead (`memfd_create(2)`): Slotkeeper's own
programs inherit its descriptor. Spark's workers open it as `/proc/<pid>/fd/<n>`, because the JVM that starts them
passes on no descriptors. The kernel allows only the same user to open that path (`proc(5)`: PTRACE_MODE_READ_FSCREDS,
as for a process's memory), and only while the owning process is running.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from slotkeeper.core.config import masking

VARIABLE = "SLOTKEEPER_SECRETS"
"""The environment variable with the path of the file that contains the secrets; it never contains a secret itself."""
_ALLOCATOR = {"MALLOC_ARENA_MAX": "2"}
"""By default, glibc gives threads up to 8 arenas per core (mallopt(3), M_ARENA_MAX). Each arena grows and fragments
separately: with 16 arenas, a driver of 20 tables grew by 10 MiB an hour. A user's own setting takes precedence."""
_OWN = "/proc/self/fd/"
_NOT_EXECUTABLE = 0x0008
"""MFD_NOEXEC_SEAL (Linux 6.3 and later); a hardened kernel (`vm.memfd_noexec`) rejects memfd_create without it."""
_named: set[str] = set()
_received: dict[str, str] = {}
_kept: list[tuple[dict[str, str], int]] = []
"""The contents and descriptors of the files that this process's workers can open, newest last. No file is closed,
because a worker may be about to open it."""


@dataclass(frozen=True, slots=True)
class Passed:
    """The environment of a new child process, and the descriptors that it inherits."""

    environment: dict[str, str]
    descriptors: tuple[int, ...] = ()


def name(variables: Iterable[str]) -> None:
    """Register variables that contain secrets; they are no longer passed to child processes in the environment."""
    _named.update(variables)


def value(variable: str) -> str | None:
    """Return a variable's value, as passed by the parent process or else from the environment; None if not set."""
    _receive()
    return _received[variable] if variable in _received else os.environ.get(variable)


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return `env` (default: this process's environment) without secrets, for child processes that need none."""
    _receive()
    left_out = _named | set(_received) | {VARIABLE}
    return {key: each for key, each in (os.environ if env is None else env).items() if key not in left_out}


@contextmanager
def passed() -> Iterator[Passed]:
    """Yield the environment and descriptors for starting one of Slotkeeper's own programs; valid within the block."""
    env, found = {**_ALLOCATOR, **environment()}, _found()
    if not found:
        yield Passed(env)
        return
    descriptor = _file(found)
    try:
        os.set_inheritable(descriptor, True)
        yield Passed({**env, VARIABLE: f"{_OWN}{descriptor}"}, (descriptor,))
    finally:
        os.close(descriptor)


def for_workers() -> dict[str, str]:
    """Return the variable for a JVM whose workers resolve secrets on this host; valid while this process runs."""
    found = _found()
    if not found:
        return {}
    if not _kept or _kept[-1][0] != found:
        _kept.append((found, _file(found)))
    return {VARIABLE: f"/proc/{os.getpid()}/fd/{_kept[-1][1]}"}


def left_out() -> tuple[str, ...]:
    """Return the environment variables that are not passed to child processes."""
    _receive()
    return tuple(sorted(_named | set(_received)))


def _found() -> dict[str, str]:
    _receive()
    ours = {each: os.environ[each] for each in _named if each in os.environ}
    return dict(sorted((ours | _received).items()))


def _receive() -> None:
    """Read the parent's file once; an unreadable or invalid file counts as empty."""
    place = os.environ.pop(VARIABLE, "")
    if not place:
        return
    with suppress(OSError, ValueError, AttributeError):
        said = json.loads(Path(place).read_bytes())
        _received.update({str(key): str(each) for key, each in said.items()})
        for variable, each in _received.items():
            masking.remember(each, ("env", variable))
        if place.startswith(_OWN):
            os.close(int(place.removeprefix(_OWN)))


def _file(values: Mapping[str, str]) -> int:
    """Return a descriptor of an anonymous file that only this user's processes can open."""
    try:
        descriptor = os.memfd_create("slotkeeper", os.MFD_CLOEXEC | _NOT_EXECUTABLE)
    except OSError:  # an older kernel does not support the flag
        descriptor = os.memfd_create("slotkeeper", os.MFD_CLOEXEC)
    os.fchmod(descriptor, 0o600)
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(json.dumps(dict(values)).encode("utf-8", "surrogateescape"))
    return descriptor
