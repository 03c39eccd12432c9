"""Which targets can use the optimistic path, and which of its checks a step passes. No server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.sinks.postgres.session import DWS
from slotkeeper.core.sinks.postgres.write import optimistic
from slotkeeper.core.sinks.postgres.write.statements import TargetTable

TABLE = TargetTable("mart.t", ("id", "v"), ("id",), strict_key=True)


def test_a_plain_target_takes_the_path() -> None:
    assert optimistic.fits(TABLE, SinkOptions())


@pytest.mark.parametrize(
    "other",
    [
        {"optimistic_step": False},
        {"write_mode": "merge"},
        {"conflict_strategy": "ignore"},
        {"ignore_update_before": False},
        {"ignore_delete": True},
        {"ignore_null_when_update": True},
    ],
    ids=str,
)
def test_an_option_that_changes_what_a_step_writes_excludes_the_path(other: dict[str, Any]) -> None:
    assert not optimistic.fits(TABLE, replace(SinkOptions(), **other))


@pytest.mark.parametrize("other", [{"dialect": DWS}, {"strict_key": False}, {"loose": ("id",)}], ids=list)
def test_a_key_that_can_be_null_or_has_several_texts_and_a_plain_server_exclude_it(other: dict[str, Any]) -> None:
    assert not optimistic.fits(replace(TABLE, **other), SinkOptions())


def test_a_check_passes_only_with_equal_numbers() -> None:
    assert optimistic.no_key_changes(3, 3)
    assert not optimistic.no_key_changes(3, 2) and not optimistic.no_key_changes(2, 3)
    assert optimistic.each_has_its_row(3, 3)
    assert not optimistic.each_has_its_row(3, 2) and not optimistic.each_has_its_row(2, 3)
    assert optimistic.none_is_ours(0) and not optimistic.none_is_ours(1)
