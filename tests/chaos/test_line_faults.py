"""Fifteen minutes of faults on every connection of a streaming job, for three pairs: equal, explained, quickly shown.

    make chaos ARGS="tests/chaos/test_line_faults.py -s"                                       three pairs, 15 min each
    SLOTKEEPER_CHAOS_SECONDS=90 SLOTKEEPER_CHAOS_RUNNER=local make chaos ARGS="tests/chaos/test_line_faults.py -s"

One connection at a time is cut, black, half-open, slow, corrupt, reset or refused for 1 to 25 s, then whole again.
Driver and workers use the same connections: `source`, `sink`, and with Doris `FE`, `BE`, `queries` and `store`.
`SLOTKEEPER_CHAOS_FAULTS="sink HALF_OPEN,source RESET"` runs only those faults.

Every connection is TLS (verify-full): a corrupt one changes the cipher text, so a changed byte has to end the
connection. In plain text nothing could detect it: TCP's checksum is that of the changed packet, PostgreSQL has no
checksum of a message, and MySQL has one of a binlog event but none of a result set. The parts in plain text are
corrupted as well: PostgreSQL's SSLRequest, MySQL's greeting and the hellos of TLS.

`jobs show` runs in a separate process; its seconds are those of the call, without the interpreter's start.
"""

from __future__ import annotations

import os
import random
import re
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import pytest

from slotkeeper.demo.doris.frontend import DEAD_PORT
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.orders import KEY, TABLE
from tests.support import maria
from tests.support import pairs as doris_pair
from tests.support.hot_job import RUNNER, HotJob, Writer, asking, pair_of, refuse_difference
from tests.support.pairs import MakeMysqlPair
from tests.support.product import Mirrored, Product
from tests.support.proxy import Line, Wire
from tests.support.report import Page
from tests.support.shown import Looking, Shown
from tests.support.storm import cli
from tests.support.storm.rig import seconds
from tests.support.tls_lines import HOST, Authority, tls_front
from tests.support.tls_lines import mysql_tls_front as mysql_front

FAULTS = tuple(line for line in Line if line is not Line.THROUGH)
SILENT = (Line.CUT, Line.HALF_OPEN, Line.BLACK_HOLE, Line.RESET, Line.REFUSED)
"""No query gets through such a connection, so a job that uses it has to report this.

Over a slow or corrupt one, it continues.
"""
SAID_WITHIN = 10.0
FINE = ("RUNNING", "CATCHING UP")
"""States that need no reason. CATCHING UP is its own reason: the job applies changes and is behind."""
EVERY = 1.0


class FaultyLine(Wire):
    """One connection of a job. While it is black, no close of either end passes it."""

    def __init__(self, name: str, port: int, draw: random.Random) -> None:
        super().__init__(port, draw)
        self.name = name
        self.bad: Bad | None = None
        """Its current fault."""

    def _pass_on(self, one: socket.socket, other: socket.socket, sent: bool) -> bool:
        if sent and self.bad is not None:
            self.bad.use()
        on = super()._pass_on(one, other, sent)
        if not on:
            with self._changed:
                self._changed.wait_for(lambda: self._line is not Line.BLACK_HOLE)
        return on

    def become(self, line: Line) -> None:
        self.bad = Bad(self.name, line, time.monotonic())
        if line in (Line.CUT, Line.REFUSED) and self.open:
            self.bad.use()
        self.set(line)

    def recover(self, cut: bool) -> Bad:
        """Pass data again; return the earlier fault."""
        bad, self.bad = self.bad, None
        assert bad is not None
        bad.ended = time.monotonic()
        self.whole(cut)
        return bad


@dataclass
class Bad:
    """A fault of a connection: its start, the time at which the job noticed it or could have, and its end."""

    line: str
    kind: Line
    since: float
    used: float | None = None
    """The first moment at which the job used the connection, or lost it."""
    ended: float = float("inf")

    def use(self) -> None:
        self.used = self.used or time.monotonic()


@dataclass
class Sampler:
    """Calls `jobs show` once a second in a separate thread, for its block."""

    config: Path
    job: str
    samples: list[Shown] = field(default_factory=list)

    def __enter__(self) -> Sampler:
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join(120)

    def _sample(self) -> None:
        with Looking(self.config, self.job) as looking:
            while not self._done.is_set():
                shown = looking.look()
                self.samples.append(shown)
                self._done.wait(max(0.0, EVERY - (shown.done - shown.at)))


