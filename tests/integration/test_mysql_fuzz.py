"""Random DDL and DML around a followed table: its lane ends with the table's rows, or stops with an error.

Each statement can fail: the server has then either done nothing, or written the effect to the binlog.
"""

from __future__ import annotations

import random
import re
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Busy, SlotkeeperError, Unreachable
from slotkeeper.demo.mariadb import MariaServer
from tests.support import maria as support
from tests.support.maria import Lane, log_in

SCHEMA = "fuzz"
TABLE = f"{SCHEMA}.t"
COLUMNS = "(id INT PRIMARY KEY, v INT, w VARCHAR(20), p INT, INDEX (v), INDEX (p))"
NAMES = ("o", "q", "a#b", "-- x", "it's", 'd"q', "表")
FORMATS = ("ROW", "ROW", "ROW", "STATEMENT", "MIXED")
MODES = ("", "", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
KNOWN = {"Refused", "Trouble"}
"""Errors at which a lane can stop, each with its position and action."""
_SERVERS = 1000
"""Errors from here on are a server's own."""
_UNTOLD = re.compile(r".*['\"] (?=changed|may|is|took|added|made|cannot)|;.*|: it names.*|fuzz\S*", re.DOTALL)
"""The part of a statement that an error's message contains."""


@dataclass
class Fuzz:
    """A server's schema, a writer, and the lane of one table."""

    server: MariaServer
    chance: random.Random
    writer: my.Session
    lane: Lane | None = None
    ran: int = 0
    failed: int = 0
    equal: int = 0
    changes: int = 0
    stops: dict[str, int] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    """The statements since the lane's start, for a failure's message."""
    ansi: bool = False

    # -- statements ---------------------------------------------------------------------------------------------------

    def name(self, *more: str) -> str:
        """A table's name, quoted in any way that its session takes."""
        one = self.chance.choice((*NAMES, *more))
        if one.isidentifier() and self.chance.random() < 0.5:
            return one
        if self.ansi and self.chance.random() < 0.5:
            return '"' + one.replace('"', '""') + '"'
        return "`" + one.replace("`", "``") + "`"

    def number(self) -> int:
        return self.chance.randrange(40)

    def text(self) -> str:
        return self.chance.choice(["'a'", "'#'", "'-- '", "'/*'", "'it''s'", "NULL", "'`t`'"])

    def dml(self) -> str:
        n, m, x = self.number(), self.number(), self.chance.choice
        table = x(["t", "t", "t", f"{SCHEMA}.t", "`t`", self.name("v1", "v2")])
        return x(
            [
                f"INSERT INTO {table} (id, v, w) VALUES ({n}, {m}, {self.text()}), ({m + 50}, {n}, {self.text()})",
                f"INSERT INTO {table} (id, v) VALUES ({n}, {m}) ON DUPLICATE KEY UPDATE v = v + 1",
                f"REPLACE INTO {table} (id, v, w) VALUES ({n}, {m}, {self.text()})",
                f"UPDATE {table} SET v = {m}, w = {self.text()} WHERE id % 7 = {n % 7}",
                f"UPDATE {table} SET id = id + 100 WHERE id = {n}",
                f"DELETE FROM {table} WHERE id = {n}",
                f"INSERT IGNORE INTO {self.name()} (id, v) SELECT id, v FROM t WHERE id < {n}",
                f"UPDATE t JOIN {self.name()} b USING (id) SET t.v = b.v + 1",
                f"UPDATE {self.name()} b JOIN t USING (id) SET b.v = t.v",
                f"DELETE b FROM {self.name()} b JOIN t USING (id) WHERE b.id < {n}",
                f"INSERT INTO {self.name()} (id, v) VALUES ({n}, f1({m}))",
                f"INSERT INTO {self.name()} (id, v) VALUES ({n}, ABS({m}))",
                f"SELECT f1({n})",
                f"DO f1({n})",
                f"CALL p1({n})",
                f"DELETE FROM parent WHERE id = {n}",
                f"UPDATE parent SET id = id + 40 WHERE id = {n}",
                f"INSERT IGNORE INTO parent VALUES ({n}), ({m})",
                f"UPDATE t SET p = (SELECT MAX(id) FROM parent) WHERE id = {n}",
                f"SET STATEMENT max_statement_time = 60 FOR UPDATE {table} SET v = {m} WHERE id = {n}",
                f"ANALYZE UPDATE {table} SET v = {m} WHERE id = {n}",
                f"EXECUTE IMMEDIATE 'UPDATE t SET v = {m} WHERE id = {n}'",
                f"BEGIN NOT ATOMIC UPDATE t SET v = {m} WHERE id = {n}; DELETE FROM {self.name()} WHERE id = {m}; END",
                f"INSERT INTO merged VALUES ({n})",
                f"UPDATE /*!50000 t */ SET v = {m} WHERE id = {n}",
                f"UPDATE /* t */ {self.name()} # t\n SET v = {m}",
            ]
        )

    def ddl(self) -> str:
        n, x = self.number(), self.chance.choice
        other, way = self.name(), x(["CASCADE", "SET NULL", "RESTRICT", "NO ACTION"])
        return (
            x(
                [
                    f"CREATE TABLE IF NOT EXISTS {other} {COLUMNS} ENGINE = {x(['InnoDB', 'MyISAM', 'MEMORY'])}",
                    f"CREATE OR REPLACE TABLE {other} {COLUMNS}",
                    f"DROP TABLE IF EXISTS {other}",
                    *[f"CREATE TABLE IF NOT EXISTS {self.name()} {COLUMNS}" for _ in range(4)],
                    f"RENAME TABLE {other} TO x1, x1 TO {other}",
                    f"RENAME TABLE {other} TO {self.name()}",
                    f"TRUNCATE {other}",
                    f"CREATE OR REPLACE VIEW v{x('12')} AS SELECT * FROM {x(['t', other])}",
                    f"DROP VIEW IF EXISTS v{x('12')}",
                    f"CREATE OR REPLACE TRIGGER tr{x('12')} AFTER {x(['INSERT', 'UPDATE', 'DELETE'])} ON {other}"
                    f" FOR EACH ROW UPDATE t SET v = v + 1 WHERE id = {n}",
                    f"DROP TRIGGER IF EXISTS tr{x('12')}",
                    f"CREATE OR REPLACE FUNCTION f1(a INT) RETURNS INT MODIFIES SQL DATA BEGIN UPDATE {x(['t', other])}"
                    " SET v = a WHERE id = a; RETURN a; END",
                    "DROP FUNCTION IF EXISTS f1",
                    f"CREATE OR REPLACE PROCEDURE p1(a INT) UPDATE {x(['t', other, 'v1'])} SET v = a WHERE id = a",
                    f"CREATE TABLE IF NOT EXISTS {other} AS SELECT id, v, w, p FROM t",
                    f"CREATE TEMPORARY TABLE tmp AS SELECT id, v FROM {x(['t', other])}",
                    "DROP TEMPORARY TABLE IF EXISTS tmp",
                    f"CREATE INDEX i{n} ON {x(['t', other])} (w)",
                    "FLUSH BINARY LOGS",
                    f"OPTIMIZE TABLE {x(['t', other])}",
                    f"ALTER TABLE {other} ADD COLUMN c{n} INT DEFAULT {n}",
                    f"ALTER TABLE {other} ADD FOREIGN KEY (v) REFERENCES t (id) ON DELETE {way}",
                    "CREATE OR REPLACE DATABASE fuzz2",
                ]
            )
            if x(range(3))
            else self.own_ddl(n, way)
        )

    def own_ddl(self, n: int, way: str) -> str:
        x = self.chance.choice
        return x(
            [
                f"ALTER TABLE t ADD FOREIGN KEY fk{n} (p) REFERENCES parent (id) ON {x(['DELETE', 'UPDATE'])} {way}",
                f"ALTER TABLE t DROP FOREIGN KEY IF EXISTS fk{n}",
                "ALTER TABLE t ADD SYSTEM VERSIONING",
                "ALTER TABLE t DROP SYSTEM VERSIONING",
                f"ALTER TABLE t ENGINE = {x(['InnoDB', 'InnoDB', 'MyISAM', 'Aria', 'MEMORY'])}",
                f"ALTER TABLE t COMMENT = '# {n}'",
                f"ALTER TABLE t ADD COLUMN n{n} INT DEFAULT {n}, DROP COLUMN n{n}",
                "ALTER TABLE t /*!50000 MODIFY v BIGINT */",
                "ALTER TABLE t MODIFY v INT",
                f"ALTER TABLE t ADD INDEX j{n} (v, id)",
                "TRUNCATE TABLE `t`",
                f"RENAME TABLE {self.name()} TO x1, t TO x2, x2 TO t, x1 TO {self.name()}",
                f"CREATE OR REPLACE TABLE t {COLUMNS}",
                "REPAIR TABLE t",
            ]
        )

    def session(self) -> str:
        x = self.chance.choice
        mode = x(MODES)
        self.ansi = "ANSI_QUOTES" in mode
        return (
            x([f"SET sql_mode = '{mode}'", f"SET binlog_format = '{x(FORMATS)}'"])
            if self.ansi
            else x([f"SET sql_mode = '{mode}'", f"SET binlog_format = '{x(FORMATS)}'", "SET autocommit = 1"])
        )

    def statement(self) -> list[str]:
        way = self.chance.random()
        if way < 0.06:
            return [self.session()]
        if way < 0.16:
            return [self.ddl()]
        if way < 0.24:
            ends = self.chance.choice(["COMMIT", "COMMIT", "ROLLBACK"])
            parts = [self.dml() for _ in range(self.chance.randrange(1, 5))]
            if self.chance.random() < 0.3:
                parts.insert(self.chance.randrange(len(parts)), "SAVEPOINT s1")
                parts.append("ROLLBACK TO s1")
            return ["BEGIN", *parts, ends]
        return [self.dml()]

    def run(self, statement: str) -> None:
        self.ran += 1
        self.log.append(statement)
        try:
            self.writer.rows(statement)
        except my.DriverError as error:
            self.failed += 1
            self.log[-1] += f"  -- failed: {my.code_of(error)}"
            if my.code_of(error) < _SERVERS:  # the session has ended: on a busy host, an answer may be late
                self.writer.close()
                self.writer = log_in(self.server, database=SCHEMA)

    # -- the lane -----------------------------------------------------------------------------------------------------

    def restart(self) -> None:
        """Take a new snapshot with a new lane, after fixing what prevents it."""
        self.stop()
        self.log.clear()
        for attempt in range(2):
            lane = Lane(self.server, TABLE, slot=f"fuzz{self.ran}")
            try:
                self.lane = lane.start()
                return
            except SlotkeeperError as error:
                lane.close()
                if isinstance(error, Unreachable | Busy):
                    self.restart()
                    return
                self.note(error)
                if attempt:
                    raise
                self.mend()

    def mend(self) -> None:
        for statement in ("DROP TABLE IF EXISTS merged", f"CREATE OR REPLACE TABLE {TABLE} {COLUMNS}"):
            self.writer.rows("SET sql_mode = '', binlog_format = 'ROW', foreign_key_checks = 0")
            self.writer.rows(statement)
            self.writer.rows("SET foreign_key_checks = 1")
        self.ansi = False

    def note(self, error: SlotkeeperError) -> None:
        kind = type(error).__name__
        assert kind in KNOWN, f"{error!r} behind {self.log[-20:]}"
        said = re.sub(r".*['\"] (?=changed|may|is|took|added|made|cannot)|;.*|: it names.*|fuzz\S*", "", error.message)[
            :70
        ]
        self.stops[said] = self.stops.get(said, 0) + 1

    def resume(self) -> None:
        """Continue in another session from the lane's position, as a restarted job does."""
        assert self.lane is not None
        other = Lane(self.server, TABLE, slot=f"fuzz{self.ran}")
        before, self.lane = self.lane, None
        before.close()
        try:
            self.lane = other.resume(before)
        except (Unreachable, Busy):
            other.close()
            self.lane = before
        except SlotkeeperError as error:
            other.close()
            self.note(error)
            self.restart()

    def check(self) -> None:
        """Apply the written changes: the rows are those of the table, or the lane stops with an error."""
        assert self.lane is not None
        try:
            there = self.lane.catch_up().copied()
        except (Unreachable, Busy):
            self.resume()
            self.check()
            return
        except SlotkeeperError as error:
            self.note(error)
            self.restart()
            return
        assert self.lane.rows == there, f"unequal without an error behind: {self.log}"
        self.equal += 1
        self.changes, self.lane.changes = self.changes + self.lane.changes, 0
        self.log.clear()

    def stop(self) -> None:
        if self.lane is not None:
            self.changes += self.lane.changes
            self.lane.close()
            self.lane = None


def fuzz(server: MariaServer, seed: int, statements: int, most: int = 10) -> Fuzz:
    """Run random statements and check after at most `most` of them; the seed repeats the run."""
    writer = log_in(server)
    for statement in (
        "SET GLOBAL log_bin_trust_function_creators = 1",
        f"CREATE OR REPLACE DATABASE {SCHEMA}",
        f"USE {SCHEMA}",
        "CREATE TABLE parent (id INT PRIMARY KEY)",
        f"CREATE TABLE t {COLUMNS}",
        *(f"CREATE TABLE `{name}` {COLUMNS}" for name in NAMES),
        "CREATE FUNCTION f1(a INT) RETURNS INT MODIFIES SQL DATA BEGIN UPDATE t SET v = a WHERE id = a; RETURN a; END",
        "CREATE VIEW v1 AS SELECT * FROM t",
        "INSERT INTO t SELECT seq, seq, 'a', NULL FROM seq_1_to_30",
    ):
        writer.rows(statement)
    found = Fuzz(server, random.Random(seed), writer)
    found.restart()
    left = 1
    try:
        while found.ran < statements:
            for statement in found.statement():
                found.run(statement)
            left -= 1
            if left <= 0:
                if found.chance.random() < 0.2:
                    found.resume()
                found.check()
                left = found.chance.choice([1, 2, most // 2, most])
        found.check()
    finally:
        found.stop()
        with suppress(my.DriverError):
            writer.rows(f"DROP DATABASE {SCHEMA}")
            writer.rows("DROP DATABASE IF EXISTS fuzz2")
        writer.close()
    return found


def told(found: Fuzz, seed: int) -> str:
    return (
        f"seed {seed}: {found.ran} statements ({found.failed} refused by the server), {found.equal} checks equal,"
        f" {found.changes} changes, stops: {found.stops}"
    )


def test_random_statements_end_in_equal_rows_or_in_an_error(maria_server: MariaServer, seed: int) -> None:
    print(f"seed {seed}")
    found = fuzz(maria_server, seed, 250)
    print(told(found, seed))
    assert found.equal and found.changes, "nothing was compared"
    assert found.failed < found.ran / 2, "the server rejected most statements"


@pytest.mark.chaos
@pytest.mark.parametrize("number", [0, 1, 2])
def test_ten_thousand_random_statements_end_in_equal_rows_or_in_an_error(seed: int, number: int) -> None:
    server = support.begin()
    try:
        print(f"seed {seed + number}")
        found = fuzz(server, seed + number, 10_000, 30)
    finally:
        support.end(server)
    print(told(found, seed + number))
    assert found.equal > 100 and found.changes > 1_000 and len(found.stops) > 3, "too little was compared"
