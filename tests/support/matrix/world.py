"""The product of a chaos matrix: one job of two tables and a view over both, its writers, and the oracle.

The oracle reads both servers itself: the rows of each table by an ordered hash, the view against its SELECT over the
source, and the events that the progress rows count against the writers' own ledger, so that a change that is applied
twice is found although its row is right.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from slotkeeper.core.drivers import pg
from slotkeeper.demo.run import SINK_DATABASE, SINK_USER
from slotkeeper.demo.writers import CONTENTION, gone
from tests.support.matrix.clock.sitecustomize import VARIABLE
from tests.support.matrix.commands import Command
from tests.support.matrix.wire import Gate
from tests.support.polling import server
from tests.support.product import Mirrored, Product
from tests.support.storm import cli
from tests.support.storm.load import Booked, Purger
from tests.support.storm.rig import Answer, Rig
from tests.support.waiting import until

JOB = SLOT = "matrix"
ITEMS, LINES = "tpcb.items", "tpcb.lines"
TARGETS = {ITEMS: "mart.items", LINES: "mart.lines"}
KEYS = {ITEMS: "id", LINES: "item, n"}
VIEW = "dws.groups"
SELECT = (
    "SELECT i.grp, count(*) AS n, sum(l.qty) AS qty, max(i.v) AS high FROM {items} i"
    " JOIN {lines} l ON l.item = i.id GROUP BY i.grp"
)
PATH = "PYTHONPATH"
ROWS, GROUPS, RATE = 3_000, 20, 0.08
CHUNK = 250
_CONFIG = """
[jobs.{job}]
source = "dws1"
sink = "mart"
slot = "{job}"
start = "initial"
on_existing = "replace"
on_schema_change = "resnapshot"
{channels}
[[jobs.{job}.views]]
into = "{view}"
sql = "{select}"

[jobs.{job}.binlog]
binlog = true
binlog_sleep_time = "50ms"
binlog_max_sleep_time = "500ms"
full_sync_binlog_batch_read_size = {chunk}
check_node_change_interval = "500ms"

