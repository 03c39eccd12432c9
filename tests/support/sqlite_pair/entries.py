"""What a Spark worker calls for a job of the second pair: a process of its own, which does not know these kinds yet."""

from __future__ import annotations

import pytest

from slotkeeper.core.engine.tasks import CopyOutcome, CopyTask, StreamOutcome, StreamTask
from slotkeeper.core.wiring.worker import ENTRIES
from tests.support.sqlite_pair import kind, sink


def register() -> None:
    """Put the kinds into the registries of this process, for as long as it lives."""
    for_good = pytest.MonkeyPatch()
    kind.register(for_good)
    sink.register(for_good)


def stream(task: StreamTask) -> StreamOutcome:
    """A stream task of the product, where the kinds are known."""
    register()
    return ENTRIES.stream(task)


def copy(task: CopyTask) -> CopyOutcome:
    """A copy task of the product, where the kinds are known."""
    register()
    return ENTRIES.copy(task)
