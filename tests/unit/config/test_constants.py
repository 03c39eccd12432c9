"""Channels with a constant: what is read, and what two of them can share."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.config.load import load_usable
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.domain.spec import ChannelSpec, Constant

TEXT = """
[sources.shop]
dialect = "mysql"
host = "127.0.0.1"
user = "etl"
password_env = "P"

[sinks.mart]
kind = "postgres"
host = "localhost"
port = 5432
database = "mart"
user = "etl"

[jobs.orders]
source = "shop"
sink = "mart"
copy_rows_per_second = 5_000
copy_bytes_per_second = "10MiB"

[jobs.orders.binlog]
binlog = true
"""
CHANNEL = """
[[jobs.{job}.channels]]
from = "{table}"
into = "mart.orders"
{more}
"""


def channel(table: str, constant: str = "", more: str = "", job: str = "orders") -> str:
    set_to = f"constant = {constant}\n" if constant else ""
    return CHANNEL.format(job=job, table=table, more=set_to + more)


def loaded(tmp_path: Path, text: str) -> Loaded:
    file = tmp_path / "c.toml"
    file.write_text(text)
    return load_usable(file, {"P": "x"})


def part(value: object, column: str = "shop_id") -> str:
    shown = f'"{value}"' if isinstance(value, str) else value
    return f'{{ column = "{column}", value = {shown} }}'


def test_several_channels_share_a_target_with_values_of_their_own(tmp_path: Path) -> None:
    text = TEXT + channel("eu.orders", part("eu_1")) + channel("us.orders", part("us")) + channel("x.o", part(-7))
    found = loaded(tmp_path, text)
    job = found.jobs["orders"]
    assert job.channels == (
        ChannelSpec("eu.orders", "mart.orders", constant=Constant("shop_id", "eu_1")),
        ChannelSpec("us.orders", "mart.orders", constant=Constant("shop_id", "us")),
        ChannelSpec("x.o", "mart.orders", constant=Constant("shop_id", -7)),
    )
    assert [one.locked_target for one in job.narrowed] == [
        "mart.orders [shop_id=eu_1]",
        "mart.orders [shop_id=us]",
        "mart.orders [shop_id=-7]",
    ]
    shown = {one.key: one.value for one in found.settings()}
    assert shown["jobs.orders.channels[1].constant"] == '{ column = "shop_id", value = "us" }'
    assert shown["jobs.orders.channels[2].constant"] == '{ column = "shop_id", value = -7 }'


def test_the_limit_of_copies_is_read_with_its_unit(tmp_path: Path) -> None:
    job = loaded(tmp_path, TEXT + channel("a.b")).jobs["orders"]
    assert job.copy_limit == CopyLimit(5_000, 10 << 20)
    without = TEXT.replace("copy_rows_per_second = 5_000", "").replace('copy_bytes_per_second = "10MiB"', "")
    assert loaded(tmp_path, without + channel("a.b")).jobs["orders"].copy_limit == CopyLimit()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("5_000", "99", "copy_rows_per_second must be from 100"),
        ("5_000", "true", "must be a whole number"),
        ('"10MiB"', '"10KiB"', "copy_bytes_per_second must be from 64 KiB"),
        ('"10MiB"', '"fast"', "must be a size"),
        ('"10MiB"', "1.5", "must be a size"),
    ],
)
def test_a_wrong_limit_is_rejected(tmp_path: Path, old: str, new: str, says: str) -> None:
    found = loaded(tmp_path, TEXT.replace(old, new) + channel("a.b"))
    assert says in str(found.refused["orders"])


_TWO = "jobs.orders.channels[1] writes to mart.orders"


@pytest.mark.parametrize(
    ("channels", "says"),
    [
        (channel("a.b", part("eu")) + channel("c.d", part("eu")), f"{_TWO} [shop_id=eu], which"),
        (channel("a.b", part("eu")) + channel("c.d"), f"{_TWO}, which"),
        (channel("a.b") + channel("c.d", part("eu")), f"{_TWO} [shop_id=eu], which"),
        (channel("a.b", part("eu")) + channel("c.d", part("us", "region")), f"{_TWO} [region=us], which"),
        (channel("a.b", part(1)) + channel("c.d", part("1")), f"{_TWO} [shop_id=1], which"),
        (channel("a.b", part("eu")) + channel("a.b", part("us")), "reads a.b, which"),
        (channel("a.b", '"eu"'), "constant must be a table such as"),
        (channel("a.b", '{ column = "shop_id" }'), "constant must be a table such as"),
        (channel("a.b", '{ column = "shop_id", value = "eu", more = 1 }'), "constant must be a table such as"),
        (channel("a.b", part("eu", "a b")), "constant column: must have only letters"),
        (channel("a.b", part("it's")), "constant value: must be a whole number, or text of"),
        (channel("a.b", part("x" * 64)), "constant value: must be a whole number, or text of"),
        (channel("a.b", '{ column = "shop_id", value = true }'), "constant value: must be a whole number"),
        (channel("a.b", part(2**63)), "constant value: must be a whole number"),
        (channel("a.b", part("eu"), 'columns = { id = "id", v = "shop_id" }'), "also maps a column to shop_id"),
        (channel("a.b", part("eu"), 'on_schema_change = "resnapshot"'), "would alter the rows of other channels"),
    ],
)
def test_what_would_mix_rows_is_rejected_by_name(tmp_path: Path, channels: str, says: str) -> None:
    text = TEXT.replace("[jobs.orders.binlog]", 'on_existing = "merge"\n[jobs.orders.binlog]')
    assert says in str(loaded(tmp_path, text + channels).refused["orders"])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('kind = "postgres"', 'kind = "dws"', "is not supported for a sink of kind dws"),
        ('dialect = "mysql"', 'dialect = "dws"\nport = 8000\ndatabase = "d"', "for a source of kind dws"),
    ],
)
def test_a_kind_that_was_not_tested_with_it_is_rejected_by_name(tmp_path: Path, old: str, new: str, says: str) -> None:
    found = loaded(tmp_path, TEXT.replace(old, new) + channel("a.b", part("eu")))
    assert says in str(found.refused["orders"])


def test_two_jobs_share_a_target_but_no_part_of_it(tmp_path: Path) -> None:
    other = '\n[jobs.other]\nsource = "shop"\nsink = "mart"\n[jobs.other.binlog]\nbinlog = true\n'
    first = TEXT + channel("a.b", part("eu")) + other
    assert not loaded(tmp_path, first + channel("c.d", part("us"), job="other")).refused
    found = loaded(tmp_path, first + channel("c.d", part("eu"), job="other"))
    assert "writes to mart.orders [shop_id=eu], which job orders" in str(found.refused["other"])
