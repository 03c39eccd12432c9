"""What a column is to a reader of values, in words that no dialect owns. Pure.

A dialect says which of these its types are (`slotkeeper.core.ports.changelog`); whoever hands values on says what they
become there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FieldKind(Enum):
    """How a value is to be read; TEXT is every type that has no place of its own, as the server spells it."""

    BOOLEAN = "boolean"
    SHORT = "short"
    INTEGER = "integer"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    DECIMAL = "decimal"
    DATE = "date"
    LOCAL_TIME = "timestamp without a zone"
    INSTANT = "timestamp"
    BYTES = "bytes"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class FieldType:
    """A kind; `precision` and `scale` are a decimal's digits, in all and behind the point."""

    kind: FieldKind
    precision: int = 0
    scale: int = 0

    @property
    def ranged(self) -> bool:
        """Whether all systems order its values alike, so that a range may be cut at the source.

        Texts are ordered by a collation, floats have a NaN that each system puts elsewhere.
        """
        return self.kind in _RANGED


_RANGED = frozenset(
    {FieldKind.SHORT, FieldKind.INTEGER, FieldKind.LONG, FieldKind.DATE, FieldKind.LOCAL_TIME, FieldKind.INSTANT}
)
TEXT = FieldType(FieldKind.TEXT)


@dataclass(frozen=True, slots=True)
class Field:
    """A column as it is read."""

    name: str
    type: FieldType


@dataclass(frozen=True, slots=True)
class Condition:
    """What a column has to be: one of `values` for the sign "=", else beyond the one value that is there.

    Values are the source's text forms. A NULL meets no condition.
    """

    column: str
    sign: str
    values: tuple[str, ...]
