"""Traps of resuming a MariaDB binlog, first measured with another reader: none loses or duplicates a row."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import pytest

from slotkeeper.core.domain.endpoint import Login
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import AccessRefused, Busy, Refused, SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, MariaState, MysqlPosition
from slotkeeper.core.sources.mysql.session import MysqlSession, admit, read_facts
from slotkeeper.core.sources.mysql.statements import Effect, Statement
from slotkeeper.core.sources.mysql.stream import Reading, Stream, is_end
from slotkeeper.core.sources.mysql.transactions import Alive, End, Item, TableRows
from tests.support import maria as support
from tests.support.maria import Maria


def ids(maria: Maria, items: Iterable[Item]) -> list[int]:
    return [row[0] for change in maria.decoded(items) for row in change.after]


def ends(items: Iterable[Item]) -> list[MysqlPosition]:
    return [item.position for item in items if isinstance(item, End)]


@pytest.fixture
def filled(maria: Maria) -> Maria:
    maria.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))")
    maria.mark()
    for lot in range(20):
        rows = ", ".join(f"({lot * 10 + n}, 'v')" for n in range(10))
        maria.run(f"INSERT INTO t VALUES {rows}")
    return maria


EVERY = list(range(200))


def test_a_stream_begins_at_a_file_and_offset_and_names_gtids(filled: Maria) -> None:
    items = list(filled.stream("t").items(blocking=False))
    assert ids(filled, items) == EVERY
    state = ends(items)[-1].gtids
    assert isinstance(state, MariaState) and state.text == filled.rows("SELECT @@gtid_binlog_pos")[0][0]
    assert (ends(items)[-1].file, ends(items)[-1].offset) == filled.here()


def test_a_mariadb_position_of_a_file_is_not_ignored(filled: Maria) -> None:
    """Given a file's offset, another reader started at the oldest binlog without an error."""
    middle = ends(filled.stream("t").items(blocking=False))[9]
    assert ids(filled, filled.stream("t", start=middle).items(blocking=False)) == EVERY[100:]


def test_a_dump_by_gtid_that_reaches_the_end_ends(filled: Maria) -> None:
    """Another reader's request had one byte too many, so a dump by GTID with rows never ended."""
    middle = ends(filled.stream("t").items(blocking=False))[9]
    items = list(filled.stream("t", start=middle, by_gtid=True).items(blocking=False))
    assert ids(filled, items) == EVERY[100:]
    assert (ends(items)[-1].file, ends(items)[-1].offset) == filled.here()
    assert list(filled.stream("t", start=ends(items)[-1], by_gtid=True).items(blocking=False)) == []


def test_every_range_between_two_ends_has_exactly_its_rows(filled: Maria) -> None:
    start = filled.position()
    marks = [start, *ends(filled.stream("t").items(blocking=False))]
    for by_gtid in (False, True):
        for low, high in itertools.pairwise(marks[::5]):
            found = ids(filled, filled.stream("t", start=low, by_gtid=by_gtid).read(high))
            first = marks.index(low) * 10
            assert found == EVERY[first : marks.index(high) * 10]
    assert list(filled.stream("t", start=marks[3]).read(marks[3])) == []


def test_a_position_inside_of_a_transaction_is_refused(filled: Maria) -> None:
    """A start after a TABLE_MAP dropped the rows of its statement without an error."""
    inside = next(
        MysqlPosition(filled.file, event.header.end) for event in filled.events() if type(event).__name__ == "Mapped"
    )
    with pytest.raises(Refused, match="without a preceding table map") as refused:
        list(filled.stream("t", start=inside).items(blocking=False))
    assert "transaction's end" in refused.value.hint


def test_an_end_inside_a_transaction_is_refused(filled: Maria) -> None:
    last = ends(filled.stream("t").items(blocking=False))[4]
    with pytest.raises(Refused, match="is not the end of a transaction"):
        list(filled.stream("t").read(MysqlPosition(last.file, last.offset - 1)))
    file, offset = filled.here()
    with pytest.raises(Refused, match="the binlog ends at"):
        list(filled.stream("t").read(MysqlPosition(file, offset + 100)))


@pytest.mark.parametrize("by_gtid", [False, True])
def test_a_stream_that_is_killed_continues_without_a_loss_or_a_double(filled: Maria, by_gtid: bool) -> None:
    """Another reader repeated 190 of 200 rows by GTID after its connection was killed twice."""
    position, found = filled.position(), list[int]()
    for _ in range(3):
        stream = filled.stream("t", start=position, by_gtid=by_gtid, server_id=4_000_000)
        pending: list[Item] = []
        for count, item in enumerate(stream.items(blocking=False)):
            pending.append(item)
            if isinstance(item, End):
                found += ids(filled, pending)
                pending, position = [], item.position
            if count == 15:
                break  # in the middle of a transaction, or after one
        stream.close()
    stream = filled.stream("t", start=position, by_gtid=by_gtid)
    assert found + ids(filled, stream.items(blocking=False)) == EVERY


