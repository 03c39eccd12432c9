"""TPC-B through one job of four channels while its processes and sessions are killed: equal tables, equal sums.

Six clients of pgbench write 300 transactions a second on five branches (100,000 accounts) for a minute, or until every
process and session was killed once. Each transaction updates three tables and inserts a row of history. The test
compares the tables by its own checksum (without `verify`) and the four sums, which TPC-B keeps equal.

The history gets a key, because a table without a key cannot be mirrored.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.job import JobState, WantedState
from slotkeeper.core.domain.reset import DONE, Check, Goal, TargetKind
from slotkeeper.core.drivers import pg
from slotkeeper.core.launch import control
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.services.reset import reset_context
from slotkeeper.core.slots import reset_apply, reset_plan
from slotkeeper.core.slots.reset_apply import ResetOrder
from slotkeeper.core.state import steering
from slotkeeper.core.wiring.worker import session_name
from slotkeeper.demo.binaries import find_binaries
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.run import SINK_DATABASE, TARGET
from tests.support.product import RECOVERY, Mirrored, Product
from tests.support.report import Page
from tests.support.standin import run
from tests.support.waiting import until

KEYS = {"branches": "bid", "tellers": "tid", "accounts": "aid", "history": "id"}
VIEWS = {
    "dws.accounts": "SELECT bid, count(*) AS n, sum(abalance) AS balance FROM mart.pgbench_accounts GROUP BY bid",
    "dws.history": "SELECT tid, bid, count(*) AS n, sum(delta) AS delta, max(delta) AS most FROM mart.pgbench_history"
    " GROUP BY tid, bid",
    "dwd.tellers": "SELECT t.tid, b.bid, t.tbalance, b.bbalance FROM mart.pgbench_tellers t"
    " LEFT JOIN mart.pgbench_branches b ON b.bid = t.bid",
}
SUMS = {"branches": "bbalance", "tellers": "tbalance", "accounts": "abalance", "history": "delta"}

_SCRIPT = r"""
\set aid random(1, :accounts)
\set bid random(1, 1 * :scale)
\set tid random(1, 10 * :scale)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""
"""pgbench's own `tpcb-like`, except for the number of accounts."""

Checksum = tuple[int, int]
"""The number of rows, and the sum of a hash of each row's text."""


@dataclass(frozen=True, slots=True)
class Load:
    """The amount of writes: `rate` is transactions a second of all clients together, `longest` in seconds.

    `accounts` of each branch: pgbench makes 100,000, and two cores would spend the run copying them.
    """

    branches: int = 5
    accounts: int = 20_000
    clients: int = 6
    rate: int = 300
    longest: int = 1_200


