"""What a Hologres is as a source that keeps a slot's position: all else as without."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.sources.hologres import traits

TRAITS = replace(traits.TRAITS, keeps_positions=True, slot_unasked=False, several_by="hologres")