[state]
dir = "{state}"
"""


class Writer(Booked):
    """Inserts, updates, deletes and changed keys of both tables."""

    def act(self, cursor: pg.Cursor) -> None:
        draw = self.draw
        for _ in range(draw.randint(1, 5)):
            ident, grp = draw.randint(1, ROWS), draw.randrange(GROUPS)
            match draw.choice(("update", "update", "again", "move", "line", "line", "delete")):
                case "update":
                    verb = "UPDATE tpcb.items SET v = v + 1, grp = %s WHERE id BETWEEN %s AND %s"
                    self.do(cursor, "items", verb, (grp, ident, ident + 2))
                case "again":
                    self.do(cursor, "items", "DELETE FROM tpcb.items WHERE id = %s", (ident,))
                    verb = "INSERT INTO tpcb.items (id, grp, v) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
                    self.do(cursor, "items", verb, (ident, grp, draw.randrange(10**6)))
                case "move":
                    verb = "UPDATE tpcb.lines SET n = n + 100 WHERE item = %s AND n BETWEEN 3 AND 9"
                    self.do(cursor, "lines", verb, (ident,))
                case "line":
                    verb = "INSERT INTO tpcb.lines (item, n, qty) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
                    self.do(cursor, "lines", verb, (ident, draw.randint(3, 9), draw.randint(1, 5)))
                    verb = "UPDATE tpcb.lines SET qty = qty + 1 WHERE item = %s"
                    self.do(cursor, "lines", verb, (ident,))
                case _:
                    self.do(cursor, "lines", "DELETE FROM tpcb.lines WHERE item = %s AND n > 2", (ident,))


class Writers:
    """The writers of a matrix, and the beacons: rows by whose arrival everything committed before has arrived."""

    def __init__(self, product: Product, seed: int) -> None:
        self.product, self.seed = product, seed
        self.turn = self.beacons = 0
        self.writers: list[Writer] = []
        self.purger = Purger(product)
        make = product.warehouse.create_table
        make(ITEMS, "id bigint NOT NULL, grp int, v bigint, mark bigint", ("id",), ("id",))
        make(LINES, "item bigint NOT NULL, n int NOT NULL, qty bigint, mark bigint", ("item", "n"), ("item",))
        with closing(product.connect()) as connection, pg.transaction(connection) as cursor:
            rows = f"SELECT n, n % {GROUPS}, 0, 0 FROM generate_series(0, {ROWS}) n"
            cursor.execute(f"INSERT INTO {ITEMS} {rows}")
            rows = f"SELECT n, i, 1, 0 FROM generate_series(0, {ROWS}) n, generate_series(0, 1) i"
            cursor.execute(f"INSERT INTO {LINES} {rows}")
            ledger = "writer bigint, tx bigint, tab text, events bigint, PRIMARY KEY (writer, tx, tab)"
            cursor.execute(f"CREATE TABLE tpcb.ledger ({ledger})")
        self.purger.start()

    def start(self) -> None:
        if not self.writers:
            self.turn += 1
            self.writers = [Writer(self.product, f"{self.seed}", self.turn * 10 + n, RATE) for n in range(2)]
            for writer in self.writers:
                writer.start()

    def quiet(self) -> None:
        """End the writers; raises the error that ended one of them early."""
        writers, self.writers = self.writers, []
        for writer in writers:
            writer.stop()
        for writer in writers:
            writer.finish(120)

    def refuse_dead(self) -> None:
        for writer in self.writers:
            if writer.error is not None:
                raise writer.error

    def close(self) -> None:
        for one in (*self.writers, self.purger):
            one.stop()

    def beacon(self) -> int:
        """Change one row of each table, in one transaction; return the beacon's number."""
        self.beacons += 1
        while True:
            try:
                self._beacon(self.beacons)
                return self.beacons
            except pg.DriverError as error:
                if not gone(error) and pg.failure(error)[0] not in CONTENTION:
                    raise
                threading.Event().wait(0.2)

    def _beacon(self, number: int) -> None:
        with closing(self.product.connect()) as connection, pg.transaction(connection) as cursor:
            cursor.execute("SELECT FROM tpcb.ledger WHERE writer = %s", (-number,))
            if cursor.rowcount:
                return  # the COMMIT whose answer was lost took effect
            for table, where in ((ITEMS, "id = 0"), (LINES, "item = 0 AND n = 0")):
                cursor.execute("INSERT INTO tpcb.ledger VALUES (%s, %s, %s, 2)", (-number, number, table))
                cursor.execute(f"UPDATE {table} SET mark = %s WHERE {where}", (number,))

    def booked(self) -> dict[str, int]:
        with closing(self.product.connect()) as connection, pg.transaction(connection) as cursor:
            cursor.execute("SELECT tab, sum(events)::bigint FROM tpcb.ledger GROUP BY tab")
            return dict.fromkeys(TARGETS, 0) | {str(name): int(events) for name, events in cursor.fetchall()}


