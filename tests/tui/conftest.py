"""How long tests of the console wait for it: until it is idle, which is asked every 4 ms instead of every 20 ms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from textual import _wait, screen

LOOK = 1 / 250
"""Seconds between two looks. A key is three waits, each of at least one look, and a test presses a dozen keys."""


@pytest.fixture(scope="session", autouse=True)
def looked_at_often() -> Iterator[None]:
    """Whoever waits for a repaint has it within one look, as with Textual's own 60 repaints a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_wait, "SLEEP_GRANULARITY", LOOK)
        patch.setattr(_wait, "SLEEP_IDLE", LOOK / 20)
        patch.setattr(screen, "UPDATE_PERIOD", LOOK)
        yield
