"""Fixtures of several files of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.core.state.sqlite import Store
from tests.support.jobs import Jobs


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """Real jobs with fake drivers, all ended at the end."""
    with Store.open(tmp_path / "state") as store:
        made = Jobs(store, tmp_path)
        try:
            yield made
        finally:
            made.end_all()
