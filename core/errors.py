"""Error classes; the kind of an error determines how `slotkeeper.core.retry` handles it.

Raise an error with the failed action, its object, the reason and the next action; do not log it and continue.

Every argument except the message is optional, and `kind` is a class attribute, so that errors survive pickling
between processes. `__cause__` is lost in pickling, so its type and code location are copied.

`ErrorValues` carries an error across processes as plain values, so that a task never raises.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import ClassVar, Self

from slotkeeper.core.redaction import masked


class ErrorKind(Enum):
    """The kind of a failure; `slotkeeper.core.retry.decide` has one rule for each kind."""

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

    `hint` is the next action for the user; `code` is the error code (an SQLSTATE, an errno), if there is one;
    `where` names the side that failed: "source", "sink", or "" if neither failed.
    """

    kind: ClassVar[ErrorKind] = ErrorKind.DEFECT
    table = ""
    """The source table, if the code that raised or handled the error has set it."""
    timed_out = False
    """Whether Slotkeeper's own limit ended the request; set by the code that knows the server's codes."""
    no_more = ""
    """The reason why retries have ended, if they have; `hint` is an action instead."""

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
        """Whether the server did not answer within Slotkeeper's own limit, not even with an error about its own limit.

        A query for a smaller range gets no answer either. The code is in SQLSTATE class 08, a lost connection.
        """
        return self.timed_out and self.code.startswith("08")

    def after_limit(self, timed_out: bool = True) -> Self:
        """Set whether Slotkeeper's own limit ended the request; return the error."""
        self.timed_out = timed_out
        return self


class ConfigError(SlotkeeperError):
    """A configuration that cannot be used; the message names the file and the key."""

    kind = ErrorKind.CONFIG


class Unreachable(SlotkeeperError):
    """A server does not answer, is restarting, or is temporarily read-only; resolves without an action."""

    kind = ErrorKind.TRANSIENT


class Busy(SlotkeeperError):
    """A lock, a deadlock, a time limit or too many connections; resolves without an action."""

    kind = ErrorKind.CONTENTION


class AccessRefused(SlotkeeperError):
    """A rejected login or a missing privilege; the connection is tried at most twice, so that no account is locked."""

    kind = ErrorKind.ACCESS


class LoginRefused(AccessRefused):
    """A rejected password: a start tries it twice; a running job waits until the reference has another password."""

    kind = ErrorKind.LOGIN


class SecretUnread(ConfigError):
    """A password reference that currently has no value; a running job waits as after a rejected password."""

    kind = ErrorKind.LOGIN


class TooLarge(SlotkeeperError):
    """A step ran out of time, disk or memory: retried at half its width."""

    kind = ErrorKind.OVERSIZE


class RowRefused(SlotkeeperError):
    """The sink rejects a row's values; the message never contains the values."""

    kind = ErrorKind.DATA


class Refused(SlotkeeperError):
    """A precondition does not hold: a user has to decide or change something first."""

    kind = ErrorKind.OPERATOR


class ExpressionError(Refused):
    """An expression has no value for a row, or none that is certain; the message contains no value of the row."""


class AwaitsCopy(Refused):
    """A copy would replace rows of the target, and no stored consent covers it."""


class Superseded(SlotkeeperError):
    """A later start of the same job has taken over (its epoch is higher): this run ends without an error."""

    kind = ErrorKind.SUPERSEDED


class Unclassified(SlotkeeperError):
    """A failure whose code is in none of the code tables; tried ten times, then the job is FAILED."""

    kind = ErrorKind.UNKNOWN


class Defect(SlotkeeperError):
    """A broken invariant of Slotkeeper; never retried."""

    kind = ErrorKind.DEFECT


class TroubleName(Enum):
    """Names of the problems that only a user can resolve (design section 2)."""

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
    """A problem named in `TroubleName`; the job stops and reports it, and never skips changes on its own."""

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
    """The source's DNs differ from the DNs in the progress rows."""

    kind = ErrorKind.TOPOLOGY


def classed(error: BaseException) -> SlotkeeperError:
    """Return a SlotkeeperError unchanged; otherwise an Unclassified with the exception's type, caused by its origin.

    The message of any other exception may contain a row's values or a secret, so it is not copied.
    """
    if isinstance(error, SlotkeeperError):
        return error
    return Unclassified(f"unexpected {type(error).__name__}", "this is a defect: report it", cause=origin(error))


def origin(error: BaseException | None) -> str:
    """Return the types and code locations of an exception and its causes, without their messages; "" for None.

    >>> origin(ValueError("secret"))
    'ValueError'
    """
    return ", because of ".join(_origins(error))


_DEEPEST = 5


def _origins(error: BaseException | None) -> Iterator[str]:
    for _ in range(_DEEPEST):
        if error is None:
            return
        # `traceback.extract_tb` would read the source of each frame's file, and `linecache` would keep it for good.
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        code = last.tb_frame.f_code if last is not None else None
        place = f" at {PurePath(code.co_filename).name}:{last.tb_lineno} in {code.co_name}" if last and code else ""
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
"""The general class of each kind, to rebuild an error that another process sent as values."""


@dataclass(frozen=True, slots=True)
class ErrorValues:
    """An error as plain values; `trouble` is the value of its `TroubleName`, if it is a Trouble.

    Of any other exception, only type and code location are stored: the message may contain row values or a secret.
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
        """Return the values of an error; any other exception has kind unknown, and causes have no message."""
        known = classed(error)
        trouble = known.name.value if isinstance(known, Trouble) else ""
        cause = known.cause or origin(known.__cause__)
        said = (known.message, known.hint, known.code, known.where, cause)
        return cls(known.kind.value, *said, trouble, known.timed_out)

    def error(self) -> SlotkeeperError:
        """Rebuild the error; a kind that this version does not define becomes Unclassified.

        >>> ErrorValues("transient", "no answer", where="sink").error()
        Unreachable('no answer', '', '', 'sink', '')
        """
        said = (self.message, self.hint, self.code, self.where, self.cause)
        if self.trouble:
            trouble = TopologyTrouble if self.kind == ErrorKind.TOPOLOGY.value else Trouble
            return trouble(*said, name=TroubleName(self.trouble))
        known = {kind.value: kind for kind in ErrorKind}
        return KINDS.get(known.get(self.kind, ErrorKind.UNKNOWN), Unclassified)(*said).after_limit(self.timed_out)
