"""A probe of a server's behavior (`doctor --probe`): its questions, the order in which they are asked, and its report.

The kinds of servers have their own questions and scratch tables; everything that is the same for all of them is here.
A table belongs to the probe once its CREATE was sent and not rejected; the probe drops no other tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Generic, Protocol, TypeVar

from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError

PREFIX = "slotkeeper_probe_"
"""How the names of all scratch tables start."""
TIME_LIMIT = 120.0
"""Seconds after which the probe starts no further group; each statement has its own timeout on the server."""
OF_GROUP = frozenset({"57014", "42501", "1142", "1143", "1227", "1370", "1044"})
"""SQLSTATEs and MySQL error numbers of a statement's timeout, or of a missing privilege: other groups are asked."""
_UNSURE = ("08", "57")
"""SQLSTATE classes after which a statement can still have taken effect."""


class Reader(Enum):
    """Whether Slotkeeper works correctly with a server that gives a certain answer."""

    RIGHT = "right"
    WRONG = "WRONG"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a probe: `asks` is its text; `rule` states why any answer is fine, or which one is required.

    `documented` is the answer according to the vendor's documentation (text or example), "" if there is none; `page` is
    the vendor's page.
    """

    name: str
    topic: str
    asks: str
    rule: str
    documented: str = ""
    page: str = ""


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """A result: `answer` is None if unknown; `because`: why it is unknown, why Slotkeeper fails, or a remark."""

    answer: str | None
    right: bool = True
    because: str = ""

    @property
    def reader(self) -> Reader:
        """Whether Slotkeeper works correctly with this answer."""
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
            "page": self.question.page,
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
    """The name of the source or sink."""
    place: str
    """The server's address and login, as text."""
    server: str
    """The server's version."""
    stand_in: bool
    """Whether it is the stand-in used in tests and the demo."""
    schema: str
    """The schema of the scratch tables, or their database."""
    table: str
    """The scratch table."""
    prod: bool
    """Whether the server is PROD, which requires typed consent."""
    statements: tuple[str, ...]
    """The SQL statements that the probe sends, in order; each: one SQL statement."""
    others: tuple[Left, ...] = ()
    """Tables of other probes."""
    points: str = ""
    """The method by which the server creates sync points, according to its gtm_option, or empty."""
    kind: str = ""
    """The kind of server."""
    effects: tuple[str, ...] = ()
    """What the probe changes."""


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
        """The answers for which Slotkeeper does not work correctly."""
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
            "kind": plan.kind,
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


# -- answers and questions --------------------------------------------------------------------------------------------


def yes_or_no(value: bool | None, because: str = "") -> ProbeFinding:
    """Return the answer yes or no; `because` is the reason if `value` is None.

    >>> yes_or_no(True).answer, yes_or_no(None, "no such function").answer
    ('yes', None)
    """
    return ProbeFinding(None, because=because) if value is None else ProbeFinding("yes" if value else "no")


def needs(value: bool | None, wanted: bool, because: str) -> ProbeFinding:
    """Return an answer that must be `wanted`; `because` is the consequence otherwise, or the reason if it is unknown.

    >>> needs(False, True, "rows would be lost").reader.value
    'WRONG'
    """
    if value is None or value == wanted:
        return yes_or_no(value, because if value is None else "")
    return ProbeFinding("yes" if value else "no", False, because)


def questions_of(text: str) -> dict[str, Question]:
    """Return the questions by name, from `[topic | page]`, `name = documented: question` and an indented rule.

    A second indented line is the question's own page.

    >>> one = questions_of("[loads | Manual]\\ntaken = yes: a label is used once\\n    lost answers")["taken"]
    >>> one.topic, one.page, one.asks, one.documented, one.rule
    ('loads', 'Manual', 'a label is used once', 'yes', 'lost answers')
    """
    found: dict[str, Question] = {}
    topic = page = ""
    for line in text.strip().splitlines():
        if line.startswith("["):
            topic, _, page = line.strip("[]").partition(" | ")
        elif not line.startswith(" "):
            name, _, asks = line.partition(": ")
            own, _, documented = name.partition(" = ")
            found[own] = Question(own, topic, asks, "", documented, page)
        else:
            last = found.popitem()[1]
            found[last.name] = replace(last, page=line.strip()) if last.rule else replace(last, rule=line.strip())
    return found


Found = tuple[str, ProbeFinding, str]
"""A question's name, its answer and the evidence."""


class Session(Protocol):
    def close(self) -> None: ...


class Context(Protocol):
    """The sessions of a probe, with the answers found so far."""

    answers: dict[str, ProbeFinding]


C = TypeVar("C", bound=Context)
S = TypeVar("S", bound=Session)
Group = tuple[str, tuple[str, ...], Callable[[C], Iterator[Found]]]
"""A topic, the names of its questions, and the function that asks them; each group prepares the next."""


