"""`python -m bench.soak --hours 0.5`: everything at once under a moderate load, with faults, and its use of memory.

Side by side: a job of 20 tables from the DWS stand-in into PostgreSQL with three SQL views over its target, a job from
MariaDB into the stand-in for Doris, a Spark query that reads the orders as a changelog, and an open console. Sessions
are killed and connections are cut during the whole run. Drivers, a worker and the query are killed during the warm-up
and at the end only, so that each process has one life in the part that counts. The report is
`reports/soak-DATE.md`. Exit code 1: something differs at the end, or a process grows (R15 in docs/proof.md).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import psutil

from bench.console_measure import SCREENS, open_terminal
from bench.soak_figures import END, LEAST_SECONDS, MIB, WARM_UP, Measured, tables
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.drivers import my, pg
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.demo import maria_orders, mariadb, orders, running
from slotkeeper.demo.layers import Layered
from slotkeeper.demo.maria_orders import MariaWorkload
from slotkeeper.demo.run import JOB, SINK_DATABASE, SINK_USER, DemoOptions
from slotkeeper.demo.sinks import DorisTarget
from slotkeeper.demo.sources import SOURCE, maria_section
from slotkeeper.demo.warehouse import Warehouse
from slotkeeper.demo.writers import Connect, Loop, gone
from tests.support import report
from tests.support.frame_session import files_of, rows_of, spark_session
from tests.support.product import JobProcesses, killed
from tests.support.proxy import Line, Proxy
from tests.support.terminal import ROOT, Terminal, console

MYSQL_JOB, QUERY, MORE = "mysql_rt", "orders_query", [f"ods.t{number:02}" for number in range(3, 21)]
ROWS, RATE, MYSQL_RATE = 5_000, 60.0, 20.0
"""Loaded orders of each source, and changes a second."""
_SLEEP, _KEY_EVERY, _WRITE_EVERY = 0.25, 20.0, 60.0
_OF_LOGIN = f"SELECT id FROM information_schema.processlist WHERE user = '{maria_orders.LOGIN}'"
_SECTIONS = """
[jobs.{job}]
source = "{maria}"
sink = "doris"
start = "initial"
binlog = {{ binlog = true }}

[[jobs.{job}.channels]]
from = "{table}"
into = "mart.orders"
create_target = true

[jobs.{query}]
source = "dws1"
sink = "mart"
slot = "{query}"
binlog = {{ binlog = true }}

