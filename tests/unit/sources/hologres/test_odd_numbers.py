"""Invalid numbers from Hologres: none of these texts causes a Python error."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.ttl import LONGEST
from slotkeeper.core.sources.hologres.catalog import DEFAULT_TTL, MOST_SHARDS, TableState, own_id
from slotkeeper.core.sources.hologres.eligibility import table_objections

ODD = ["²", "१²", "1_0", " 1", "", "9" * 5_000]
IDENTITY = TableIdentity(1, (Column("id", "bigint", True),), ("id",), "db1")


@pytest.mark.parametrize("text", ODD)
def test_a_property_that_is_not_a_number_counts_as_unknown(text: str) -> None:
    said = dict.fromkeys(("shard_count", "binlog.ttl", "table_id", "schema_version"), text)
    state = TableState(IDENTITY, said, 0)
    assert state.shards == [] and state.ttl == DEFAULT_TTL
    assert own_id(said, 5) == (5 if not text else own_id(said, 6))


@pytest.mark.parametrize("text", ODD[:-2])
def test_a_time_to_live_that_is_not_a_number_is_an_objection(text: str) -> None:
    state = TableState(IDENTITY, {"binlog.level": "replica", "shard_count": "1", "binlog.ttl": text}, 0)
    assert any("not a number of seconds" in one.text for one in table_objections("t", state))


def test_a_number_of_shards_beyond_all_memory_is_an_objection() -> None:
    said = {"binlog.level": "replica", "shard_count": str(MOST_SHARDS + 1)}
    state = TableState(IDENTITY, said, 0)
    assert state.shards == []
    assert any("shard count of" in one.text for one in table_objections("t", state))


def test_a_time_to_live_is_a_century_at_most() -> None:
    assert TableState(IDENTITY, {"binlog.ttl": "9" * 18}, 0).ttl == LONGEST
