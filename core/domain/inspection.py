"""Queries of a source outside any job, and their results: peeks at binlog rows, and probes. Plain values."""

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
    """One row of a binlog; values are text as sent by the server, None for NULL (or a value not in an old image)."""

    position: Position
    kind: str
    time_us: int | None
    values: tuple[str | None, ...]

    @property
    def key(self) -> str:
        """An identifier that is unique among all rows of the DN; several rows can share a position."""
        first, second = self.position.pair
        return f"{first}/{second}"


@dataclass(frozen=True, slots=True)
class Filter:
    """A selection of rows by event type and by key values as written by the server; empty fields select all rows."""

    kinds: tuple[str, ...] = ()
    key: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Range:
    """At most `most` rows after a position (None: the last rows) up to another one; `late` checks a time limit."""

    after: Position | None
    up_to: Position | None
    most: int
    late: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class Searched:
    """The rows found, the position that the search reached (None: no row), and whether the whole range was searched.

    `stopped` is the position at which a search exceeded its time limit.
    """

    rows: tuple[ChangeRow, ...]
    reached: Position | None
    whole: bool
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A requested peek at the rows of a DN after a position, or at its newest rows if `after` is None.

    `slot` and `time` are alternative ways to specify the start; if `dn` is empty, the DN with the slot's oldest
    position is used.
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

    `begun` is the position after which rows were requested (None: the newest rows), `searched` is the position up to
    which all rows were searched, and `on` is the position at which the next peek continues. `whole` is whether the
    range was searched to its end; `notes` describe deviations from the request.
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
    """Whether Slotkeeper's binlog reader works correctly with a server that gives a certain answer."""

    RIGHT = "right"
    WRONG = "WRONG"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a probe: `asks` is its text; `rule` states why any answer is fine, or which one the reader needs.

    `documented` is the answer according to the vendor's documentation (text or example); "" if there is none.
    """

    name: str
    topic: str
    asks: str
    rule: str
    documented: str = ""


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """A result: `answer` is None if unknown; `because` states why it is unknown or why the reader does not work."""

    answer: str | None
    right: bool = True
    because: str = ""

    @property
    def reader(self) -> Reader:
        """Whether the binlog reader works correctly with this answer."""
        if self.answer is None:
            return Reader.UNKNOWN
        return Reader.RIGHT if self.right else Reader.WRONG


@dataclass(frozen=True, slots=True)
class Answer:
    question: Question
    finding: ProbeFinding
    evidence: tuple[str, ...] = ()

    def as_json(self) -> dict[str, object]:
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
    """The reason why the table exists."""
    cure: str
    """The statement that drops it."""


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """The plan of a probe."""

    source: str
    """The source's name."""
    place: str
    """The source's address and login, as text."""
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
    """The SQL statements that the probe sends, in order; each: one SQL statement."""
    others: tuple[Left, ...] = ()
    """Tables of other probes."""
    points: str = ""
    """The method by which the server creates sync points, according to its gtm_option, or empty."""


@dataclass(frozen=True, slots=True)
class Report:
    """The results of a probe; `left` contains the probe's own tables that could not be dropped."""

    plan: ProbePlan
    at: datetime
    seconds: float
    answers: tuple[Answer, ...]
    left: tuple[Left, ...]
    switches: Mapping[str, bool | None]
    file: str = ""

    @property
    def wrong(self) -> list[Answer]:
        """The answers for which the binlog reader does not work correctly."""
        return [one for one in self.answers if one.finding.reader is Reader.WRONG]

    @property
    def sentence(self) -> str:
        """The summary that is recorded in the audit log."""
        return f"{len(self.answers)} questions, reader right: {not self.wrong}"

    def as_json(self) -> dict[str, object]:
        """Return the report as printed and stored, without secrets; times are UTC."""
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