[[jobs.{query}.channels]]
from = "{table}"
into = "mart.unused"
"""


class Soaked(Layered):
    """The demo with layers, 18 more tables, a job from MariaDB into Doris, and proxies before the servers."""

    def __init__(self, options: DemoOptions) -> None:
        super().__init__(options, lambda text: print(text, flush=True))
        self.folder = Path(tempfile.gettempdir()) / f"slotkeeper-soak-{os.getpid()}"
        self.proxies: dict[str, Proxy] = {}
        self.doris = DorisTarget()
        self._more: _MoreTables | None = None
        self._maria_writers: MariaWorkload | None = None

    # -- setup

    def make_source(self) -> None:
        super().make_source()
        warehouse = self.incident_source()
        assert isinstance(warehouse, Warehouse)
        for name in MORE:
            warehouse.create_table(name, "id bigint NOT NULL, v bigint, note text", ("id",), ("id",))
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for name in MORE:
                cursor.execute(f"INSERT INTO {name} SELECT n, n, 'note ' || n FROM generate_series(1, 200) n")
            connection.commit()
        self.maria = mariadb.create(self.folder / running.MARIA)
        self._opened.callback(self.maria.discard)
        with closing(self.maria.session()) as session:
            maria_orders.create(session)
            maria_orders.load(session, self.options.rows, self.options.seed)
        self.maria.create_login(maria_orders.LOGIN, *maria_orders.GRANTS)
        self.doris.prepare(self._sink(), self.folder)
        self._opened.callback(self.doris.close)

    def connect(self) -> pg.Connection:
        """Open a transaction's session at the source."""
        return self._known()[0].connect(autocommit=False)

    def written_down(self, sink: str) -> str:
        """Return the configuration; every server is reached through its proxy."""
        channels = (
            f'\n[[jobs.{JOB}.channels]]\nfrom = "{name}"\ninto = "{name.replace("ods.", "mart.")}"\n'
            "create_target = true\n"
            for name in MORE
        )
        doris = self.doris.tables(self._sink().endpoint(SINK_DATABASE)).partition("[sinks.rows]")[0]
        for was, now in (("[sinks.mart]", "[sinks.doris]"), ('progress_store = "rows"', 'progress_store = "mart"')):
            doris = doris.replace(was, now)
        maria = maria_section(self.maria.endpoint(SOURCE, maria_orders.LOGIN))
        sections = _SECTIONS.format(job=MYSQL_JOB, maria=SOURCE, query=QUERY, table=orders.TABLE)
        text = "".join((super().written_down(sink), *channels, maria, doris, sections))
        ports = {"source": self._known()[0].server.port, "sink": self._sink().port, "maria": self.maria.port}
        for name, port in ports.items():
            self.proxies[name] = proxy = Proxy(port)
            self._opened.callback(proxy.close)
            text = text.replace(f"port = {port}\n", f"port = {proxy.port}\n")
        return text

    # -- running

    def start_mysql(self) -> None:
        """Start the other job."""
        assert self.store is not None
        with suppress(Exception):  # it waits below
            control.start(self.store, MYSQL_JOB, str(self.config), patience=Patience(0))

    def start_writers(self) -> None:
        super().start_writers()
        self._more = _MoreTables(self.connect, self.options.seed)
        self._more.start()
        self._maria_writers = MariaWorkload(self.maria.session, 2, MYSQL_RATE, self.options.seed, ROWS)
        self._maria_writers.start()

    def stop_writers(self) -> None:
        if self._maria_writers is not None:
            self._maria_writers.stop()
        if self._more is not None:
            self._more.stop()
            self._more.finish()
        super().stop_writers()

    def recording(self) -> int:
        """Return the number of lanes of the orders, once all lanes of the 20 tables have started."""
        lanes = self._at_sink_or(f"SELECT count(*) FROM slotkeeper_progress WHERE slot = '{JOB}' AND {self.begun}")
        return len(self.applied()) if lanes == (2 + len(MORE)) * self.options.dns else 0

    def applied(self) -> dict[str, int]:
        rows = self._at_sink(
            f"SELECT shard, changes FROM slotkeeper_progress WHERE source_table = '{orders.TABLE}' AND slot = '{JOB}'"
        )
        return {str(shard): int(str(changes)) for shard, changes in rows}

    def mysql_applied(self) -> int:
        """Return the events that the MySQL job has applied, by its progress row."""
        return self._at_sink_or(f"SELECT coalesce(sum(changes), 0) FROM slotkeeper_progress WHERE slot = '{MYSQL_JOB}'")

    def mysql_written(self) -> int:
        """Return the events that the writers of the MariaDB have recorded."""
        with closing(self.maria.session()) as session:
            return maria_orders.totals(session).total

    def _at_sink_or(self, statement: str, otherwise: int = 0) -> int:
        with suppress(pg.DriverError):
            return int(str(self._at_sink(statement)[0][0]))
        return otherwise

    def query_begun(self) -> bool:
        """Whether the slot of the query is there: it reads every later change."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(DISTINCT dn) FROM dws.slot WHERE slot_name = %s", (QUERY,))
            return bool(cursor.fetchall()[0][0] == self.options.dns)

    def sizes(self) -> dict[str, float]:
        """Return sizes in MiB, and counts."""
        # a session's temporary tables are emptied at each COMMIT, which the statistics do not count
        ours = "FROM pg_stat_user_tables WHERE relname LIKE 'slotkeeper%' AND schemaname NOT LIKE 'pg_temp%'"
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = '{}'"
        found: dict[str, float] = {
            "progress store: MiB": self._at_sink_or(f"SELECT sum(pg_total_relation_size(relid)) {ours}") / MIB,
            "progress store: dead rows": self._at_sink_or(f"SELECT sum(n_dead_tup) {ours}"),
            "progress store: live rows": self._at_sink_or(f"SELECT sum(n_live_tup) {ours}"),
            "sink: sessions": self._at_sink_or(sessions.format(SINK_USER)),
        }
        with suppress(pg.DriverError), closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(sessions.format(self._known()[0].endpoint().user))
            found["source: sessions"] = int(cursor.fetchall()[0][0])
        with suppress(my.DriverError), closing(self.maria.session()) as session:
            found["MariaDB: sessions"] = len(session.rows(_OF_LOGIN))
        state = self.state_folder
        logs = sum(_size(one) for one in state.rglob("*.log*"))
        database = sum(_size(one) for one in state.glob("*.sqlite*"))
        whole = [one for one in state.rglob("*") if one.is_file()]
        found["state: logs, MiB"] = logs / MIB
        found["state: database, MiB"] = database / MIB
        found["state: all files, MiB"] = sum(map(_size, whole)) / MIB
        found["state: files"] = len(whole)
        temporary = [one for one in (self.folder / "tmp").rglob("*") if one.is_file()]
        found["temporary files"] = len(temporary)
        found["temporary files: MiB"] = sum(map(_size, temporary)) / MIB
        return found


def _size(file: Path) -> int:
    with suppress(OSError):
        return file.stat().st_size
    return 0


class _MoreTables(Loop):
    """Changes a few rows of three of the further tables, five times a second."""

    def __init__(self, connect: Connect, seed: int) -> None:
        super().__init__(connect, "more-tables", SystemClock().monotonic)
        self._draw = random.Random(seed)

    def work(self) -> None:
        while not self._stop_asked.wait(0.2):
            connection = self._line.open()
            if connection is None:
                return
            try:
                with pg.transaction(connection) as cursor:
                    for name in sorted(self._draw.sample(MORE, 3)):
                        self._change(cursor, name)
            except pg.DriverError as error:
                if not gone(error):
                    raise
                self._line.drop()

    def _change(self, cursor: pg.Cursor, name: str) -> None:
        key, value = self._draw.randint(1, 250), self._draw.randrange(10**9)
        if self._draw.random() < 0.2:
            cursor.execute(f"DELETE FROM {name} WHERE id = {key}")
        else:
            row = f"({key}, {value}, 'note {value % 97}')"
            cursor.execute(f"INSERT INTO {name} VALUES {row} ON CONFLICT (id) DO UPDATE SET v = excluded.v")


class Job(JobProcesses):
    """A job's processes by role."""

    def __init__(self, demo: Soaked, name: str) -> None:
        assert demo.store is not None
        self.name, self.store = name, demo.store

    def roles(self) -> Iterator[tuple[str, int]]:
        """Yield role and pid of each running process."""
        view = self.view()
        if view.supervisor is not None and view.supervisor_alive:
            yield f"{self.name}: supervisor", view.supervisor.pid
        if view.driver is not None and view.driver_alive:
            yield f"{self.name}: driver", view.driver.pid
        for jvm in self._jvms():
            yield f"{self.name}: JVM", jvm.pid
            for daemon in jvm.children():
                yield f"{self.name}: worker daemon", daemon.pid
        for worker in self.workers():
            yield f"{self.name}: worker", worker.pid


