"""Puts the figures where node_exporter's textfile collector or another reader finds them: whole or not at all.

Next door: `core.alerts.metrics` makes the text.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from core.alerts.metrics import exposition
from core.domain.fault import Fault
from core.domain.text import safe
from core.judgement.facts import Facts

FRESH_SECONDS = 3.0
"""What another supervisor has written so lately is not written again."""
_MODE = 0o644
"""Who collects is another user; no secret is in it."""


def write(path: Path, facts: Facts, faults: tuple[Fault, ...]) -> str:
    """Write the figures under another name and rename them; why that failed, or ""."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if _is_fresh(path):
            return ""
        text = exposition(facts, faults)
        with suppress(FileNotFoundError):
            draft.unlink()
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _MODE)
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            os.fchmod(descriptor, _MODE)
            stream.write(text)
        draft.replace(path)
    except OSError as error:
        with suppress(OSError):
            draft.unlink()
        return f"metrics_file {safe(path, 200)} cannot be written: {error.strerror or error}"
    return ""


def _is_fresh(path: Path) -> bool:
    try:
        age = time.time() - path.stat().st_mtime
    except FileNotFoundError:
        return False
    return 0 <= age < FRESH_SECONDS