def test_a_killed_line_is_a_lost_one(filled: Maria) -> None:
    stream = filled.stream("t")
    items = stream.items(blocking=True)
    while not isinstance(next(items), Alive):
        pass
    (session,) = filled.rows("SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'")[-1]
    filled.run(f"KILL {session}")
    with pytest.raises(Unreachable):
        for _ in items:
            pass


def test_every_session_has_an_hour_to_write_and_to_read(filled: Maria) -> None:
    """A sink can need a minute for a large value: the server's own limit of 60 s would end the session each time."""
    login = Login(support.endpoint(filled.server), filled.server.password(), "slotkeeper/test")
    session = MysqlSession(login)
    try:
        found = session.rows("SELECT @@net_write_timeout, @@net_read_timeout")
    finally:
        session.close()
    assert found == [(3600, 3600)]


def test_an_idle_stream_has_heartbeats(filled: Maria) -> None:
    """Another reader reconnected every two seconds without an error."""
    last = filled.stream("t")
    for item in last.items(blocking=True):
        if isinstance(item, Alive):
            assert (item.position.file, item.position.offset) == filled.here()
            break
    last.close()


def test_a_second_reader_of_one_server_id_is_refused_with_what_it_means(filled: Maria) -> None:
    first = filled.stream("t", server_id=4_100_000)
    items = first.items(blocking=True)
    while not isinstance(next(items), Alive):
        pass
    second = filled.stream("t", server_id=4_100_000)
    others = second.items(blocking=True)
    next(others)
    with pytest.raises(Busy, match="another replica uses this server_id"):
        for _ in items:
            pass
    second.close()


def test_gtids_that_the_server_has_not_are_trouble(filled: Maria) -> None:
    ahead = MysqlPosition(filled.file, filled.offset, MariaState.parse("3-77-99999999"))
    with pytest.raises(Trouble) as trouble:
        list(filled.stream("t", start=ahead, by_gtid=True).items(blocking=False))
    assert trouble.value.name is TroubleName.SOURCE_OLDER


def test_a_file_with_other_gtids_is_trouble(filled: Maria) -> None:
    """The same file names occur again after RESET MASTER, and on every other server."""
    other = MysqlPosition(filled.file, filled.offset, MariaState.parse("3-77-1"))
    with pytest.raises(Trouble, match="has GTIDs") as trouble:
        list(filled.stream("t", start=other).items(blocking=False))
    assert trouble.value.name is TroubleName.SOURCE_OLDER


def test_an_offset_beyond_the_end_is_trouble(filled: Maria) -> None:
    file, offset = filled.here()
    with pytest.raises(Trouble) as trouble:
        list(filled.stream("t", start=MysqlPosition(file, offset + 10_000_000)).items(blocking=False))
    assert trouble.value.name is TroubleName.SOURCE_OLDER


def test_a_purged_file_is_a_lost_position(maria: Maria) -> None:
    gone = MysqlPosition("mysql-bin.999999", FIRST_OFFSET)
    with pytest.raises(Trouble) as trouble:
        list(maria.stream("t", start=gone).items(blocking=False))
    assert trouble.value.name is TroubleName.SLOT_LOST
    assert "snapshot" in trouble.value.hint


def test_a_stream_continues_into_the_next_file(filled: Maria) -> None:
    filled.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (500, 'next')")
    items = list(filled.stream("t").items(blocking=False))
    assert ids(filled, items)[-1] == 500
    assert ends(items)[-1].file != filled.file
    found = list(filled.stream("t").read(ends(items)[-1]))
    assert ids(filled, found) == [*EVERY, 500]


def test_a_change_written_as_a_statement_is_found(filled: Maria) -> None:
    """Rows of a session with binlog_format = STATEMENT have no row events."""
    filled.mark()
    filled.run("SET SESSION binlog_format = 'STATEMENT'", "UPDATE t SET v = 'x' WHERE id < 5")
    filled.run("CREATE TABLE other (id INT PRIMARY KEY)", "INSERT INTO other VALUES (1)")
    statements = [item for item in filled.stream("t").items(blocking=False) if isinstance(item, Statement)]
    assert [one.effect for one in statements] == [Effect.CHANGES, Effect.INDIRECT]


