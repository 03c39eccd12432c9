"""Single records reach a Doris once, whatever is killed: its loads are planned in the store."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core import library
from slotkeeper.core.config.model import Loaded, SinkEntry
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.errors import Refused, RowRefused, SlotkeeperError, Unreachable
from slotkeeper.core.library import RecordSink, TableWriter
from slotkeeper.core.ports.sink import QueryBatch, QuerySink, QueryTarget, Staged
from slotkeeper.core.sinks.postgres.write.planned_query import PlannedQuerySink
from slotkeeper.core.wiring.query import query_sink
from slotkeeper.demo.doris.faults import Call, Fault
from slotkeeper.demo.doris.server import DorisStandin
from tests.support.hand_clock import Hand
from tests.support.mirror import Mirror
from tests.support.pairs import TARGET, DorisPair, doris_endpoint
from tests.support.polling import config, job


@pytest.fixture
def mirror(doris_pair: DorisPair) -> Mirror:
    return doris_pair.mirror


@pytest.fixture
def loaded(mirror: Mirror, doris: DorisStandin, tmp_path: Path) -> Loaded:
    assert mirror.job.store is not None
    made = job("own", "own_slot", "ods.t", "mart.unused")
    found = library.load(str(config(tmp_path, mirror.job.source, mirror.job.store, made)))
    return replace(found, sinks={**found.sinks, "dor": SinkEntry("dor", "doris", doris_endpoint(doris), store="mart")})


def opened(loaded: Loaded, writer: str = "billing") -> TableWriter:
    return RecordSink(loaded, "dor", writer, Hand()).table(TARGET, ["id"], ["id", "v"])


def there(doris: DorisStandin) -> list[tuple[object, ...]]:
    return doris.tables.query(f"SELECT id, v FROM {TARGET} ORDER BY id")[1]


def test_the_last_record_of_a_key_counts_and_the_position_is_in_the_store(loaded: Loaded, doris: DorisStandin) -> None:
    table = opened(loaded)
    for id, value in (("01", 9), (1, 10), ("+1", 11), (2, None), (3, 3)):
        table.upsert({"id": id, "v": value})  # several spellings of a number are one key
    table.delete({"id": 3})
    table.advance(41)
    table.flush()
    assert there(doris) == [(1, 11), (2, None)]
    table.advance(42)
    table.flush()
    assert opened(loaded).position == 42
    with pytest.raises(Refused, match="query writer billing"):
        opened(loaded, "other")
    later = opened(loaded)
    table.upsert({"id": 9, "v": 9})
    table.advance()
    with pytest.raises(Refused, match="query writer billing"):
        table.flush()
    later.upsert({"id": 1, "v": "no number"})
    later.advance()
    with pytest.raises(RowRefused, match="rejects 1 of 1 rows"):
        later.flush()
    assert opened(loaded).position == 42 and there(doris) == [(1, 11), (2, None)]
    assert doris.transactions.running() == []


def test_a_program_killed_anywhere_writes_each_record_once(
    loaded: Loaded, mirror: Mirror, doris: DorisStandin, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance, log = random.Random(seed), list(range(60))
    swap = PlannedQuerySink._swap

    def failing(*given: object, **more: bool) -> bool:
        if chance.random() < 0.15:
            raise Unreachable("cut before")
        done = swap(*given, **more)  # type: ignore[arg-type]
        if chance.random() < 0.15:
            raise Unreachable("the answer is lost")
        return done

    with monkeypatch.context() as patched:
        patched.setattr(PlannedQuerySink, "_swap", failing)
        lost = killed(loaded, doris, chance, log)
    assert lost and opened(loaded).position == 59
    last = {offset % 7: offset for offset in log}
    assert there(doris) == sorted(last.items())
    written = mirror.query(mirror.sink, "SELECT rows, plan FROM slotkeeper_streams")
    assert written == [(60, None)]  # the store adds up the records of committed batches
    assert [one for one in doris.transactions.running() if one.label.startswith("slotkeeper_")] == []


def killed(loaded: Loaded, doris: DorisStandin, chance: random.Random, log: list[int]) -> int:
    """Write the log, each time from the position on; return how often the program was ended."""
    lost = 0
    while True:
        try:
            table = opened(loaded)
            begin = 0 if table.position is None else table.position + 1
            for offset in log[begin:]:
                table.upsert({"id": offset % 7, "v": offset})
                table.advance(offset)
                if chance.random() < 0.3:
                    if chance.random() < 0.4:
                        call = chance.choice((Call.LOAD, Call.TWO_PHASE))
                        doris.faults.plan(call, chance.choice((Fault.LOST_BEFORE, Fault.LOST_AFTER)))
                    table.flush()
            table.flush()
            return lost
        except SlotkeeperError as error:
            assert library.passes(error), error
            lost += 1


def test_one_server_under_another_address_is_not_another_target(loaded: Loaded, doris: DorisStandin) -> None:
    table = opened(loaded)
    table.advance(41)
    table.flush()
    where = doris_endpoint(doris)
    assert where.host == "127.0.0.1"
    for host, refused in (("localhost", True), ("127.0.0.2", False)):
        renamed = replace(where, database=where.database.replace("127.0.0.1", host))
        sink = SinkEntry("dor", "doris", renamed, store="mart")
        again = replace(loaded, sinks={**loaded.sinks, "dor": sink})
        if refused:
            with pytest.raises(Refused, match=r"at 127\.0\.0\.1:\d+, another address of this server"):
                opened(again)
        else:
            assert opened(again).position is None


def test_a_dropped_target_of_a_query_is_not_created_again(loaded: Loaded, doris: DorisStandin) -> None:
    columns = (Column("id", "bigint"), Column("v", "integer"))
    target = QueryTarget("mart.made", columns, ("id",), create_target=True)

    def opened_for(one: QueryTarget) -> closing[QuerySink]:
        return closing(query_sink(loaded.sinks["dor"], loaded.sinks["mart"], one, "t"))

    for number in (0, 1):
        with opened_for(target) as sink:
            sink.admit()
            assert sink.commit(QueryBatch("a query", number), [Staged(7, 0)])
    doris.tables.drop("mart", "made")
    with opened_for(target) as sink, pytest.raises(Refused, match="made"):
        sink.admit()
    assert doris.tables.find("mart", "made") is None
    with opened_for(replace(target, successor_of="a query")) as sink:
        sink.admit()
    assert doris.tables.find("mart", "made") is not None


def test_a_job_s_target_and_options_of_other_sinks_are_refused(loaded: Loaded, mirror: Mirror) -> None:
    loaded_sinks = loaded.sinks["dor"], loaded.sinks["mart"]
    columns = (Column("id", "bigint"), Column("v", "text"))
    with pytest.raises(Refused, match="options that select or merge rows"):
        query_sink(*loaded_sinks, QueryTarget(TARGET, columns, ("id",), options=SinkOptions(ignore_delete=True)), "t")
    with pytest.raises(Refused, match=r"the key of mart\.t is \(id\)"):
        RecordSink(loaded, "dor", "billing", Hand()).table(TARGET, ["v"], ["id", "v"])
    mirror.start().wait_running()
    mirror.stop()
    with pytest.raises(Refused, match="is the target of job"):
        opened(loaded)
