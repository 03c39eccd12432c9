"""Hologres read over its binlog stream: the same rows as with SQL, for all types, ranges and messages."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

import pytest

from slotkeeper.console.monitor.snapshot import TableSeen
from slotkeeper.console.views.slots import SlotFacts, keeps_nothing, shard_columns, slot_risk
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.errors import Refused
from slotkeeper.core.services.slot_commands import own_lanes
from slotkeeper.core.slots.status import SlotView, read_table, retained
from slotkeeper.core.sources.hologres.words import WORDS
from slotkeeper.demo.hologres.instance import Hologres
from tests.contract.test_hologres_surface import findings
from tests.support.hologres import TABLE, HoloPair, MakeHologres, job_over
from tests.support.mirror import MakeMirror
from tests.unit.config.test_hologres_keys import made

VALUES = {
    "smallint": "(i % 30000 - 15000)::smallint",
    "integer": "i * 7919 - 100000",
    "bigint": "i::bigint * 1234567890123",
    "oid": "(4294967295 - i)::oid",
    "real": "(i / 7.0)::real",
    "double precision": "i / 3.0::float8",
    "boolean": "i % 2 = 0",
    "numeric(12,2)": "(i - 20) * 1.37",
    "numeric(38,10)": "(i - 20) * 12345678901234567.0123456789",
    "text": "repeat('ß' || i || E'\\t\\n\\\\', i % 9)",
    "varchar(40)": "'v' || i",
    "char(5)": "left(i::text, 5)",
    "date": "date '0001-12-31 BC' + i * 40000",
    "time": "time '00:00' + i * interval '1234.567891 s'",
    "timetz": "(time '00:00' + i * interval '1 s')::text::timetz AT TIME ZONE make_interval(mins => i % 800 - 400)",
    "timestamp": "timestamp '1969-12-31 23:59:59.999999' + i * interval '1 us'",
    "timestamptz": "timestamptz '1970-01-01 00:00:00+00' - i * interval '1 ms'",
    "json": """('{"a": ' || i || ', "ü": [1,  2]}')::json""",
    "jsonb": "jsonb_build_object('n', i, 'list', jsonb_build_array(i, NULL))",
    "bytea": "decode(repeat(lpad(to_hex(i % 256), 2, '0'), i % 12), 'hex')",
    "int4[]": "ARRAY[i, NULL, -i]",
    "int8[]": "ARRAY[i::bigint * 9999999999]",
    "float4[]": "ARRAY[0.1::real, i::real]",
    "float8[]": "ARRAY[i / 3.0::float8, 'NaN']",
    "boolean[]": "ARRAY[true, NULL, i % 2 = 0]",
    "text[]": """ARRAY['', NULL, 'NULL', 'a "b" \\', 'seven77', repeat('x', i)]""",
}


def test_both_ways_bring_the_same_rows_of_every_type_whatever_ranges_and_messages(
    hologres: Hologres, make_mirror: MakeMirror, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    columns = ", ".join(f"c{place} {type_}" for place, type_ in enumerate(VALUES))
    hologres.create_table(TABLE, f"id bigint, {columns}", ("id",))
    values = ", ".join(
        f"CASE WHEN (i * 31 + {n}) % 11 = 0 THEN NULL ELSE {text} END" for n, text in enumerate(VALUES.values())
    )
    hologres.rows(f"INSERT INTO {TABLE} SELECT i, {values} FROM generate_series(1, 60) i RETURNING 1")
    hologres.rows(f"UPDATE {TABLE} SET c9 = c9 || '!' WHERE id % 3 = 0 RETURNING 1")
    hologres.updates_as("2+5")
    hologres.rows(f"UPDATE {TABLE} SET c1 = c1 + 1 WHERE id % 4 = 0 RETURNING 1")
    hologres.rows(f"DELETE FROM {TABLE} WHERE id % 5 = 0 RETURNING 1")
    pair = HoloPair(hologres, job_over(hologres, make_mirror))
    by_sql, _ = pair.read()
    for width, size, compressed in (
        (1_000_000, 1_024, False),
        (chance.randint(2, 9), chance.randint(1, 9), True),
        (1, 3, False),
    ):
        pair.options(read_by="stream", binlog_read_batch_size=size, enable_compression=compressed)
        streams = len(hologres.faults.streams)
        assert pair.read(width) == (by_sql, []), (width, size)
        begun = hologres.faults.streams[streams:]
        assert len(begun) == 4, "one for each shard, regardless of the ranges"
        assert all(("\"enable_compression\" 'true'" in one) == compressed for one in begun)
        assert all(f"\"batch_size\" '{size}'" in one for one in begun)
    assert hologres.faults.messages > 60


def test_a_job_by_stream_copies_follows_and_resumes_from_its_rows(holo_pair: HoloPair, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    mirror, hologres = holo_pair.mirror, holo_pair.hologres
    holo_pair.options(read_by="stream", binlog_read_batch_size=7)
    holo_pair.write(*((key, key) for key in range(1, 101)))
    before = len(hologres.log(TABLE))
    for way in ("3+7", "2+5"):
        mirror.start().wait_running()
        hologres.updates_as(way)
        for _ in range(5):
            some = chance.sample(range(1, 160), 12)
            holo_pair.write(*((key, None if chance.random() < 0.3 else chance.randrange(1_000)) for key in some))
        records = len(hologres.log(TABLE)) - before
        holo_pair.wait_applied(records)
        mirror.stop()
        assert sum(mirror.changes().values()) == records
        assert mirror.difference() == (0, 0)
    assert hologres.faults.messages > 0 and all("SLOT null" in one for one in hologres.faults.streams)


@pytest.mark.parametrize("ignored", ["binlog_ignore_delete", "binlog_ignore_before_update"])
def test_what_is_ignored_is_left_out_on_either_way(holo_pair: HoloPair, ignored: str) -> None:
    for value in (1, 2, None):
        holo_pair.write(*((key, value) for key in range(1, 21)))
    whole, _ = holo_pair.read()
    holo_pair.options(**{ignored: True})
    by_sql, _ = holo_pair.read(width=3)
    holo_pair.options(read_by="stream")
    assert holo_pair.read(width=3) == (by_sql, [])
    assert {shard: len(rows) < len(whole[shard]) for shard, rows in by_sql.items()} == dict.fromkeys(whole, True)


def test_what_no_stream_can_send_is_refused_by_name_and_doctor_says_so(
    make_hologres: MakeHologres, make_mirror: MakeMirror
) -> None:
    hologres = make_hologres()
    hologres.create_table(TABLE, "id bigint, odd uuid", ("id",))
    pair = HoloPair(hologres, job_over(hologres, make_mirror))
    with closing(pair.connection()) as session:
        session.table(TableAsked.of(pair.mirror.job)).source.admit()
        pair.options(read_by="stream")
        with pytest.raises(
            Refused, match="column 'odd' is uuid: a Hologres binlog stream cannot send this type"
        ) as told:
            session.table(TableAsked.of(pair.mirror.job)).source.admit()
        assert 'read_by = "sql"' in told.value.hint
        assert any("column 'odd' is uuid" in text for text in findings(pair)[Level.FAIL])
    hologres.create_table("ods.u", "id bigint", ("id",))
    pair = HoloPair(hologres, job_over(hologres, make_mirror, "ods.u"))
    pair.options(read_by="stream")
    with closing(pair.connection()) as session:
        hologres.rows("UPDATE hg_standin.setting SET value = 'Hologres 2.0.30' WHERE name = 'version' RETURNING 1")
        with pytest.raises(Refused, match=r"streams ods\.u only to a slot"):
            session.table(TableAsked.of(pair.mirror.job)).source.admit()
        hologres.rows("UPDATE hg_standin.setting SET value = 'Hologres 3.1.9' WHERE name = 'version' RETURNING 1")
        session.table(TableAsked.of(pair.mirror.job)).source.admit()
        assert any("by stream, without a slot" in text for text in findings(pair)[Level.OK])
        pair.options(enable_compression=True)
        with pytest.raises(Refused, match="cannot compress a stream"):
            session.table(TableAsked.of(pair.mirror.job)).source.admit()


def test_doctor_names_slots_of_others_and_no_slotkeeper_verb_makes_or_drops_one(holo_pair: HoloPair) -> None:
    hologres = holo_pair.hologres
    assert not any("other owners have slots" in text for text in findings(holo_pair)[Level.OK])
    hologres.rows(f"CREATE PUBLICATION p FOR TABLE {TABLE}; SELECT 1")
    hologres.rows("CALL hg_create_logical_replication_slot('theirs', 'hgoutput', 'p'); SELECT 1")
    assert any("have slots on the table: theirs (publication p)" in text for text in findings(holo_pair)[Level.OK])
    with closing(holo_pair.connection()) as session:
        table = session.table(TableAsked(TABLE, "theirs", holo_pair.mirror.job.binlog))
        assert table.slot is None
        assert read_table(table.inspector, TABLE).points is None


def test_a_lane_that_does_not_advance_counts_down_to_when_unread_records_go(holo_pair: HoloPair) -> None:
    holo_pair.hologres.set_property(TABLE, "binlog.ttl", "1000")
    holo_pair.options(read_by="stream")
    holo_pair.write(*((key, key) for key in range(1, 41)))
    holo_pair.mirror.start().wait_running().stop()
    job = holo_pair.mirror.job
    with closing(holo_pair.connection()) as session:
        inspector = session.table(TableAsked(TABLE, "", job.binlog)).inspector
        answer = read_table(inspector, TABLE)
        found = retained(inspector, answer, None, lambda: {job.slot: own_lanes(job, answer.now)}, WORDS)
    assert found is not None and "no job uses a server slot" in found.words.no_list
    slot = found.slot(job.slot)
    assert slot.left is not None and 0 < slot.left.seconds <= 1_000 and len(slot.shards) == 4
    assert any("the server deletes records older than binlog.ttl" in said for said in found.untold)
    facts = SlotFacts(TableSeen("holo1", TABLE, found.now, None, found), SlotView(job.slot, job.name, None), slot)
    assert not keeps_nothing(facts) and "read or not, unless it advances" in slot_risk(facts, found.now)[1]
    assert [column.key for column in shard_columns(facts)][-3:] == ["left", "bar", "deadline"]


def test_the_way_is_set_by_its_key(tmp_path: Path) -> None:
    assert not made(tmp_path, "").binlog.by_stream
    spec = made(tmp_path, 'read_by = "stream"\nenable_compression = true')
    assert spec.binlog.by_stream and spec.binlog.enable_compression