class World(Rig):
    """One running product; the commands, waits and remedies are those of the storm's rig."""

    def __init__(self, folder: Path, runner: str, seed: int, log: Path) -> None:
        self.runner, self.seed, self.log_file = runner, seed, log
        self.began = time.monotonic()
        self.clock = folder.with_name("clock")
        folder.mkdir(parents=True, exist_ok=True)
        self.clock.write_text("0", "ascii")
        self._before = {name: os.environ.get(name) for name in (VARIABLE, PATH)}
        os.environ[VARIABLE] = str(self.clock)
        here = str(Path(__file__).parent / "clock")
        os.environ[PATH] = os.pathsep.join(filter(None, (here, self._before[PATH])))
        self.product = Product(folder, rows=10, dns=2, seed=seed, small_disk=os.geteuid() == 0)
        self.troubles: list[str] = []
        self.base: dict[str, int] = {}
        self.ensured = self.cured = self.wrong = 0
        try:
            self.load = Writers(self.product, seed)  # type: ignore[assignment]
            self.source_line = Gate(self.product.warehouse.server.port)
            self.sink_line = Gate(self.product.sink.port)
            self.job = self._job()
        except BaseException:
            self.product.close()
            raise

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
        channels = "".join(channel.format(JOB, name, target) for name, target in TARGETS.items())
        config = folder / "matrix.toml"
        select = SELECT.format(items=TARGETS[ITEMS], lines=TARGETS[LINES])
        given = {"job": JOB, "channels": channels, "view": VIEW, "select": select, "chunk": CHUNK}
        text += _CONFIG.format(**given, state=product.demo.state_folder)
        config.write_text(text, encoding="utf-8")
        job = Mirrored(product, JOB, config, launch=cli.launch(self.runner))
        product.jobs.append(job)
        return job

    def close(self) -> None:
        for line in (self.source_line, self.sink_line):
            line.pass_all()  # type: ignore[attr-defined]
        self.load.close()
        for name, value in self._before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        try:
            self.product.close()
        finally:
            for line in (self.source_line, self.sink_line):
                line.close()

    def gate(self, side: str) -> Gate:
        line = self.line(side)
        assert isinstance(line, Gate)
        return line

    def begun(self, *words: str) -> Command:  # type: ignore[override]
        return Command(self.runner, self.job.config, *words)

    def typed(self, *words: str) -> Answer:
        began = time.monotonic()
        answer = super().typed(*words)
        self.say(f"  {' '.join(words[:4])}: {answer.code} after {time.monotonic() - began:.1f} s")
        return answer

    def ensure(self) -> None:
        """As of the rig, and start the tables that a person stopped for a phase, once the job runs."""
        super().ensure()
        view = self.job.view()
        for one in self.tables() if view.driver_alive and view.reported else ():
            if one.state in ("STOPPED", "PAUSED"):
                answer = self.typed("jobs", "start", JOB, "--table", one.source_table)
                if answer.code:
                    self.say(f"  jobs start --table: {' '.join(answer.said.split())[:300]}")

    # -- waiting and comparing

    def arrived(self, number: int) -> bool:
        with suppress(pg.DriverError):  # the sink restarts, or a target is being exchanged
            marks = "SELECT min(mark) FROM {} WHERE {}"
            one = self.product.at_sink(marks.format(TARGETS[ITEMS], "id = 0"))[0][0]
            other = self.product.at_sink(marks.format(TARGETS[LINES], "item = 0 AND n = 0"))[0][0]
            return min(int(one or 0), int(other or 0)) >= number
        return False

    def differences(self) -> list[str]:
        """What differs now, with quiet writers."""
        found = []
        for name, key in KEYS.items():
            columns = ", ".join(f"t.{column}" for column in self.columns(name))
            hashed = f"count(*), md5(string_agg(md5(ROW({columns})::text), '' ORDER BY {key}))"
            there, here = (
                self._rows(side, f"SELECT {hashed} FROM {table} t")[0]
                for side, table in (("source", name), ("sink", TARGETS[name]))
            )
            if there != here:
                found.append(f"{name}: {there} and {here}")
        order = " ORDER BY grp"
        fresh = self._rows("source", SELECT.format(items=ITEMS, lines=LINES) + order)
        if self._rows("sink", f"SELECT grp, n, qty, high FROM {VIEW}{order}") != fresh:
            found.append(f"view {VIEW}")
        return found

    def refuse_differences(self) -> None:
        """AssertionError unless both tables and the view are equal, and each event is counted once."""
        found = ["not compared"]

        def equal() -> bool:
            with suppress(pg.DriverError):
                found[:] = self.differences()
            return not found or threading.Event().wait(0.5)

        patient(equal, 60, lambda: f"{found}; {self.story()}")
        counted, booked = self._applied(), self.load.booked()
        for name, base in self.base.items():
            missed = booked[name] - base - counted.get(name, 0)
            assert missed == 0, f"{name}: {abs(missed)} events {'lost' if missed > 0 else 'doubled'}; {self.story()}"
        self.base = {name: booked[name] - counted.get(name, 0) for name in TARGETS}

    def _applied(self) -> dict[str, int]:
        statement = "SELECT source_table, sum(changes)::bigint FROM slotkeeper_progress WHERE job = %s GROUP BY 1"
        return {str(name): int(changes) for name, changes in self.product.at_sink(statement, (JOB,))}


def patient(condition: Callable[[], bool], seconds: float, story: Callable[[], str]) -> None:
    try:
        until(condition, seconds, "both ends to be equal")
    except AssertionError as late:
        raise AssertionError(f"{late}: {story()}") from None