class Query:
    """A user's Spark program that writes the changelog of the orders into files; restarted after a kill."""

    def __init__(self, config: Path, folder: Path) -> None:
        self._config, self._folder, self._lives = config, folder, 0
        self.out = folder / "out"
        self._read, self._found = set[Path](), Counter[str]()
        self._places = set[tuple[str, str, int]]()
        folder.mkdir()
        self.start()

    def start(self) -> None:
        self._lives += 1
        words = [self._config, self._folder / "ck", self.out, self._folder / f"spark{self._lives}"]
        program = [sys.executable, "-m", "bench.soak", "--query", *map(str, words)]
        with (self._folder / "query.log").open("ab") as log:
            self._process = subprocess.Popen(program, stdout=log, stderr=log, cwd=ROOT, start_new_session=True)

    def roles(self) -> Iterator[tuple[str, int]]:
        yield "query: driver", self._process.pid
        with suppress(psutil.Error):
            for one in psutil.Process(self._process.pid).children(recursive=True):
                yield f"query: {'JVM' if one.name() == 'java' else 'Python of Spark'}", one.pid

    def kill(self) -> None:
        """End it with all processes below it."""
        with suppress(psutil.Error):
            below = psutil.Process(self._process.pid).children(recursive=True)
            for one in (psutil.Process(self._process.pid), *below):
                with suppress(psutil.Error):
                    one.kill()
            psutil.wait_procs(below, 10)
        self._process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def changes(self) -> dict[str, int]:
        """Return the changes per DN so far; raises ValueError if one is there twice. Each file is read once."""
        with suppress(OSError, json.JSONDecodeError):  # a file that Spark is writing
            for file in files_of(self.out):
                if file in self._read:
                    continue
                rows = [one for one in rows_of(file) if one["slotkeeper_change"] != "S"]
                self._read.add(file)
                self._found.update(one["slotkeeper_dn"] for one in rows)
                places = {(one["slotkeeper_dn"], one["slotkeeper_point"], one["slotkeeper_sequence"]) for one in rows}
                if len(places) < len(rows) or places & self._places:
                    raise ValueError(f"query: changes of {file} are there twice")
                self._places |= places
        return dict(self._found)

    def count(self) -> int:
        """Return the number of changes so far."""
        return sum(self.changes().values())


