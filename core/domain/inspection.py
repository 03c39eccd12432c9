"""Queries at a source outside any job, and their results: a peek at binlog rows, a probe. Values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import TableIdentity

ROWS = 200
"""The default number of rows of a peek."""

MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One row of a binlog; values are the server's own text, None is NULL (or absent in an old image)."""

    position: Position
    kind: str
    time_us: int | None
    values: tuple[str | None, ...]

    @property
    def key(self) -> str:
        """Identifies it among all rows of its DN: several can end at one position."""
        first, second = self.position.pair
        return f"{first}/{second}"


@dataclass(frozen=True, slots=True)
class Filter:
    """The selected rows: event types, and key values as the server writes them; empty selects all."""

    kinds: tuple[str, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range:
    """Rows after a position (None: from the first on) up to a position, at most `most`; `late`: the time is up."""

    after: Position | None
    up_to: Position | None
    most: int
    late: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Searched:
    """The rows found, the position up to which was searched (None: nothing), and whether that is the whole range.

    `stopped` is the position of a search that ran out of time.
    """

    rows: tuple[ChangeRow, ...]
    reached: Position | None
    whole: bool
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A requested peek: rows of a DN after a position, or its newest ones where `after` is None.

    `slot` and `time` are other ways to name the start; `dn` is empty for the DN with the slot's oldest position.
    """

    dn: str = ""
    after: Position | None = None
    slot: str = ""
    time: str = ""
    up_to: Position | None = None
    filter: Filter = field(default_factory=Filter)
    most: int = ROWS


@dataclass(frozen=True, slots=True)
class Page:
    """The rows of one DN, in the order of the stream.

    `begun` is the position after which rows were asked for (None: the newest), `searched` the place up to which all
    was looked at, `on` where the next peek continues. `whole` is whether the range was searched to its end; `notes` say
    what is not as asked for.
    """

    source: str
    table: str
    shard: str
    shards: tuple[str, ...]
    identity: TableIdentity
    rows: tuple[ChangeRow, ...]
    begun: Position | None
    searched: Position | None
    latest: Position | None
    on: Position | None
    whole: bool
    masked: bool = False
    notes: tuple[str, ...] = ()


class Reader(Enum):
    """Whether Slotkeeper's reader is correct under an answer."""

    RIGHT = "right"
    WRONG = "WRONG"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Question:
    """`asks` is the question, `rule` why the reader is correct under any answer, or what it needs.

    `documented` is the answer of the vendor's pages, by text or example; "" where they give none.
    """

    name: str
    topic: str
    asks: str
    rule: str
    documented: str = ""


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """A decision: `answer` None is unknown; `because`: why it is unknown, or why the reader is not correct."""

    answer: str | None
    right: bool = True
    because: str = ""

    @property
    def reader(self) -> Reader:
        """Whether the reader is correct under the answer."""
        if self.answer is None:
            return Reader.UNKNOWN
        return Reader.RIGHT if self.right else Reader.WRONG


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with its answer and the calls that showed it, in short."""

    question: Question
    finding: ProbeFinding
    evidence: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """The answer as plain values."""
        return {
            "name": self.question.name,
            "topic": self.question.topic,
            "asks": self.question.asks,
            "rule": self.question.rule,
            "documented": self.question.documented or None,
            "answer": self.finding.answer,
            "reader": self.finding.reader.value,
            "because": self.finding.because,
            "evidence": list(self.evidence),
        }


@dataclass(frozen=True, slots=True)
class Left:
    """A scratch table that could not be dropped."""

    table: str
    """Its name."""
    why: str
    """Why it exists."""
    cure: str
    """The statement that drops it."""


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """The plan of a probe."""

    source: str
    """The source's name."""
    place: str
    """The source, as text."""
    server: str
    """The server's version."""
    stand_in: bool
    """Whether it is the stand-in of the tests and the demo."""
    schema: str
    """The schema of the scratch tables."""
    table: str
    """The scratch table."""
    prod: bool
    """Whether the source is PROD, which requires typed consent."""
    statements: tuple[str, ...]
    """The statements that it sends; each: a statement."""
    others: tuple[Left, ...] = ()
    """Tables of other probes."""
    points: str = ""
    """How the server creates sync points, by its gtm_option, or empty."""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a probe; `left` are its own tables that could not be dropped."""

    plan: ProbePlan
    at: datetime
    seconds: float
    answers: tuple[Answer, ...]
    left: tuple[Left, ...]
    switches: Mapping[str, bool | None]
    file: str = ""

    @property
    def wrong(self) -> list[Answer]:
        """The answers under which the reader is not correct."""
        return [one for one in self.answers if one.finding.reader is Reader.WRONG]

    @property
    def sentence(self) -> str:
        """The report as the audit has it."""
        return f"{len(self.answers)} questions, reader right: {not self.wrong}"

    def as_json(self) -> dict[str, object]:
        """The report as it is printed and stored; times are UTC, it has no secret."""
        plan = self.plan
        return {
            "format": 1,
            "source": plan.source,
            "place": plan.place,
            "server": plan.server,
            "stand_in": plan.stand_in,
            "schema": plan.schema,
            "gtm_option": plan.points,
            "at": self.at.isoformat(timespec="seconds").replace("+00:00", "Z"),
            "seconds": round(self.seconds, 2),
            "reader_right": not self.wrong,
            "switches": dict(self.switches),
            "answers": [one.as_json() for one in self.answers],
            "left": [{"table": one.table, "why": one.why, "cure": one.cure} for one in self.left],
        }
