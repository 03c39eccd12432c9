"""The kernel for MySQL's rows reads and writes only its own memory, even with damaged events (ADR 90)."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from tests.support import kernel_rows

pytestmark = pytest.mark.chaos
SECONDS = 120


def test_random_and_damaged_rows_are_read_without_a_report_of_the_sanitizers(tmp_path: Path) -> None:
    try:
        kernel_rows.build(tmp_path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no compiler with sanitizers: {error}")
    done = kernel_rows.sanitized(SECONDS, random.SystemRandom().randrange(1 << 32))
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal, no report" in done.stdout
