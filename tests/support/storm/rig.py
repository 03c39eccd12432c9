"""Servers, connections, one job of seven tables and its commands for a chaos run; waits, comparisons, remedies."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path

from slotkeeper.core.domain.job import JobState, TableReport, to_do
from slotkeeper.core.domain.remedy import until_started
from slotkeeper.core.drivers import pg
from slotkeeper.demo.orders import KEY as ORDERS_KEY
from slotkeeper.demo.orders import TABLE as ORDERS
from slotkeeper.demo.postgres import Server
from slotkeeper.demo.run import SINK_DATABASE, SINK_USER
from tests.support.polling import server
from tests.support.printed import parts, printed_to_repeat, with_reason
from tests.support.product import Mirrored, Product
from tests.support.proxy import Wire
from tests.support.storm import cli
from tests.support.storm.load import BEACON, SUMS, TABLES, Load, Table
from tests.support.waiting import until

JOB = SLOT = "storm"
SETTLED = 420.0
"""Seconds after which a recovery from a disturbance counts as failed, on a host with other load."""
COMMAND = 400.0
TOGETHER = 4.0
"""Seconds in which a cause that ends one table also ends the others."""
CURES = 30
"""The maximum number of remedies that are typed after one disturbance: each table may need its own."""
ALL = (*(table.name for table in TABLES), ORDERS)
TARGETS = {**{table.name: table.target for table in TABLES}, ORDERS: "mart.orders"}
CALM = frozenset({*(table.name for table in TABLES if table.calm), ORDERS})

_JOB = """\
[jobs.{job}]
source = "dws1"
sink = "mart"
slot = "{job}"
start = "initial"
on_existing = "replace"
on_schema_change = "resnapshot"
{channels}
[jobs.{job}.binlog]
binlog = true
binlog_sleep_time = "50ms"
binlog_max_sleep_time = "500ms"
full_sync_binlog_batch_read_size = 5000

[state]
dir = "{state}"
"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The exit code of a command, and its output."""

    code: int
    said: str


@dataclass
class Tally:
    """The findings of the ledger and the comparisons, over all checks."""

    looks: int = 0
    lost: int = 0
    doubled: int = 0
    counted: int = 0
    """Events that were compared with the ledger."""
    differing: list[str] = field(default_factory=list)
    verified: list[int] = field(default_factory=list)
    """Exit codes of `slotkeeper verify`."""


