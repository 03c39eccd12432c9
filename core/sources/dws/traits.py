"""The traits of DWS as a source."""

from __future__ import annotations

from slotkeeper.core.domain.traits import Newest, OldImages, SourceTraits

TRAITS = SourceTraits(
    keeps_positions=True,
    slot_unasked=False,
    one_stream=False,
    # "Subscribing to Hybrid Data Warehouse Binlog": columns other than the key may be empty in B and d
    old_images=OldImages.PROBED,
    # "Hybrid data warehouse functions", pgxc_get_binlog_sync_point: latest_sync_point is "the current latest
    # synchronization point". The page does not state whose. Its examples show one value on all DNs, and a later value
    # without a record of the table; "Subscribing to Hybrid Data Warehouse Binlog": points are unique and ordered.
    newest=Newest.OBSERVED,
    times_changes=True,
)
