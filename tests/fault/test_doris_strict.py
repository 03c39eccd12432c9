"""A job into a Doris with its limits: keywords as names, long values, late publishing, few labels, a lost BE."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.errors import RowRefused
from slotkeeper.core.sinks.doris import sink as loads
from slotkeeper.demo.doris.faults import Call, Fault
from slotkeeper.demo.doris.tables import STRING_LIMIT
from slotkeeper.demo.doris.transactions import State
from tests.contract.test_doris_quarantine import entries
from tests.fault.test_doris_kills import Applied
from tests.support.pairs import TABLE, TARGET, DorisPair
from tests.support.waiting import until

MANY = 5_000
NAMES = 'ADD COLUMN "order" bigint, ADD COLUMN "größe" text, ADD COLUMN "a,b" bigint'


def alter(pair: DorisPair, change: str, columns: str) -> None:
    """Change the source's table, and create the target with these columns."""
    with closing(pair.warehouse.connect(True)) as line, line.cursor() as cursor:
        cursor.execute(f"ALTER TABLE {TABLE} {change}")
    pair.doris.tables.drop("mart", "t")
    pair.doris.create(TARGET, columns, ("id",))


def put(pair: DorisPair, statement: str) -> None:
    with closing(pair.warehouse.connect(True)) as line, line.cursor() as cursor:
        cursor.execute(statement)


def end(pair: DorisPair, call: Call) -> None:
    """Remove all planned faults of a call."""
    while pair.doris.faults.next(call) is not Fault.NONE:
        pass


def told(pair: DorisPair, text: str) -> Callable[[], bool]:
    """Whether a retry of the job, or a lane that waits for its next attempt, contains this text."""
    heard = pair.mirror.heard
    return lambda: any(text in one for one in (*heard.retries, *(lane.error for lane in heard.now.values())))


def test_columns_named_by_keywords_and_odd_characters_are_copied_and_followed(doris_pair: DorisPair) -> None:
    pair = doris_pair
    alter(pair, NAMES, "id BIGINT NOT NULL, v BIGINT, order BIGINT, größe STRING, a_b BIGINT")
    pair.doris.tables.rename_column("mart", "t", "a_b", "a,b")
    put(pair, f"INSERT INTO {TABLE} SELECT g, g, -g, 'grün', g * 2 FROM generate_series(1, 20) g")
    pair.mirror.start().wait_running()
    put(pair, f'UPDATE {TABLE} SET "order" = 7, "größe" = NULL, "a,b" = id WHERE id < 5')
    put(pair, f"DELETE FROM {TABLE} WHERE id = 9")
    pair.wait_equal()
    assert pair.repeats() == 0


def test_bytes_beyond_a_strings_limit_stop_the_job_by_name_and_a_raised_limit_takes_them(
    doris_pair: DorisPair,
) -> None:
    pair = doris_pair
    alter(pair, "ADD COLUMN doc bytea", "id BIGINT NOT NULL, v BIGINT, doc STRING")
    pair.mirror.start().wait_running()
    most = (1_048_576 - 2) // 2
    put(pair, f"INSERT INTO {TABLE} VALUES (1, 1, decode(repeat('ab', {most}), 'hex'))")
    pair.wait_equal()
    put(pair, f"INSERT INTO {TABLE} VALUES (2, 2, decode(repeat('ab', {most + 1}), 'hex'))")
    error = pair.mirror.wait_error()
    assert isinstance(error, RowRefused)
    assert "column_name[doc]" in error.message
    assert "limit length: 1048576; actual length: 1048578" in error.message
    assert {row.decided for row in pair.mirror.rows()} == {None}
    pair.doris.tables.be_conf[STRING_LIMIT] = "2097152"
    pair.mirror.start().wait_running()
    pair.wait_equal()
    assert pair.repeats() == 0


def test_a_value_beyond_a_strings_limit_is_quarantined_with_its_column_and_the_others_arrive(
    doris_pair: DorisPair,
) -> None:
    pair = doris_pair
    alter(pair, "ADD COLUMN doc text", "id BIGINT NOT NULL, v BIGINT, doc STRING")
    pair.doris.tables.be_conf[STRING_LIMIT] = "100"
    options = SinkOptions(on_bad_row="quarantine", quarantine_limit=20)
    pair.mirror.job = replace(pair.mirror.job, sink_options=options)
    put(pair, f"INSERT INTO {TABLE} VALUES (1, 1, repeat('x', 101)), (2, 2, repeat('x', 100))")
    pair.mirror.start().wait_running()
    put(pair, f"INSERT INTO {TABLE} VALUES (3, 3, repeat('é', 51)), (4, 4, repeat('é', 50))")
    until(lambda: sorted(one.key for one in entries(pair)) == [("1",), ("3",)], 30, "two rows in quarantine")
    assert {(one.column, one.sqlstate) for one in entries(pair)} == {("doc", "22001")}
    assert all("limit length: 100; actual length: 10" in one.message for one in entries(pair))
    there = "SELECT id, length(doc) FROM mart.t ORDER BY id"
    until(lambda: pair.doris.tables.query(there)[1] == [(2, 100), (4, 50)], 30, "the other rows, whole")


