"""The start of a stream without a position: oldest, newest, a time, typed GTIDs, a consistent copy's position."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.mysql import starts
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, MariaState, MysqlPosition
from slotkeeper.core.sources.mysql.session import MysqlSession, ServerFacts, read_facts
from slotkeeper.core.sources.mysql.starts import MysqlOpen, open_now
from slotkeeper.core.sources.mysql.transactions import End
from tests.support import maria as support
from tests.support.maria import Maria
from tests.support.waiting import until


@pytest.fixture
def facts(maria: Maria) -> ServerFacts:
    maria.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    return read_facts(maria.session)


def test_the_newest_place_is_the_end_and_names_its_gtids(maria: Maria, facts: ServerFacts) -> None:
    newest = starts.latest(maria.session, facts)
    assert (newest.file, newest.offset) == maria.here()
    assert newest.gtids is not None and newest.gtids.text == maria.rows("SELECT @@gtid_binlog_pos")[0][0]
    maria.run("INSERT INTO t VALUES (2)")
    (end,) = [item for item in maria.stream("t", start=newest).items(blocking=False) if isinstance(item, End)]
    assert newest < end.position


def test_typed_gtids_that_leave_out_a_domain_are_refused(maria: Maria, facts: ServerFacts) -> None:
    """A server streams a domain that is not named from its oldest transaction on, without an error."""
    with pytest.raises(Refused, match="omits domain 3"):
        starts.behind(maria.session, facts, "9-77-5")
    with pytest.raises(Refused, match="GTID"):
        starts.behind(maria.session, facts, "not one")
    place = starts.behind(maria.session, facts, maria.rows("SELECT @@gtid_binlog_pos")[0][0])
    maria.run("INSERT INTO t VALUES (3)")
    items = list(maria.stream("t", start=place, by_gtid=True).items(blocking=False))
    assert [row for change in maria.decoded(items) for row in change.after] == [(3,)]


def test_a_moment_begins_at_a_file_that_began_before_it(maria: Maria, facts: ServerFacts) -> None:
    maria.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (4)")
    connect, replica = partial(support.log_in, maria.server), my.Replica(4_400_000, "", 1.0)
    (now,) = maria.rows("SELECT UNIX_TIMESTAMP()")[0]
    place = starts.at_moment(maria.session, facts, connect, replica, int(now) + 10)
    assert (place.file, place.offset) == (maria.here()[0], FIRST_OFFSET)
    with pytest.raises(Refused, match="starts after that time"):
        starts.at_moment(maria.session, facts, connect, replica, 1_000)


def test_the_file_of_a_moment_is_found_among_many() -> None:
    files = [starts.BinlogFile(f"b.{number:06d}", 1) for number in range(1, 60)]
    for moment in (10, 11, 300, 595, 10_000):
        found = starts.file_of_moment(files, lambda name: int(name[2:]) * 10, moment)
        assert found is not None and int(found.name[2:]) == min(59, moment // 10)
    assert starts.file_of_moment(files, lambda name: int(name[2:]) * 10, 9) is None


def test_a_copy_and_what_is_behind_its_place_are_the_table(maria: Maria, facts: ServerFacts) -> None:
    """Rows written while snapshots start are in the copy or after its position, never in both or in neither."""
    stop = threading.Event()

    def write() -> None:
        session = support.log_in(maria.server, database=maria.database)
        number = 100
        while not stop.is_set():
            session.rows(f"INSERT INTO t VALUES ({number}), ({number + 1})")
            number += 2
        session.close()

    writer = threading.Thread(target=write)
    writer.start()
    copies: list[tuple[MysqlPosition, list[int]]] = []
    try:
        for _ in range(5):
            session = support.log_in(maria.server, database=maria.database)
            place = starts.begin_copy(session, facts)
            copies.append((place, [row[0] for row in session.rows("SELECT id FROM t")]))
            session.close()
    finally:
        stop.set()
        writer.join()
    everything = sorted(row[0] for row in maria.rows("SELECT id FROM t"))
    for place, copied in copies:
        assert isinstance(place.gtids, MariaState)
        changes = maria.decoded(maria.stream("t", start=place).items(blocking=False))
        behind = [row[0] for change in changes for row in change.after]
        assert sorted(copied + behind) == everything


def test_writers_that_are_open_are_waited_for_where_no_place_is_exact(maria: Maria, facts: ServerFacts) -> None:
    """The query for MySQL, answered by the same view of a MariaDB."""
    session = MysqlSession(Login(support.endpoint(maria.server), maria.server.password(), "slotkeeper/test"))
    maria.run("BEGIN", "INSERT INTO t VALUES (5)")
    waiting = MysqlOpen(session)
    assert "may be older than" in waiting.left()
    until(lambda: "1 transaction(s) that were open when the copy started" in waiting.left(), 10, "a fresh list")
    maria.run("COMMIT")
    until(lambda: not waiting.left(), 10, "it to have ended")
    assert open_now(session) is None
    session.close()


def test_a_list_that_a_monitor_keeps_from_being_refreshed_lets_no_copy_begin(maria: Maria, facts: ServerFacts) -> None:
    """InnoDB refreshes the list only after 0.1 s without a reader; read more often, it lacks later writers."""
    monitor, stop = support.log_in(maria.server), threading.Event()
    begun = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            monitor.rows("SELECT COUNT(*) FROM information_schema.innodb_trx")
            begun.set()
            stop.wait(0.01)

    poller = threading.Thread(target=poll)
    poller.start()
    session = MysqlSession(Login(support.endpoint(maria.server), maria.server.password(), "slotkeeper/test"))
    try:
        assert begun.wait(20)
        maria.run("BEGIN", "INSERT INTO t VALUES (6)")
        waiting = MysqlOpen(session)
        until(lambda: "another session reads INNODB_TRX" in waiting.left(), 10, "the old list to be seen as old")
    finally:
        stop.set()
        poller.join()
        monitor.close()
    until(lambda: "1 transaction(s) that were open" in waiting.left(), 10, "a fresh list")
    maria.run("COMMIT")
    until(lambda: not waiting.left(), 10, "it to have ended")
    session.close()
