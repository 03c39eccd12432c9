"""The traits of Hologres as a sink."""

from __future__ import annotations

from slotkeeper.core.domain.traits import SinkTraits

HOLOGRES = SinkTraits(
    one_transaction=False,
    repeats_change_nothing=False,
    adds=frozenset({"compute"}),
    no_views="use a sink of kind postgres: this kind applies changes at least once",
)
"""Writing a row again changes nothing, but an older row can replace a newer row."""
