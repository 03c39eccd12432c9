"""The traits of Doris as a sink."""

from __future__ import annotations

from slotkeeper.core.domain.traits import SinkTraits

DORIS = SinkTraits(
    one_transaction=False,
    repeats_change_nothing=True,
    keeps_prepared=True,
    tries_rows=True,
    server_keys="doris",
    many_into_one=True,
    adds=frozenset({"compute"}),
    no_views="create a materialized view in Doris itself, which no job maintains or compares",
)