class Tpcb:
    """Four tables at the source, loaded by pgbench, and a job that mirrors them."""

    def __init__(self, product: Product, load: Load, name: str) -> None:
        self.product = product
        self.load = load
        self._pgbench("-i", "-I", "dtg", "-s", str(load.branches), "-q")
        run(product.warehouse, f"DELETE FROM pgbench_accounts WHERE aid > {load.accounts * load.branches}")
        keyed = [f"ALTER TABLE pgbench_{table} ADD PRIMARY KEY ({key})" for table, key in KEYS.items()]
        # pgbench sets it, and the stand-in makes an HStore table only of one without options
        keyed += [f"ALTER TABLE pgbench_{table} RESET (fillfactor)" for table in KEYS]
        run(product.warehouse, "ALTER TABLE pgbench_history ADD COLUMN id bigserial", *keyed)
        for table, key in KEYS.items():
            product.warehouse.enable_binlog(f"public.pgbench_{table}", (key,))
        run(
            product.warehouse,
            *(f"GRANT SELECT ON pgbench_{table} TO {product.warehouse.endpoint().user}" for table in KEYS),
        )
        self.job = _of_four_channels(product.job(name))

    @contextmanager
    def written(self) -> Iterator[subprocess.Popen[str]]:
        """Run pgbench's own TPC-B transaction with all clients during the block."""
        load = self.load
        script = self.product.demo.folder / "tpcb.sql"
        script.write_text(_SCRIPT, encoding="utf-8")
        options = ["-n", "-f", str(script), "-s", str(load.branches), "-D", f"accounts={load.accounts * load.branches}"]
        options += ["-c", str(load.clients), "-j", "2", "-R", str(load.rate), "-T", str(load.longest)]
        running = self._started(*options)
        try:
            yield running
            assert running.poll() is None, running.communicate()[0][-2000:]
        finally:
            running.kill()  # transactions that are not committed by now are rolled back
            running.communicate()

    def views_wrong(self) -> dict[str, int]:
        """The views that differ from their SELECT in one snapshot, and by how many rows, without product code."""
        parts = []
        for name, sql in VIEWS.items():
            one, other = f"SELECT * FROM {name}", sql
            both = f"(({one} EXCEPT ALL {other}) UNION ALL ({other} EXCEPT ALL {one}))"
            parts.append(f"SELECT '{name}', count(*) FROM {both} d")
        found = self.product.at_sink(" UNION ALL ".join(parts))
        return {str(name): int(count) for name, count in found if count}

    def checksums(self, end: str) -> dict[str, Checksum]:
        """The checksums by table; apart from the connection, no product code takes part."""
        hashed = "SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM {} t"
        return self._asked(end, hashed)

    def sums(self, end: str) -> dict[str, Checksum]:
        """By table: the rows and the sum of the balances (for the history, of the amounts)."""
        return self._asked(end, "SELECT count(*), coalesce(sum({}), 0) FROM {}", SUMS)

    def _asked(self, end: str, statement: str, columns: dict[str, str] | None = None) -> dict[str, Checksum]:
        place = "public" if end == "source" else "mart"
        source = end == "source"
        connection = self.product.connect() if source else self.product.sink.connect(SINK_DATABASE, autocommit=False)
        found = {}
        try:
            with pg.transaction(connection) as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                for table in KEYS:
                    name = f"{place}.pgbench_{table}"
                    cursor.execute(statement.format(*([columns[table]] if columns else []), name))
                    rows, total = cursor.fetchall()[0]
                    found[table] = (int(rows), int(total))
        finally:
            connection.close()
        return found

    def _pgbench(self, *options: str) -> None:
        self._ended(self._started(*options))

    def _started(self, *options: str) -> subprocess.Popen[str]:
        server, database = self.product.warehouse.server, self.product.warehouse.database
        words = [_program(), "-h", server.host, "-p", str(server.port), "-U", server.superuser]
        password = server.password_file.read_text(encoding="utf-8").strip()
        environment = {**os.environ, "PGPASSWORD": password, "PGAPPNAME": "pgbench"}
        return subprocess.Popen(
            [*words, *options, database],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def _ended(self, running: subprocess.Popen[str]) -> None:
        told, _ = running.communicate(timeout=300)
        assert running.returncode == 0, told[-2000:]


def _program() -> str:
    beside = find_binaries().program("pgbench")
    found = beside if Path(beside).exists() else shutil.which("pgbench")
    assert found, "pgbench is neither in the folder of the server's programs nor in PATH"
    return found


def _with_views(job: Mirrored) -> None:
    views = "".join(
        f'\n[[jobs.{job.name}.views]]\ninto = "{name}"\nsql = "{sql}"\n'
        + ('key = ["tid", "bid"]\n' if name == "dwd.tellers" else "")
        for name, sql in VIEWS.items()
    )
    with job.config.open("a", encoding="utf-8") as file:
        file.write(views)


def _of_four_channels(job: Mirrored) -> Mirrored:
    """The job with these four channels instead of its one."""
    text = job.config.read_text(encoding="utf-8")
    one = re.search(r"\[\[jobs\.\w+\.channels\]\]\nfrom = .*\ninto = .*\ncreate_target = true\n", text)
    assert one, f"a channel from {TABLE} into {TARGET}"
    four = "\n".join(
        re.sub(r'into = ".*"', f'into = "mart.pgbench_{table}"', one[0].replace(TABLE, f"public.pgbench_{table}"))
        for table in KEYS
    )
    job.config.write_text(text.replace(one[0], four), encoding="utf-8")
    return job


pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(1_800)]
Kind = Literal["driver", "jvm", "worker", "supervisor", "source sessions", "sink sessions", "view session"]
KINDS: tuple[Kind, ...] = ("driver", "jvm", "supervisor", "source sessions", "sink sessions")
BESIDE_VIEWS: tuple[Kind, ...] = ("worker", "supervisor", "source sessions", "sink sessions", "view session")
SECONDS = 60.0
BETWEEN = 150
"""Rows of history that the job has to bring to the sink between two kills, at least: half a second of writes."""


