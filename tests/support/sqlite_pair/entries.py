"""Functions that a Spark worker calls for a job of the second pair: a separate process, which has to register these
kinds."""

from __future__ import annotations

import pytest

from slotkeeper.core.engine.tasks import CopyOutcome, CopyTask, StreamOutcome, StreamTask
from slotkeeper.core.wiring.worker import ENTRIES
from tests.support.sqlite_pair import kind, sink


def register() -> None:
    """Register the kinds in this process."""
    for_good = pytest.MonkeyPatch()
    kind.register(for_good)
    sink.register(for_good)


def stream(task: StreamTask) -> StreamOutcome:
    """Run a stream task of Slotkeeper after registering the kinds."""
    register()
    return ENTRIES.stream(task)


def copy(task: CopyTask) -> CopyOutcome:
    """Run a copy task of Slotkeeper after registering the kinds."""
    register()
    return ENTRIES.copy(task)
