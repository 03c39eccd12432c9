"""Changes of a MySQL table's columns: each kind, under each policy, into both sinks, under writes, killed at each step.

A job crashes at every probe point of a change, one after the other, and starts again. Where the policy follows the
change, no row is copied and the tables are equal at the end. Where it does not, the job stops at the statement each
time that it starts, and no row is copied either. A table of the results is printed, and written into `reports/`.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.spec import APPLY, IGNORE, STOP, ChannelSpec
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.state.files import StoredConsents
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.demo.doris.server import DorisStandin
from tests.support import maria as marias
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.pairs import doris as doris
from tests.support.pairs import make_mysql_pair as make_mysql_pair
from tests.support.report import Page
from tests.support.shapes import MemoryAudit
from tests.support.waiting import until

pytestmark = pytest.mark.chaos

COLUMNS = "id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET latin1, d INT, r INT, v INT, m INT NOT NULL DEFAULT 1, w INT"
NAMES = ("id", "a", "d", "r", "v", "m", "w")
GHOST, TRIGGERS = "gh-ost", "pt-online-schema-change"
ONLINE = "ADD COLUMN n INT AFTER id, MODIFY v BIGINT"
POSTGRES, DORIS = "PostgreSQL", "Doris"


@dataclass(frozen=True)
class Kind:
    """A change, and the policies that follow it."""

    change: str
    follows: tuple[str, ...]
    ignored_in: tuple[str, ...] = (POSTGRES, DORIS)
    """The sinks whose targets fit without an ALTER, so that `ignore` follows as well."""
    lossy: bool = False
    """Whether `apply` stops until a user has confirmed the number of affected rows."""


BOTH = (IGNORE, APPLY)
KINDS = {
    "ADD": Kind("ADD n INT", BOTH),
    "ADD with a default": Kind("ADD n INT NOT NULL DEFAULT 7", BOTH),
    "ADD of several": Kind("ADD n INT, ADD n2 VARCHAR(9) CHARACTER SET utf8mb4", BOTH),
    "ADD AFTER": Kind("ADD n INT AFTER id", BOTH),
    "DROP": Kind("DROP COLUMN d", (), lossy=True),
    "RENAME COLUMN": Kind("RENAME COLUMN r TO s", (APPLY,)),
    "INT to BIGINT": Kind("MODIFY v BIGINT", BOTH, ()),
    "longer VARCHAR": Kind("MODIFY a VARCHAR(40) CHARACTER SET latin1", BOTH, (DORIS,)),
    "DEFAULT": Kind("ALTER v SET DEFAULT 7", (STOP, IGNORE, APPLY)),
    "NOT NULL to NULL": Kind("MODIFY m INT NULL DEFAULT 1", BOTH),
    "NULL to NOT NULL": Kind("MODIFY w INT NOT NULL", (), lossy=True),
    "character set": Kind("MODIFY a VARCHAR(20) CHARACTER SET utf8mb4", (STOP, IGNORE, APPLY)),
    "narrower INT": Kind("MODIFY v SMALLINT", (), lossy=True),
    "shorter VARCHAR": Kind("MODIFY a VARCHAR(3) CHARACTER SET latin1", (), lossy=True),
    GHOST: Kind(ONLINE, (APPLY,)),
    TRIGGERS: Kind(ONLINE, (APPLY,)),
}
POINTS = ("after_follow_intent", "after_follow_epoch", "after_follow_alter", "before_follow_commit", "after_follow")


class Crash(BaseException):
    """The driver ends here."""


class Crashes:
    """A probe that ends the driver once at each point."""

    def __init__(self) -> None:
        self.left, self.hits = list(POINTS), 0

    def __call__(self, point: str) -> None:
        if point in self.left:
            self.left.remove(point)
            self.hits += 1
            raise Crash


class Writer:
    """Writes in the table's present shape until it is closed; a statement about a column that is gone is left out."""

    def __init__(self, pair: MysqlPair, seed: int) -> None:
        self._random, self._session = random.Random(seed), marias.log_in(pair.server)
        self._session.rows("SET sql_mode = ''")
        self._ended, self.lock = threading.Event(), threading.Lock()
        self.ghost = False
        """Whether each change is applied to gh-ost's new table as well, as gh-ost does from the binlog."""
        self.written = 0
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._ended.wait(0.004):
                with self.lock:
                    self._write()
        except BaseException as error:
            self.error = error

    def _write(self) -> None:
        draw = self._random
        key, value = draw.randint(1, 400), draw.randint(-30_000, 30_000)
        column = draw.choice(("d", "r", "s", "v", "m", "w", "n", "a"))
        statement = draw.choice(
            (
                f"INSERT INTO {TABLE} (id, a, v, w) VALUES ({key}, concat('é', {value}), {value}, {value})"
                f" ON DUPLICATE KEY UPDATE v = {value}",
                f"DELETE FROM {TABLE} WHERE id = {key}",
                f"UPDATE {TABLE} SET {column} = {value} WHERE id BETWEEN {key} AND {key + 5}",
            )
        )
        self._session.rows("BEGIN")
        try:
            self._session.rows(statement)
        except my.DriverError as error:
            if error.args[0] != 1054:  # unknown column
                raise
        if self.ghost:
            names = ", ".join(NAMES)
            self._session.rows(f"DELETE FROM ods._t_gho WHERE id BETWEEN {key} AND {key + 5}")
            self._session.rows(
                f"INSERT INTO ods._t_gho ({names}) SELECT {names} FROM {TABLE} WHERE id BETWEEN {key} AND {key + 5}"
            )
        self._session.rows("COMMIT")
        self.written += 1

    def more(self, number: int = 25) -> None:
        """Wait for more transactions."""
        reached = self.written + number
        until(lambda: self.error is not None or self.written >= reached, 60, "more writes")
        assert self.error is None, repr(self.error)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(30)
        self._session.close()
        assert self.error is None, repr(self.error)


