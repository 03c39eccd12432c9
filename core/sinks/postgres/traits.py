"""The traits of the sinks PostgreSQL and DWS (over PostgreSQL's protocol)."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain.traits import SinkTraits

DWS = SinkTraits(
    one_transaction=True, repeats_change_nothing=True, is_store=True, adds=frozenset({"compute", "synced_at"})
)
POSTGRES = replace(
    DWS,
    stores_for_others=True,
    shares_jobs=True,
    many_into_one=True,
    copies_again=True,
    no_views="",
    adds=DWS.adds | {"soft_delete"},
)
