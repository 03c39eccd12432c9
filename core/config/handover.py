"""How a secret that a variable of the environment holds reaches a child: not by the child's environment.

A variable that a configuration names as a secret (`password_env`, `secret_env`) is left out of what every child gets.
A child process that may need it gets a file instead that is in no folder (`memfd_create(2)`): inherited as a descriptor
by our own programs, and named `/proc/<pid>/fd/<n>` for Spark's workers, which the JVM starts and to which it passes no
descriptor. The kernel lets only the same user open that (`proc(5)`: PTRACE_MODE_READ_FSCREDS, as for a process's
memory), and only while its owner lives.
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
"""Names the file, never a secret."""
_OWN = "/proc/self/fd/"
_NOT_EXECUTABLE = 0x0008
"""MFD_NOEXEC_SEAL of Linux 6.3, without which a hardened kernel (`vm.memfd_noexec`) makes no such file."""
_named: set[str] = set()
_received: dict[str, str] = {}
_kept: list[tuple[dict[str, str], int]] = []
"""What this process's workers may open: the newest last; none is closed, a worker may be about to open it."""


@dataclass(frozen=True, slots=True)
class Passed:
    """What a child is started with: its environment, and the descriptors that it inherits."""

    environment: dict[str, str]
    descriptors: tuple[int, ...] = ()


def name(variables: Iterable[str]) -> None:
    """These variables hold secrets: no child gets them from now on."""
    _named.update(variables)


def value(variable: str) -> str | None:
    """The variable as it was handed over to this process, else as its environment has it; None where it is not set."""
    _receive()
    return _received[variable] if variable in _received else os.environ.get(variable)


def environment(env: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment (default: our own) for a child that needs none of the secrets."""
    _receive()
    left_out = _named | set(_received) | {VARIABLE}
    return {key: each for key, each in (os.environ if env is None else env).items() if key not in left_out}


@contextmanager
def passed() -> Iterator[Passed]:
    """What to start one of our own programs with, for the block: a descriptor holds what it may have to resolve."""
    env, found = environment(), _found()
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
    """What to add to the environment of a JVM whose workers resolve secrets on this host, as long as we live."""
    found = _found()
    if not found:
        return {}
    if not _kept or _kept[-1][0] != found:
        _kept.append((found, _file(found)))
    return {VARIABLE: f"/proc/{os.getpid()}/fd/{_kept[-1][1]}"}


def left_out() -> tuple[str, ...]:
    """The variables that no child gets."""
    _receive()
    return tuple(sorted(_named | set(_received)))


def _found() -> dict[str, str]:
    _receive()
    ours = {each: os.environ[each] for each in _named if each in os.environ}
    return dict(sorted((ours | _received).items()))


def _receive() -> None:
    """Take over the parent's file, once; any other file counts as none."""
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
    """A descriptor of a file that has no name; only this user's processes can open it."""
    try:
        descriptor = os.memfd_create("slotkeeper", os.MFD_CLOEXEC | _NOT_EXECUTABLE)
    except OSError:  # an older kernel does not know the flag
        descriptor = os.memfd_create("slotkeeper", os.MFD_CLOEXEC)
    os.fchmod(descriptor, 0o600)
    with os.fdopen(os.dup(descriptor), "wb") as stream:
        stream.write(json.dumps(dict(values)).encode("utf-8", "surrogateescape"))
    return descriptor
