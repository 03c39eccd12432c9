"""Puts the figures where node_exporter's textfile collector or another reader finds them: whole or not at all."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from pathlib import Path

from slotkeeper.core.alerts.metrics import exposition
from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.domain.text import safe
from slotkeeper.core.judgement.facts import Facts

FRESH_SECONDS = 3.0
"""What another supervisor has written so lately is not written again."""
_BEGIN = b"# TYPE slotkeeper_"
_MODE = 0o644
"""Who collects is another user; no secret is in it."""


def write(path: Path, facts: Facts, faults: tuple[Fault, ...]) -> str:
    """Write the figures under another name and rename them; why that failed, or ""."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        there = _there(path)
        if there is not None and not _is_ours(path, there):
            return f"metrics_file {safe(path, 200)} is not replaced: it is there already and is no file of figures"
        if there is not None and 0 <= time.time() - there.st_mtime < FRESH_SECONDS:
            return ""
        text = exposition(facts, faults)
        with suppress(FileNotFoundError):
            draft.unlink()
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(descriptor, _MODE)
            stream.write(text)
        draft.replace(path)
    except (OSError, ValueError) as error:  # the latter for a path that no system takes
        with suppress(OSError, ValueError):
            draft.unlink()
        reason = error.strerror if isinstance(error, OSError) else None
        return f"metrics_file {safe(path, 200)} cannot be written: {reason or error}"
    return ""


def _there(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def _is_ours(path: Path, there: os.stat_result) -> bool:
    """Whether it is a file that nobody misses once figures are in its place: no device, no link, and nothing else's."""
    if not stat.S_ISREG(there.st_mode):
        return False
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        begin = stream.read(len(_BEGIN))
    return not begin or begin == _BEGIN
