"""The traits of a Hologres source whose jobs use a slot. Traits not set here are the same as without a slot."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.sources.hologres import traits

TRAITS = replace(traits.TRAITS, keeps_positions=True, slot_unasked=False, several_by="hologres")
