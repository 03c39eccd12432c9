"""The definition of an incident: how it is caused, where it is shown, which command is rejected, and how it is fixed.

The demo, the runbook and the tests share these definitions. They do not use a job's processes: they control the product
only through its commands, as a user does.
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
    """A command's exit code, and its whole output to stdout and stderr."""

    code: int
    text: str


def _now() -> datetime:
    return datetime.now(timezone.utc)


@dataclass(slots=True)
class World:
    """The environment of an incident: a source, a sink, and one RUNNING job between them.

    `state` is the job's state folder. `run` runs `slotkeeper` with the given arguments, as a user does. When the demo
    ends, `opened` closes everything that an incident leaves open, such as a session that holds a lock. `began` is the
    incident's start, as set by `begins`.
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
        """The source, for an incident of a warehouse."""
        assert isinstance(self.source, Warehouse), "an incident of a warehouse"
        return self.source

    @property
    def maria(self) -> MariaServer:
        """The source, for an incident of a MySQL source."""
        assert isinstance(self.source, MariaServer), "an incident of a MySQL source"
        return self.source

    def begins(self) -> None:
        """Record the start of the incident: it can be observed from now on; everything before was preparation."""
        self.began = _now()

    def at_source(self, *statements: str) -> None:
        """Run statements on the source as its superuser, in one session, each in its own transaction."""
        if isinstance(self.source, Warehouse):
            _each(self.source.connect(), statements)
            return
        with closing(self.source.session()) as session:
            for statement in statements:
                session.rows(statement)

    def at_sink(self, *statements: str) -> None:
        """Run statements on the sink as its superuser, each in its own transaction."""
        _each(self.connect_sink(), statements)

    def connect_sink(self) -> pg.Connection:
        """Open a superuser session on the sink."""
        return self.sink.connect(self.sink_database)


def _each(connection: pg.Connection, statements: Sequence[str]) -> None:
    with closing(connection), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@dataclass(frozen=True, slots=True)
class Command:
    """A command as in the runbook; ID and N are placeholders for values from the output of the preceding dry run.

    `ends` are the exit codes that are expected here.
    """

    text: str
    ends: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class AtSink:
    """A statement that the sink's administrator types."""

    text: str


@dataclass(frozen=True, slots=True)
class Manual:
    """An action outside Slotkeeper: `text` as in the runbook, `act` performs it in the demo, `here` is its shell
    command.
    """

    text: str
    act: Callable[[World], object]
    here: Callable[[World], str]


Step = Command | AtSink | Manual


@dataclass(frozen=True, slots=True)
class Signal:
    """The symptom: the command that shows it, its exit code, and the expected strings, one of which must appear.

    `rules`: rules in docs/alerts.md, one of which reports the symptom; `parties`: their parties. `late`: seconds of a
    limit that must elapse first. `why`: if the command is not `status`, the fact that `status` does not show.
    """

    command: Command
    says: tuple[str, ...]
    rules: tuple[str, ...]
    parties: tuple[Party, ...]
    late: float = 0.0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A tempting command that is rejected: its exit code, and the expected strings, one of which must appear."""

    command: Command
    says: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Incident:
    """One incident; `page` is its heading in the runbook, `stand_in` describes how it differs from an incident in DWS.

    `make` causes it, reports its start, and returns one line about it. `options`: keys of the job's `sink_options` that
    the incident needs from the start. `small_disk`: the state folder is on its own small disk. `source`: the source
    kind, as `demo --source` names it.
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
"""The commands for a new snapshot that makes the target equal to the source."""


def by_status(exit_code: int, says: tuple[str, ...], rule: str, *parties: Party, late: float = 0.0) -> Signal:
    """Return a signal that `slotkeeper status` shows: 1 is a warning, 2 critical."""
    return Signal(Command(STATUS, (exit_code,)), says, (rule,), parties, late)


def start_refused(*says: str) -> Refusal:
    """Return a start that always ends FAILED with the same error class: repeating the start skips nothing."""
    return Refusal(Command(START.text, (1,)), says)
