"""Error codes, each provoked at a real server, with the expected cause and action. The table is written
down before anything runs, from the servers' documentation of their codes and from docs/messages.md, and not from a
job's output. An action is complete: the statement with its names, and the start of a job that it has ended.

Where a server cannot be brought to a state in a test (a full disk, a crashed neighbour), an index of a real PostgreSQL
calls a function that raises the code with PostgreSQL's own sentence. `by` is empty if the server raises the code by
itself. Sources: PostgreSQL, "PostgreSQL Error Codes", "Server Signaling Functions", "ALTER ROLE"; MySQL, "Server Error
Message Reference"; MariaDB, "GRANT".
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, replace

from slotkeeper.core.domain.fault import Party, Severity
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.drivers import my, pg
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch.view import observe
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo import maria_orders
from slotkeeper.demo.incidents.cluster import SILENT_AFTER_S
from slotkeeper.demo.incidents.record import JOB, TARGET, World
from slotkeeper.demo.incidents.sinks import CREDENTIALS_ROTATED
from slotkeeper.demo.incidents.slots import LATE_FIRST, write
from slotkeeper.demo.mariadb import HOST
from slotkeeper.demo.orders import TABLE
from tests.support.culprits import Culprit
from tests.support.proxy import Line, Proxy
from tests.support.waiting import until

RAISED = "raised"
_ROWS = 5


@dataclass(frozen=True, slots=True)
class Provoked:
    """A code. `make` provokes it until `cure`, which a user carries out as the printed action requests."""

    name: str
    culprit: Culprit
    make: Callable[[World], object]
    cure: Callable[[World], object]
    by: str = ""
    looks: bool = False
    """Its action investigates or says that nothing is needed; the condition then ends without an action."""


_STARTS = rf"[^`]*; then `slotkeeper jobs start {JOB}`"
"""The last part of the action for a code that has ended the job."""


def _sink(code: str, act: str, *, ends: bool = False, says: str = "") -> Culprit:
    """The effect of the sink's refusal: a job waits for it, or has ended because of it. Its rows or its table end it, a
    step that is too large for a disk or a memory, and an access that was refused twice (`slotkeeper.core.retry`).
    """
    rule, severity = ("job_failed", Severity.CRITICAL) if ends else ("sink_fails", Severity.WARNING)
    act += _STARTS if ends else ""
    return Culprit((rule,), (Party.SINK,), severity, act, root=2, ends=ends, code=code, says=says)


def _raised(name: str, sentence: str, culprit: Culprit, looks: bool = False, where: str = "true") -> Provoked:
    """Raised while a condition holds in the job's session: its action removes the condition."""

    def make(world: World) -> None:
        world.at_sink(
            "CREATE OR REPLACE FUNCTION public.provoked(bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE"
            f" SET search_path = public AS $$ BEGIN IF {where} THEN RAISE EXCEPTION '{sentence}'"
            f" USING ERRCODE = '{name}'; END IF; RETURN 0; END $$",
            f"CREATE INDEX provoked ON {TARGET} (public.provoked(order_no)) WHERE order_no >= {_next(world)}",
        )
        write(world, _ROWS)

    return Provoked(name, culprit, make, lambda world: world.at_sink("DROP INDEX mart.provoked"), RAISED, looks)


def _limited(name: str, sentence: str, culprit: Culprit, where: str) -> Provoked:
    """Raised as long as the job's login has a limit for temporary files."""
    raised = _raised(name, sentence, culprit, where=where)

    def make(world: World) -> None:
        world.at_sink(f"ALTER ROLE {world.sink_user} SET temp_file_limit = '1MB'")
        _end_sessions(world)
        raised.make(world)

    def cure(world: World) -> None:
        world.at_sink(f"ALTER ROLE {world.sink_user} RESET temp_file_limit")
        raised.cure(world)

    return replace(raised, make=make, cure=cure)


