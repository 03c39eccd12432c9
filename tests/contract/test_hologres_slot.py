"""A slot at a Hologres server follows the progress rows: created, moved, and never ahead of them."""

from __future__ import annotations

import json
import random
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.reset import ROLLED_BACK, Goal, TargetKind
from slotkeeper.core.domain.spec import BinlogOptions, TableAsked
from slotkeeper.core.slots.status import read_table
from slotkeeper.core.sources.hologres import slots as slot_source
from slotkeeper.core.sources.hologres.position import ours
from slotkeeper.demo.hologres.faults import FOREIGN_LSN
from tests.contract.test_hologres_reset import equal_again, spoil, stopped
from tests.support.hologres import SLOT, TABLE, HoloPair
from tests.support.polling import job, server
from tests.support.waiting import until

JOB = "orders"


def positions(pair: HoloPair) -> dict[int, int]:
    found: dict[int, Position] = {
        row.node_id - 1: row.position for row in pair.mirror.rows() if row.position is not None
    }
    return {shard: ours(position).lsn for shard, position in found.items()}


def confirmed(pair: HoloPair) -> dict[int, int]:
    """The server's positions, by shard; 0 if nothing was confirmed."""
    return dict.fromkeys(positions(pair), 0) | pair.hologres.confirmed(SLOT)