@pytest.mark.parametrize(
    ("statement", "effect"),
    [
        ("ALTER TABLE t ADD COLUMN w INT", Effect.RESHAPES),
        ("TRUNCATE t", Effect.EMPTIES),
        ("RENAME TABLE t TO t2", Effect.EMPTIES),
        ("DROP TABLE t", Effect.EMPTIES),
        ("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, v VARCHAR(20))", Effect.EMPTIES),
        ("CREATE TABLE u (id INT PRIMARY KEY)", None),
        ("CREATE INDEX i ON t (v)", None),
        ("ANALYZE TABLE t", None),
    ],
)
def test_ddl_in_the_middle_loses_no_rows_of_its_batch(filled: Maria, statement: str, effect: Effect | None) -> None:
    """Doris's own job dropped the rows after a DDL in the same batch."""
    position = filled.position()
    filled.run("CREATE TABLE w (id INT PRIMARY KEY)", statement)
    filled.run("INSERT INTO w VALUES (7), (8)")
    items = list(filled.stream("t", "w", start=position).items(blocking=False))
    found = [item.effect for item in items if isinstance(item, Statement) and "`w`" not in item.text]
    assert [one for one in found if one is not Effect.RESHAPES or effect is Effect.RESHAPES][-1:] == (
        [effect] if effect else []
    )
    rows = [item for item in items if isinstance(item, TableRows)]
    assert sum(item.table.table == "t" for item in rows) == 20
    assert [item.table.table for item in rows][-1] == "w"
    assert all(is_end(item) for item in items if isinstance(item, Statement))


def test_updates_and_deletes_have_both_images(filled: Maria) -> None:
    filled.mark()
    filled.run(
        "UPDATE t SET id = 1000 WHERE id = 1", "REPLACE INTO t VALUES (2, 'again')", "DELETE FROM t WHERE id = 3"
    )
    changes = filled.decoded(filled.stream("t").items(blocking=False))
    assert [(one.action.value, list(one.before), list(one.after)) for one in changes] == [
        ("update", [(1, "v")], [(1000, "v")]),
        ("update", [(2, "v")], [(2, "again")]),
        ("delete", [(3, "v")], []),
    ]


def test_a_table_without_transactions_ends_its_changes_too(maria: Maria) -> None:
    """MyISAM ends with the statement COMMIT, not with an XID."""
    maria.run("CREATE TABLE m (id INT PRIMARY KEY) ENGINE = MyISAM")
    maria.mark()
    maria.run("INSERT INTO m VALUES (1), (2)")
    items = list(maria.stream("m").items(blocking=False))
    assert ids(maria, items) == [1, 2] and len(ends(items)) == 1


def test_a_rolled_back_transaction_has_no_rows(filled: Maria) -> None:
    filled.mark()
    filled.run("BEGIN", "INSERT INTO t VALUES (901, 'no')", "ROLLBACK")
    filled.run("BEGIN", "INSERT INTO t VALUES (902, 'a')", "SAVEPOINT s", "INSERT INTO t VALUES (903, 'b')")
    filled.run("ROLLBACK TO s", "COMMIT")
    assert ids(filled, filled.stream("t").items(blocking=False)) == [902]


@pytest.mark.parametrize("image", ["MINIMAL", "NOBLOB"])
def test_a_row_image_that_is_not_full_is_refused(filled: Maria, image: str) -> None:
    """In another reader, absent columns became NULL."""
    filled.run("ALTER TABLE t ADD COLUMN b TEXT")
    filled.mark()
    filled.run(f"SET SESSION binlog_row_image = '{image}'", "UPDATE t SET v = 'x' WHERE id = 5")
    with pytest.raises(ValueError, match="binlog_row_image was not FULL"):
        filled.decoded(filled.stream("t").items(blocking=False))


def test_a_login_without_rights_gets_the_grant(maria: Maria) -> None:
    user = f"'reader_{maria.database}'@'%'"
    maria.run(f"CREATE USER {user} IDENTIFIED BY 'secret'", f"GRANT SELECT ON {maria.database}.* TO {user}")
    session = support.log_in(maria.server, user.split("'")[1], "secret")
    with pytest.raises(AccessRefused) as refused:
        admit(session, "maria", user)
    grant = f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user};"
    assert refused.value.hint == f"As an administrator of source maria, run `{grant}`."
    session.close()
    maria.run(f"GRANT REPLICATION CLIENT ON *.* TO {user}")
    session = support.log_in(maria.server, user.split("'")[1], "secret")
    admit(session, "maria", user)
    stream = Stream(lambda: session, "maria", user, maria.position(), Reading(my.Replica(4_200_000, "", 1.0), []))
    with pytest.raises(AccessRefused) as missing:
        list(stream.items(blocking=False))
    assert missing.value.hint == refused.value.hint
    maria.run(f"DROP USER {user}")


def test_this_server_is_admitted(maria: Maria) -> None:
    facts = read_facts(maria.session)
    assert (facts.is_mariadb and facts.version == (10, 11)) or facts.version > (10, 11)
    assert facts.names_columns and (facts.is_mariadb or facts.of("gtid_mode") == "ON")
    admit(maria.session, "maria", "root")


def test_a_server_that_never_answers_does_not_stop_a_reader(maria: Maria) -> None:
    """The deadline of a call shuts its socket."""
    session = support.log_in(maria.server)
    session.seconds = 0.3
    with pytest.raises(my.NoAnswer):
        session.rows("SELECT SLEEP(30)")
    with pytest.raises(SlotkeeperError):
        raise support.classified(my.NoAnswer(0.3))