def test_a_load_that_is_committed_and_not_visible_holds_its_lane_and_is_neither_lost_nor_doubled(
    doris_pair: DorisPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, applied = doris_pair, Applied()
    applied.count(monkeypatch)
    monkeypatch.setattr(loads, "VISIBLE_SECONDS", 0.1)
    pair.mirror.start().wait_running()
    pair.doris.transactions.lose_backend()
    pair.write((1, 1))
    until(told(pair, "is committed but not visible yet"), 30, "the load to be named")
    assert any(row.decided is not None for row in pair.mirror.rows()), "no position is ahead of what readers can see"
    assert not pair.equal()
    pair.mirror.stop()
    pair.mirror.start()
    pair.doris.transactions.backend_returns()
    pair.wait_equal()
    pair.mirror._until(lambda: all(row.decided is None for row in pair.mirror.rows()), 60, "all to be settled")
    assert (applied.rows[1], pair.repeats()) == (1, 0)


def test_a_copy_ends_once_its_rows_are_visible(doris_pair: DorisPair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = doris_pair
    monkeypatch.setattr(loads, "VISIBLE_SECONDS", 0.1)
    pair.write((1, 1), (2, 2))
    pair.doris.transactions.lose_backend()
    pair.mirror.start()
    until(told(pair, "is committed but not visible yet"), 30, "the chunk's load to be named")
    assert not pair.equal()
    pair.doris.transactions.backend_returns()
    pair.mirror.wait_running()
    assert pair.equal()


def test_a_label_that_few_later_loads_push_out_is_sent_again_and_counted(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.write((1, 1))
    pair.mirror.start().wait_running()
    pair.doris.faults.plan(Call.TWO_PHASE, *[Fault.LOST_AFTER] * MANY)
    pair.write((1, 2), (2, 2))
    pair.mirror._until(lambda: pair.doris.faults.left() < MANY, 30, "the answer to be lost")
    pair.mirror.stop()
    armed = [row.decided.label for row in pair.mirror.rows() if row.decided is not None and row.decided.token]
    assert armed
    end(pair, Call.TWO_PHASE)
    pair.doris.transactions.label_most = 2
    for label in ("another", "and another"):  # loads of other clients into the same database
        pair.doris.transactions.finish(pair.doris.transactions.begin("mart", label, 60))
    assert {pair.doris.transactions.state("mart", label) for label in armed} == {State.UNKNOWN}
    pair.mirror.start().wait_running()
    pair.mirror._until(lambda: all(row.decided is None for row in pair.mirror.rows()), 60, "all to be settled")
    assert 0 < pair.repeats() <= 3, "the events of both rows, on one lane or two"
    assert pair.equal()


def test_a_backend_that_is_lost_between_the_phases_and_returns_has_the_load_once(
    doris_pair: DorisPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, applied = doris_pair, Applied()
    applied.count(monkeypatch)
    pair.mirror.start().wait_running()
    pair.doris.faults.plan(Call.TWO_PHASE, *[Fault.DEAD_BACKEND] * MANY)
    pair.write((1, 1))
    pair.mirror._until(lambda: pair.doris.faults.left() < MANY - 2, 30, "a second phase to fail twice")
    assert [one.state for one in pair.doris.transactions.running()] == [State.PRECOMMITTED]
    assert not pair.equal()
    end(pair, Call.TWO_PHASE)
    pair.wait_equal()
    assert (applied.rows[1], pair.repeats(), pair.doris.backend.loads) == (1, 0, 1)


def test_a_load_that_is_aborted_while_its_backend_is_lost_is_sent_again_and_is_not_a_repeat(
    doris_pair: DorisPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, applied = doris_pair, Applied()
    applied.count(monkeypatch)
    pair.mirror.start().wait_running()
    pair.doris.faults.plan(Call.TWO_PHASE, *[Fault.NO_BACKEND] * MANY)
    pair.write((1, 1))
    pair.mirror._until(lambda: pair.doris.faults.left() < MANY, 30, "a second phase to fail")
    for one in pair.doris.transactions.running():
        pair.doris.transactions.abort(one.database, one.id, "timeout by txn manager")
    end(pair, Call.TWO_PHASE)
    pair.wait_equal()
    assert (applied.rows[1], pair.repeats()) == (1, 0)
    assert pair.doris.backend.loads >= 2
