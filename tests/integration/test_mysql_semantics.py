"""The rows that MariaDB's statements produce, and invalid positions: each as `docs/binlog-load.md` lists it."""

from __future__ import annotations

import pytest

from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.sources.mysql.events import Action
from slotkeeper.core.sources.mysql.position import MysqlPosition
from tests.support.maria import Maria
from tests.support.waiting import until


@pytest.fixture
def kept(maria: Maria) -> Maria:
    """A table with two rows, and the binlog after it."""
    maria.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t VALUES (1, 1), (2, 2)")
    maria.mark()
    return maria


def inserted(maria: Maria, table: str) -> list[tuple[object, ...]]:
    changes = maria.decoded(maria.stream(table).items(blocking=False))
    return [row for one in changes for row in one.after]


def kinds(maria: Maria, table: str) -> list[Action]:
    return [one.action for one in maria.decoded(maria.stream(table).items(blocking=False))]


def test_a_replace_and_an_insert_on_duplicate_key_come_as_updates(kept: Maria) -> None:
    kept.run("REPLACE INTO t VALUES (1, 10)", "INSERT INTO t VALUES (2, 0) ON DUPLICATE KEY UPDATE v = 20")
    assert kinds(kept, "t") == [Action.UPDATE, Action.UPDATE]


def test_a_temporary_table_of_the_same_name_has_no_rows_and_stops_nothing(kept: Maria) -> None:
    kept.run("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY, w TEXT)", "INSERT INTO t VALUES (9, 'x')")
    kept.run("DROP TEMPORARY TABLE t", "INSERT INTO t VALUES (3, 3)")
    assert inserted(kept, "t") == [(3, 3)]


def test_a_sequences_own_rows_are_none_of_a_followed_table(kept: Maria) -> None:
    kept.run("CREATE SEQUENCE s", "INSERT INTO t VALUES (3, nextval(s))")
    assert inserted(kept, "t") == [(3, 1)]


def test_a_delete_in_a_system_versioned_table_is_an_update_of_its_row_end(maria: Maria) -> None:
    maria.run("CREATE TABLE h (id INT PRIMARY KEY) WITH SYSTEM VERSIONING", "INSERT INTO h VALUES (1)")
    maria.mark()
    maria.run("DELETE FROM h WHERE id = 1")
    assert Action.DELETE not in kinds(maria, "h") and Action.UPDATE in kinds(maria, "h")


def test_a_place_in_the_middle_of_an_event_is_refused(kept: Maria) -> None:
    """The server reports error 1236 with one of two texts, and never other rows."""
    place = kept.position()
    kept.run("INSERT INTO t VALUES (3, 3)")
    for inside in (1, 7, 20):
        with pytest.raises(SlotkeeperError):
            list(kept.stream("t", start=MysqlPosition(place.file, place.offset + inside)).items(blocking=False))


def test_gtids_whose_binlog_was_purged_are_a_lost_position(kept: Maria) -> None:
    before = kept.position()
    kept.run("INSERT INTO t VALUES (3, 3)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS")
    newest, _ = kept.here()

    def purged() -> bool:
        kept.run(f"PURGE BINARY LOGS TO '{newest}'")
        return len(kept.rows("SHOW BINARY LOGS")) == 1

    until(purged, 20, "the old binlogs to be purged")
    with pytest.raises(Trouble) as trouble:
        list(kept.stream("t", start=before, by_gtid=True).items(blocking=False))
    assert trouble.value.name is TroubleName.SLOT_LOST
