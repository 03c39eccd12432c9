"""The core as a library: read a slot batch by batch, write to a sink, confirm. Delivery is at least once."""

from __future__ import annotations

from slotkeeper.core.library import Batch, EventType, Reader, Record, Sink, SlotkeeperError, Trouble, load, passes

__all__ = ["Batch", "EventType", "Reader", "Record", "Sink", "SlotkeeperError", "Trouble", "load", "passes"]
