"""Whether a list of a source's sessions is whole: who is not shown cannot be waited for, nor said to be gone. Pure.

Nobody says what a list leaves out. DWS, PG_STAT_ACTIVITY: an ordinary login sees its own sessions only, and those of
one coordinator (CN). So a list counts as whole only where that is proven.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sight:
    """What a login can see: `coordinators` by the cluster's catalog (None: not told), `everyone` only where a right to
    all users' sessions is proven, `across` where the list of all coordinators' sessions could be read."""

    coordinators: int | None
    everyone: bool
    across: bool

    @property
    def all_coordinators(self) -> bool:
        """Whether no session is left out because it is connected elsewhere; enough for sessions of our own login."""
        return self.across or self.coordinators == 1

    @property
    def whole(self) -> bool:
        """Whether every session of the cluster is seen."""
        return self.everyone and self.all_coordinators

    @property
    def lacks(self) -> str:
        """What is not seen, in words; nothing where the list is whole.

        >>> Sight(2, False, False).lacks
        "other logins' sessions and those of 2 coordinators cannot all be seen"
        """
        where = "another coordinator" if self.coordinators is None else f"{self.coordinators} coordinators"
        parts = [] if self.everyone else ["other logins' sessions"]
        parts += [] if self.all_coordinators else [f"those of {where}"]
        return f"{' and '.join(parts)} cannot all be seen" if parts else ""
