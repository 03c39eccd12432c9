"""What a Hologres can do as a sink."""

from __future__ import annotations

from slotkeeper.core.domain.traits import SinkTraits

HOLOGRES = SinkTraits(one_transaction=False, repeats_change_nothing=False)
"""A row that is written again is the same; but nothing keeps an older one from being written over a newer one."""
