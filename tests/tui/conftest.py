"""Tests of the console check that it is idle every 4 ms instead of every 20 ms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from textual import _wait, screen

LOOK = 1 / 250
"""Seconds between two checks. A key needs three waits, each of at least one check, and a test presses a dozen keys."""


@pytest.fixture(scope="session", autouse=True)
def looked_at_often() -> Iterator[None]:
    """A test that waits for a repaint sees it within one check, as with Textual's own 60 repaints a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_wait, "SLEEP_GRANULARITY", LOOK)
        patch.setattr(_wait, "SLEEP_IDLE", LOOK / 20)
        patch.setattr(screen, "UPDATE_PERIOD", LOOK)
        yield