def unexplained(samples: Sequence[Shown], faults: Iterable[Bad]) -> list[str]:
    """Samples in which `jobs show` gave no reason: for a connection that was used and silent for longer than
    `SAID_WITHIN`, or for a state that needs one.
    """
    found = []
    for bad in faults:
        if bad.kind in SILENT and bad.used is not None:
            due = max(bad.since, bad.used) + SAID_WITHIN
            silent = [one for one in samples if due < one.at and one.done < bad.ended and not one.why]
            if silent:
                first, last = silent[0], silent[-1]
                what = f"{first.state} without a reason, {first.at - bad.since:.1f} to {last.at - bad.since:.1f} s"
                found.append(f"{bad.line} {bad.kind.name}: {what} after it broke ({len(silent)} samples)")
    since: float | None = None
    for one in samples:
        if one.state in FINE or one.why:
            since = None
        elif since is None:
            since = one.at
        elif one.at - since > SAID_WITHIN:
            found.append(f"{one.state} without a reason for {one.at - since:.1f} s")
    return found


SECONDS = seconds(default=900)
ONLY = tuple(filter(None, os.environ.get("SLOTKEEPER_CHAOS_FAULTS", "").split(",")))
OVER = 1_800
"""Seconds besides those of the faults for the start, the last recovery and the comparisons."""
HELD = (1.0, 25.0)
SHOWN_WITHIN = 5.0
WRITERS, PAUSE = 3, 0.05
RATE = 100.0
"""Transactions per second at the stand-in for DWS."""

pytestmark = [pytest.mark.chaos, pytest.mark.spark, pytest.mark.timeout(int(SECONDS) + OVER)]


class Job(Protocol):
    """The interface of a job for a run."""

    @property
    def name(self) -> str:
        """The job's name."""

    @property
    def config(self) -> Path:
        """The job's configuration."""

    def start(self) -> None:
        """Start it, with quiet writers, until it has copied."""

    def write(self) -> None:
        """Start the writers."""

    def quiet(self) -> None:
        """Stop them."""

    def settle(self) -> float:
        """Seconds until every earlier commit has arrived."""

    def equal(self) -> int:
        """The rows of both sides, which have to be equal by checksum and by `verify`."""

    def story(self) -> str:
        """Diagnostics for a run that has failed."""

    def end(self) -> None:
        """End its processes."""


@dataclass
class FromMysql:
    """Hot keys from a MariaDB."""

    hot: HotJob
    writers: list[Writer]

    @property
    def name(self) -> str:
        return self.hot.name

    @property
    def config(self) -> Path:
        return self.hot.config

    def start(self) -> None:
        self.hot.must("jobs", "start", self.name, "--wait", "5m")
        self.hot.settle()
        refuse_difference(self.hot)

    def write(self) -> None:
        for writer in self.writers:
            writer.start()

    def quiet(self) -> None:
        for writer in self.writers:
            writer.stop()
        for writer in self.writers:
            writer.finish()

    def settle(self) -> float:
        return self.hot.settle()

    def equal(self) -> int:
        rows = refuse_difference(self.hot)
        self.hot.must("verify", self.name)
        self.hot.must("jobs", "stop", self.name, "--wait", "2m")
        assert self.hot.left() == []
        return rows

    def story(self) -> str:
        return self.hot.story()

    def end(self) -> None:
        for writer in self.writers:
            writer.stop()
        self.hot.end()
        self.hot.store.close()


@dataclass
class FromDws:
    """Orders from the stand-in for DWS."""

    product: Product
    job: Mirrored

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def config(self) -> Path:
        return self.job.config

    def start(self) -> None:
        self.job.start()
        self.job.wait_equal()

    def write(self) -> None:
        self.product.write(rate=RATE)

    def quiet(self) -> None:
        self.product.quiet()

    def settle(self) -> float:
        began = time.monotonic()
        self.job.wait_applied(self.job.expected(), 600)
        return time.monotonic() - began

    def equal(self) -> int:
        self.job.wait_equal(600)
        rows = f"md5(string_agg(md5(ROW({{}})::text), '' ORDER BY {', '.join(KEY)}))"
        with self.product.warehouse.control() as cursor:
            cursor.execute(f"SELECT attname FROM pg_attribute WHERE attrelid = '{TABLE}'::regclass AND attnum > 0")
            every = rows.format(", ".join(sorted(str(one) for (one,) in cursor.fetchall())))
            cursor.execute(f"SELECT count(*), {every} FROM {TABLE}")
            there = cursor.fetchall()
        here = self.product.at_sink(f"SELECT count(*), {every} FROM mart.{self.name}")
        assert here == there, (here, there, self.story())
        running = cli.begun(RUNNER, self.job.config, "verify", self.name)
        said, _ = running.communicate(timeout=600)
        assert running.returncode == 0, said
        self.job.stop(120)
        return int(there[0][0])

    def story(self) -> str:
        view = self.job.view()
        return f"{view.state.value} ({view.reason}); events {self.job.events()[-14:]}; log {self.job.log()[-3000:]}"

    def end(self) -> None:
        self.product.close()


