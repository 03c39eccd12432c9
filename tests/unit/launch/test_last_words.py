"""Why a driver or its Java process ended, from its own output."""

from __future__ import annotations

import pytest

from slotkeeper.core.launch.log import last_words

HEAP = "java.lang.OutOfMemoryError: Java heap space"
FAULT = "SIGSEGV (0xb) at pc=0x00007f, pid=9, tid=10"
BEGAN = "2026-11-23T02:00:00.000+00:00 supervisor 7 driver started, pid 9"
GONE = "slotkeeper: Spark's Java process has exited"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([BEGAN, f"x {HEAP}", GONE], HEAP),
        (
            [BEGAN, "#  SIGSEGV (0xb) at pc=0x00007f, pid=9, tid=10", GONE],
            "SIGSEGV (0xb) at pc=0x00007f, pid=9, tid=10",
        ),
        ([BEGAN, "noise", GONE, "more noise"], "Spark's Java process has exited"),
        (["java.lang.OutOfMemoryError: of the driver before", BEGAN, "noise"], ""),
        (["java.lang.OutOfMemoryError: Metaspace"], "java.lang.OutOfMemoryError: Metaspace"),
        ([], ""),
    ],
)
def test_the_last_words_are_those_of_the_last_driver(lines: list[str], said: str) -> None:
    assert last_words(lines) == said
