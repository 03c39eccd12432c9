"""XA at a real MariaDB: prepared rows take effect when their transaction commits, and never if it rolls back."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.sources.mysql import transactions
from slotkeeper.core.sources.mysql.position import MysqlPosition, parse_position
from slotkeeper.core.sources.mysql.transactions import End, Item, TableRows
from tests.support import maria as support
from tests.support.maria import Maria
from tests.support.pairs import TABLE, MysqlPair
from tests.support.waiting import until


@pytest.fixture
def filled(maria: Maria) -> Maria:
    maria.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 0), (2, 0)")
    maria.mark()
    return maria


class Prepared:
    """A transaction that XA has prepared, in a separate session."""

    def __init__(self, session: my.Session, xid: str, *statements: str) -> None:
        self._session, self._xid = session, xid
        for statement in (f"XA START {xid}", *statements, f"XA END {xid}", f"XA PREPARE {xid}"):
            session.rows(statement)

    def commit(self) -> None:
        self._session.rows(f"XA COMMIT {self._xid}")

    def roll_back(self) -> None:
        self._session.rows(f"XA ROLLBACK {self._xid}")


@contextmanager
def prepared(maria: Maria, xid: str, *statements: str) -> Iterator[Prepared]:
    with closing(support.log_in(maria.server, database=maria.database)) as session:
        yield Prepared(session, xid, *statements)


def inserted(maria: Maria, items: list[Item]) -> list[int]:
    return [row[0] for one in maria.decoded(items) for row in one.after]


def read(maria: Maria, start: MysqlPosition | None = None, table: str = "t") -> list[Item]:
    return list(maria.stream(table, start=start).items(blocking=False))


def ends(items: list[Item]) -> list[MysqlPosition]:
    return [item.position for item in items if isinstance(item, End)]


def test_rows_come_where_their_transaction_commits(filled: Maria) -> None:
    with prepared(filled, "'x', 'b', 7", "INSERT INTO t VALUES (10, 0), (11, 0)") as first:
        filled.run("INSERT INTO t VALUES (20, 0)", "FLUSH BINARY LOGS")
        with prepared(filled, "'y'", "INSERT INTO t VALUES (12, 0)") as second:
            filled.run("INSERT INTO t VALUES (21, 0)")
            second.commit()
        filled.run("INSERT INTO t VALUES (22, 0)")
        first.commit()
    filled.run("INSERT INTO t VALUES (23, 0)")
    items = read(filled)
    assert inserted(filled, items) == [20, 21, 12, 22, 10, 11, 23]
    places = [(item.number, item.at, item.first) for item in items if isinstance(item, TableRows)]
    assert places == sorted(places) and len(set(places)) == len(places)


def test_rows_that_roll_back_never_come(filled: Maria) -> None:
    with prepared(filled, "'x'", "INSERT INTO t VALUES (10, 0)") as transaction:
        filled.run("INSERT INTO t VALUES (20, 0)")
        transaction.roll_back()
    filled.run("XA START 'z'", "INSERT INTO t VALUES (30, 0)", "XA END 'z'", "XA COMMIT 'z' ONE PHASE")
    items = read(filled)
    assert inserted(filled, items) == [20, 30]
    last = ends(items)[-1]
    assert (last.file, last.offset) == filled.here() and not last.pending


def test_an_identifier_that_is_used_again_is_another_transaction(filled: Maria) -> None:
    for number in (10, 11, 12):
        with prepared(filled, "'x'", f"INSERT INTO t VALUES ({number}, 0)") as transaction:
            if number == 11:
                transaction.roll_back()
            else:
                transaction.commit()
    assert inserted(filled, read(filled)) == [10, 12]


@pytest.mark.parametrize("named", [True, False], ids=["named by the position", "searched for"])
def test_a_restart_between_prepare_and_commit_loses_no_row(filled: Maria, named: bool) -> None:
    """Positions of an earlier version and of a copy name no prepared transaction."""
    with prepared(filled, "'x'", "INSERT INTO t VALUES (10, 0), (11, 0)") as transaction:
        filled.run("INSERT INTO t VALUES (20, 0)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (21, 0)")
        between = ends(read(filled))[-1]
        assert len(between.pending) == 1
        transaction.commit()
    filled.run("INSERT INTO t VALUES (22, 0)")
    stored = parse_position(between.text) if named else parse_position(between.plain)
    assert stored == between and bool(stored.pending) is named
    assert inserted(filled, read(filled, stored)) == [10, 11, 22]


def test_rows_that_are_not_held_are_read_again(filled: Maria, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "KEPT_BYTES", 100)
    with prepared(filled, "'x'", *(f"INSERT INTO t VALUES ({n}, 0)" for n in range(10, 30))) as transaction:
        filled.run("INSERT INTO t VALUES (50, 0)")
        transaction.commit()
    filled.run("INSERT INTO t VALUES (51, 0)")
    assert inserted(filled, read(filled)) == [50, *range(10, 30), 51]


def test_a_prepared_transaction_of_other_tables_is_of_no_consequence(filled: Maria) -> None:
    filled.run("CREATE TABLE u (id INT PRIMARY KEY)")
    with prepared(filled, "'x'", "INSERT INTO u VALUES (10)") as transaction:
        between = ends(read(filled))[-1]
        transaction.commit()
    filled.run("INSERT INTO t VALUES (20, 0)")
    for start in (between, parse_position(between.plain)):
        assert inserted(filled, read(filled, start)) == [20]


def test_a_commit_whose_rows_were_purged_is_a_lost_position(filled: Maria) -> None:
    with prepared(filled, "'x'", "INSERT INTO t VALUES (10, 0)") as transaction:
        filled.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (20, 0)", "FLUSH BINARY LOGS")
        between = ends(read(filled))[-1]
        newest, _ = filled.here()

        def purged() -> bool:
            filled.run(f"PURGE BINARY LOGS TO '{newest}'")
            return len(filled.rows("SHOW BINARY LOGS")) == 1

        until(purged, 20, "the old binlogs to be purged")
        transaction.commit()
    filled.file, filled.offset = newest, 4
    for start in (between.moved(newest, 4), parse_position(f"{newest}/4")):
        with pytest.raises(Trouble) as trouble:
            read(filled, start)
        assert trouble.value.name is TroubleName.SLOT_LOST and "snapshot" in trouble.value.hint


def test_random_prepared_transactions_end_as_at_the_source(
    filled: Maria, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits, rollbacks, new files and restarts at any point: the changes applied in order are the table."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    monkeypatch.setattr(transactions, "KEPT_BYTES", 200)
    filled.run(f"INSERT INTO t VALUES {', '.join(f'({n}, 0)' for n in range(100, 130))}")
    filled.mark()
    before = {row[0]: row for row in filled.rows("SELECT * FROM t")}
    open_ones: list[tuple[Prepared, my.Session, int]] = []
    for turn in range(40):
        free = sorted(set(range(100, 130)) - {key for _, _, key in open_ones})
        if len(open_ones) < 6 and chance.random() < 0.5:
            key = chance.choice(free)
            session = support.log_in(filled.server, database=filled.database)
            size = chance.choice([1, 9])
            changes = [f"UPDATE t SET v = v + {chance.randrange(1, 99)} WHERE id = {key}" for _ in range(size)]
            open_ones.append((Prepared(session, f"'{turn}'", *changes), session, key))
        elif open_ones and chance.random() < 0.6:
            transaction, session, _ = open_ones.pop(chance.randrange(len(open_ones)))
            transaction.commit() if chance.random() < 0.7 else transaction.roll_back()
            session.close()
        else:
            filled.run(f"UPDATE t SET v = v * 2 + 1 WHERE id = {chance.choice(free)}")
        if chance.random() < 0.1:
            filled.run("FLUSH BINARY LOGS")
    for transaction, session, _ in open_ones:
        transaction.commit()
        session.close()
    position, found = filled.position(), dict(before)
    at_end = False  # an offset does not show it: the server itself writes events (binlog checkpoints) at any time
    while not at_end:
        stream = filled.stream("t", start=parse_position(position.text))
        waiting: list[Item] = []
        count, most = 0, chance.randrange(5, 25)
        for item in stream.items(blocking=False):
            waiting.append(item)
            if isinstance(item, End):
                for change in filled.decoded(waiting):
                    for old, new in zip(change.before, change.after, strict=True):
                        assert found[old[0]] == old
                        found[new[0]] = new
                waiting, position, count = [], item.position, count + 1
            if count == most:
                break
        else:
            at_end = True
        stream.close()
    assert list(found.values()) == filled.rows("SELECT * FROM t ORDER BY id")


def test_a_job_applies_prepared_rows_at_their_commit_and_across_restarts(mysql_pair: MysqlPair) -> None:
    pair, mirror = mysql_pair, mysql_pair.mirror
    pair.run(f"INSERT INTO {TABLE} SELECT seq, 0 FROM seq_1_to_20")
    sessions = [support.log_in(pair.server) for _ in range(3)]
    before_copy = Prepared(sessions[0], "'before the copy'", f"UPDATE {TABLE} SET v = 7 WHERE id = 1")
    mirror.start().wait_running()
    dropped = Prepared(sessions[1], "'dropped'", f"UPDATE {TABLE} SET v = 8 WHERE id = 2")
    kept = Prepared(
        sessions[2], "'kept'", f"UPDATE {TABLE} SET v = 9 WHERE id = 3", f"DELETE FROM {TABLE} WHERE id = 4"
    )
    pair.run(f"UPDATE {TABLE} SET v = 1 WHERE id = 5")
    until(lambda: mirror.query(mirror.sink, "SELECT v FROM mart.t WHERE id = 5") == [(1,)], 30, "the row beside")
    assert mirror.query(mirror.sink, "SELECT v FROM mart.t WHERE id IN (1, 2, 3, 4)") == [(0,)] * 4
    mirror.stop()
    before_copy.commit()
    dropped.roll_back()
    pair.run("FLUSH BINARY LOGS")
    kept.commit()
    pair.run(f"UPDATE {TABLE} SET v = v * 10 WHERE id = 3")
    for session in sessions:
        session.close()
    mirror.start().wait_running()
    pair.wait_equal()
    mirror.stop()
    assert mirror.query(mirror.sink, "SELECT v FROM mart.t WHERE id <= 3 ORDER BY id") == [(7,), (0,), (90,)]
