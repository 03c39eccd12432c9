"""Errors as classes: the kind decides (in `slotkeeper.core.retry`) how they are handled.

Raise an error with what failed, on what, why, and what to do next; do not log it and continue.

Every argument but the message is optional and `kind` is a class attribute, so that the errors survive
pickling between processes; `__cause__` does not survive it, which is why its type and place are copied.

`ErrorValues` carries an error across processes as plain values, so that a task never raises.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import ClassVar, Self

from slotkeeper.core.redaction import masked


class ErrorKind(Enum):
    """How a failure counts; `slotkeeper.core.retry.decide` has one row for each."""

    TRANSIENT = "transient"
    CONTENTION = "contention"
    ACCESS = "access"
    LOGIN = "login"
    TOPOLOGY = "topology"
    DATA = "data"
    OVERSIZE = "oversize"
    OPERATOR = "operator"
    CONFIG = "config"
    SUPERSEDED = "superseded"
    UNKNOWN = "unknown"
    DEFECT = "defect"


class SlotkeeperError(Exception):
    """Base of all errors that Slotkeeper raises on purpose.

    `hint` is what to do next; `code` is the driver's own (an SQLSTATE, an errno) where there is one;
    `where` names the side that failed: "source", "sink" or "" where it is neither.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.DEFECT
    table = ""
    """The source table, where the code that raised or passed the error knew it."""
    timed_out = False
    """Whether Slotkeeper's own limit ended the request; set by the code that knows the server's codes."""
    no_more = ""
    """Why no further try is made, where tries have ended: a reason, where the hint is an act."""

    def __init__(self, message: str, hint: str = "", code: str = "", where: str = "", cause: str = "") -> None:
        message, hint, cause = masked(message), masked(hint), masked(cause)
        super().__init__(message, hint, code, where, cause)
        self.message = message
        self.hint = hint
        self.code = code
        self.where = where
        self.cause = cause

    def __str__(self) -> str:
        return self.message

    @property
    def silent(self) -> bool:
        """Whether the server did not answer within Slotkeeper's own limit, not even with a limit of its own.

        A narrower question gets no answer either. The code is of SQLSTATE's class 08, a lost connection.
        """
        return self.timed_out and self.code.startswith("08")

    def after_limit(self, timed_out: bool = True) -> Self:
        """Set whether Slotkeeper's own limit ended the request; return the error."""
        self.timed_out = timed_out
        return self


class ConfigError(SlotkeeperError):
    """A configuration that cannot be used; the message names file and key."""

    kind = ErrorKind.CONFIG


class Unreachable(SlotkeeperError):
    """No server answers, or it is restarting or read-only for now; passes by itself."""

    kind = ErrorKind.TRANSIENT


class Busy(SlotkeeperError):
    """A lock, a deadlock, a time limit or too many connections; passes by itself."""

    kind = ErrorKind.CONTENTION


class AccessRefused(SlotkeeperError):
    """A rejected login or privilege; tried twice at most, so that no account gets locked."""

    kind = ErrorKind.ACCESS


class LoginRefused(AccessRefused):
    """A rejected password: a start tries it twice, a running job waits until its reference has another one."""

    kind = ErrorKind.LOGIN


class SecretUnread(ConfigError):
    """A password reference without a value for now; a running job waits as for a rejected one."""

    kind = ErrorKind.LOGIN


class TooLarge(SlotkeeperError):
    """A step ran out of time, disk or memory: retried at half its width."""

    kind = ErrorKind.OVERSIZE


class RowRefused(SlotkeeperError):
    """The sink rejects a row's values; the message never has the values."""

    kind = ErrorKind.DATA


class Refused(SlotkeeperError):
    """A precondition does not hold: a person has to decide or change something first."""

    kind = ErrorKind.OPERATOR


class AwaitsCopy(Refused):
    """A copy would replace rows of the target, and no stored consent covers it."""


class Superseded(SlotkeeperError):
    """A later start of the same job has taken over (its epoch is higher): end quietly."""

    kind = ErrorKind.SUPERSEDED


class Unclassified(SlotkeeperError):
    """A failure that no table of codes names; tried ten times, then FAILED."""

    kind = ErrorKind.UNKNOWN


class Defect(SlotkeeperError):
    """A broken invariant of Slotkeeper; never retried."""

    kind = ErrorKind.DEFECT


