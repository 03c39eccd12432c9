"""The switch of the compiled kernels; without them, Python does the same (ADR 90, ADR 104)."""

from __future__ import annotations

import os

SWITCH = "SLOTKEEPER_KERNEL"
"""Environment variable that switches the kernels off."""
_OFF = frozenset({"off", "0", "no", "false"})


def is_switched_off() -> bool:
    """Whether the user has switched the compiled kernels off."""
    return os.environ.get(SWITCH, "").strip().lower() in _OFF