@dataclass
class Run:
    """The faults of one run: each of each connection once in a random order, before any is repeated."""

    job: Job
    lines: list[FaultyLine]
    draw: random.Random
    faults: list[Bad] = field(default_factory=list)
    done: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0

    def until(self, end: float) -> None:
        """Break connections until `end`; every second time the job has to catch up before the next fault."""
        left: list[tuple[FaultyLine, Line]] = []
        while time.monotonic() < end:
            left = left or self.draw.sample(chosen := self.chosen(), len(chosen))
            self.disturb(*left.pop(), self.draw.uniform(*HELD))
            took = self.job.settle() if self.draw.random() < 0.5 else 0.0
            self.slowest = max(self.slowest, took)
            print(f"  {f'all arrived after {took:.1f} s' if took else 'not waited for'}", flush=True)
            threading.Event().wait(self.draw.uniform(0.2, 2.0))

    def chosen(self) -> list[tuple[FaultyLine, Line]]:
        """Every fault of every connection, or those that `ONLY` names."""
        pairs = [(one, kind) for one in self.lines for kind in FAULTS]
        return [(one, kind) for one, kind in pairs if not ONLY or f"{one.name} {kind.name}" in ONLY]

    def disturb(self, line: FaultyLine, kind: Line, held: float) -> None:
        print(f"{line.name} {kind.name} for {held:.1f} s", flush=True)
        flips = line.flips
        line.become(kind)
        threading.Event().wait(held)
        self.faults.append(line.recover(cut=self.draw.random() < 0.5))
        self.done[kind.name] += 1
        if kind is Line.CORRUPT:
            print(f"  {line.flips - flips} bytes", flush=True)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@dataclass
class Rig:
    """Makes proxied connections, each with TLS at its end, and puts them into a configuration."""

    authority: Authority
    draw: random.Random
    stack: ExitStack
    lines: list[FaultyLine] = field(default_factory=list)

    @property
    def tls(self) -> ssl.SSLContext:
        return self.authority.server(HOST)

    def line(self, name: str, port: int) -> FaultyLine:
        made = FaultyLine(name, port, self.draw)
        self.stack.callback(made.close)
        self.lines.append(made)
        return made

    def postgres(self, name: str, port: int) -> FaultyLine:
        """A connection to a PostgreSQL, which is built without TLS: TLS ends in front of it."""
        return self.line(name, self.stack.enter_context(tls_front(self.tls, port)).port)

    def put(self, config: Path, table: str, **ports: int) -> None:
        """Let a table of a configuration have these ports, and verified TLS."""
        before, head, after = config.read_text("utf-8").partition(f"[{table}]\n")
        assert head, table
        for key, port in ports.items():
            after = re.sub(rf"^{key} = \d+$", f"{key} = {port}", after, count=1, flags=re.MULTILINE)
        verified = f'sslmode = "verify-full"\nsslrootcert = "{self.authority.root}"\nconnect_timeout = "5s"'
        config.write_text(before + head + after.replace('sslmode = "disable"', verified, 1), "utf-8")


