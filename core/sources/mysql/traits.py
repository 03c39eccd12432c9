"""The traits of a MySQL or MariaDB source."""

from __future__ import annotations

from slotkeeper.core.domain.traits import SourceTraits

TRAITS = SourceTraits(
    keeps_positions=False,
    slot_unasked=True,
    one_stream=True,
    paced=True,
    server_keys="mysql",
    silent_cascades=True,
    speaks="MySQL",
    no_probe=("a MySQL source has no probe: its binlog is documented", "`slotkeeper doctor` checks it"),
)
