"""Resets of a job that reads a Hologres: the progress rows move, the server stores nothing; and their undo."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from slotkeeper.core.domain.reset import Goal, TargetKind
from tests.support.hologres import TABLE, HoloPair
from tests.support.resetting import Resetting


def stopped(pair: HoloPair, tmp_path: Path) -> Resetting:
    """A job that has applied three changes to each of 20 rows, and has nothing left to read."""
    pair.write(*((key, 0) for key in range(1, 21)))
    pair.mirror.start().wait_running()
    for turn in (1, 2, 3):
        pair.write(*((key, turn) for key in range(1, 21)))
    pair.mirror.wait_equal()
    pair.mirror.stop()
    return Resetting(pair.mirror, tmp_path)


def spoil(pair: HoloPair) -> None:
    """The target falls back, like a restored one; reading again makes it equal."""
    pair.mirror.at_sink("UPDATE mart.t SET v = -1")


def equal_again(pair: HoloPair) -> None:
    pair.mirror.start().wait_running()
    pair.mirror.wait_equal()
    pair.mirror.stop()


def positions(pair: HoloPair) -> dict[str, str]:
    return {row.key.shard: row.position.text for row in pair.mirror.rows() if row.position}


def test_earliest_reads_all_records_again_and_undo_brings_the_rows_back(holo_pair: HoloPair, tmp_path: Path) -> None:
    resetting = stopped(holo_pair, tmp_path)
    before = positions(holo_pair)
    made = resetting.plan(Goal(TargetKind.EARLIEST))
    again = [move.read_again.total for move in made.moves if move.read_again is not None]
    assert made.failed == () and sum(again) == 140
    assert made.sql == () or not any("pgxc" in line for line in made.sql)
    result = resetting.execute(made)
    assert positions(holo_pair) != before
    resetting.undo(result.reset)
    assert positions(holo_pair) == before
    resetting.reset(Goal(TargetKind.EARLIEST))
    spoil(holo_pair)
    equal_again(holo_pair)


def test_a_time_is_looked_up_in_each_shard(holo_pair: HoloPair, tmp_path: Path) -> None:
    resetting = stopped(holo_pair, tmp_path)
    log = f'hg_log."{TABLE}"'
    statement = f"SELECT hg_shard_id, hg_binlog_lsn, hg_binlog_timestamp_us FROM {log} WHERE hg_binlog_event_type = 3"
    records = sorted(holo_pair.hologres.rows(statement), key=lambda row: row[2])
    us = records[len(records) // 2][2]
    at = datetime.fromtimestamp(us / 1_000_000, timezone.utc).isoformat()
    made = resetting.plan(Goal(TargetKind.TIME, at=at))
    firsts: dict[str, int] = {}
    for shard, lsn, when in holo_pair.hologres.rows(
        f"SELECT hg_shard_id, hg_binlog_lsn, hg_binlog_timestamp_us FROM {log} ORDER BY 1, 2"
    ):
        if when >= us:
            firsts.setdefault(f"shard_{shard}", lsn)
    assert "each DN starts just before its own first record at or after that time" in made.notes
    resetting.execute(made)
    found = {shard: int(text.split("/")[0]) for shard, text in positions(holo_pair).items()}
    assert found == {shard: lsn - 1 for shard, lsn in firsts.items()}
    equal_again(holo_pair)


@pytest.mark.parametrize("kind", [TargetKind.LATEST, TargetKind.SNAPSHOT])
def test_latest_skips_and_a_snapshot_copies_again(holo_pair: HoloPair, tmp_path: Path, kind: TargetKind) -> None:
    resetting = stopped(holo_pair, tmp_path)
    holo_pair.write(*((key, 9) for key in range(1, 11)))
    made = resetting.plan(Goal(kind, on_existing="replace" if kind is TargetKind.SNAPSHOT else ""))
    resetting.execute(made)
    holo_pair.mirror.start().wait_running()
    holo_pair.write((30, 30))
    if kind is TargetKind.SNAPSHOT:
        holo_pair.mirror.wait_equal()
    else:
        assert made.skipped == 20
    holo_pair.mirror.stop()