def query(config: str, checkpoint: str, out: str, folder: str) -> None:
    """Run the query until it is killed; after an error, start it again."""
    from slotkeeper.core.dataframe import register, start

    kept = {f"spark_ui_retained{what}": "50" for what in ("Jobs", "Stages", "Tasks")}
    with spark_session(Path(folder), **kept, spark_sql_ui_retainedExecutions="20") as spark:
        register(spark)
        while True:
            with suppress(Exception):
                frame = spark.readStream.format("slotkeeper")
                read = frame.options(
                    config=config, job=QUERY, start="initial", changelog="raw", points_per_trigger="500"
                )
                writer = read.load().writeStream.format("json").option("path", out).trigger(processingTime="2 seconds")
                start(writer.option("checkpointLocation", checkpoint)).awaitTermination()


class Run:
    """One soak: faults, keys and samples by the clock."""

    def __init__(self, demo: Soaked, seconds: float, seed: int) -> None:
        self.demo, self.seconds = demo, seconds
        self.draw = random.Random(seed)
        self.jobs = {name: Job(demo, name) for name in (JOB, MYSQL_JOB)}
        self.query = Query(demo.config, demo.folder / "query")
        self.measured = Measured(seconds)
        self.done: Counter[str] = Counter()
        self._cut: list[tuple[float, Proxy]] = []

    def plan(self) -> list[tuple[float, Callable[[], None]]]:
        """Return the faults with their times: kills in the warm-up and at the end, others throughout."""
        kills = (self.query.restart, self._driver(JOB), self._driver(MYSQL_JOB), self._worker)
        found = [(WARM_UP * self.seconds * (number + 1) / 8, one) for number, one in enumerate(kills)]
        found.append((END * self.seconds + 1, self._driver(self.draw.choice([JOB, MYSQL_JOB]))))
        every = min(300.0, max(15.0, self.seconds / 30))
        at = every
        while at < self.seconds - every:
            found.append((at, self.draw.choice([self._session, self._line])))
            at += self.draw.uniform(0.5, 1.5) * every
        return sorted(found, key=lambda one: one[0])

    def _driver(self, name: str) -> Callable[[], None]:
        def kill() -> None:
            with suppress(psutil.Error, AssertionError):
                killed(self.jobs[name].driver())
                self.done[f"driver of {name} killed"] += 1

        return kill

    def _worker(self) -> None:
        for worker in self.jobs[JOB].workers()[:1]:
            killed(worker)
            self.done["worker killed"] += 1

    def _session(self) -> None:
        """End a random session of Slotkeeper's at one of the servers."""
        where = self.draw.choice(["source", "sink", "maria"])
        self.done[f"session at {where} killed"] += 1
        if where == "maria":
            with suppress(my.DriverError), closing(self.demo.maria.session()) as session:
                for (ident,) in session.rows(f"{_OF_LOGIN} ORDER BY RAND({self.draw.randrange(1_000)}) LIMIT 1"):
                    session.rows(f"KILL {ident}")
            return
        known, sink = self.demo._known()[0], self.demo._sink()
        server, user = (known.server, known.endpoint().user) if where == "source" else (sink, SINK_USER)
        chosen = f"SELECT pid FROM pg_stat_activity WHERE usename = '{user}' ORDER BY hashint4(pid + %s) LIMIT 1"
        with suppress(pg.DriverError), closing(server.connect("postgres")) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT pg_terminate_backend(({chosen}))", (self.draw.randrange(1_000_000),))

    def _line(self) -> None:
        """Cut the connections to a server for some seconds, or let them fall silent."""
        where, line = self.draw.choice(sorted(self.demo.proxies)), self.draw.choice([Line.CUT, Line.BLACK_HOLE])
        self.demo.proxies[where].set(line)
        self._cut.append((time.monotonic() + self.draw.uniform(1, 5), self.demo.proxies[where]))
        self.done[f"line to {where} {line.name.lower().replace('_', ' ')}"] += 1

    def through(self, terminal: Terminal, page: Report) -> None:
        """Run until the end of the time."""
        faults, began = self.plan(), time.monotonic()
        every = max(2.0, self.seconds / 360)
        sampled, keyed, wrote, number = -every, 0.0, 0.0, 0
        while (at := time.monotonic() - began) < self.seconds:
            terminal.read(_SLEEP)
            terminal.pieces.clear()
            self._mend()
            while faults and faults[0][0] <= at:
                faults.pop(0)[1]()
            if at - keyed >= _KEY_EVERY:
                keyed, number = at, number + 1
                terminal.send(SCREENS[number % len(SCREENS)])
            if at - sampled >= every:
                sampled = at
                self.sample(terminal, at)
            if at - wrote >= _WRITE_EVERY:
                wrote = at
                page.write()
        self._mend(everything=True)

    def _mend(self, everything: bool = False) -> None:
        for end, proxy in list(self._cut):
            if everything or time.monotonic() >= end:
                proxy.set(Line.CUT)  # a line that was silent ends: neither side would notice that it lost bytes
                proxy.set(Line.THROUGH)
                self._cut.remove((end, proxy))

    def sample(self, terminal: Terminal, at: float) -> None:
        for roles in (*(job.roles() for job in self.jobs.values()), self.query.roles()):
            with suppress(psutil.Error):
                for role, pid in roles:
                    self.measured.add(role, pid, at)
        self.measured.add("console", terminal.process.pid, at)
        self.measured.add_sizes(self.demo.sizes(), at)

    def settle(self) -> list[str]:
        """Stop the writers, wait until all is applied, and return what differs."""
        demo, jobs = self.demo, self.jobs
        demo.stop_writers()
        demo.wait_caught_up()
        demo.wait_for(lambda: demo.mysql_applied() >= demo.mysql_written(), demo.mysql_applied, "MySQL's changes")
        booked = demo.ledger()
        read = self.query.count
        demo.wait_for(lambda: read() >= sum(booked.values()), read, "the query's changes")
        wrong = [f"{name}: {said}" for name in jobs if (said := verified(demo.config, name))]
        wrong += [f"view {view} differs" for view, equal in demo.verify_views().items() if not equal]
        if demo.mysql_applied() != demo.mysql_written():
            wrong.append(f"{MYSQL_JOB}: {demo.mysql_applied():,} events applied of {demo.mysql_written():,}")
        if demo.applied() != booked:
            wrong.append(f"{JOB}: {demo.applied()} applied of {booked}")
        if self.query.changes() != booked:
            wrong.append(f"query: {self.query.changes()} of {booked}")
        return wrong


