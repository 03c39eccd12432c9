"""Queries at a source outside any job, and their results: a peek at binlog rows, a probe. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.slot import TableIdentity

ROWS = 200
"""The default number of rows in a peek."""

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
        """An identifier that is unique among all rows of its DN: several rows can end at one position."""
        first, second = self.position.pair
        return f"{first}/{second}"


@dataclass(frozen=True, slots=True)
class Filter:
    """A selection of rows: event types, and key values as the server writes them; empty selects all."""

    kinds: tuple[str, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range:
    """Rows after a position (None: from the first row) up to a position, at most `most`; `late`: whether time is up."""

    after: Position | None
    up_to: Position | None
    most: int
    late: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Searched:
    """The rows found, the position up to which the search got (None: nowhere), and whether it covered the whole range.

    `stopped` is the position at which a search ran out of time.
    """

    rows: tuple[ChangeRow, ...]
    reached: Position | None
    whole: bool
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A requested peek: the rows of a DN after a position, or its newest rows if `after` is None.

    `slot` and `time` are alternative ways to specify the start; `dn` is empty for the DN with the slot's oldest
    position.
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

    `begun` is the position after which rows were requested (None: the newest), `searched` the position up to which
    everything was searched, `on` the position at which the next peek continues. `whole` is whether the range was
    searched to its end; `notes` describe deviations from the request.
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
    """Whether Slotkeeper's reader is correct, given an answer."""

    RIGHT = "right"
    WRONG = "WRONG"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a probe: `asks` is its text, `rule` why the reader is correct for any answer, or what it requires.

    `documented` is the answer in the vendor's documentation, by text or example; "" if there is none.
    """

    name: str
    topic: str
    asks: str
    rule: str
    documented: str = ""


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """A result: `answer` is None if unknown; `because` is why it is unknown, or why the reader is not correct."""

    answer: str | None
    right: bool = True
    because: str = ""

    @property
    def reader(self) -> Reader:
        """Whether the reader is correct, given the answer."""
        if self.answer is None:
            return Reader.UNKNOWN
        return Reader.RIGHT if self.right else Reader.WRONG


@dataclass(frozen=True, slots=True)
class Answer:
    """A question with its answer and a short form of the calls that showed it."""

    question: Question
    finding: ProbeFinding
    evidence: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
        """Return the answer as plain values."""
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
    """The reason why it exists."""
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
    """Whether it is the stand-in used in tests and the demo."""
    schema: str
    """The schema of the scratch tables."""
    table: str
    """The scratch table."""
    prod: bool
    """Whether the source is PROD, which requires typed consent."""
    statements: tuple[str, ...]
    """The statements that the probe sends; each: a statement."""
    others: tuple[Left, ...] = ()
    """Tables of other probes."""
    points: str = ""
    """The server's method of creating sync points, according to its gtm_option, or empty."""


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
        """The answers for which the reader is not correct."""
        return [one for one in self.answers if one.finding.reader is Reader.WRONG]

    @property
    def sentence(self) -> str:
        """The report as recorded in the audit log."""
        return f"{len(self.answers)} questions, reader right: {not self.wrong}"

    def as_json(self) -> dict[str, object]:
        """Return the report as printed and stored; times are UTC; it contains no secret."""
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
