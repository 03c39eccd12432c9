"""The one way of an error across processes: as plain values, so that a task never raises."""

from __future__ import annotations

from dataclasses import dataclass

from slotkeeper.core.errors import (
    KINDS,
    ErrorKind,
    SlotkeeperError,
    TopologyTrouble,
    Trouble,
    TroubleName,
    Unclassified,
    classed,
    origin,
)


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
