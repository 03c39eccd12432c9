"""A hologres source has its own client's parameters; the start of a job is configured in one place only."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import ConfigError
from tests.unit.config.samples import VALID


def written(tmp_path: Path, binlog: str = "", job: str = "") -> Path:
    text = VALID.replace('dialect = "dws"', 'dialect = "hologres"').replace("binlog = true", f"binlog = true\n{binlog}")
    path = tmp_path / "config.toml"
    path.write_text(text.replace('slot = "orders_slot"', f'slot = "orders_slot"\n{job}'))
    return path


def made(tmp_path: Path, binlog: str = "", job: str = "") -> JobSpec:
    loaded = load(written(tmp_path, binlog, job), {})
    for error in loaded.refused.values():
        raise error
    return loaded.jobs["orders_rt"]


def test_defaults_are_those_of_its_own_client(tmp_path: Path) -> None:
    options = made(tmp_path).binlog
    assert (options.binlog_read_batch_size, options.binlog_heart_beat_interval_ms) == (1_024, -1)
    assert not (options.binlog_ignore_delete or options.binlog_ignore_before_update or options.binlog_visibility_lag)
    assert options.binlog_max_retry_times == 2, "retry_count counts the first try"
    assert not options.need_redistribution


@pytest.mark.parametrize(
    ("binlog", "start"),
    [
        ("", "initial"),
        ('binlog_start_up_mode = "initial"', "initial"),
        ('binlog_start_up_mode = "earliest_offset"', "earliest"),
        ('start_time = "2026-01-02 03:04:05"', "2026-01-02 03:04:05+00:00"),
        ('binlog_start_up_mode = "timestamp"\nstart_time = "2026-01-02 03:04:05+08:00"', "2026-01-02 03:04:05+08:00"),
        ("start_lsn = 0", "earliest"),
        ("start_lsn = 10516", "all=10516"),
        ('start_lsn = "10516"', "all=10516"),
        ('start_lsn = "shard_0=7, shard_1=9"', "shard_0=7, shard_1=9"),
    ],
)
def test_a_start_is_said_by_its_own_names(tmp_path: Path, binlog: str, start: str) -> None:
    assert made(tmp_path, binlog).start == start


@pytest.mark.parametrize(
    ("binlog", "job", "says"),
    [
        ('start_time = "2026-01-02 03:04:05"\nstart_lsn = 7', "", "Hologres would ignore start_time"),
        ("start_lsn = 7", 'start = "latest"', "two keys for one setting"),
        ('binlog_start_up_mode = "timestamp"', "", "needs start_time"),
        ('binlog_start_up_mode = "initial"\nstart_lsn = 7', "", "two start positions"),
        ('binlog_start_up_mode = "initial"\nstart_time = "2026-01-02 03:04:05"', "", "two start positions"),
        ('binlog_start_up_mode = "latest"', "", "must be"),
        ("start_lsn = -1", "", "must be an LSN"),
        ('start_lsn = "x"', "", "must be an LSN"),
        ("cdc_mode = false", "", "must be true"),
        ("retry_count = 0", "", "from 1 to"),
        ("new_system_value = true", "", "unknown key new_system_value"),
        ("binlogReadBatchSize = 7", "", "write it as binlog_read_batch_size"),
    ],
)
def test_what_contradicts_itself_is_refused_by_name(tmp_path: Path, binlog: str, job: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        made(tmp_path, binlog, job)


def test_a_dws_does_not_start_at_its_earliest(tmp_path: Path) -> None:
    path = written(tmp_path, "", 'start = "earliest"')
    assert load(path, {}).jobs["orders_rt"].start == "earliest"
    path.write_text(path.read_text().replace('"hologres"', '"dws"'))
    with pytest.raises(ConfigError, match="needs a source whose binlog exists without a slot"):
        load(path, {})
