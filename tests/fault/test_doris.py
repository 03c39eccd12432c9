"""A job into the stand-in for Doris: nothing is lost or duplicated, for any lost answer and any killed process."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.errors import Refused, RowRefused, Trouble
from slotkeeper.core.sinks.doris.shape import shadow_of
from slotkeeper.core.sinks.doris.sink import DorisSink
from slotkeeper.demo.doris.faults import Call, Fault
from tests.support.pairs import TABLE, TARGET, DorisPair

ADDED = (
    *("d numeric(9,2)", "f double precision", "s real", "at timestamp(3)", "zoned timestamptz", "j jsonb"),
    *("ok boolean", "note varchar(20)", "day date"),
)
LOST = [(call, fault) for call in (Call.LOAD, Call.TWO_PHASE) for fault in (Fault.LOST_BEFORE, Fault.LOST_AFTER)]


def test_a_table_is_copied_and_followed(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.write(*((key, key) for key in range(100)))
    pair.mirror.start().wait_running()
    pair.write((1, -1), (2, None), (500, 5))
    pair.write((1, None), (1, 7), (500, None))
    with closing(pair.warehouse.connect(True)) as line, line.cursor() as cursor:
        cursor.execute("UPDATE ods.t SET v = -id WHERE id > 50")
    pair.wait_equal()
    assert (pair.repeats(), pair.doris.transactions.running()) == (0, [])


def test_lost_answers_lose_nothing_and_double_nothing(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.write(*((key, key) for key in range(20)))
    pair.mirror.start().wait_running()
    for number, (call, fault) in enumerate([*LOST, (Call.LOAD, Fault.CUT), (Call.LOAD, Fault.TOO_MANY_VERSIONS)]):
        pair.doris.faults.plan(call, fault)
        pair.write((number, -number), (number + 1, None), (1_000 + number, number))
        pair.wait_equal()
        assert pair.doris.faults.left() == 0, (call, fault)
    assert (pair.repeats(), pair.doris.transactions.running()) == (0, [])


def test_a_load_whose_label_ran_out_is_sent_again_and_counted(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.write((1, 1))
    pair.mirror.start().wait_running()
    pair.doris.faults.plan(Call.TWO_PHASE, *[Fault.LOST_AFTER] * 5_000)
    pair.write((1, 2), (2, 2))
    pair.mirror._until(lambda: pair.doris.faults.left() < 5_000, 30, "the answer to be lost")
    pair.mirror.stop()
    assert [row.decided.token != "" for row in pair.mirror.rows() if row.decided is not None]
    pair.doris.transactions.forget()
    while pair.doris.faults.next(Call.TWO_PHASE) is not Fault.NONE:
        pass
    pair.mirror.start().wait_running()
    pair.mirror._until(lambda: all(row.decided is None for row in pair.mirror.rows()), 60, "all to be settled")
    assert 0 < pair.repeats() <= 3, "the events of both rows, on one lane or two"
    assert pair.equal()


def test_a_row_that_the_target_refuses_ends_the_job_with_doriss_own_reason(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.doris.tables.drop("mart", "t")
    pair.doris.create(TARGET, "id BIGINT NOT NULL, v BIGINT NOT NULL", ("id",))
    pair.write((1, 1))
    pair.mirror.start().wait_running()
    with pair.warehouse.connect(True) as line, line.cursor() as cursor:
        cursor.execute("INSERT INTO ods.t VALUES (2, NULL)")
    error = pair.mirror.wait_error()
    assert isinstance(error, RowRefused)
    assert "null value for not null column" in error.message
    assert {row.decided for row in pair.mirror.rows()} == {None}


@pytest.mark.parametrize(
    ("make", "says"),
    [
        ({"model": "DUPLICATE"}, "is not a unique table, key type: DUPLICATE"),
        ({"sign": False}, "don't support batch delete"),
        ({"columns": "id BIGINT NOT NULL, v INT"}, "mart.t.v is int, which cannot hold every bigint"),
        ({"columns": "id BIGINT NOT NULL, v BIGINT, w INT NOT NULL"}, "is NOT NULL without a default"),
        ({"columns": "id BIGINT NOT NULL, v BIGINT, w INT", "merge_on_write": False}, "each change would reset it"),
        ({"sequence": "BIGINT"}, "the sequence column of mart.t is bigint"),
    ],
)
def test_a_target_that_cannot_be_mirrored_into_is_refused_by_name(
    doris_pair: DorisPair, make: dict[str, object], says: str
) -> None:
    pair = doris_pair
    pair.doris.tables.drop("mart", "t")
    made = {"columns": "id BIGINT NOT NULL, v BIGINT", "key": ("id",), **make}
    pair.doris.create(TARGET, **made)  # type: ignore[arg-type]
    pair.mirror.start()
    error = pair.mirror.wait_error()
    assert isinstance(error, Refused)
    assert says in error.message


def test_a_sequence_column_takes_the_order_of_changes(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.doris.tables.drop("mart", "t")
    pair.doris.create(TARGET, "id BIGINT NOT NULL, v BIGINT", ("id",), sequence="LARGEINT")
    pair.write((1, 1), (2, 2))
    pair.mirror.start().wait_running()
    pair.write((1, -1), (2, None))
    pair.write((2, 3))
    pair.wait_equal()


def test_a_target_is_made_with_the_sources_columns_and_key(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.doris.tables.drop("mart", "t")
    with closing(pair.warehouse.connect(True)) as line, line.cursor() as cursor:
        for added in ADDED:
            cursor.execute(f"ALTER TABLE {TABLE} ADD COLUMN {added}")
        values = "now()::timestamp(3), now(), '{\"a\": 1}', g % 2 = 0, 'tab\there', date '2020-02-29'"
        cursor.execute(
            f"INSERT INTO {TABLE} SELECT g, -g, g / 3.0, CASE g WHEN 7 THEN 'NaN' ELSE g / 3.0 * 10 ^ (g - 20) END,"
            f" g / 7.0, {values} FROM generate_series(1, 40) g"
        )
    pair.mirror.job = replace(pair.mirror.job, channels=(ChannelSpec(TABLE, TARGET, create_target=True),))
    pair.mirror.start().wait_running()
    made = pair.doris.tables.find("mart", "t")
    assert made is not None
    assert (made.model, made.key, made.delete_sign, made.sequence) == ("UNIQUE", ("id",), True, "")
    assert [one.type for one in made.columns] == [
        *("BIGINT", "BIGINT", "DECIMAL(9,2)", "DOUBLE", "FLOAT", "DATETIME(3)"),
        *("STRING", "STRING", "BOOLEAN", "STRING", "DATE"),
    ]
    pair.write((1, 1), (2, None))
    pair.wait_equal()


def test_a_copy_that_replaces_shows_the_old_rows_until_its_end(doris_pair: DorisPair) -> None:
    pair, seen = doris_pair, []
    pair.doris.tables.query("INSERT INTO mart.t VALUES (77, 77)")
    pair.write((1, 1), (2, 2))
    pair.mirror.start()
    error = pair.mirror.wait_error()
    assert isinstance(error, Refused)
    assert "mart.t is not empty" in error.message
    pair.mirror.job = replace(pair.mirror.job, on_existing="replace")

    def looked(point: str) -> None:
        if point == "after_chunk_commit":
            seen.append([row[0] for row in pair.doris.tables.query("SELECT id FROM mart.t")[1]])

    pair.mirror.start(probe=looked).wait_running()
    assert seen
    assert seen == [[77]] * len(seen)
    pair.wait_equal()
    assert pair.doris.tables.names("mart") == ["t"]


def test_a_replacing_copy_whose_table_is_gone_is_not_guessed_at(
    doris_pair: DorisPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = doris_pair
    failed: list[int] = []
    pair.doris.tables.query("INSERT INTO mart.t VALUES (77, 77)")
    pair.write((1, 1))
    pair.mirror.job = replace(pair.mirror.job, on_existing="replace")
    real = DorisSink.write_chunk

    def once(*given: object) -> None:
        real(*given)  # type: ignore[arg-type]
        if not failed:
            failed.append(1)
            raise Refused("stopped here", where="sink")

    monkeypatch.setattr(DorisSink, "write_chunk", once)
    pair.mirror.start()
    assert isinstance(pair.mirror.wait_error(), Refused)
    database, _, name = shadow_of(TARGET).partition(".")
    pair.doris.tables.drop(database, name)
    pair.mirror.start()
    error = pair.mirror.wait_error()
    assert isinstance(error, Refused)
    assert "the shadow table of mart.t does not exist" in error.message
    assert [row[0] for row in pair.doris.tables.query("SELECT id FROM mart.t")[1]] == [77]


def test_a_merge_into_rows_with_a_sequence_is_refused(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.doris.tables.drop("mart", "t")
    pair.doris.create(TARGET, "id BIGINT NOT NULL, v BIGINT", ("id",), sequence="LARGEINT")
    pair.doris.tables.query("INSERT INTO mart.t VALUES (77, 77, 5)")
    pair.mirror.job = replace(pair.mirror.job, on_existing="merge")
    pair.mirror.start()
    error = pair.mirror.wait_error()
    assert isinstance(error, Refused)
    assert "copied rows would not replace them" in error.message


def test_a_database_that_is_dropped_while_it_runs_is_named(doris_pair: DorisPair) -> None:
    pair = doris_pair
    pair.write((1, 1))
    pair.mirror.start().wait_running()
    pair.doris.tables.drop_database("mart")
    pair.write((1, 2))
    error = pair.mirror.wait_error()
    assert isinstance(error, Refused | Trouble)
    assert "nknown database" in error.message or "target mart.t no longer exists" in error.message
