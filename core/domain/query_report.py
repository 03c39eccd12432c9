"""What is known of a DataFrame query from outside its Spark: its own account in the store, and what is seen of it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from slotkeeper.core.domain.ttl import in_words

WHERE_TO_ACT = "stop and start it in its Spark program"
"""How to act on a query: its process is not Slotkeeper's."""
WHERE_TO_START = "start it in its Spark program"
"""The same for a query that is not running."""
AFTER_A_MOVE = (
    "a DataFrame query reads this slot: afterwards it cannot continue from its checkpoint, and starts over"
    " with a slot and a checkpoint of its own"
)
"""What it means for a query that its slot is moved or dropped: nothing moves its checkpoint, which is Spark's."""


@dataclass(frozen=True, slots=True)
class QueryReport:
    """A query's account of itself: `query` is the id that its checkpoint keeps, `name` what its program calls it.

    `batch` is the newest that has ended, None before the first; `newest` is by DN where the source stood when it was
    asked for that batch. `epoch` is that of the query's rows: one that was superseded has an older one.
    `age` is by the store's clock, in seconds.
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
    """A DataFrame query as it is seen from elsewhere: its rows, and its own account where there is one."""

    lives: bool
    """Whether its lease is taken."""
    who: str
    """Its job, run, user, host and pid, and when it was last heard of."""
    positions: Mapping[str, str]
    """By DN, the end of its newest committed batch; each: a position."""
    id: str = ""
    """The id that its checkpoint keeps; empty where it has said nothing of itself."""
    name: str = ""
    """What its program calls it; empty where it does not."""
    batch: int | None = None
    """The newest batch that has ended; null: it has not said."""
    checkpoint: str = ""
    """Where its checkpoint is; empty where it has not said."""
    newest: Mapping[str, str] = field(default_factory=dict)
    """By DN, up to where something was unread when it was asked for that batch; each: a position."""
    behind: Mapping[str, int | None] = field(default_factory=dict)
    """By DN, the distance from its position to that; each: in its unit; null: unknown."""
    unit: str = ""
    """What behind counts, by the source's dialect."""
    age: float | None = None
    """How old that is, seconds by the store's clock; null: it has not said."""

    @property
    def worst(self) -> int | None:
        """What it is behind on the DN where that is most; None where one of them is not known."""
        known = [self.behind.get(name) for name in self.positions]
        numbers = [one for one in known if one is not None]
        return max(numbers) if numbers and len(numbers) == len(known) else None

    @property
    def called(self) -> str:
        """The query in a few words.

        >>> QuerySeen(True, "job o run query-1", {}, id="9d1c", name="orders to lake").called
        'DataFrame query orders to lake (9d1c)'
        >>> QuerySeen(True, "job o run query-1", {}).called
        'DataFrame query ?'
        """
        return f"DataFrame query {self.named}"

    @property
    def named(self) -> str:
        """Its name and its id, as far as they are known."""
        return f"{self.name} ({self.id})" if self.name and self.id else self.id or "?"

    @property
    def to_do(self) -> str:
        """Where one acts on it.

        >>> QuerySeen(False, "", {}).to_do
        'start it in its Spark program'
        """
        return WHERE_TO_ACT if self.lives else WHERE_TO_START

    @property
    def unsaid(self) -> str:
        """Why its batch is not known; "" where it is.

        >>> QuerySeen(True, "", {}, batch=0).unsaid
        ''
        """
        if self.batch is not None:
            return ""
        return "said when its first batch has ended, and only where its program can write to the store"

    @property
    def refusal(self) -> str:
        """Why nothing is done to it from here.

        >>> QuerySeen(True, "job o run query-1 by me@h pid 7, last heard of 2 s ago", {}, id="9d1c").refusal
        'DataFrame query 9d1c reads its slot (job o run query-1 by me@h pid 7, last heard of 2 s ago)'
        """
        reads = "reads its slot" if self.lives else "has read its slot and is not running"
        return f"{self.called} {reads} ({self.who})"

    @property
    def text(self) -> str:
        """In words.

        >>> seen = QuerySeen(True, "job o run query-1", {"dn_1": "10145/-1"})
        >>> seen.text
        'DataFrame query ? reads it (job o run query-1); batch ?; committed up to dn_1 10145/-1; behind ?; checkpoint ?'
        """
        reads = "reads it" if self.lives else "has read it and is not running"
        places = ", ".join(f"{name} {place}" for name, place in sorted(self.positions.items()))
        said = f"{self.progress}; committed up to {places}; {self.lag}; checkpoint {self.checkpoint or '?'}"
        return f"{self.called} {reads} ({self.who}); {said}"

    @property
    def brief(self) -> str:
        """The same in a line, what matters first: a terminal of 80 columns has room for some 40 of it in `jobs list`.

        >>> QuerySeen(False, "", {}, id="9d1c").brief
        'DataFrame query is not running, behind ?, batch ?: 9d1c'
        """
        lives = "" if self.lives else " is not running"
        return f"DataFrame query{lives}, {self.lag}, {self.progress}: {self.named}"

    @property
    def progress(self) -> str:
        """Its newest batch, and when it said so.

        >>> QuerySeen(True, "", {}, batch=12, age=3.0).progress, QuerySeen(True, "", {}).progress
        ('batch 12, 3s ago', 'batch ?')
        """
        if self.batch is None:
            return "batch ?"
        return f"batch {self.batch}" + ("" if self.age is None else f", {in_words(max(0.0, self.age))} ago")

    @property
    def lag(self) -> str:
        """How far it was behind then.

        >>> QuerySeen(True, "", {"dn_1": "7/0"}, behind={"dn_1": 40}, unit="points").lag
        'behind by 40 points then'
        """
        return "behind ?" if self.worst is None else f"behind by {self.worst} {self.unit} then".replace("  ", " ")
