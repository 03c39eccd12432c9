"""A table that is copied again while it streams equals the source; each rule switched off is found."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from .recopy import Rules, run

SEEDS = range(300)


def test_each_range_that_was_copied_again_equals_the_source_at_the_position_of_the_lane() -> None:
    broken = [seed for seed in SEEDS if run(seed, Rules()).broken]
    assert not broken, f"seeds {broken[:5]}"


@pytest.mark.parametrize("rule", [one.name for one in fields(Rules)])
def test_each_rule_of_a_copy_beside_the_stream_switched_off_is_found(rule: str) -> None:
    without = replace(Rules(), **{rule: False})
    assert any(run(seed, without).broken for seed in SEEDS)
