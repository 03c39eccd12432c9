"""The example and the page of parameters agree with the model."""

from __future__ import annotations

import ast
import re
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
import tomli

from bench.parameters import TABLES, its_test, page, spelled_default
from slotkeeper.core.config import keys
from slotkeeper.core.config.keys import CHANNEL, REQUIRED, Key, Section, snake
from slotkeeper.core.config.keys_sink import SINK_OPTIONS
from slotkeeper.core.config.keys_source import BINLOG, HOLOGRES, OWN, SYNC
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.spec import (
    BinlogOptions,
    ChannelSpec,
    JobSpec,
    RetryOptions,
    SinkOptions,
    SparkOptions,
    SyncOptions,
)

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "config.example.toml"
NAMES = {"sources.X": "sources.dws1", "sinks.X": "sinks.mart", "jobs.X": "jobs.orders_rt"}
SEED = [
    "binlog",
    "binlogSlotName",
    "binlogBatchReadSize",
    "fullSyncBinlogBatchReadSize",
    "binlogReadTimeout",
    "fullSyncBinlogReadTimeout",
    "binlogSleepTime",
    "binlogMaxSleepTime",
    "binlogMaxRetryTimes",
    "binlogRetryInterval",
    "binlogParallelNum",
    "connectionPoolSize",
    "needRedistribution",
    "newSystemValue",
    "checkNodeChangeInterval",
    "connectionSocketTimeout",
    "binlogIgnoreUpdateBefore",
    "binlogStartTime",
    "binlogSyncPointSize",
]
"""The parameters of "Real-Time Binlog Consumption by Flink", table 1."""

ELSEWHERE = {
    *("binlog_slot_name", "binlog_start_time"),
    *("binlog_start_up_mode", "start_time", "start_lsn", "cdc_mode", "retry_count"),
}
"""Keys of [jobs.X.binlog] that are an alias of a key of [jobs.X], or have another unit or other checks."""


def _table_of_example(title: str) -> str:
    """The part of the example that belongs to a table of the model; the table itself can be commented out."""
    for name, used in NAMES.items():
        title = title.replace(name, used)
    after = re.split(rf"^(?:# )?{re.escape(title)}", EXAMPLE.read_text(), maxsplit=1, flags=re.MULTILINE)[1]
    return re.split(r"^(?:# )?\[", after, maxsplit=1, flags=re.MULTILINE)[0]


def test_the_example_loads_without_a_warning(tmp_path: Path) -> None:
    for name in ("dws1-ca.crt", "mart-ca.crt"):
        (tmp_path / name).touch()
    loaded = load(Path(shutil.copy(EXAMPLE, tmp_path)), {})
    assert list(loaded.jobs) == ["orders_rt"]
    assert loaded.warnings == ()


@pytest.mark.parametrize(("title", "section"), TABLES, ids=[title for title, _ in TABLES])
def test_every_key_stands_in_the_example_with_a_comment(title: str, section: Section) -> None:
    text = _table_of_example(title)
    given = re.findall(r"^(?:# )?([a-z][a-z_0-9]*) = .*? +# (.+)$", text, flags=re.MULTILINE)
    blocks = {name for name in section if f"[{title[:-1]}.{name}]]" in EXAMPLE.read_text()}
    assert sorted(name for name, _ in given) == sorted(section.keys() - blocks)
    for name, comment in given:
        key = section[name]
        assert ("does not apply here" in comment) == bool(key.because), name


@pytest.mark.parametrize(("title", "section"), TABLES, ids=[title for title, _ in TABLES])
def test_commented_defaults_of_the_example_are_the_defaults(title: str, section: Section) -> None:
    for name, value in re.findall(r"^# ([a-z][a-z_0-9]*) = (.*?) +#", _table_of_example(title), flags=re.MULTILINE):
        key = section[name]
        if not key.because and key.default not in (None, REQUIRED) and key.read is not None:
            assert key.read(tomli.loads(f"v = {value}")["v"]) == key.read(key.default), name