@contextmanager
def writing(pair: MysqlPair, seed: int) -> Iterator[Writer]:
    writer = Writer(pair, seed)
    writer.start()
    try:
        yield writer
    finally:
        writer.close()


def change_online(pair: MysqlPair, writer: Writer, kind: str, change: str) -> None:
    """Do what the tools do, as far as the binlog shows it; pt-online-schema-change follows the writes by triggers."""
    names = ", ".join(NAMES)
    new = "ods._t_gho" if kind == GHOST else "ods._t_new"
    pair.run(f"CREATE TABLE {new} LIKE {TABLE}", f"ALTER TABLE {new} {change}")
    if kind == TRIGGERS:
        values = ", ".join(f"NEW.{one}" for one in NAMES)
        replaces = f"REPLACE INTO {new} ({names}) VALUES ({values})"
        deletes = f"DELETE IGNORE FROM {new} WHERE {new}.id <=> OLD.id"
        for name, when, what in (("del", "DELETE", deletes), ("upd", "UPDATE", replaces), ("ins", "INSERT", replaces)):
            pair.run(f"CREATE TRIGGER pt_osc_ods_t_{name} AFTER {when} ON {TABLE} FOR EACH ROW {what}")
    with writer.lock:
        writer.ghost = kind == GHOST
    for low in range(0, 410, 100):  # chunks, between which the writer writes
        where = f"WHERE id > {low} AND id <= {low + 100} LOCK IN SHARE MODE"
        pair.run(f"INSERT IGNORE INTO {new} ({names}) SELECT {names} FROM {TABLE} {where}")
        writer.more(5)
    with writer.lock:  # the tools lock the table
        away = "ods._t_del" if kind == GHOST else "ods._t_old"
        pair.run(f"RENAME TABLE {TABLE} TO {away}, {new} TO {TABLE}", f"DROP TABLE {away}")
        writer.ghost = False


@pytest.fixture(scope="module")
def shapes_page() -> Iterator[Page]:
    page = Page(
        "shapes",
        "Changes of columns, killed at each step",
        "One change per case, under writes. Kills: crashes of the driver at the probe points of the change. Gap: the"
        " longest time without progress of the lane, kills included.",
        ("change", "policy", "sink", "seed", "result", "kills", "rows copied", "equal", "seconds"),
    )
    yield page
    for row in page.rows:
        print(" | ".join(row))


def prepared(pair: MysqlPair, policy: str, folder: Path) -> MysqlPair:
    channel = ChannelSpec(TABLE, "mart.t", create_target=True, on_schema_change=policy)
    pair.mirror.job = replace(pair.mirror.job, channels=(channel,))
    pair.mirror.audit = MemoryAudit()
    pair.mirror.consents = StoredConsents(StateFolder.open(folder), pair.mirror.job.name)
    values = "seq, concat('é', seq), seq, seq, seq * 1000, seq, IF(seq % 2, seq, NULL)"
    pair.run("SET sql_mode = ''", f"INSERT INTO {TABLE} SELECT {values} FROM seq_1_to_300")
    return pair


def confirm(pair: MysqlPair, wrong: int = 0) -> int:
    """Confirm the number of rows that the stopped job reports, as `jobs start --confirm-rows` does; return it."""
    consents = pair.mirror.consents
    assert consents is not None
    (asked,) = consents.known()
    assert asked.rows is not None and not asked.name
    consents.keep(replace(asked, name=asked.job, who="test", reason="test", at=time.time(), rows=asked.rows + wrong))
    return asked.rows


MARK = 1_001