@pytest.mark.parametrize("way", ["stream", pytest.param("sql", marks=pytest.mark.chaos)])
def test_the_slot_is_made_and_follows_the_rows_and_keepalives_of_foreign_lsns_move_nothing(
    slot_pair: HoloPair, way: str, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    mirror, hologres = slot_pair.mirror, slot_pair.hologres
    slot_pair.options(read_by=way, binlog_read_batch_size=3)
    hologres.faults.keepalive_seconds = 0.0
    slot_pair.write(*((key, key) for key in range(1, 41)))
    before = len(hologres.log(TABLE))
    for turn in range(2):
        mirror.start().wait_running()
        for _ in range(4):
            some = chance.sample(range(1, 60), 9)
            slot_pair.write(*((key, None if chance.random() < 0.3 else chance.randrange(1_000)) for key in some))
        slot_pair.wait_applied(len(hologres.log(TABLE)) - before)
        until(lambda: confirmed(slot_pair) == positions(slot_pair), 30, "the slot to follow")
        mirror.stop()
        assert mirror.difference() == (0, 0), turn
    assert sum(mirror.changes().values()) == len(hologres.log(TABLE)) - before
    told = hologres.faults.flushed
    assert FOREIGN_LSN not in told and max(told) <= max(positions(slot_pair).values())
    assert all(f"SLOT {SLOT}" in one for one in hologres.faults.streams)
    with closing(slot_pair.connection()) as session:
        listed = read_table(session.table(TableAsked(TABLE, "", BinlogOptions())).inspector, TABLE).points
    assert listed and {(one.slot, one.shard) for one in listed} == {(SLOT, f"shard_{n}") for n in range(4)}
    assert {int(one.shard[6:]): ours(one.point).lsn for one in listed if one.point} == confirmed(slot_pair)


def test_commands_make_list_register_and_drop_it_and_count_down_by_the_records(
    slot_pair: HoloPair, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slotkeeper.core.services.slot_commands.LOST_ANSWER_WAIT", 0.0)
    hologres, config = slot_pair.hologres, tmp_path / "slotkeeper.toml"
    one = slot_pair.mirror.job
    slot_pair.mirror.job = replace(one, name=JOB, source=replace(one.source, name="dws1"))
    written = server("sources", slot_pair.mirror.job.source) + server("sinks", slot_pair.mirror.job.sink)
    written = written.replace('dialect = "dws"', 'dialect = "hologres_slot"')
    written += job(JOB, SLOT, TABLE, "mart.t")
    config.write_text(f'{written}[state]\ndir = "{tmp_path / "state"}"\n', encoding="utf-8")

    def call(*words: str) -> str:
        assert main([*words, "--config", str(config)]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    def execute(verb: str, *more: str) -> str:
        return call("slots", verb, TABLE, SLOT, "--execute", "--reason", "a test", "--confirm", SLOT, *more)

    slot_pair.write(*((key, key) for key in range(1, 41)))
    assert "hg_create_logical_replication_slot" in call("slots", "create", TABLE, SLOT)
    assert hologres.rows("SELECT count(*) FROM hologres.hg_replication_slot_properties") == [(0,)], "a dry run"
    assert "created on every DN" in execute("create")
    assert hologres.rows("SELECT pubname::text FROM pg_publication_tables") == [(f"{SLOT}_pub",)]
    execute("register", "--rows", "unknown")
    newest = {shard: lsn for shard, lsn, _ in hologres.log(TABLE)}
    assert hologres.confirmed(SLOT) == newest
    shown = json.loads(call("slots", "show", TABLE, SLOT, "--json"))
    assert {one["shard"]: one["live"] for one in shown["dns"]} == {f"shard_{n}": str(lsn) for n, lsn in newest.items()}
    assert SLOT in call("slots", "list")
    text = call("slots", "show", TABLE, SLOT)
    assert "confirmed" in text and "xmin" not in text and str(newest[0]) in text
    execute("drop", "--rows", "unknown")
    assert hologres.rows("SELECT count(*) FROM hologres.hg_replication_slot_properties") == [(0,)]
    assert hologres.rows("SELECT count(*) FROM pg_publication") == [(0,)]
    slot_pair.mirror.start().wait_running()
    slot_pair.mirror.stop()
    shown = json.loads(call("slots", "show", TABLE, SLOT, "--json"))
    assert {one["registered_by"] for one in shown["dns"]} == {"ours"}, shown
    assert 2_591_000 < shown["seconds_left"] <= 2_592_000
    assert "records expire" in call("slots", "show", TABLE, SLOT)


@pytest.mark.chaos
@pytest.mark.parametrize("forward_only", [False, True])
def test_a_reset_moves_row_and_slot_and_undo_brings_both_back(
    slot_pair: HoloPair, tmp_path: Path, forward_only: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    resetting = stopped(slot_pair, tmp_path)
    monkeypatch.setattr(slot_source, "SEEN_SECONDS", 0.5)  # only now: a stop waits for its last registration
    before = positions(slot_pair)
    assert confirmed(slot_pair) == before
    slot_pair.hologres.faults.forward_only = forward_only
    made = resetting.plan(Goal(TargetKind.EARLIEST))
    assert made.failed == () and any(f"SLOT {SLOT}" in one for one in made.sql)
    assert any("deletes records older than binlog.ttl" in one.sentence for one in made.checks)
    result = resetting.execute(made)
    if forward_only:
        assert result.outcome == ROLLED_BACK and "shows" in result.sentence
        assert confirmed(slot_pair) == positions(slot_pair) == before, (
            "if the server moves no point back, nothing changes"
        )
        return
    assert confirmed(slot_pair) == positions(slot_pair) != before
    resetting.undo(result.reset)
    assert confirmed(slot_pair) == positions(slot_pair) == before
    resetting.reset(Goal(TargetKind.EARLIEST))
    spoil(slot_pair)
    equal_again(slot_pair)
    until(lambda: confirmed(slot_pair) == positions(slot_pair), 30, "the slot to follow")


@pytest.mark.chaos
@pytest.mark.parametrize("how", ["latest", "earliest", "initial"])
def test_it_begins_where_the_job_begins_and_a_new_start_finds_its_own_slot(slot_pair: HoloPair, how: str) -> None:
    slot_pair.mirror.job = replace(slot_pair.mirror.job, start=how)
    slot_pair.write(*((key, key) for key in range(1, 21)))
    for turn in range(2):
        slot_pair.mirror.start().wait_running()
        slot_pair.write(*((key, turn) for key in range(30, 50)))
        newest = {shard: lsn for shard, lsn, _ in slot_pair.hologres.log(TABLE)}
        until(lambda at=newest: confirmed(slot_pair) == at, 60, "the slot to stand at the newest records")  # type: ignore[misc]
        assert positions(slot_pair) == newest
        slot_pair.mirror.stop()
