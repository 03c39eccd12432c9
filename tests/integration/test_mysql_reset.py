"""RESET MASTER at a real MariaDB: the file name is reused, and no row of the new file is taken for an old one.

Statements of the same sizes before and after the reset make the same offsets and the same GTIDs, so that nothing but
the file's creation tells the two files apart.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.sources.mysql.position import MysqlPosition, ours, parse_position
from slotkeeper.core.sources.mysql.transactions import End
from tests.support.maria import Maria
from tests.support.pairs import TABLE, MysqlPair
from tests.support.waiting import until

CHANGE = f"UPDATE {TABLE} SET v = v + 1"
BEFORE, AT, PAST = 2, 3, 5
"""The number of changes in the new file; the position is after the third change of the old file."""


def reset(pair: MysqlPair) -> None:
    """Reset the binlog in a later second than that in which its file was created."""
    (created,) = pair.rows("SELECT UNIX_TIMESTAMP()")[0]
    until(lambda: pair.rows("SELECT UNIX_TIMESTAMP()")[0][0] > created, 5, "the next second")
    pair.run("RESET MASTER")


def position(pair: MysqlPair) -> MysqlPosition:
    (row,) = pair.mirror.rows()
    assert row.position is not None
    return ours(row.position)


def newest(pair: MysqlPair) -> tuple[str, int]:
    file, offset = pair.rows("SHOW MASTER STATUS")[0][:2]
    return str(file), int(offset)


def streamed(pair: MysqlPair) -> tuple[str, int]:
    """Run the job until it has applied the third change of a new file; return the position there."""
    pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_20", "RESET MASTER", CHANGE, CHANGE)
    pair.mirror.start().wait_running()
    pair.run(CHANGE)
    place = newest(pair)
    until(lambda: (position(pair).file, position(pair).offset) == place, 30, "the third change to be applied")
    pair.wait_equal()
    return place


def values(pair: MysqlPair) -> set[int]:
    return {value - key for key, value in pair.mirror.query(pair.mirror.sink, "SELECT id, v FROM mart.t")}


@pytest.mark.parametrize("changes", [BEFORE, AT, PAST], ids=["before", "at", "past"])
def test_a_stopped_job_names_a_binlog_that_was_reset(mysql_pair: MysqlPair, changes: int) -> None:
    place = streamed(mysql_pair)
    mysql_pair.mirror.stop()
    reset(mysql_pair)
    mysql_pair.run(*[CHANGE] * changes)
    assert (newest(mysql_pair) > place) - (newest(mysql_pair) < place) == (changes > AT) - (changes < AT)
    error = mysql_pair.mirror.start().wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SOURCE_OLDER, error
    assert values(mysql_pair) == {3}


@pytest.mark.parametrize(
    "changes",
    [pytest.param(BEFORE, marks=pytest.mark.chaos), AT, PAST],  # an older newest position counts after ten seconds
    ids=["before", "at", "past"],
)
def test_a_running_job_names_a_binlog_that_was_reset(mysql_pair: MysqlPair, changes: int) -> None:
    place = streamed(mysql_pair)
    reset(mysql_pair)
    mysql_pair.run(*[CHANGE] * changes)
    assert (newest(mysql_pair) > place) - (newest(mysql_pair) < place) == (changes > AT) - (changes < AT)
    if changes == AT:
        mysql_pair.run(CHANGE)
    error = mysql_pair.mirror.wait_error()
    assert isinstance(error, Trouble) and error.name is TroubleName.SOURCE_OLDER, error
    assert values(mysql_pair) == {3}


def test_a_position_without_a_creation_continues_and_gets_one(maria: Maria) -> None:
    """The position is in the format of an earlier version."""
    maria.run("CREATE TABLE t (id INT PRIMARY KEY)")
    maria.run("INSERT INTO t VALUES (1)")
    maria.mark()
    start = maria.position()
    assert parse_position(start.text).born is None
    maria.run("INSERT INTO t VALUES (2)")
    items = list(maria.stream("t", start=start).items(blocking=False))
    assert [row for one in maria.decoded(items) for row in one.after] == [(2,)]
    born = [item.position.born for item in items if isinstance(item, End)]
    assert born and born[0] is not None
    again = replace(start, born=born[0])
    assert list(maria.stream("t", start=again).items(blocking=False)) == items
    with pytest.raises(Trouble, match="was created") as trouble:
        list(maria.stream("t", start=replace(start, born=(born[0][0] - 1, born[0][1]))).items(blocking=False))
    assert trouble.value.name is TroubleName.SOURCE_OLDER


def test_the_next_file_has_a_creation_of_its_own(maria: Maria) -> None:
    maria.run("CREATE TABLE t (id INT PRIMARY KEY)")
    start = maria.position()
    created = started(maria, start)
    until(lambda: maria.rows("SELECT UNIX_TIMESTAMP()")[0][0] > created, 5, "the next second")
    maria.run("FLUSH BINARY LOGS", "INSERT INTO t VALUES (1)")
    ends = [item.position for item in maria.stream("t", start=start).items(blocking=False) if isinstance(item, End)]
    assert ends[-1].file != start.file and ends[-1].born is not None
    assert ends[-1].born[0] > created
    assert parse_position(ends[-1].text).born == ends[-1].born


def started(maria: Maria, start: MysqlPosition) -> int:
    stream = maria.stream("t", start=start)
    list(stream.items(blocking=False))
    assert stream.here.born is not None
    return stream.here.born[0]