def is_past(pair: MysqlPair, doris: DorisStandin | None) -> bool:
    """Whether the target has the row that was written after the change."""
    asked = f"SELECT count(*) FROM mart.t WHERE id = {MARK}"
    if doris is not None:
        return doris.tables.query(asked)[1] == [(1,)]
    return pair.mirror.query(pair.mirror.sink, asked) == [(1,)]


def run_killed(pair: MysqlPair, doris: DorisStandin | None, crashes: Crashes) -> tuple[SlotkeeperError | None, int]:
    """Run the job, again after each crash, until it is past the change or stops at it; return the number of copies."""
    mirror, copies = pair.mirror, 0
    while True:
        until(lambda: mirror.ended() or is_past(pair, doris), 90, "the change to be followed, or a stop")
        copies += mirror.heard.events.count(JobEvent.COPY_BEGAN)
        if not mirror.ended():
            return None, copies
        if not isinstance(mirror.error, Crash):
            assert isinstance(mirror.error, SlotkeeperError), repr(mirror.error)
            return mirror.error, copies
        mirror.start(driver_probe=crashes)


def cases() -> list[tuple[str, str, str]]:
    return [(kind, policy, sink) for kind in KINDS for policy in (STOP, IGNORE, APPLY) for sink in (POSTGRES, DORIS)]


@pytest.mark.parametrize(("kind", "policy", "sink"), cases())
def test_a_change_under_writes_is_followed_or_stops_whatever_is_killed(
    kind: str,
    policy: str,
    sink: str,
    make_mysql_pair: MakeMysqlPair,
    doris: DorisStandin,
    shapes_page: Page,
    seed: int,
    tmp_path: Path,
) -> None:
    pair, began, crashes, into = make_mysql_pair(COLUMNS), time.monotonic(), Crashes(), None
    if sink == DORIS:
        pair.into(doris)
        doris.tables.drop("mart", "t")
        into = doris
    prepared(pair, policy, tmp_path)
    one, mirror = KINDS[kind], pair.mirror
    follows = policy in one.follows and (policy != IGNORE or sink in one.ignored_in)
    mirror.start(driver_probe=crashes).wait_running()
    with writing(pair, seed) as writer:
        writer.more()
        if kind in (GHOST, TRIGGERS):
            change_online(pair, writer, kind, one.change)
        else:
            pair.run(f"ALTER TABLE {TABLE} {one.change}")
        pair.run(f"INSERT INTO {TABLE} (id, w) VALUES ({MARK}, 1)")
        error, copies = run_killed(pair, into, crashes)
        writer.more()
        if error is not None:  # a stop is repeated by each start
            again = mirror.start(driver_probe=crashes).wait_error()
            assert str(again) == str(error)
            copies += mirror.heard.events.count(JobEvent.COPY_BEGAN)
        rows = ""
        if one.lossy and policy == APPLY:
            assert error is not None and f"--confirm-rows {confirm(pair, wrong=1)} " in str(error), error
            moved = mirror.start(driver_probe=crashes).wait_error()
            assert "were confirmed" in str(moved) and not crashes.hits, moved
            rows = f" with {confirm(pair)} rows confirmed"
            mirror.start(driver_probe=crashes)
            error, more = run_killed(pair, into, crashes)
            copies, follows = copies + more, True
            writer.more()
    equal = "not compared"
    if error is None:
        pair.wait(lambda: equal_now(pair, policy), 90, "source and target to be equal")
        mirror.stop()
        equal = "yes"
    said = f"followed{rows}" if error is None else "stopped"
    seconds = time.monotonic() - began
    shapes_page.add(kind, policy, sink, seed, said, crashes.hits, copies - 1, equal, seconds)
    print(f"seed {seed}: {kind}, {policy}, {sink}: {said}, {crashes.hits} kills, {error or equal}")
    assert copies == 1, "only the first start copies"
    assert (error is None) == follows, error
    if error is not None:
        online = TroubleName.SLOT_LOST if kind in (GHOST, TRIGGERS) else TroubleName.SCHEMA_CHANGED
        assert isinstance(error, Trouble) and error.name is online, repr(error)
        assert "binlog after " in error.message and "not followed: " in error.message, error
    elif kind != "DEFAULT":
        beside = sink == DORIS  # its store's transaction has no probe, and nothing is altered under `ignore`
        assert crashes.hits >= (3 if beside else 4) - (policy != APPLY), crashes.left


def equal_now(pair: MysqlPair, policy: str) -> bool:
    """Whether the mirrored columns are equal; `ignore` mirrors no added one."""
    if policy == APPLY:
        return pair.equal()
    return pair.compare(ChannelSpec(TABLE, "mart.t", columns=tuple((name, name) for name in NAMES))).equal