@pytest.fixture
def product(tmp_path: Path, seed: int) -> Iterator[Product]:
    made = Product(tmp_path / "p", rows=20, seed=seed, chunk=10_000)
    yield made
    made.close()


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(
        "tpcb",
        "TPC-B beside kills, on Spark",
        "pgbench, five branches, 100,000 accounts, six clients, 300 transactions a second for a minute, or until each"
        " thing was killed once; one job of four channels, history with a key. Begun during the copy or after it;"
        " then kills, one after another, and no command. Seconds behind: from the last commit until all is applied.",
        ("begun", "seed", "transactions", "a second", "kills", "seconds behind", "tables equal", "sums equal"),
    )


@dataclass
class Killer:
    """Kill every process and session in turn, each once before any is repeated; between kills wait for the job."""

    bench: Tpcb
    draw: random.Random
    killed: list[Kind] = field(default_factory=list)
    left: list[Kind] = field(default_factory=list)
    again: tuple[Kind, ...] = ("source sessions", "sink sessions", "supervisor")
    """The kinds after the first turn: a second driver exit within minutes would only show the supervisor's hold of a
    crash loop."""

    def turn(self) -> None:
        """Kill one, and wait until rows arrive again."""
        if not self.left:
            kinds = self.again if self.killed else KINDS
            self.left = self.draw.sample(kinds, len(kinds))
        kind = self.left.pop()
        before = self.bench.job.view().driver
        self._kill(kind)
        self.killed.append(kind)
        if kind in ("driver", "jvm"):
            # a driver left behind still writes: a supervisor killed before it exits would leave no process to end it
            self.wait(lambda: self._another(before), f"another driver after the end of: {kind}")
        arrived, began = self.arrived(), time.monotonic()
        self.wait(lambda: self.arrived() >= arrived + BETWEEN, f"rows to arrive after the end of: {kind}")
        print(f"{kind}: rows arrive again after {time.monotonic() - began:.1f} s", flush=True)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Wait, and print the job's events if that takes too long."""
        job = self.bench.job
        try:
            until(condition, 2 * RECOVERY, what)
        except AssertionError as late:
            view = job.view()
            reported = view.report.lanes if view.report is not None else ()
            lanes = [(one.name, one.activity, one.position, one.latest, one.retry) for one in reported]
            story = f"{view.state.value} ({view.reason}); {job.events()[-12:]}; {lanes}; {job.log()[-2000:]}"
            raise AssertionError(f"{late}; {story}") from None

    def arrived(self) -> int:
        self.bench.job.refuse_end()
        return int(self.bench.product.at_sink("SELECT count(*) FROM mart.pgbench_history")[0][0])

    def _another(self, before: object) -> bool:
        view = self.bench.job.view()
        return view.driver_alive and view.supervisor_alive and view.driver != before

    def _kill(self, kind: Kind) -> None:
        job = self.bench.job
        if kind == "source sessions":
            _end_sessions(self.bench.product.connect(), session_name(job.name, "%"))
        elif kind == "sink sessions":
            _end_sessions(self.bench.product.sink.connect("mart"), session_name(job.name, "%"))
        elif kind == "view session":
            _end_sessions(self.bench.product.sink.connect("mart"), session_name(job.name, "%views"))
        else:
            until(lambda: job.view().driver_alive and job.view().supervisor_alive, RECOVERY, "both processes to live")
            job.kill(kind)

    def summary(self) -> str:
        return ", ".join(f"{kind} {self.killed.count(kind)}" for kind in dict.fromkeys(self.killed))


def _end_sessions(connection: pg.Connection, named: str) -> None:
    """All sessions there with such a name, those of the workers and of the driver."""
    try:
        with connection.cursor() as cursor:
            pattern = named.replace("_", r"\_")
            ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE %s"
            cursor.execute(ended, (pattern,))
    finally:
        connection.close()


RESET = "public.pgbench_tellers"


def reset_one(bench: Tpcb, killer: Killer) -> None:
    """Stop one of the four tables, reset its slot to a snapshot, and start it again, while the others stream."""
    store, name = bench.product.store, bench.job.name
    job = load(bench.job.config, os.environ).jobs[name].of(RESET)
    steering.want(store, name, RESET, WantedState.STOP)
    killer.wait(lambda: _state(bench, RESET) == JobState.STOPPED.value, f"{RESET} to stop")
    before = killer.arrived()
    at_rest = Check("table stopped", True, "its driver says so")
    with reset_context(job, store.folder, lambda: at_rest, print) as ctx:
        made = reset_plan.make(ctx, Goal(TargetKind.SNAPSHOT, on_existing="replace"))
        reset_plan.keep(ctx, made)
        done = reset_apply.execute(ctx, ResetOrder(made.id, "a test", job.slot, made.at_stake or None))
    assert done.outcome == DONE, done.sentence
    steering.want(store, name, RESET, WantedState.RUN, again=True)
    killer.wait(lambda: _state(bench, RESET) == JobState.RUNNING.value, f"{RESET} to be RUNNING")
    assert killer.arrived() > before, "the others continued meanwhile"