@dataclass(frozen=True, slots=True)
class Questionnaire(Generic[C]):
    """The questions of a kind by name in the order of the report, those never asked with the reason, and the groups."""

    questions: Mapping[str, Question]
    never: Mapping[str, str]
    groups: Sequence[Group[C]]

    @property
    def asked(self) -> int:
        return sum(len(names) for _, names, _ in self.groups)

    def run(
        self,
        ctx: C,
        progress: Callable[[str], None],
        clock: Callable[[], float],
        blocked: Callable[[int], str] = lambda number: "",
    ) -> list[Answer]:
        """Ask the questions group by group; if a group fails, its questions get a reason instead of an answer.

        `blocked` returns why a group, by its number, cannot be asked. Raises Unreachable and AccessRefused, because no
        further questions can be asked after these errors.
        """
        answers: dict[str, Answer] = {}
        end = clock() + TIME_LIMIT
        for number, (topic, names, ask) in enumerate(self.groups, 1):
            because = "the server returned no answer"
            if clock() > end:
                because = f"the probe reached its limit of {TIME_LIMIT:.0f} s"
            elif why := blocked(number):
                because = why
            else:
                progress(f"{topic} ({number} of {len(self.groups)})")
                try:
                    for name, finding, seen in ask(ctx):
                        ctx.answers[name] = finding
                        answers[name] = Answer(self.questions[name], finding, (safe(seen, 300),) if seen else ())
                except SlotkeeperError as error:
                    ends = error.kind in (ErrorKind.TRANSIENT, ErrorKind.ACCESS, ErrorKind.LOGIN)
                    if ends and error.code not in OF_GROUP:
                        raise
                    because = short(error)
            for name in names:
                answers.setdefault(name, Answer(self.questions[name], ProbeFinding(None, because=because)))
        for name, because in self.never.items():
            answers[name] = Answer(self.questions[name], ProbeFinding(None, because=because))
        return [answers[name] for name in self.questions if name in answers]


# -- scratch tables -----------------------------------------------------------------------------------------------


def usable_schema(usable: Sequence[str], wanted: str, user: str, grant: Callable[[str], str], where: str) -> str:
    """Return the requested schema for scratch tables, else the first usable one; raises Refused without one.

    `grant` returns the statements that let the user create tables in a schema; "" is a schema that must be created.
    """
    if wanted in usable or (usable and not wanted):
        return wanted or usable[0]
    others = f" or name a schema with --probe-schema: {', '.join(usable[:5])}" if usable else ""
    named = f"in schema {wanted}" if wanted else "in any schema"
    raise Refused(f"{user} cannot create a table {named}", grant(wanted) + others, where=where)


@dataclass(slots=True)
class ScratchTables:
    """The probe's tables that may exist; a table is named as in a statement that drops it."""

    ours: list[str] = field(default_factory=list, kw_only=True)

    def make(self, table: str, create: Callable[[], object]) -> None:
        self.ours.append(table)  # added before CREATE is sent: an interrupted CREATE may have created the table
        try:
            create()
        except SlotkeeperError as error:
            if error.kind is not ErrorKind.TRANSIENT and not error.code.startswith(_UNSURE):
                self.ours.remove(table)
            raise

    def drop(self, drop: Callable[[str], str], statement: Callable[[str], str]) -> list[Left]:
        """Drop the tables that may exist, newest first, and return those that could not be dropped.

        `drop` returns why a table still exists, "" if it does not; it is called once more after a failure.
        """
        left = []
        for table in reversed(self.ours):
            why = drop(table) and drop(table)
            if why:
                left.append(Left(table, why, statement(table)))
        self.ours = [one.table for one in left]
        return left


def why_left(opened: Callable[[], S], drop: Callable[[S], object]) -> str:
    """Drop a table in a session of its own; return why it still exists, or "" if it does not."""
    with closing(opened()) as session:
        try:
            drop(session)
        except SlotkeeperError as error:
            return error.message
    return ""


@contextmanager
def dropped(drop: Callable[[], list[Left]], left: list[Left], ending: Callable[[], None]) -> Iterator[None]:
    """Drop the scratch tables when the block ends, even after an error; call `ending` first."""
    try:
        yield
    finally:
        ending()
        left += drop()


def code_of(act: Callable[[], object]) -> str:
    """Return the code with which the server rejects a call; "" if the server accepts the call."""
    try:
        act()
    except SlotkeeperError as error:
        if error.kind is ErrorKind.TRANSIENT and error.code != "57014":
            raise
        return error.code or "no code"
    return ""


def short(error: SlotkeeperError) -> str:
    """Return a server's message without its CONTEXT part."""
    return safe(error.message.partition(" CONTEXT:")[0], 200)
