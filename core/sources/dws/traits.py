"""The traits of DWS as a source."""

from __future__ import annotations

from slotkeeper.core.domain.traits import SourceTraits

TRAITS = SourceTraits(keeps_positions=True, slot_unasked=False, one_stream=False, changelogs=True)
