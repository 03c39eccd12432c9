"""A source of kind mysql in a configuration: its keys, the rate limits of its jobs, and canal's keys, rejected by
name."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.spec import SyncOptions
from slotkeeper.core.errors import ConfigError

SOURCE = """
[sources.shop]
dialect = "mysql"
host = "127.0.0.1"
user = "etl"
"""
REST = """
[sinks.mart]
kind = "postgres"
host = "127.0.0.1"
port = 5432
database = "mart"
user = "etl"

[jobs.orders]
source = "shop"
sink = "mart"

[[jobs.orders.channels]]
from = "shop.orders"
into = "mart.orders"

[jobs.orders.binlog]
binlog = true
"""


def loaded(folder: Path, text: str) -> Loaded:
    path = folder / "slotkeeper.toml"
    path.write_text(text, "utf-8")
    return load(path, {})


def refused(folder: Path, text: str) -> str:
    try:
        found = loaded(folder, text)
    except ConfigError as error:
        return str(error)
    assert found.refused, "nothing was refused"
    return str(next(iter(found.refused.values())))


def test_a_mysql_needs_no_database_and_has_its_own_port(tmp_path: Path) -> None:
    job = loaded(tmp_path, SOURCE + REST).jobs["orders"]
    assert (job.source_kind, job.source.port, job.source.database) == ("mysql", 3306, "")
    assert job.sync == SyncOptions(10, 10_000, 15 << 20, 64 << 20, 30_000)
    assert (job.sink_options.auto_flush_batch_size, job.sink_options.auto_flush_max_interval) == (10_000, 10_000)


SEVERAL = SOURCE.replace('host = "127.0.0.1"', 'hosts = ["db1:3307", "db2"]')


def test_several_servers_are_kept_in_their_order_and_the_first_is_the_address(tmp_path: Path) -> None:
    source = loaded(tmp_path, SEVERAL + REST).jobs["orders"].source
    assert (source.host, source.port, source.hosts, source.server) == ("db1", 3307, ("db1:3307", "db2"), "")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (SEVERAL + 'host = "db1"\n', "sets host and hosts, two keys for one setting"),
        (SEVERAL + "port = 3306\n", "sets port and hosts, two keys for one setting"),
        (SEVERAL.replace("db2", "db1:3307"), "names a server twice"),
        (SEVERAL.replace('["db1:3307", "db2"]', "[]"), "must be a list"),
        (SEVERAL.replace("db2", "db2:70000"), "port"),
        (SOURCE.replace('host = "127.0.0.1"', ""), "host"),
        (SEVERAL.replace('"mysql"', '"dws"') + 'database = "d"\n', "hosts"),
    ],
    ids=["host_too", "port_too", "twice", "none", "bad_port", "neither", "another_kind"],
)
def test_servers_that_contradict_each_other_are_refused(tmp_path: Path, source: str, words: str) -> None:
    assert words in refused(tmp_path, source + REST)


def test_a_pace_that_is_set_is_that_of_the_steps(tmp_path: Path) -> None:
    pace = "\n[jobs.orders.sync]\nmin_sync_commit_size = 77\nsync_commit_interval_second = 3\n"
    job = loaded(tmp_path, SOURCE + REST + pace).jobs["orders"]
    assert (job.sink_options.auto_flush_batch_size, job.sink_options.auto_flush_max_interval) == (77, 3_000)


def test_the_silence_of_a_stream_has_its_bounds(tmp_path: Path) -> None:
    job = loaded(tmp_path, SOURCE + REST + '\n[jobs.orders.sync]\nstream_read_timeout = "2m"\n').jobs["orders"]
    assert job.sync.stream_read_timeout == 120_000
    said = refused(tmp_path, SOURCE + REST + '\n[jobs.orders.sync]\nstream_read_timeout = "1s"\n')
    assert "stream_read_timeout must be from 5s to 1h" in said


def test_the_least_above_the_most_is_refused(tmp_path: Path) -> None:
    said = refused(tmp_path, SOURCE + REST + "\n[jobs.orders.sync]\nmax_bytes_sync_commit = 1000\n")
    assert "max_bytes_sync_commit is below min_bytes_sync_commit (15728640 bytes)" in said


def test_one_thing_said_twice_is_refused(tmp_path: Path) -> None:
    twice = "\n[jobs.orders.sync]\nmin_sync_commit_size = 77\n[jobs.orders.sink_options]\nauto_flush_batch_size = 7\n"
    assert "two keys for one setting" in refused(tmp_path, SOURCE + REST + twice)


def test_a_pace_has_no_effect_on_a_source_in_sync_points(tmp_path: Path) -> None:
    dws = SOURCE.replace('"mysql"', '"dws"') + 'port = 8000\ndatabase = "gaussdb"\n'
    assert "has no effect" in refused(tmp_path, dws + REST + "\n[jobs.orders.sync]\nmin_sync_commit_size = 7\n")


@pytest.mark.parametrize(
    "key", ["canal_server_ip", "canal_batch_size", "canal_destination", "canal_instance_memory_buffer_size"]
)
def test_canals_keys_are_refused_with_what_stands_in_their_place(tmp_path: Path, key: str) -> None:
    said = refused(tmp_path, f'{SOURCE}"{key}" = "x"\n{REST}')
    assert f"{key} does not apply here" in said


def test_a_key_as_canal_spells_it_is_named(tmp_path: Path) -> None:
    assert "write it as canal_batch_size" in refused(tmp_path, f'{SOURCE}"canal.batchSize" = 8192\n{REST}')


def test_threads_are_sparks(tmp_path: Path) -> None:
    said = refused(tmp_path, SOURCE + REST + "\n[jobs.orders.sync]\nmax_sync_task_threads_num = 3\n")
    assert "max_sync_task_threads_num does not apply here" in said


def test_cascades_are_refused_unless_a_channel_of_a_mysql_source_allows_them(tmp_path: Path) -> None:
    assert loaded(tmp_path, SOURCE + REST).jobs["orders"].channel.cascades == "refuse"
    allowed = REST.replace('into = "mart.orders"', 'into = "mart.orders"\ncascades = "allow"')
    assert loaded(tmp_path, SOURCE + allowed).jobs["orders"].channel.cascades == "allow"
    dws = SOURCE.replace('"mysql"', '"dws"') + 'port = 8000\ndatabase = "gaussdb"\n'
    assert "channels[0].cascades has no effect" in refused(tmp_path, dws + allowed)
    assert "cascades must be" in refused(tmp_path, SOURCE + allowed.replace("allow", "ignore"))
