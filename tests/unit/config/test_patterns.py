"""Blocks of channels that are patterns: their keys, the matching tables, and what a driver has stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.config.patterns import configured, take_in
from slotkeeper.core.domain.inventory import Skipped, TableListed
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.state import files
from slotkeeper.core.state.folder import StateFolder
from tests.unit.config.samples import VALID

BLOCK = """
[[jobs.orders_rt.channels]]
from = "shop.*"
except = ["shop.tmp_*"]
into = "shop.{table}"
create_target = true
"""


def read(folder: Path, block: str = BLOCK, text: str = VALID) -> JobSpec:
    path = folder / "config.toml"
    path.write_text(f"{text}{block}")
    return load(path, {"SLOTKEEPER_STATE__DIR": str(folder / "state")}).jobs["orders_rt"]


def listed(*names: str) -> list[TableListed]:
    return [TableListed(*name.split(".", 1)) for name in names]


def test_a_pattern_has_no_tables_before_a_driver_has_listed_them(tmp_path: Path) -> None:
    job = read(tmp_path)
    assert [one.source_table for one in job.channels] == ["ods.orders"]
    assert [(one.source, one.into, one.excluded) for one in job.patterns] == [
        ("shop.*", "shop.{table}", ("shop.tmp_*",))
    ]
    assert job.several


def test_the_stored_tables_are_known_without_a_connection(tmp_path: Path) -> None:
    job = read(tmp_path)
    found, kept = take_in(job, listed("shop.b", "shop.a", "shop.tmp_1", "other.a"), None)
    files.keep_tables(StateFolder.open(tmp_path / "state"), "orders_rt", kept)
    again = read(tmp_path)
    assert again.channels == found.channels
    assert [one.source_table for one in again.channels] == ["ods.orders", "shop.a", "shop.b"]
    assert all(one.create_target for one in again.channels[1:])
    assert configured(again) == job
    assert again.of("shop.a").channel.target == "shop.a"
    assert not again.of("shop.a").several


def test_a_changed_block_takes_effect_on_the_stored_tables(tmp_path: Path) -> None:
    _, kept = take_in(read(tmp_path), listed("shop.a", "shop.b"), None)
    files.keep_tables(StateFolder.open(tmp_path / "state"), "orders_rt", kept)
    changed = BLOCK.replace("shop.tmp_*", "shop.b").replace("shop.{table}", "mart.{schema}_{table}")
    assert [one.target for one in read(tmp_path, changed).channels] == ["mart.orders", "mart.shop_a"]


def test_a_damaged_file_of_tables_counts_as_none(tmp_path: Path) -> None:
    StateFolder.open(tmp_path / "state")
    (tmp_path / "state" / "tables").mkdir()
    (tmp_path / "state" / "tables" / "orders_rt.json").write_text('{"tables": 7}')
    assert len(read(tmp_path).channels) == 1


def test_later_tables_are_copied_and_missing_ones_are_gone_until_they_are_back(tmp_path: Path) -> None:
    job = read(tmp_path)
    _, first = take_in(job, listed("shop.a", "shop.b"), None)
    found, then = take_in(job, listed("shop.b", "shop.c"), first)
    assert [(one.source_table, one.start) for one in found.channels[1:]] == [("shop.b", ""), ("shop.c", "initial")]
    assert [one.source_table for one in found.gone] == ["shop.a"]
    assert (then.tables, then.gone, then.first) == (("shop.b", "shop.c"), ("shop.a",), ("shop.a", "shop.b"))
    back, last = take_in(job, listed("shop.a", "shop.b", "shop.c"), then)
    assert [(one.source_table, one.start) for one in back.channels[1:3]] == [("shop.a", ""), ("shop.b", "")]
    assert last.gone == ()


def test_a_table_that_is_missing_from_a_list_keeps_its_target_from_others(tmp_path: Path) -> None:
    job = read(tmp_path, BLOCK + BLOCK.replace('from = "shop.', 'from = "other.'))
    _, first = take_in(job, listed("shop.a", "other.b"), None)
    found, kept = take_in(job, listed("other.a", "other.b"), first)
    assert [one.source_table for one in found.channels] == ["ods.orders", "other.b"]
    assert [(one.table, one.conflict) for one in kept.skipped] == [("other.a", True)]


def test_a_mirrored_table_is_not_skipped_when_it_becomes_unfit(tmp_path: Path) -> None:
    job = read(tmp_path)
    _, first = take_in(job, listed("shop.a"), None)
    unfit = [TableListed("shop", "a", "shop.a has no primary key"), TableListed("shop", "v", "shop.v is a view")]
    found, kept = take_in(job, unfit, first)
    assert [one.source_table for one in found.channels] == ["ods.orders", "shop.a"]
    assert kept.skipped == (Skipped("shop.v", "shop.v is a view"),)


def test_a_table_whose_target_has_a_reserved_or_long_name_is_skipped(tmp_path: Path) -> None:
    found, _ = take_in(read(tmp_path), listed("shop.slotkeeper_progress", "shop.a"), None)
    assert [one.reason for one in found.skipped] == [
        "its target must not have a name reserved for Slotkeeper: slotkeeper_..., or ...__slotkeeper_copy"
    ]
    long, _ = take_in(read(tmp_path), listed("shop." + "x" * 64, "shop.a"), None)
    assert [one.reason for one in long.skipped] == ["its name must have names of at most 63 bytes"]


@pytest.mark.parametrize(
    ("line", "instead", "says"),
    [
        ('into = "shop.{table}"', 'into = "shop.all"', "channels[1].into has no {table}"),
        (
            'from = "shop.*"',
            'from = "shop.a"',
            "channels[1].except has no effect: jobs.orders_rt.channels[1].from names one table",
        ),
        ('from = "shop.*"\nexcept = ["shop.tmp_*"]', 'from = "shop.a"', "channels[1].into has {table}, but"),
        ('from = "shop.*"', 'from = "shop*"', "channels[1].from must be schema.table, with exactly one dot"),
        ('from = "shop.*"', 'from = "shop.*.*"', "channels[1].from must be schema.table, with exactly one dot"),
        ('except = ["shop.tmp_*"]', 'except = "shop.tmp_*"', "channels[1].except must be a list such as"),
        (
            'except = ["shop.tmp_*"]',
            'except = ["tmp_*"]',
            "channels[1].except must be schema.table, with exactly one dot",
        ),
        ("create_target = true", 'columns = { id = "key" }', "channels[1].columns applies to one table"),
    ],
)
def test_a_block_that_is_wrong_is_refused_with_its_key(tmp_path: Path, line: str, instead: str, says: str) -> None:
    assert line in BLOCK
    with pytest.raises(ConfigError) as refused:
        read(tmp_path, BLOCK.replace(line, instead))
    assert says in refused.value.message


def test_a_source_whose_slot_covers_one_table_takes_no_pattern(tmp_path: Path) -> None:
    text = VALID.replace('dialect = "dws"', 'dialect = "hologres_slot"').split("[[jobs")[0]
    with pytest.raises(ConfigError, match="has a pattern of tables, but a slot of this source covers one table"):
        read(tmp_path, BLOCK + "[jobs.orders_rt.binlog]\nbinlog = true\n", text)
