"""What an incident is: how it is made to happen, where it shows, what is refused in it, and the way out, as one record.

Demo, runbook and tests share these records. Nothing here is known of a job's processes: all that is asked of the
product is asked by its commands, as a person would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.drivers import pg
from slotkeeper.demo.mariadb import MariaServer
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.warehouse import Warehouse

JOB = SLOT = "orders_rt"
TARGET = "mart.orders"
"""Names in the demo and the runbook; the table is `slotkeeper.demo.orders.TABLE`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a command ended, and all that it wrote to stdout and stderr."""

    code: int
    text: str


def _now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(slots=True)
class World:
    """What an incident happens to: a source, a sink, and one job between them that is RUNNING.

    `state` is the job's state folder. `run` runs `slotkeeper` with these words, as a person would. `opened` closes
    what an incident leaves open, as a session with a lock, at the end of the whole. `began` is when it began, as `make`
    has said by `begins`.
    """

    source: Warehouse | MariaServer
    sink: Server
    sink_database: str
    sink_user: str
    sink_password_file: Path
    config: Path
    state: Path
    run: Callable[[Sequence[str]], Answer]
    opened: ExitStack = field(default_factory=ExitStack)
    began: datetime = field(default_factory=_now)

    @property
    def warehouse(self) -> Warehouse:
        """The source of an incident of a warehouse."""
        assert isinstance(self.source, Warehouse), "an incident of a warehouse"
        return self.source

    @property
    def maria(self) -> MariaServer:
        """The source of an incident of a MySQL source."""
        assert isinstance(self.source, MariaServer), "an incident of a MySQL source"
        return self.source

    def begins(self) -> None:
        """From now on the incident can be seen: what was only prepared before is over."""
        self.began = _now()

    def at_source(self, *statements: str) -> None:
        """Run statements at the source as its superuser, in one session, each in a transaction of its own."""
        if isinstance(self.source, Warehouse):
            _each(self.source.connect(), statements)
            return
        with closing(self.source.session()) as session:
            for statement in statements:
                session.rows(statement)

    def at_sink(self, *statements: str) -> None:
        """Run statements at the sink as its superuser, each in a transaction of its own."""
        _each(self.connect_sink(), statements)

    def connect_sink(self) -> pg.Connection:
        """A superuser session at the sink."""
        return self.sink.connect(self.sink_database)


def _each(connection: pg.Connection, statements: Sequence[str]) -> None:
    with closing(connection), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@dataclass(frozen=True, slots=True)
class Command:
    """A command as the runbook has it; ID and N stand for what the dry run before it has printed.

    `ends` are the exit codes that it may have here.
    """

    text: str
    ends: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class AtSink:
    """A statement that the sink's administrator types."""

    text: str


@dataclass(frozen=True, slots=True)
class Manual:
    """An action outside Slotkeeper: `text` as in the runbook, `act` does it here, `here` is its shell command."""

    text: str
    act: Callable[[World], object]
    here: Callable[[World], str]


Step = Command | AtSink | Manual


@dataclass(frozen=True, slots=True)
class Signal:
    """The symptom: the command that shows it, its exit code, and texts of which one appears.

    `rules`: the rules of docs/alerts.md that report it, one or the other, and `parties`: their party. `late`: seconds
    of a named limit that has to pass first. `why`: if the command is not `status`, the fact that `status` lacks.
    """

    command: Command
    says: tuple[str, ...]
    rules: tuple[str, ...]
    parties: tuple[Party, ...]
    late: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tempting command that is rejected: its exit code, and texts of which one appears."""

    command: Command
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident; `page` is its heading in the runbook, `stand_in` where it differs from DWS.

    `make` causes it, reports its start, and returns one line about it. `options`: keys of the job's `sink_options` that
    it needs from the start on. `small_disk`: the state folder is on its own small disk. `source`: the source kind, as
    `demo --source` names it.
    """

    name: str
    number: int
    page: str
    brief: str
    make: Callable[[World], str]
    signal: Signal
    refusal: Refusal
    cure: tuple[Step, ...]
    stand_in: str = ""
    options: Mapping[str, object] = field(default_factory=dict)
    small_disk: bool = False
    source: str = "dws"


STATUS = "slotkeeper status --exit-code --json"
START = Command("slotkeeper jobs start orders_rt")
STOP = Command("slotkeeper jobs stop orders_rt")
VERIFY = Command("slotkeeper verify orders_rt")
PLAN = Command("slotkeeper slots reset ods.orders orders_rt --to snapshot --on-existing replace")
EXECUTE = Command(
    'slotkeeper slots reset ods.orders orders_rt --execute --plan ID --reason "why" --confirm orders_rt --rows N'
)
COPY_ANEW: tuple[Step, ...] = (PLAN, EXECUTE, START, VERIFY)
"""The commands of a new snapshot that makes the target equal to the source."""


def by_status(exit_code: int, says: tuple[str, ...], rule: str, *parties: Party, late: float = 0.0) -> Signal:
    """A signal that `slotkeeper status` gives: 1 is a warning, 2 critical."""
    return Signal(Command(STATUS, (exit_code,)), says, (rule,), parties, late)


def start_refused(*says: str) -> Refusal:
    """A start that ends FAILED, with the same name of trouble each time: nothing is skipped by trying again."""
    return Refusal(Command(START.text, (1,)), says)
