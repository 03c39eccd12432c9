"""The effect of the parameters of a hologres source; tests/unit/config tests how they are read."""

from __future__ import annotations

import io
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.domain.tries import NO_HISTORY
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.errors import ConfigError, ErrorKind
from slotkeeper.core.ports.sink import Fields
from slotkeeper.core.retry import Failure, RetryAfter, RetryRules, after, decide
from slotkeeper.core.sources.hologres.position import HoloPosition, ours
from slotkeeper.demo.hologres.faults import Fault
from tests.support.hologres import TABLE, HoloPair
from tests.support.polling import config, job
from tests.support.waiting import until


def everything(pair: HoloPair) -> list[Fields]:
    """Return all effects of the whole binlog on rows, as a job reads it."""
    out = io.BytesIO()
    with closing(pair.connection()) as session:
        source = session.table(TableAsked.of(pair.mirror.job)).source
        for status in source.read_status(None):
            after_, end = HoloPosition(0).from_here, source.next_range(HoloPosition(0), status, 1_000_000)
            source.copy_changes(status.shard, after_, end, out)
    out.seek(0)
    return list(rows_of(out))


def letters(pair: HoloPair) -> list[str]:
    return sorted(str(row[2]) for row in everything(pair))


def loaded(tmp_path: Path, pair: HoloPair, more: str) -> HoloPair:
    """The pair with the options that a configuration with these lines makes."""
    text = job("j", "s", TABLE, "mart.t") + more
    path = config(tmp_path, replace(pair.mirror.job.source, name="dws1"), pair.mirror.job.sink, text)
    path.write_text(path.read_text().replace('dialect = "dws"', 'dialect = "hologres"'))
    made = load(path, {})
    for error in made.refused.values():
        raise error
    spec = made.jobs["j"]
    pair.mirror.job = replace(pair.mirror.job, binlog=spec.binlog, start=spec.start)
    return pair