def _state(bench: Tpcb, table: str) -> str:
    bench.job.refuse_end()
    report = bench.job.view().report
    return next((one.state for one in (report.tables if report else ()) if one.source_table == table), "")


ONE_RESET = "once it is running, and one table is reset"


@pytest.mark.parametrize("begun", ["during the copy", "once it is running", ONE_RESET])
def test_tpcb_arrives_equal_whatever_is_killed_meanwhile(product: Product, page: Page, seed: int, begun: str) -> None:
    print(f"begun {begun}, seed {seed}", flush=True)
    bench = Tpcb(product, Load(), "tpcb")
    job, killer = bench.job, Killer(bench, random.Random(f"{seed} {begun}"))
    row: list[object] = [begun, seed, "", "", "", "", False, False]
    try:
        control.start(product.store, job.name, str(job.config), patience=Patience(2 * RECOVERY))
        if begun == "during the copy":
            killer.wait(lambda: job.chunks()[0] > 0, "a first chunk to be copied")
        else:
            job.wait_state(JobState.RUNNING, 2 * RECOVERY)
        with bench.written():
            began = time.monotonic()
            if begun == "during the copy":
                job.kill("jvm")
                job.wait_state(JobState.RUNNING, 2 * RECOVERY)
            while time.monotonic() - began < SECONDS or set(killer.killed) != set(KINDS):
                killer.turn()
                if begun == ONE_RESET and len(killer.killed) in (2, 5):
                    reset_one(bench, killer)
            written = time.monotonic() - began
        stopped = time.monotonic()
        there = bench.sums("source")
        count = there["history"][0]
        row[2:5] = count, count / written, killer.summary()
        killer.wait(lambda: killer.arrived() >= count, "all of the history to arrive")
        wanted = bench.checksums("source")
        killer.wait(lambda: bench.checksums("mart") == wanted, "four equal tables")
        row[5:7] = time.monotonic() - stopped, True
        job.wait_state(JobState.RUNNING, 2 * RECOVERY)
        arrived = bench.sums("mart")
        row[7] = arrived == there and len({total for _, total in there.values()}) == 1
        assert arrived == there
        assert len({total for _, total in arrived.values()}) == 1, "TPC-B keeps its four sums equal"
        job.stop()
        assert job.left() == []
    finally:
        page.add(*row)
        job.end()


KILLS = 50


def test_views_beside_tpcb_equal_their_selects_after_fifty_kills(product: Product, seed: int) -> None:
    print(f"seed {seed}", flush=True)
    bench = Tpcb(product, Load(accounts=4_000, rate=200), "layers")
    job, killer = bench.job, Killer(bench, random.Random(seed), again=BESIDE_VIEWS)
    _with_views(job)
    try:
        control.start(product.store, job.name, str(job.config), patience=Patience(2 * RECOVERY))
        job.wait_state(JobState.RUNNING, 2 * RECOVERY)
        killer.wait(lambda: _views_run(bench), "three views to be RUNNING")
        with bench.written():
            while len(killer.killed) < KILLS:
                killer.turn()
        count = bench.sums("source")["history"][0]
        killer.wait(lambda: killer.arrived() >= count, "all of the history to arrive")
        wanted = bench.checksums("source")
        killer.wait(lambda: bench.checksums("mart") == wanted, "four equal tables")
        killer.wait(lambda: _views_run(bench), "three views to be RUNNING")
        killer.wait(lambda: bench.views_wrong() == {}, "three equal views")
        print(f"{count} transactions; {killer.summary()}", flush=True)
        job.stop()
        assert bench.views_wrong() == {}
    finally:
        job.end()


def _views_run(bench: Tpcb) -> bool:
    bench.job.refuse_end()
    report = bench.job.view().report
    return [one.state for one in (report.views if report else ())] == ["RUNNING"] * len(VIEWS)
