"""Where a query stands, as Spark keeps it in its checkpoint: a position per DN, and whose table that is.

Spark compares offsets as JSON text, so one place has one text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.errors import Refused

VERSION = 1


@dataclass(frozen=True)
class Offset:
    """`copied` is False before the batch that holds the table's rows as they were; `positions` is by DN."""

    fingerprint: str
    positions: Mapping[str, Position]
    copied: bool = True

    def at(self, positions: Mapping[str, Position]) -> Offset:
        """The same table elsewhere."""
        return replace(self, positions=positions, copied=True)

    @property
    def json(self) -> dict[str, Any]:
        """As Spark keeps it."""
        places = {name: self.positions[name].text for name in sorted(self.positions)}
        return {"version": VERSION, "fingerprint": self.fingerprint, "copied": self.copied, "positions": places}

    @classmethod
    def read(cls, kept: Mapping[str, Any], positions: Positions) -> Offset:
        """One of a checkpoint; Refused for what is none of ours."""
        try:
            if kept["version"] != VERSION:
                raise ValueError(f"version {kept['version']}")
            places = {str(name): positions.position(text) for name, text in kept["positions"].items()}
            return cls(str(kept["fingerprint"]), places, bool(kept["copied"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            what = f"the checkpoint's offset cannot be read ({error})"
            raise Refused(what, "begin with a checkpoint of its own", where="spark") from None
