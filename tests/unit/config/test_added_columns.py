"""Soft deletes and computed columns in a configuration: what is read, and what is rejected in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.spec import Computed, SoftDelete
from tests.unit.config.test_constants import TEXT, channel, loaded


def test_the_columns_of_a_channel_are_read_and_shown(tmp_path: Path) -> None:
    more = (
        'soft_delete = { op = "last_op" }\nsynced_at = "seen"\nsalt_env = "PEPPER"\ncolumns = { id = "id" }\n'
        'compute = { "email" = "md5(salt() || mail)", "at" = "change_position()" }'
    )
    found = loaded(tmp_path, TEXT + channel("shop.orders", more=more))
    (one,) = found.jobs["orders"].channels
    assert (one.soft_delete, one.marks) == (SoftDelete("deleted_at", "last_op"), ("deleted_at", "last_op", "seen"))
    assert one.compute == (
        Computed("email", "md5(salt() || mail)", ("mail",), salted=True),
        Computed("at", "change_position()", of_change=True),
    )
    assert (one.salt, one.read) == (SecretRef("env", "PEPPER", "salt"), ("id", "mail"))
    shown = {setting.key: setting.value for setting in found.settings()}
    assert shown["jobs.orders.channels[0].soft_delete"] == '{ deleted_at = "deleted_at", op = "last_op" }'
    assert shown["jobs.orders.channels[0].compute"] == '{ email = "md5(salt() || mail)", at = "change_position()" }'


@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        ("soft_delete = true", "", "must be a table such as"),
        ('soft_delete = { op = "deleted_at" }', "", "must name two columns"),
        ("soft_delete = {}\nconstant = { column = 'a', value = 1 }", "", "cannot be combined with constant"),
        (
            "soft_delete = {}",
            "ignore_delete = true",
            "combined with this jobs.orders.sink_options.ignore_delete",
        ),
        ("soft_delete = {}", 'write_mode = "copy_merge"', "cannot be combined with this"),
        (
            "soft_delete = {}",
            '\n[[jobs.orders.views]]\ninto = "mart.v"\nsql = "SELECT 1"',
            "cannot be combined with views",
        ),
        ('compute = { a = "now()" }', "", "a: must be an expression of the supported subset: CURRENTTIMESTAMP"),
        ('compute = { a = "salt() || b" }', "", "must use salt() only within md5"),
        ('compute = { a = "md5(salt() || b)" }', "", "the channel has no salt"),
        ('salt = "x"', "", "unknown key salt in"),
    ],
)
def test_a_contradiction_is_rejected(tmp_path: Path, more: str, options: str, said: str) -> None:
    text = TEXT + channel("shop.orders", more=more) + f"[jobs.orders.sink_options]\n{options}\n"
    assert said in str(loaded(tmp_path, text).refused["orders"])


def test_a_source_without_the_time_of_a_change_is_rejected(tmp_path: Path) -> None:
    text = TEXT + channel("shop.orders", more='compute = { at = "change_time()" }')
    assert "change_time() needs a source of kind dws" in str(loaded(tmp_path, text).refused["orders"])


def test_another_kind_of_sink_is_rejected(tmp_path: Path) -> None:
    text = TEXT.replace('kind = "postgres"', 'kind = "dws"') + channel("shop.orders", more="soft_delete = {}")
    assert "soft_delete is not supported for a sink of kind dws" in str(loaded(tmp_path, text).refused["orders"])
