"""The first row fits at every width, and shows the context, whether the console is read-only, and the age of the
data."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slotkeeper.console.views.header import Identity, badge_role, parts

NOW = datetime(2026, 11, 21, 2, 31, 7, tzinfo=timezone.utc)
PLAIN = Identity(["PROD"], "li.wei@host1", "", 2.0, "1s", False, NOW)


def row(one: Identity, width: int) -> str:
    return "".join(text for _, text in parts(one, width))


def test_at_80_and_100_columns_it_looks_like_the_mock_ups() -> None:
    shown = " slotkeeper  PROD  li.wei@host1  read-only  * 2s data 1s              02:31:07Z "
    assert row(PLAIN, 80) == shown
    routed = replace(PLAIN, route="dws1 -> mart")
    assert row(routed, 80).startswith(" dws1 -> mart  PROD  li.wei@host1  read-only "), "the product goes first"
    wide = row(replace(routed, armed="9:41"), 120)
    assert wide.startswith(" slotkeeper  dws1 -> mart  PROD  li.wei@host1  WRITE 9:41  * live 2s  data 1s old ")
    assert wide.endswith(" 2026-11-21 02:31:07 UTC ")


NAMES = st.lists(st.text("ABCDEFGHIJ-_", min_size=1, max_size=60), max_size=4)


@given(
    NAMES,
    st.text("abcdefghij.@", max_size=80),
    st.sampled_from(["", "9:41", "10:00"]),
    st.sampled_from(["1s", "? (not read yet)", "12d3h"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(60, 200),
)
def test_it_is_as_wide_as_the_screen_and_keeps_what_counts(
    names: list[str], who: str, armed: str, seen: str, stale: bool, paused: bool, stand_in: bool, width: int
) -> None:
    assume(not stale or not seen.startswith("?"))  # never read: no age
    shown = row(Identity(names, who, armed, 30.0, seen, stale, NOW, paused, stand_in), width)
    assert len(shown) == width
    write, read = ("WRITE", "read-only") if width >= 80 else ("RW", "RO")
    assert f" {write} {armed} " in shown if armed else f" {read} " in shown
    assert f"data {seen}" in shown and "02:31:07" in shown
    assert ("STALE" in shown) is stale and ("paused" in shown) is paused
    first = "+".join(names)
    assert shown.removeprefix(" slotkeeper ")[1:].startswith(first[:5] if first else "no en")


@pytest.mark.parametrize(
    ("names", "role"),
    [
        (["PROD"], "badge"),
        (["prod"], "badge"),
        (["elsewhere"], "badge"),
        (["DEV", "PROD"], "badge"),
        (["STAGE"], "badge-stage"),
        (["DEV"], "badge-calm"),
        (["DEMO", "TEST"], "badge-calm"),
    ],
)
def test_an_environment_is_red_unless_it_is_known_to_be_something_else(names: list[str], role: str) -> None:
    assert badge_role(names) == role