def verified(config: Path, job: str) -> str:
    """Run `slotkeeper verify`; return its output if it found a difference."""
    ended = subprocess.run(
        [sys.executable, "-m", "slotkeeper.console", "verify", job, "--config", str(config)],
        capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    return "" if ended.returncode == 0 else (ended.stdout + ended.stderr)[-2_000:]


@dataclass
class Report:
    """The page of a run, which is written again every minute: a run that ends early leaves it."""

    run: Run
    hours: float
    seed: int
    began: datetime

    @property
    def decides(self) -> bool:
        """Whether the part after the warm-up is long enough for R15."""
        return (END - WARM_UP) * self.run.seconds >= LEAST_SECONDS

    def write(self, wrong: Sequence[str] = ("the run has not reached its end",)) -> str:
        """Write the page; return its text."""
        run, minutes = self.run, (END - WARM_UP) * self.run.seconds / 60
        done = ", ".join(f"{what} {number} x" for what, number in sorted(run.done.items()))
        grown = "; ".join(run.measured.grown()) or "none"
        lines = [
            "# Soak",
            "",
            f"`make soak HOURS={self.hours:g} SEED={self.seed}`, started {self.began:%Y-%m-%dT%H:%MZ}.",
            f"{report.machine()} Doris is a stand-in, MySQL is a MariaDB.",
            f"Load of the host: {', '.join(f'{one:.1f}' for one in os.getloadavg())}.",
            "",
            f"Slopes are least squares from {WARM_UP:.0%} (warm-up) to {END:.0%} of the run: {minutes:.0f} minutes."
            " fds and threads: medians of the first and the last third of that part.",
            "",
            f"Faults: {done}.",
            "",
            f"At the end: {'; '.join(wrong) or 'all tables, views and the changes of the query are equal'}.",
            "",
            f"Above R15: {grown if self.decides else 'not judged in less than 30 minutes'}.",
            "",
            *tables(run.measured),
            "",
        ]
        folder = Path(os.environ.get(report.FOLDER_VARIABLE, report.FOLDER))
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"soak-{self.began:%Y-%m-%d}.md").write_text("\n".join(lines), encoding="utf-8")
        (folder / f"soak-{self.began:%Y-%m-%d}.json").write_text(run.measured.json(), encoding="utf-8")
        return "\n".join(lines)


