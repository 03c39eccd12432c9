"""A DataFrame query as seen from outside its Spark program: its report in the store, and the state of its lease.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotkeeper.core.domain.ttl import in_words

WHERE_TO_ACT = "stop and start it in its Spark program"
"""The instruction for acting on a running query, whose process Slotkeeper does not manage."""
WHERE_TO_START = "start it in its Spark program"
"""The instruction for a query that is not running."""
AFTER_A_MOVE = (
    "a DataFrame query reads this slot: afterwards it cannot continue from its checkpoint and must start over"
    " with a new slot and a new checkpoint"
)
"""The effect of moving or dropping a query's slot: the query's checkpoint, which belongs to Spark, does not move."""


@dataclass(frozen=True, slots=True)
class QueryReport:
    """A query's report about itself: `query` is the id in its checkpoint, `name` the name given by its program.

    `batch` is the newest completed batch, None before the first batch; `newest` is the source's newest position by DN
    at the time when that batch was requested. `epoch` is the epoch of the query's rows; the epoch of a superseded query
    is lower. `age` is in seconds by the store's clock.
    """

    epoch: int
    query: str = ""
    name: str = ""
    batch: int | None = None
    checkpoint: str = ""
    newest: Mapping[str, str] = field(default_factory=dict)
    age: float | None = None


@dataclass(frozen=True, slots=True)
class QuerySeen:
    """A DataFrame query as seen from outside its program: its progress rows, and its report if there is one."""

    lives: bool
    """Whether its lease is held."""
    who: str
    """Its job, run, user, host and pid, and the time since its last report."""
    positions: Mapping[str, str]
    """The end of its newest committed batch, by DN; each: a position."""
    id: str = ""
    """The id in its checkpoint; empty if it has not reported one."""
    name: str = ""
    """The name given by its program; empty if there is none."""
    batch: int | None = None
    """The newest completed batch; null: not reported."""
    checkpoint: str = ""
    """The path of its checkpoint; empty if not reported."""
    newest: Mapping[str, str] = field(default_factory=dict)
    """The last unread position when that batch was requested, by DN; each: a position."""
    behind: Mapping[str, int | None] = field(default_factory=dict)
    """The distance from its position to the last unread position, by DN; each: in the unit of `unit`; null: unknown."""
    unit: str = ""
    """The unit of `behind`, which depends on the source's dialect."""
    age: float | None = None
    """The age of the report in seconds by the store's clock; null: not reported."""

    @property
    def worst(self) -> int | None:
        """The largest distance over all DNs; None if the distance of a DN is unknown."""
        known = [self.behind.get(name) for name in self.positions]
        numbers = [one for one in known if one is not None]
        return max(numbers) if numbers and len(numbers) == len(known) else None

    @property
    def called(self) -> str:
        """A short description of the query.

        >>> QuerySeen(True, "job o run query-1", {}, id="9d1c", name="orders to lake").called
        'DataFrame query orders to lake (9d1c)'
        >>> QuerySeen(True, "job o run query-1", {}).called
        'DataFrame query ?'
        """
        return f"DataFrame query {self.named}"

    @property
    def named(self) -> str:
        """The query's name and id, as far as they are known."""
        return f"{self.name} ({self.id})" if self.name and self.id else self.id or "?"

    @property
    def to_do(self) -> str:
        """The instruction for acting on the query.

        >>> QuerySeen(False, "", {}).to_do
        'start it in its Spark program'
        """
        return WHERE_TO_ACT if self.lives else WHERE_TO_START

    @property
    def unsaid(self) -> str:
        """The reason why its batch is unknown; "" if it is known.

        >>> QuerySeen(True, "", {}, batch=0).unsaid
        ''
        """
        if self.batch is not None:
            return ""
        return "reported after its first batch, if its program can write to the store"

    @property
    def refusal(self) -> str:
        """The reason why Slotkeeper does not act on the query.

        >>> QuerySeen(True, "job o run query-1 by me@h pid 7, last heard of 2 s ago", {}, id="9d1c").refusal
        'DataFrame query 9d1c reads its slot (job o run query-1 by me@h pid 7, last heard of 2 s ago)'
        """
        reads = "reads its slot" if self.lives else "is not running, but has read its slot"
        return f"{self.called} {reads} ({self.who})"

    @property
    def text(self) -> str:
        """A description of the query.

        >>> seen = QuerySeen(True, "job o run query-1", {"dn_1": "10145/-1"})
        >>> seen.text
        'DataFrame query ? reads it (job o run query-1); batch ?; committed up to dn_1 10145/-1; behind ?; checkpoint ?'
        """
        reads = "reads it" if self.lives else "is not running, but has read it"
        places = ", ".join(f"{name} {place}" for name, place in sorted(self.positions.items()))
        said = f"{self.progress}; committed up to {places}; {self.lag}; checkpoint {self.checkpoint or '?'}"
        return f"{self.called} {reads} ({self.who}); {said}"

    @property
    def brief(self) -> str:
        """A one-line description, important parts first because `jobs list` shows 40 characters of it in 80 columns.

        >>> QuerySeen(False, "", {}, id="9d1c").brief
        'DataFrame query is not running, behind ?, batch ?: 9d1c'
        """
        lives = "" if self.lives else " is not running"
        return f"DataFrame query{lives}, {self.lag}, {self.progress}: {self.named}"

    @property
    def progress(self) -> str:
        """The query's newest batch, and the age of its report.

        >>> QuerySeen(True, "", {}, batch=12, age=3.0).progress, QuerySeen(True, "", {}).progress
        ('batch 12, 3s ago', 'batch ?')
        """
        if self.batch is None:
            return "batch ?"
        return f"batch {self.batch}" + ("" if self.age is None else f", {in_words(max(0.0, self.age))} ago")

    @property
    def lag(self) -> str:
        """The query's lag at the time of its report.

        >>> QuerySeen(True, "", {"dn_1": "7/0"}, behind={"dn_1": 40}, unit="points").lag
        'was 40 points behind'
        """
        return "behind ?" if self.worst is None else f"was {self.worst} {self.unit} behind".replace("  ", " ")