def from_mysql(rig: Rig, make: MakeMysqlPair, doris: DorisStandin | None, folder: Path, seed: int) -> Job:
    server = maria.begin()
    rig.stack.callback(maria.end, server)
    maria.secure(server, rig.authority)
    pair = pair_of(make, server, doris)
    hot = HotJob(pair, folder, asking(pair, doris), rig.draw)
    job = pair.mirror.job
    rig.put(hot.config, f"sources.{job.source.name}", port=rig.line("source", server.port).port)
    if doris is None:
        rig.put(hot.config, f"sinks.{job.sink.name}", port=rig.postgres("sink", job.sink.port).port)
    else:
        assert job.store is not None
        rig.put(hot.config, f"sinks.{job.store.name}", port=rig.postgres("store", job.store.port).port)
        backend = rig.line("BE", doris.ports.backend).port
        doris.frontend.backend = lambda: backend
        doris.tables.be_ports = [backend, DEAD_PORT]
        ports = {
            "port": rig.line("queries", rig.stack.enter_context(mysql_front(rig.tls, doris.ports.query))).port,
            "http_port": rig.line("FE", doris.ports.frontend).port,
        }
        rig.put(hot.config, f"sinks.{job.sink.name}", **ports)
    return FromMysql(hot, [Writer(server, seed, number, PAUSE) for number in range(WRITERS)])


def from_dws(rig: Rig, folder: Path, seed: int) -> Job:
    product = Product(folder / "p", rows=5_000, dns=3, seed=seed)
    job = product.job("lines")
    job.launch = cli.launch(RUNNER)
    rig.put(job.config, "sources.dws1", port=rig.postgres("source", product.warehouse.server.port).port)
    rig.put(job.config, "sinks.mart", port=rig.postgres("sink", product.sink.port).port)
    return FromDws(product, job)


@pytest.fixture(scope="module")
def page() -> Page:
    about = (
        "One line at a time of a job that streams is cut, black, half-open, slow, corrupt, reset or refused for 1 to"
        " 25 s, then whole again; every line is TLS. Unexplained: samples of `jobs show`, one a second, that gave no"
        " reason for a line that was unusable for more than 10 s, or for a state that needs a reason. Seconds of"
        " `jobs show`: of the call in a process of its own, without the interpreter's start."
    )
    columns: tuple[str, ...] = ("pair", "runner", "seed", "seconds", "faults", "corrupted bytes", "slowest recovery, s")
    columns += ("samples", "unexplained", "slowest `jobs show`, s", "its most CPU, s", "rows", "equal")
    return Page("line-faults", "Faults on each line of a job", about, columns)


@pytest.mark.parametrize("pair", ["MySQL to PostgreSQL", "DWS to PostgreSQL", "MySQL to Doris"])
def test_a_job_whose_lines_break_says_why_and_ends_equal(
    make_mysql_pair: MakeMysqlPair,
    authority: Authority,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    seed: int,
    pair: str,
    page: Page,
) -> None:
    print(f"\n{pair}, {RUNNER}, seed {seed}, {SECONDS:.0f} s", flush=True)
    rig = Rig(authority, random.Random(f"{seed} {pair}"), stack)
    if pair.startswith("DWS"):
        job = from_dws(rig, tmp_path, seed)
    else:
        monkeypatch.setenv(doris_pair.VARIABLE, doris_pair.PASSWORD)
        doris = stack.enter_context(secured(authority)) if pair.endswith("Doris") else None
        job = from_mysql(rig, make_mysql_pair, doris, tmp_path, seed)
    run, rows, began = Run(job, rig.lines, rig.draw), 0, time.monotonic()
    samples = []
    try:
        job.start()
        job.write()
        began = time.monotonic()
        with Sampler(job.config, job.name) as sampler:
            samples = sampler.samples
            run.until(began + SECONDS)
        job.quiet()
        run.slowest = max(run.slowest, job.settle())
        rows = job.equal()
    finally:
        wrong = unexplained(samples, run.faults)
        slowest = max((one.seconds for one in samples), default=0.0)
        busiest = max((one.cpu_seconds for one in samples), default=0.0)
        flips = sum(one.flips for one in rig.lines)
        figures: tuple[object, ...] = (pair, RUNNER, seed, time.monotonic() - began, dict(run.done), flips, run.slowest)
        figures += (len(samples), len(wrong), slowest, busiest, f"{rows:,}", rows > 0)
        page.add(*figures)
        print(*figures, *wrong, sep="\n  ", flush=True)
        job.end()
    assert not wrong
    assert slowest <= SHOWN_WITHIN


def secured(authority: Authority) -> DorisStandin:
    """A stand-in for Doris whose FE and BE have TLS, with the database of the targets."""
    made = DorisStandin(password=doris_pair.PASSWORD, tls=authority.server(HOST))
    made.create(doris_pair.TARGET, "id BIGINT NOT NULL, v BIGINT", ("id",))
    return made