class Rig:
    """One run: `runner` is spark or local, `log` is written line by line with the time of each."""

    def __init__(self, folder: Path, runner: str, seed: int, log: Path) -> None:
        self.runner, self.seed, self.log_file = runner, seed, log
        self.began = time.monotonic()
        self.product = Product(folder, rows=20_000, dns=3, seed=seed)
        try:
            self.load = Load(self.product, seed)
            self.source_line = Wire(self.product.warehouse.server.port)
            self.sink_line = Wire(self.product.sink.port)
            self.job = self._job()
        except BaseException:
            self.product.close()
            raise
        self.tally = Tally()
        self.base: dict[str, int] = {}
        """By table, by how much the ledger exceeds the progress rows, if both were compared at the last check."""
        self.troubles: list[str] = []
        """Error names of the current disturbance."""
        self.ensured = self.cured = 0
        self.paired: Counter[str] = Counter()
        """The number of acts that ran in pairs."""

    def _job(self) -> Mirrored:
        product, folder = self.product, self.product.demo.folder
        source, sink = product.warehouse.endpoint(), product.sink.endpoint(SINK_DATABASE, SINK_USER, self._password)
        text = ""
        for kind, name, endpoint, line in (
            ("sources", "dws1", source, self.source_line),
            ("sinks", "mart", sink, self.sink_line),
        ):
            told = server(kind, endpoint, ['connect_timeout = "5s"'])
            text += told.replace(f"[{kind}.{endpoint.name}]", f"[{kind}.{name}]").replace(
                f"port = {endpoint.port}", f"port = {line.port}"
            )
        channel = '\n[[jobs.{}.channels]]\nfrom = "{}"\ninto = "{}"\ncreate_target = true\n'
        channels = "".join(channel.format(JOB, name, TARGETS[name]) for name in ALL)
        config = folder / "storm.toml"
        text += _JOB.format(job=JOB, channels=channels, state=product.demo.state_folder)
        config.write_text(text, encoding="utf-8")
        job = Mirrored(product, JOB, config, launch=cli.launch(self.runner))
        product.jobs.append(job)
        return job

    @property
    def _password(self) -> Path:
        return self.product.demo.folder / f"{SINK_USER}.password"

    def close(self) -> None:
        self.load.close()
        try:
            self.product.close()
        finally:
            for line in (self.source_line, self.sink_line):
                line.close()

    # -- telling

    def say(self, text: str) -> None:
        """Write one line with its time into the log and onto standard output."""
        line = f"{datetime.now(timezone.utc):%H:%M:%S} {time.monotonic() - self.began:7.1f} s  {text}"
        print(line, flush=True)
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")

    def story(self) -> str:
        """Return diagnostics of the job, for a run that has failed."""
        view = self.job.view()
        tables = [(one.source_table, one.state, one.trouble, one.reason) for one in self.tables()]
        lanes = [(one.name, one.activity, one.error) for one in (view.report.lanes if view.report else ()) if one.error]
        return (
            f"seed {self.seed}; {view.state.value} (reason {view.reason}; trouble {view.trouble}; safe {view.safe});"
            f" tables {tables}; lanes {lanes}; events {self.job.events()[-14:]}; log {self.job.log()[-3000:]}"
        )

    def tables(self) -> Sequence[TableReport]:
        report = self.job.view().report
        return report.tables if report else ()

    # -- commands

    def begun(self, *words: str) -> subprocess.Popen[str]:
        return cli.begun(self.runner, self.job.config, *words)

    def typed(self, *words: str) -> Answer:
        running = self.begun(*words)
        try:
            said, _ = running.communicate(timeout=COMMAND)
        except subprocess.TimeoutExpired:
            running.kill()
            said, _ = running.communicate()
            raise AssertionError(f"{words} did not end within {COMMAND:g} s: {said}; {self.story()}") from None
        return Answer(running.returncode, said)

    def must(self, *words: str) -> str:
        answer = self.typed(*words)
        assert answer.code == 0, f"{words} ended with {answer.code}: {answer.said[-3000:]}; {self.story()}"
        return answer.said

    def dry_and_done(self, *words: str) -> bool:
        """A dry run, and then the commands that it prints; whether both succeeded."""
        plan = self.typed(*words)
        again = list(printed_to_repeat(plan.said))
        if plan.code or not again:
            self.say(f"  {' '.join(words)} ended with {plan.code}: {_short(plan.said)}")
            return False
        for command in again:
            done = self.typed(*words_of(command))
            if done.code:
                self.say(f"  {command} ended with {done.code}: {_short(done.said)}")
                return False
        return True

    # -- waiting

    def wait(self, condition: Callable[[], object], seconds: float, what: str, every: float = 0.3) -> None:
        """Wait for a condition, and print the job's events if it is not met."""
        pause = threading.Event()

        def looked() -> bool:
            self.load.refuse_dead()
            return bool(condition()) or pause.wait(every)

        try:
            until(looked, seconds, what)
        except AssertionError as late:
            raise AssertionError(f"{late}; {self.story()}") from None

    def rest(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def arrived(self, number: int) -> bool:
        """Whether a beacon has arrived at the sink in all tables."""
        marks = [f"(SELECT mark FROM {one.target} WHERE {one.beacon})" for one in TABLES]
        key = " AND ".join(f"{column} = {value}" for column, value in zip(ORDERS_KEY, BEACON, strict=True))
        marks.append(f"(SELECT note::bigint FROM {TARGETS[ORDERS]} WHERE {key})")
        try:
            ((least,),) = self.product.at_sink(f"SELECT min(coalesce(m, 0)) FROM unnest(ARRAY[{', '.join(marks)}]) m")
        except pg.DriverError:
            return False  # the sink restarts, or a target is being exchanged
        return int(least or 0) >= number

    def settle(self, person: bool) -> float:
        """Seconds until everything that is committed now has arrived, in every table.

        A dead job is started by `jobs ensure`, as the timer does. A FAILED one is a fault of the product, unless a
        `person` is needed: then what is printed as its remedy is typed.
        """
        began, number = time.monotonic(), self.load.beacon()
        for _ in range(CURES):
            self.wait(lambda: self._failed() or self._arrives(number), SETTLED, f"beacon {number} to arrive")
            failed = self._failed()
            if not failed and self.arrived(number):
                return time.monotonic() - began
            assert person or not failed, f"{failed} without a person's act; {self.story()}"
            self.rest(TOGETHER)
            self._cure(self._failed())
        raise AssertionError(f"still FAILED after {CURES} remedies; {self.story()}")

    def _arrives(self, number: int) -> bool:
        self.ensure()
        return self.arrived(number)

    def ensure(self) -> None:
        """Run `jobs ensure` if the job is dead, as the timer does."""
        if self.job.view().state is JobState.DEAD:
            self.ensured += 1
            answer = self.typed("jobs", "ensure", "--reason", "the timer")
            self.say(f"  jobs ensure ended with {answer.code}: {_short(answer.said)}")

    def _failed(self) -> list[tuple[str, str, str]]:
        """What has FAILED, with its reason and its printed remedy; the job comes last if it has ended."""
        view = self.job.view()
        amiss = [one for one in self.tables() if one.state == JobState.FAILED.value]
        if view.state is JobState.STOPPED:  # a reset of a job that has FAILED leaves it so
            return [(self.job.name, view.state.value, until_started("", self.job.name))]
        if view.state is JobState.FAILED:
            whole = self.job.name, view.reason, until_started(view.safe, self.job.name)
            return [*((one.source_table, one.reason, one.safe) for one in amiss), whole]
        return [(one.source_table, one.reason, to_do(self.job.name, one)) for one in amiss if view.reported]

    def _cure(self, failed: Sequence[tuple[str, str, str]]) -> None:
        """Type the printed remedies: everything in backquotes, in its order; a job that has ended is started once."""
        ended, done_already = any(name == self.job.name for name, _, _ in failed), set[str]()
        for name, trouble, safe in failed:
            if trouble != JobState.STOPPED.value:
                self.cured += 1
                self.troubles.append(trouble.partition(":")[0] or "FAILED")
            self.say(f"  {name}: {_short(trouble)}; remedy: {_short(safe)}")
            for words in (words_of(command) for part in parts(safe) for command in part.commands):
                if words[:2] == ["slots", "reset"]:
                    if words[2] not in done_already and self.dry_and_done(*words):
                        done_already.add(words[2])
                elif not ended or name == self.job.name:
                    done = self.typed(*words, *(["--wait", "2m"] if words[:2] == ["jobs", "start"] else []))
                    self.say(f"  {' '.join(words)} ended with {done.code}: {_short(done.said)}")

    # -- comparing

    def look(self) -> None:
        """With quiet writers, check equal tables, sums, counts and `verify`; then start the writers' next turn."""
        self.load.quiet()
        self.settle(person=False)
        self.tally.looks += 1
        self.must("jobs", "drain", JOB, "--wait", "5m")
        self._compare()
        self._count()
        answer = self.typed("verify", JOB)
        self.tally.verified.append(answer.code)
        if answer.code:
            self.tally.differing.append(f"verify ended with {answer.code}: {_short(answer.said)}")
        self.say(f"look {self.tally.looks}: {self.tally}")
        assert not self.tally.differing and not self.tally.lost and not self.tally.doubled, (
            f"{self.tally}; {self.story()}"
        )

    def _compare(self) -> None:
        there = self.checksums("source")

        def equal() -> bool:
            return self.checksums("sink") == there

        try:
            until(lambda: equal() or threading.Event().wait(1.0), 60, "equal tables")
        except AssertionError:
            here = self.checksums("sink")
            pairs = [(name, there[name], here[name]) for name in ALL]
            self.tally.differing += [f"{name}: {source} and {sink}" for name, source, sink in pairs if source != sink]
        sums = {self._sum("source", table) for table in SUMS} | {self._sum("sink", table) for table in SUMS}
        if len(sums) != 1:
            self.tally.differing.append(f"TPC-B keeps its four sums equal, and here are {sums}")
        for end in ("source", "sink"):
            missing = self._missing(end)
            if missing:
                self.tally.differing.append(f"{missing} acknowledged transactions are not at the {end}")

    def checksums(self, end: str) -> dict[str, tuple[int, str]]:
        """By source table: rows, and a hash of all rows in the order of their key."""
        keys = {**{table.name: table.key for table in TABLES}, ORDERS: ORDERS_KEY}
        found = {}
        for name in ALL:
            columns = self.columns(name)
            hashed = f"md5(ROW({', '.join(f't.{column}' for column in columns)})::text)"
            total = f"md5(string_agg({hashed}, '' ORDER BY {', '.join(keys[name])}))"
            statement = f"SELECT count(*), {total} FROM {name if end == 'source' else TARGETS[name]} t"
            ((rows, sum_of),) = self._rows(end, statement)
            found[name] = (int(str(rows)), str(sum_of))
        return found

    def columns(self, name: str) -> list[str]:
        where = f"attrelid = '{name}'::regclass AND attnum > 0 AND NOT attisdropped"
        named = f"SELECT attname::text FROM pg_attribute WHERE {where} ORDER BY 1"
        return [str(one) for (one,) in self._rows("source", named)]

    def _sum(self, end: str, table: str) -> int:
        place = "tpcb" if end == "source" else "mart"
        return int(str(self._rows(end, f"SELECT coalesce(sum({SUMS[table]}), 0) FROM {place}.{table}")[0][0]))

    def _missing(self, end: str) -> int:
        place, missing = "tpcb" if end == "source" else "mart", 0
        for writer, known in self.load.acknowledged.items():
            statement = (
                f"SELECT count(*) FROM unnest('{{{','.join(map(str, known))}}}'::bigint[]) n"
                f" WHERE NOT EXISTS (SELECT FROM {place}.history h WHERE h.writer = {writer} AND h.tx = n)"
            )
            missing += int(str(self._rows(end, statement)[0][0]))
        return missing

    def _rows(self, end: str, statement: str) -> list[tuple[object, ...]]:
        at = self.product.warehouse.server if end == "source" else self.product.sink
        database = self.product.warehouse.database if end == "source" else SINK_DATABASE
        with closing(at.connect(database)) as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def _count(self) -> None:
        """Compare the progress rows with the ledger, if only steps have moved them since the last check."""
        counted, booked = self._applied(), self.load.booked()
        for name, base in self.base.items():
            expected = booked[name] - base
            self.tally.counted += expected
            self.tally.lost += max(0, expected - counted[name])
            self.tally.doubled += max(0, counted[name] - expected)
        self.base = {name: booked[name] - counted[name] for name in ALL}

    def _applied(self) -> dict[str, int]:
        statement = "SELECT source_table, sum(changes)::bigint FROM slotkeeper_progress WHERE job = %s GROUP BY 1"
        return {str(name): int(changes) for name, changes in self.product.at_sink(statement, (JOB,))}

    def uncounted(self, *names: str) -> None:
        """The ledger is not valid for these tables before the next check: they are copied, or read again."""
        for name in names:
            self.base.pop(name, None)

    # -- the run's own acts

    def start(self) -> None:
        """The job's first start, with quiet writers; then the first check, and the writers."""
        self.must("jobs", "start", JOB, "--wait", "5m")
        self.look()
        self.load.start()

    def backups(self, table: str) -> list[str]:
        found = json.loads(self.must("slots", "history", table, SLOT, "--json"))["resets"]
        return [str(one["backup"]) for one in found]

    def at_source(self, statement: str) -> None:
        with closing(self.product.warehouse.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def server(self, side: str) -> Server:
        return self.product.warehouse.server if side == "source" else self.product.sink

    def line(self, side: str) -> Wire:
        return self.source_line if side == "source" else self.sink_line

    def touched(self) -> list[Table]:
        return [table for table in TABLES if not table.calm]


def words_of(command: str) -> list[str]:
    """The words of a printed command, with a reason, and without the configuration, which the rig names itself.

    >>> words_of("slotkeeper --config /a jobs start b --reason TEXT")
    ['jobs', 'start', 'b', '--reason', 'read on the screen']
    """
    words = shlex.split(with_reason(command))[1:]
    if "--config" in words:
        at = words.index("--config")
        del words[at : at + 2]
    return words


def _short(text: str) -> str:
    return " ".join(text.split())[:400]


def seconds(default: float = 1_800) -> float:
    """How long a run lasts: `SLOTKEEPER_CHAOS_SECONDS`, or `default`, half an hour."""
    return float(os.environ.get("SLOTKEEPER_CHAOS_SECONDS") or default)