class TroubleName(Enum):
    """Names of trouble that only a person can resolve (design section 2)."""

    SLOT_LOST = "SLOT LOST"
    SLOT_MOVED = "SLOT MOVED"
    PROGRESS_LOST = "PROGRESS LOST"
    SOURCE_OLDER = "SOURCE OLDER"
    SINK_OLDER = "SINK OLDER"
    TARGET_CHANGED = "TARGET CHANGED"
    SCHEMA_CHANGED = "SCHEMA CHANGED"
    TOPOLOGY_CHANGED = "TOPOLOGY CHANGED"
    QUARANTINE_FULL = "QUARANTINE FULL"
    POSITIONS_DIFFER = "POSITIONS DIFFER"


class Trouble(SlotkeeperError):
    """One of the named troubles; the job stops and reports it, it never skips changes on its own."""

    kind = ErrorKind.OPERATOR

    def __init__(
        self,
        message: str,
        hint: str = "",
        code: str = "",
        where: str = "source",
        cause: str = "",
        name: TroubleName = TroubleName.SLOT_LOST,
    ) -> None:
        super().__init__(message, hint, code, where, cause)
        self.args = (*self.args, name)
        self.name = name

    def __str__(self) -> str:
        return f"{self.name.value}: {self.message}"


class TopologyTrouble(Trouble):
    """The source's DNs are not those of the progress rows."""

    kind = ErrorKind.TOPOLOGY


def classed(error: BaseException) -> SlotkeeperError:
    """Return a SlotkeeperError itself, else an Unclassified that names its type, with its place as the cause.

    A foreign exception's text may hold a row's values or a secret, so it is not repeated.
    """
    if isinstance(error, SlotkeeperError):
        return error
    return Unclassified(f"unexpected {type(error).__name__}", "this is a defect: report it", cause=origin(error))


def origin(error: BaseException | None) -> str:
    """Return types and places of an exception and its causes, without their texts; "" for None.

    >>> origin(ValueError("secret"))
    'ValueError'
    """
    return ", because of ".join(_origins(error))


_DEEPEST = 5


def _origins(error: BaseException | None) -> Iterator[str]:
    for _ in range(_DEEPEST):
        if error is None:
            return
        frames = traceback.extract_tb(error.__traceback__)
        place = f" at {PurePath(frames[-1].filename).name}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
        yield type(error).__name__ + place
        error = error.__cause__ or error.__context__


KINDS: dict[ErrorKind, type[SlotkeeperError]] = {
    ErrorKind.TRANSIENT: Unreachable,
    ErrorKind.CONTENTION: Busy,
    ErrorKind.ACCESS: AccessRefused,
    ErrorKind.LOGIN: LoginRefused,
    ErrorKind.OVERSIZE: TooLarge,
    ErrorKind.DATA: RowRefused,
    ErrorKind.OPERATOR: Refused,
    ErrorKind.CONFIG: ConfigError,
    ErrorKind.SUPERSEDED: Superseded,
    ErrorKind.UNKNOWN: Unclassified,
    ErrorKind.DEFECT: Defect,
}
"""The plain class of each kind, to rebuild an error that crossed a process as values."""


@dataclass(frozen=True, slots=True)
class ErrorValues:
    """An error as plain values; `trouble` is the name of the trouble, if it is one.

    A foreign exception is its type and its place alone: its text may hold a row's values or a secret.
    """

    kind: str
    message: str
    hint: str = ""
    code: str = ""
    where: str = ""
    cause: str = ""
    trouble: str = ""
    timed_out: bool = False

    @classmethod
    def of(cls, error: BaseException) -> ErrorValues:
        """The values of an error; a foreign one counts as unknown, and causes come without their text."""
        known = classed(error)
        trouble = known.name.value if isinstance(known, Trouble) else ""
        cause = known.cause or origin(known.__cause__)
        said = (known.message, known.hint, known.code, known.where, cause)
        return cls(known.kind.value, *said, trouble, known.timed_out)

    def error(self) -> SlotkeeperError:
        """The error again; a kind that this version does not know is Unclassified.

        >>> ErrorValues("transient", "no answer", where="sink").error()
        Unreachable('no answer', '', '', 'sink', '')
        """
        said = (self.message, self.hint, self.code, self.where, self.cause)
        if self.trouble:
            trouble = TopologyTrouble if self.kind == ErrorKind.TOPOLOGY.value else Trouble
            return trouble(*said, name=TroubleName(self.trouble))
        known = {kind.value: kind for kind in ErrorKind}
        return KINDS.get(known.get(self.kind, ErrorKind.UNKNOWN), Unclassified)(*said).after_limit(self.timed_out)
