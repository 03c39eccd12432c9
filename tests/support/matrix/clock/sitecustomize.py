"""This host's clock for the processes of a chaos matrix: `SystemClock.utc` is ahead by the seconds in a file."""

import os
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

VARIABLE = "SLOTKEEPER_TEST_CLOCK"

if VARIABLE in os.environ:
    with suppress(ImportError):  # a Python of another program
        from slotkeeper.core.clock import SystemClock

        _utc = SystemClock.utc

        def _stepped(clock: SystemClock) -> datetime:
            return _utc(clock) + timedelta(seconds=float(Path(os.environ[VARIABLE]).read_text("ascii") or 0))

        SystemClock.utc = _stepped  # type: ignore[assignment, method-assign]