def _next(world: World) -> int:
    """The number of the next order that `write` inserts."""
    with closing(world.warehouse.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT coalesce(max(order_no) + 1, {LATE_FIRST}) FROM {TABLE} WHERE order_no >= {LATE_FIRST}")
        return int(cursor.fetchall()[0][0])


def _by(name: str, culprit: Culprit, make: str, cure: str, ends_sessions: bool = False) -> Provoked:
    """Provoked by one statement at the sink, and fixed by another; `{user}` is the job's login there."""

    def made(world: World) -> None:
        world.at_sink(*_each(make.format(user=world.sink_user)))
        if ends_sessions:
            _end_sessions(world)
        write(world, _ROWS)

    return Provoked(name, culprit, made, lambda world: world.at_sink(*_each(cure.format(user=world.sink_user))))


def _each(statements: str) -> list[str]:
    return [one.strip() for one in statements.split(";") if one.strip()]


def _end_sessions(world: World) -> None:
    world.at_sink(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{world.sink_user}'")


def _at_server(world: World, *statements: str) -> None:
    """In another database than the sink's own."""
    with closing(world.sink.connect("postgres")) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def _renamed(world: World) -> None:
    name = world.sink_database
    ended = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
    write(world, _ROWS)
    for _ in range(50):  # the job reconnects at once
        with suppress(pg.DriverError):
            _at_server(world, ended, f"ALTER DATABASE {name} RENAME TO {name}_away")
            return
    _at_server(world, ended, f"ALTER DATABASE {name} RENAME TO {name}_away")


def _named_again(world: World) -> None:
    _at_server(world, f"ALTER DATABASE {world.sink_database}_away RENAME TO {world.sink_database}")


_ending: dict[str, threading.Event] = {}


def _sessions_end_again_and_again(world: World) -> None:
    over = _ending[world.sink_user] = threading.Event()

    def end() -> None:
        while not over.wait(0.2):
            with suppress(pg.DriverError):
                _end_sessions(world)

    threading.Thread(target=end, daemon=True).start()
    world.opened.callback(over.set)
    write(world, _ROWS)


def _sessions_last(world: World) -> None:
    _ending.pop(world.sink_user).set()


def _new_password(world: World) -> None:
    CREDENTIALS_ROTATED.make(world)


def _password_written(world: World) -> None:
    world.sink_password_file.with_suffix(".new").replace(world.sink_password_file)


_TO_SINK = r"^As an administrator of sink mart, run "
_ROLE = r'"?\w+"?'
_ROW = rf"^(Alter {TARGET} so that the row fits|{_TO_SINK[1:]}`ALTER TABLE {TARGET} [^`]+;`), or set on_bad_row"
_KEY = r"\border_no = \d+"
_RECONNECTS = r"^No action needed: reconnecting\. If it repeats, .*\blog of sink mart\b"
_RETRIES = rf"^No action needed: retrying\. If it repeats, `slotkeeper locks {JOB}`"


def _untold(code: str, act: str, says: str = "") -> Culprit:
    """An unknown error is retried ten times before it ends the job."""
    return replace(_sink(code, act, says=says), rules=("sink_fails", "job_failed"), ends=True)


AT_POSTGRES: tuple[Provoked, ...] = (
    _by(
        "42501",
        _sink("SK-1101", rf"{_TO_SINK}`GRANT SELECT, INSERT, UPDATE, DELETE ON {TARGET} TO {_ROLE};`", ends=True),
        f"REVOKE ALL ON {TARGET} FROM {{user}}", f"GRANT ALL ON {TARGET} TO {{user}}",
    ),
    Provoked(
        "28P01", _sink("SK-1102", r"^Write the current password of \w+ to password_file \S+ \(changed "),
        _new_password, _password_written,
    ),
    _by(
        "28000", _sink("SK-1104", rf"{_TO_SINK}`ALTER ROLE {_ROLE} LOGIN;`", ends=True),
        "ALTER ROLE {user} NOLOGIN", "ALTER ROLE {user} LOGIN", True,
    ),
    _by(
        "53300", _sink("SK-1203", rf"{_TO_SINK}`ALTER ROLE {_ROLE} CONNECTION LIMIT -1;`"),
        "ALTER ROLE {user} CONNECTION LIMIT 0", "ALTER ROLE {user} CONNECTION LIMIT -1", True,
    ),
    Provoked(
        "3D000", _sink("SK-1603", rf"^Correct the database setting of sink mart, or restore {_ROLE} there"),
        _renamed, _named_again,
    ),
    Provoked(
        "pg_terminate_backend", _sink("SK-1301", _RECONNECTS), _sessions_end_again_and_again, _sessions_last,
        looks=True,
    ),
    _raised("57P01", "terminating connection due to administrator command", _sink("SK-1301", _RECONNECTS), looks=True),
    _by(
        "25006",
        _sink("SK-1304", r"^Set host of sink mart to the primary if .* standby.* administrator of sink mart, run"
              rf" `ALTER ROLE {_ROLE} RESET default_transaction_read_only;`"),
        "ALTER ROLE {user} SET default_transaction_read_only = on",
        "ALTER ROLE {user} RESET default_transaction_read_only", True,
    ),
    _raised(
        "53100", 'could not extend file "base/16384/16385": No space left on device',
        _sink("SK-1201", r"^Free disk space on sink mart", ends=True),
    ),
    _raised("53200", "out of memory", _sink("SK-1202", r"^Free memory on sink mart", ends=True)),
    _limited(
        "53400", "temporary file size exceeds temp_file_limit (1024kB)",
        _sink("SK-1204", rf"{_TO_SINK}`ALTER ROLE {_ROLE} SET temp_file_limit = -1;`", ends=True),
        where="current_setting('temp_file_limit') <> '-1'",
    ),
    _raised(
        "57P02", "terminating connection because of crash of another server process",
        _sink("SK-1302", r"^Read the log of sink mart"),
    ),
    _raised("57P03", "the database system is starting up",
            _sink("SK-1303", r"^No action needed: reconnecting\. If it persists, .*\blog of sink mart\b"), looks=True),
    _raised("58030", "could not read block 0 in file", _untold("SK-1305", r"^Check the disks of sink mart\b")),
    _raised("55P03", "canceling statement due to lock timeout",
            _sink("SK-1401", rf"^`slotkeeper locks {JOB}` "), looks=True),
    _raised("40P01", "deadlock detected", _sink("SK-1402", _RETRIES), looks=True),
    _raised("40001", "could not serialize access due to concurrent update",
            _sink("SK-1403", r"^No action needed: retrying\."), looks=True),
    _raised("57014", "canceling statement due to user request",
            _sink("SK-1404", r"^No action needed: retrying\. If it repeats, .*\blog of sink mart\b"), looks=True),
)  # fmt: skip
"""Errors of a real sink of a real job, which its administrator resolves. Cancelling a statement or ending a session
does not end the job.
"""
OF_ROWS: tuple[Provoked, ...] = (
    _by(
        "23514", _sink("SK-1501", rf"{_TO_SINK}`ALTER TABLE {TARGET} DROP CONSTRAINT provoked;`", ends=True, says=_KEY),
        f"ALTER TABLE {TARGET} ADD CONSTRAINT provoked CHECK (order_no < 0) NOT VALID",
        f"ALTER TABLE {TARGET} DROP CONSTRAINT IF EXISTS provoked",
    ),
    _raised(
        "23505", 'duplicate key value violates unique constraint "orders_pkey"',
        _sink("SK-1501", _ROW, ends=True, says=_KEY),
    ),
    _by(
        "23503",
        _sink(  # by the step, or by the check of the target (SK-2304) if that comes before it
            "SK-1501",
            rf"(?:{_TO_SINK}`ALTER TABLE {TARGET} DROP CONSTRAINT of_customer;`|.*\brevert\b.*`slotkeeper slots .*)",
            ends=True, says=rf"{_KEY}|\bALTER TABLE {TARGET} DROP CONSTRAINT of_customer\b",
        ),
        "CREATE TABLE mart.customers (cust bigint PRIMARY KEY); "
        f"ALTER TABLE {TARGET} ADD CONSTRAINT of_customer FOREIGN KEY (cust) REFERENCES mart.customers NOT VALID",
        f"ALTER TABLE {TARGET} DROP CONSTRAINT IF EXISTS of_customer",
    ),
    _raised("23502", 'null value in column "status" violates not-null constraint',
            _sink("SK-1501", _ROW, ends=True, says=_KEY)),
    _raised("22001", "value too long for type character varying(3)",
            _sink("SK-1502", _ROW, ends=True, says=_KEY)),
    _raised(
        "42703", 'column "status" of relation "orders" does not exist',
        _sink("SK-1602", rf"{_TO_SINK}`ALTER TABLE {TARGET} ADD COLUMN IF NOT EXISTS status [^`]+;`", ends=True),
        looks=True,  # a column that is really dropped is TARGET CHANGED: the action changes nothing there
    ),
    _raised(
        "42P01", 'relation "mart.codes" does not exist',
        _sink("SK-1601", r"^Restore mart\.codes on sink mart\b", ends=True),
    ),
    _raised("XX000", "cache lookup failed for type 0",
            _untold("SK-1999", rf"^Read `slotkeeper jobs logs {JOB}`",
                    r"(?i)^cause not recognized: cache lookup failed for type 0"), looks=True),
)  # fmt: skip
"""The same, for the rows that the job writes there. The last is a code that no line of the table of causes has."""


def _quarantined(name: str, sentence: str) -> Provoked:
    """With on_bad_row = "quarantine": the job continues, and the target lacks the row."""
    act = rf"^`slotkeeper errors list {JOB}`.*; then `slotkeeper errors replay {JOB} --all --reason TEXT`$"
    says = rf"\bentry \d+\b.*{_KEY}.*\b{name}\b"
    culprit = Culprit(("rows_quarantined",), (Party.TABLE,), Severity.WARNING, act, says=says)
    return _raised(name, sentence, culprit)


IN_QUARANTINE: tuple[Provoked, ...] = (
    _quarantined("23505", 'duplicate key value violates unique constraint "orders_pkey"'),
    _quarantined("23514", 'new row for relation "orders" violates check constraint "provoked"'),
    _quarantined("22001", "value too long for type character varying(3)"),
)
"""The same rows in a job that quarantines them."""


def _of_source(code: str, act: str, *, ends: bool = False) -> Culprit:
    """The effect of the source's refusal; a job of a MySQL source has one lane, which is the source."""
    rule, severity = ("job_failed", Severity.CRITICAL) if ends else ("source_fails", Severity.WARNING)
    act += _STARTS if ends else ""
    return Culprit((rule,), (Party.SOURCE,), severity, act, root=2, ends=ends, code=code)


_ETL = f"'{maria_orders.LOGIN}'@'{HOST}'"
_NEW = "written-by-a-test-1"


def _end_readers(world: World) -> None:
    with closing(world.maria.session()) as session:
        found = session.rows(f"SELECT id FROM information_schema.processlist WHERE user = '{maria_orders.LOGIN}'")
        for (number,) in found:
            with suppress(my.DriverError):
                session.rows(f"KILL CONNECTION {number}")


def _at_maria(*statements: str) -> Callable[[World], None]:
    """Run statements at the source, and end the job's sessions there."""

    def run(world: World) -> None:
        world.at_source(*statements)
        _end_readers(world)

    return run


def _maria_password(world: World) -> None:
    world.maria.password_file(maria_orders.LOGIN).write_text(_NEW, "utf-8")


def _no_replica(world: World) -> None:
    """Revoke the right, and write rows that need it: a reader that has caught up is not refused anything."""
    _at_maria(f"REVOKE REPLICATION SLAVE ON *.* FROM {_ETL}")(world)
    world.at_source(
        f"INSERT INTO {TABLE} (cust, order_no, status, amount, created)"
        f" SELECT seq, {LATE_FIRST} + seq, 'new', 1, now() FROM ods.seq_1_to_{_ROWS}"
    )


def _readers_end_again_and_again(world: World) -> None:
    over = _ending[world.sink_user] = threading.Event()

    def end() -> None:
        while not over.wait(0.2):
            with suppress(my.DriverError, SlotkeeperError):
                _end_readers(world)

    threading.Thread(target=end, daemon=True).start()
    world.opened.callback(over.set)


AT_MARIADB: tuple[Provoked, ...] = (
    Provoked(
        "1045", _of_source("SK-1102", r"^Write the current password of etl to password_file \S+ \(changed "),
        _at_maria(f"ALTER USER {_ETL} IDENTIFIED BY '{_NEW}'"), _maria_password,
    ),
    Provoked(
        "2013", _of_source("SK-1705", r"^No action needed: reconnecting\. If it repeats, .*\blog of source \w+"),
        _readers_end_again_and_again, _sessions_last, looks=True,
    ),
    Provoked(
        "2003", _of_source("SK-1701", r"^Start source \w+ at \S+:\d+, or correct its host and port settings"),
        lambda world: world.maria.stop(crash=True), lambda world: world.maria.start(),
    ),
    Provoked(
        "1227",
        replace(  # each session notices at its next attempt that it was ended; the second error ends the job
            _of_source(
                "SK-1101",
                r"^As an administrator of source \w+, run `GRANT REPLICATION SLAVE, REPLICATION CLIENT ON \*\.\* TO"
                rf" {re.escape(_ETL)};`",
                ends=True,
            ),
            late=6.0,
        ),
        _no_replica,
        lambda world: world.at_source(f"GRANT REPLICATION SLAVE ON *.* TO {_ETL}"),
    ),
)  # fmt: skip
"""Errors of a real MariaDB as the source of a real job. 1236 is the incident `binlogs-purged`."""


def _written(world: World, **values: str) -> None:
    """Change keys of the sink in the configuration, and restart the job with it."""
    world.run(("jobs", "stop", JOB))
    before, mark, rest = world.config.read_text("utf-8").partition("[sinks.mart]")
    section, other, after = rest.partition("[jobs.")
    for key, value in values.items():
        section = re.sub(rf"(?m)^{key} = .*$", f"{key} = {value}", section)
    world.config.write_text(before + mark + section + other + after, "utf-8")
    world.run(("jobs", "start", JOB, "--wait", "2s"))


def _misdirected(code: str, act: str, ends: bool = False, /, **values: str) -> Provoked:
    right = {"host": '"127.0.0.1"', "sslmode": '"disable"'}

    def cure(world: World) -> None:
        _written(world, **right, port=str(world.sink.port))

    name = ", ".join(f"{key} = {value}" for key, value in values.items())
    return Provoked(name, _sink(code, act, ends=ends), lambda world: _written(world, **values), cure)


def _through(name: str, line: Line, culprit: Culprit, looks: bool = False) -> Provoked:
    """Disturb the sink's connections by a proxy."""
    proxies: list[Proxy] = []

    def make(world: World) -> None:
        proxies.append(Proxy(world.sink.port))
        world.opened.callback(proxies[-1].close)
        _written(world, port=str(proxies[-1].port))
        with Store.open(world.state) as store:
            until(lambda: observe(store, JOB).state is JobState.RUNNING, 60, "the job to be RUNNING")
        proxies[-1].set(line)
        write(world, _ROWS)

    return Provoked(name, culprit, make, lambda world: proxies[-1].set(Line.THROUGH), "a proxy", looks)


AT_CONNECTIONS: tuple[Provoked, ...] = (
    _misdirected("SK-1702", r"^Correct the host setting of sink mart", host='"no-such-host.invalid"'),
    _misdirected("SK-1701", r"^Start sink mart at 127\.0\.0\.1:\d+, or correct host and port", port="1"),
    _misdirected(
        "SK-1706",
        r'^Enable TLS on sink mart, or set sslmode = "disable"',
        True,
        host='"127.0.0.1"',
        sslmode='"require"',
    ),
    _through("08006, closed", Line.CUT, _sink("SK-1705", _RECONNECTS), looks=True),
    _through(
        "08006, refused",
        Line.REFUSED,
        _sink("SK-1701", r"^Start sink mart at 127\.0\.0\.1:\d+, or correct host and port"),
    ),
    _through(
        "08006, silent",
        Line.BLACK_HOLE,
        replace(_sink("SK-1704", r"^Check sink mart at .*, and the network to it"), late=SILENT_AFTER_S),
    ),
)
"""Between a real job and its sink: a wrong address, and connections that end, are refused, or hang."""