def test_the_page_is_the_model() -> None:
    assert (ROOT / "docs" / "parameters.md").read_text() == page()


def test_every_key_has_a_row_with_meaning_and_test_or_a_reason() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(section) for _, section in TABLES) + len(OWN)
    for row in rows:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 6
        assert cells[2] and cells[4] and cells[5]


@pytest.mark.parametrize(
    "key", [key for _, s in TABLES for key in s.values() if not key.because], ids=lambda key: key.name
)
def test_a_named_test_exists(key: Key) -> None:
    assert (ROOT / its_test(key).partition("::")[0]).exists()


def without_effect_test(key: Key, test: str) -> str:
    """Why a key counts as not tested for its effect; nothing if it is tested or cannot be set."""
    if key.because:
        return ""
    file, _, name = test.partition("::")
    if not name:
        return f"{key.name}: no test is named"
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name]
    if not found:
        return f"{key.name}: {file} has no {name}"
    return "" if key.name in ast.unparse(found[0]) else f"{key.name}: {name} does not speak of it"


OURS = ("on_bad_row", "quarantine_limit", "optimistic_step")
"""Sink parameters that the vendor's connector does not have."""
EFFECTS = (SINK_OPTIONS, {name: key for name, key in CHANNEL.items() if name != "from"})
"""Tables in which every key names the test of its effect."""


@pytest.mark.parametrize("key", [key for section in EFFECTS for key in section.values()], ids=lambda key: key.name)
def test_a_parameter_without_an_effect_test_is_refused(key: Key) -> None:
    assert not without_effect_test(key, its_test(key))


def test_a_key_without_an_effect_test_is_reported() -> None:
    key = SINK_OPTIONS["ignore_delete"]
    assert without_effect_test(key, "tests/unit/config") == "ignore_delete: no test is named"
    file = its_test(key).partition("::")[0]
    assert "has no test_nothing" in without_effect_test(key, f"{file}::test_nothing")
    assert "does not speak of it" in without_effect_test(key, its_test(SINK_OPTIONS["connection_size"]))


def test_all_parameters_of_the_seed_are_known() -> None:
    assert len(SEED) == 19
    assert set(SEED) <= {key.documented for key in BINLOG.values()}


DOCUMENTED = [
    key for key in (*BINLOG.values(), *OWN.values(), *SINK_OPTIONS.values()) if key.name not in OURS and key.documented
]


@pytest.mark.parametrize("key", DOCUMENTED, ids=lambda key: key.name)
def test_a_documented_parameter_has_its_own_name_in_snake_case(key: Key) -> None:
    assert snake(key.documented) == key.name


@pytest.mark.parametrize(
    ("section", "options"),
    [
        (BINLOG | OWN, BinlogOptions),
        (HOLOGRES, BinlogOptions),
        (SINK_OPTIONS, SinkOptions),
        (SYNC, SyncOptions),
        (keys.RETRY, RetryOptions),
        (keys.SPARK, SparkOptions),
        (CHANNEL, ChannelSpec),
        (keys.JOB, JobSpec),
    ],
)
def test_what_works_is_what_the_engine_gets(section: Section, options: type) -> None:
    works = {name: key for name, key in section.items() if not key.because}
    defaults = {field.name: field.default for field in fields(options) if field.name in works}
    if section not in (HOLOGRES, CHANNEL, keys.JOB, keys.SPARK):  # restricted to one kind, or split into several
        assert set(works) - set(defaults) == (ELSEWHERE if options is BinlogOptions else set())
        assert set(defaults) == {field.name for field in fields(options)}
    for name, default in defaults.items():
        if name not in ("source", "sink", "slot") and (options, name) != (ChannelSpec, "on_schema_change"):
            assert works[name].default == (None if default in ("", ()) else default), spelled_default(works[name])
    if options is JobSpec:
        assert keys.JOB["wait"].read is not None
        assert keys.JOB["wait"].read(keys.JOB["wait"].default) == JobSpec.__dataclass_fields__["wait_ms"].default