def soak(hours: float, seed: int) -> int:
    """Run, write the report, and return the exit code."""
    seconds, began = hours * 3600, datetime.now(timezone.utc)
    demo = Soaked(DemoOptions(rows=ROWS, dns=2, rate=RATE, seconds=seconds, seed=seed))
    with ExitStack() as stack:
        stack.callback(demo.close)
        demo.prepare()
        (demo.folder / "tmp").mkdir()
        os.environ["TMPDIR"] = str(demo.folder / "tmp")
        demo.start_job()
        demo.start_mysql()
        assert demo.store is not None
        stack.callback(control.stop, demo.store, MYSQL_JOB, Patience(120))
        demo.wait_for(lambda: control.has_begun(Job(demo, MYSQL_JOB).view()))
        run = Run(demo, seconds, seed)
        stack.callback(run.query.kill)
        demo.wait_for(demo.query_begun)
        demo.start_writers()
        page = Report(run, hours, seed, began)
        with open_terminal(console(demo.config)) as terminal:
            run.through(terminal, page)
            terminal.end(signal.SIGTERM)
        wrong = run.settle()
    print(page.write(wrong), flush=True)
    return int(bool(wrong) or (page.decides and bool(run.measured.grown())))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--query", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.query:
        query(*given.query)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers and jobs end with it
    return soak(given.hours, given.seed)


if __name__ == "__main__":
    sys.exit(main())
