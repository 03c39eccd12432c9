"""Mounts, as root, a small in-memory file system for a state folder, so that the folder's disk can be filled."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slotkeeper.core.config import handover
from slotkeeper.core.domain.text import see
from slotkeeper.core.errors import ConfigError

SIZE = "64m"


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """Create the folder `place` and mount the disk there for the block. Raises ConfigError if this host does not allow
    it.
    """
    place.mkdir(parents=True, exist_ok=True)
    words = ["mount", "-t", "tmpfs", "-o", f"size={SIZE},mode=0700", "slotkeeper", str(place)]
    refusal = "this user is not root" if os.geteuid() else _said(words)
    if refusal:
        raise ConfigError(
            f"cannot mount a small disk at {place}: {refusal}",
            f"only root can mount it; {see('runbook', 'The disk of the state folder is full')} describes the incident",
        )
    try:
        yield
    finally:
        unmount(place)


def unmount(place: Path) -> None:
    """Unmount the disk, if one is mounted there."""
    if place.is_mount():
        _said(["umount", "-l", str(place)])


def _said(words: list[str]) -> str:
    ended = subprocess.run(words, capture_output=True, text=True, check=False, env=handover.environment())
    return "" if ended.returncode == 0 else " ".join(ended.stderr.split()) or f"exit code {ended.returncode}"
