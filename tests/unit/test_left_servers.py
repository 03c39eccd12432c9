"""A run's servers start although other runs on the host end at the same time."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support import memory, standin


def test_a_folder_that_is_removed_meanwhile_stops_no_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "DISK", tmp_path)
    gone, old, new = (tmp_path / f"{standin.PREFIX}{name}" for name in ("a", "b", "c"))
    gone.symlink_to(tmp_path / "removed")  # it is listed, and does not exist
    for folder in (old, new):
        folder.mkdir()
    os.utime(old, (1.0, 1.0))
    standin.sweep()
    assert not old.exists() and new.exists()
