"""One reason why a table or a server cannot be used, with the statement that cures it: a value, raised where it
counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from slotkeeper.core.errors import Refused


@dataclass(frozen=True, slots=True)
class Objection:
    """`what` is a sentence that names the thing; `cure` is a statement, or what to do where no statement does it."""

    what: str
    cure: str

    @property
    def text(self) -> str:
        """Both, on one line."""
        return f"{self.what}; cure: {self.cure}"


INHERITED = "has tables that inherit from it: their rows are read as its own, and may have its keys"
"""What is said of a table that is not partitioned and has children all the same, at either end."""


def refuse(found: Sequence[Objection], where: str) -> None:
    """Raise Refused with the first objection; nothing where there is none."""
    if found:
        more = f" (and {len(found) - 1} more: `slotkeeper doctor`)" if len(found) > 1 else ""
        raise Refused(f"{found[0].what}{more}", found[0].cure, where=where)