@pytest.mark.parametrize("size", [1, 7, 1_024])
def test_binlog_read_batch_size_is_how_many_records_a_page_has(holo_pair: HoloPair, size: int) -> None:
    holo_pair.write(*((key, key) for key in range(1, 41)))
    holo_pair.write(*((key, 0) for key in range(1, 41)))
    holo_pair.options(binlog_read_batch_size=size)
    rows, before = everything(holo_pair), holo_pair.hologres.faults.pages
    assert len(rows) == 120 and everything(holo_pair) == rows
    pages = holo_pair.hologres.faults.pages - before
    by_shard = [sum(1 for shard, _, _ in holo_pair.hologres.log(TABLE) if shard == n) for n in range(4)]
    assert pages == sum(-(-count // size) for count in by_shard if count)


def test_binlog_ignore_delete_leaves_deletes_out_and_continues_after_them(holo_pair: HoloPair) -> None:
    holo_pair.write((1, 1), (2, 2))
    holo_pair.write((1, None), (2, None))
    assert letters(holo_pair) == ["I", "I", "d", "d"]
    holo_pair.options(binlog_ignore_delete=True)
    assert letters(holo_pair) == ["I", "I"]
    mirror = holo_pair.mirror.start().wait_running()
    holo_pair.write((3, 3))
    mirror.wait_equal()
    holo_pair.write((3, None))
    newest = max(lsn for _, lsn, kind in holo_pair.hologres.log(TABLE) if kind == 2)

    def highest() -> int:
        return max(ours(row.position).lsn for row in mirror.rows() if row.position)

    until(lambda: highest() >= newest, 60, "the lane to pass")
    mirror.stop()
    assert mirror.difference() == (0, 1), "the deleted row stays"


def test_binlog_ignore_before_update_leaves_old_images_out(holo_pair: HoloPair) -> None:
    holo_pair.write((1, 1))
    holo_pair.write((1, 2))
    assert letters(holo_pair) == ["B", "I", "U"]
    holo_pair.options(binlog_ignore_before_update=True)
    assert letters(holo_pair) == ["I", "U"]
    mirror = holo_pair.mirror.start().wait_running()
    holo_pair.write((1, 3))
    mirror.wait_equal()
    mirror.stop()


def test_binlog_heart_beat_interval_ms_is_how_often_an_idle_lane_says_so(holo_pair: HoloPair) -> None:
    holo_pair.write((1, 1))

    steps = set[int]()
    with closing(holo_pair.connection()) as session:

        def seen(interval: int) -> int:
            holo_pair.options(binlog_heart_beat_interval_ms=interval)
            source = session.table(TableAsked.of(holo_pair.mirror.job)).source
            return ours(source.read_status(source.nodes()[0])[0].latest).seen

        def four() -> bool:
            steps.add(seen(50))
            return len(steps) >= 4

        until(four, 30, "four steps of 50 ms")
        assert all(step % 50_000 == 0 for step in steps)
        assert len({seen(-1) for _ in range(20)}) <= 2, "eight times in a TTL of 30 days"


def test_binlog_visibility_lag_leaves_the_newest_records_for_later(holo_pair: HoloPair) -> None:
    holo_pair.options(binlog_visibility_lag=60_000)
    holo_pair.write(*((key, key) for key in range(1, 30)))
    assert everything(holo_pair) == []
    older = "hg_binlog_timestamp_us = hg_binlog_timestamp_us - 90000000"
    holo_pair.hologres.rows(f'UPDATE hg_log."{TABLE}" SET {older} RETURNING 1')
    assert len(everything(holo_pair)) == 29
    holo_pair.write(*((key, key) for key in range(1, 30)))
    assert len(everything(holo_pair)) == 29, "the older ones alone"


def test_retry_count_counts_the_first_try_and_starts_over_after_a_success(holo_pair: HoloPair, tmp_path: Path) -> None:
    loaded(tmp_path, holo_pair, "retry_count = 4\nbinlog_retry_interval = 10\n")
    rules, history, waits = RetryRules.of(holo_pair.mirror.job), NO_HISTORY, []
    for _ in range(4):
        failure = Failure(ErrorKind.TRANSIENT, "source", 8)
        decision = decide(failure, history, rules, 0.0)
        assert isinstance(decision, RetryAfter)
        waits.append(decision.seconds)
        history = after(history, failure, rules)
    assert waits[:3] == sorted(waits[:3]) and waits[2] < 0.2, "three quick retries"
    assert waits[3] >= rules.wait_initial / 1000, "then a long wait"
    holo_pair.options(binlog_max_retry_times=3, binlog_sleep_time=20, binlog_max_sleep_time=100)
    mirror = holo_pair.mirror.start().wait_running()
    for turn in range(3):
        holo_pair.hologres.faults.arm(Fault.DROP, 2)
        holo_pair.write(*((key, turn) for key in range(1, 30)))
        mirror.wait_equal()
    mirror.stop()
    assert holo_pair.hologres.faults.met[Fault.DROP] >= 4


@pytest.mark.parametrize(
    ("lines", "start"),
    [
        ('binlog_start_up_mode = "earliest_offset"', "earliest"),
        ("start_lsn = 7", "all=7"),
        ('start_time = "2001-01-01 00:00:00"', "2001-01-01 00:00:00+00:00"),
        ("cdc_mode = true", "initial"),
    ],
)
def test_binlog_start_up_mode_and_its_like_are_where_a_job_starts(
    holo_pair: HoloPair, tmp_path: Path, lines: str, start: str
) -> None:
    """binlog_start_up_mode, start_lsn and start_time are the job's start; cdc_mode = false is refused."""
    assert loaded(tmp_path, holo_pair, f"{lines}\n").mirror.job.start == start
    with pytest.raises(ConfigError, match="must be true"):
        loaded(tmp_path, holo_pair, "cdc_mode = false\n")
