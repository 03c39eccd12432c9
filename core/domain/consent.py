"""The consent to a copy that replaces rows: one plan, the name that was typed, who, why, for a day. Pure.

A reset to a snapshot empties the progress rows; the target's rows are replaced by the copy that the next start begins.
So a person agrees to that copy, not to a start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Protocol

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import AwaitsCopy

VALID_SECONDS = 86_400.0
REPLACE = "replace"
_NEXT, _PLAN = "next ", "plan "


@dataclass(frozen=True, slots=True)
class Ordered:
    """What the emptied progress rows say of the copy that begins next, where they will have the way of that copy.

    `way` is what it does with the target's rows, "" what the job's configuration says. `plan` is the reset that has
    emptied them, "" where no reset did (a changed table), or one of an earlier version.

    >>> Ordered.parse("plan 4f2c replace"), Ordered.parse("next merge").plan, Ordered("4f2c").text
    (Ordered(plan='4f2c', way='replace'), '', 'plan 4f2c')
    """

    plan: str = ""
    way: str = ""

    @property
    def text(self) -> str | None:
        """As the progress rows keep it; None where nothing is ordered."""
        if self.plan:
            return f"{_PLAN}{self.plan} {self.way}".rstrip()
        return f"{_NEXT}{self.way}" if self.way else None

    @classmethod
    def parse(cls, text: str) -> Ordered:
        """Parse from the rows; any other text (the method of a started copy) orders nothing."""
        if text.startswith(_NEXT):
            return cls(way=text.removeprefix(_NEXT))
        if text.startswith(_PLAN):
            plan, _, way = text.removeprefix(_PLAN).partition(" ")
            return cls(plan, way)
        return cls()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Ordered:
        """What several rows say; where they differ, one that a reset has emptied is enough to ask for a consent.

        >>> Ordered.of(["plan 4f2c replace", "None"]), Ordered.of(["None", "next merge"])
        (Ordered(plan='4f2c', way=''), Ordered(plan='', way=''))
        """
        found = {cls.parse(text) for text in texts}
        return found.pop() if len(found) == 1 else cls(max((one.plan for one in found), default=""))


@dataclass(frozen=True, slots=True)
class Consent:
    """A copy that replaces rows, and the user who consented; `name` is "" before that, `at` is since 1970.

    `replaces` describes what is replaced. `alone`: the job has no other table, so that it cannot start without.
    """

    plan: str
    job: str
    table: str
    slot: str
    replaces: str
    alone: bool
    name: str = ""
    who: str = ""
    reason: str = ""
    at: float = 0.0

    def valid(self, now: float) -> bool:
        """Whether it was given, by the name of the job or of its slot, less than a day ago.

        >>> one = Consent("4f2c", "orders", "ods.orders", "s", "7 rows", True, "s", "dba@h1", "INC-1", 1_000.0)
        >>> one.valid(1_000.0 + 86_400), one.valid(1_001.0 + 86_400), one.valid(900.0)
        (True, False, False)
        """
        past = elapsed(self.at, now)
        named = self.name in (self.job, self.slot) and bool(self.name)
        return named and bool(self.who and self.reason) and past is not None and past <= VALID_SECONDS

    @property
    def missing(self) -> AwaitsCopy:
        """What is raised where it does not hold."""
        what = f"{self.table}: the copy would replace {self.replaces}, and no consent to it is stored"
        name = typed(self.job)
        return AwaitsCopy(what, f"`slotkeeper jobs start {name} --confirm {name} --reason TEXT`")

    @property
    def text(self) -> str:
        """As a file keeps it."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Consent | None:
        """From a file; None where that is damaged."""
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None


class Consents(Protocol):
    """The consents of one job on this host."""

    def known(self) -> Iterable[Consent]:
        """Those that are given or asked for."""

    def given(self, plan: str) -> bool:
        """Whether the copy after that reset may replace rows now."""

    def keep(self, one: Consent) -> None:
        """Store one that is given, or asked for."""

    def drop(self, table: str, but: str = "") -> None:
        """Forget those of a table, but that of the plan `but`."""
