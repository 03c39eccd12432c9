"""The consent to a copy that replaces rows: the plan, the typed name, the user and the reason; valid for a day. Pure.

A reset to a snapshot clears the progress rows; the copy made by the next start then replaces the target's rows. The
consent is therefore given for that copy, not for a start.
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
    """The instruction for the next copy, stored in cleared progress rows in the column for the copy method.

    `way` specifies how the copy treats the target's rows; "" means that the job's setting applies. `plan` is the id of
    the reset that cleared the rows; it is "" if they were cleared because the table changed, or by a reset of an
    earlier version.

    >>> Ordered.parse("plan 4f2c replace"), Ordered.parse("next merge").plan, Ordered("4f2c").text
    (Ordered(plan='4f2c', way='replace'), '', 'plan 4f2c')
    """

    plan: str = ""
    way: str = ""

    @property
    def text(self) -> str | None:
        """The text that is stored in the progress rows; None if there is no instruction."""
        if self.plan:
            return f"{_PLAN}{self.plan} {self.way}".rstrip()
        return f"{_NEXT}{self.way}" if self.way else None

    @classmethod
    def parse(cls, text: str) -> Ordered:
        """Parse the stored string; any other string, such as the method of a started copy, yields no instruction."""
        if text.startswith(_NEXT):
            return cls(way=text.removeprefix(_NEXT))
        if text.startswith(_PLAN):
            plan, _, way = text.removeprefix(_PLAN).partition(" ")
            return cls(plan, way)
        return cls()

    @classmethod
    def of(cls, texts: Iterable[str]) -> Ordered:
        """Combine the instructions of several rows; if they differ, a single row cleared by a reset requires consent.

        >>> Ordered.of(["plan 4f2c replace", "None"]), Ordered.of(["None", "next merge"])
        (Ordered(plan='4f2c', way=''), Ordered(plan='', way=''))
        """
        found = {cls.parse(text) for text in texts}
        return found.pop() if len(found) == 1 else cls(max((one.plan for one in found), default=""))


@dataclass(frozen=True, slots=True)
class Consent:
    """A copy that replaces rows, and the user who consented; `name` is "" before consent, `at` is in Unix time.

    `replaces` describes the rows to replace. `alone`: the job has no other table, so it cannot start without consent.
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
    rows: int | None = None
    """The rows that a change of columns affects, which the user confirms instead of a copy; None for a copy."""

    def valid(self, now: float) -> bool:
        """Return whether consent was given less than a day ago by typing the name of the job or of its slot.

        >>> one = Consent("4f2c", "orders", "ods.orders", "s", "7 rows", True, "s", "dba@h1", "INC-1", 1_000.0)
        >>> one.valid(1_000.0 + 86_400), one.valid(1_001.0 + 86_400), one.valid(900.0)
        (True, False, False)
        """
        past = elapsed(self.at, now)
        named = self.name in (self.job, self.slot) and bool(self.name)
        return named and bool(self.who and self.reason) and past is not None and past <= VALID_SECONDS

    @property
    def missing(self) -> AwaitsCopy:
        """The error to raise if the consent is not valid."""
        what = f"{self.table}: the copy would replace {self.replaces}, but no consent to this is stored"
        name = typed(self.job)
        return AwaitsCopy(what, f"`slotkeeper jobs start {name} --confirm {name} --reason TEXT`")

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Consent | None:
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError):
            return None


class Consents(Protocol):
    """The consents for one job on this host."""

    def known(self) -> Iterable[Consent]:
        """Return the consents that have been given or requested."""

    def given(self, plan: str) -> bool:
        """Return whether the copy after the reset with this plan can replace rows now."""

    def keep(self, one: Consent) -> None:
        """Store a given or requested consent."""

    def drop(self, table: str, but: str = "") -> None:
        """Delete the consents for a table, except the consent for the plan `but`."""
