"""The compiled kernel returns what Python returns, which is the definition (ADR 90)."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from dataclasses import replace
from functools import partial

import pytest

from slotkeeper.core.sources.mysql import kernel
from slotkeeper.core.sources.mysql.events import Action
from slotkeeper.core.sources.mysql.transactions import TableRows
from tests.architecture.checkout import ROOT
from tests.support import kernel_rows
from tests.support.mysql_types import TABLE, Kind

pytestmark = pytest.mark.skipif(not kernel.BUILT, reason="the kernel was not built")
ROWS = 100_000


@pytest.fixture
def chance(seed: int) -> random.Random:
    print(f"seed {seed}")
    return random.Random(seed)


def test_a_hundred_thousand_random_rows_are_the_same_line_for_line(chance: random.Random) -> None:
    assert kernel_rows.compare(chance, ROWS) >= ROWS


def test_damaged_events_have_the_same_error_or_the_same_rows(chance: random.Random) -> None:
    kernel_rows.compare(chance, ROWS // 5, broken=True)


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_an_event_that_is_cut_anywhere_has_the_same_error(kind: Kind, chance: random.Random) -> None:
    one = kernel_rows.table(chance, [kind, TABLE[0]])
    assert one.by_kernel._plan is not None, "the kernel accepts each type"
    event = one.event(2, Action.INSERT, chance)
    for stop in range(event.begin, min(event.stop + 1, event.begin + 64)):
        cut = replace(event, stop=stop)
        assert kernel_rows.differences(one, cut, chance) == ""


def test_threads_can_share_a_plan_that_calls_python(chance: random.Random) -> None:
    kinds = [kind for kind in TABLE if kind.name in ("json", "varchar(100) compressed", "int", "text utf8mb4")]
    one = kernel_rows.table(chance, kinds)
    events = [one.event(60, Action.INSERT, chance) for _ in range(20)]
    items = [TableRows(one.map, event) for event in events]
    wanted = [kernel_rows.outcome(partial(kernel_rows.lines, one.by_python, item)) for item in items]
    found: dict[int, list[object]] = {}

    def work(number: int) -> None:
        found[number] = [kernel_rows.outcome(partial(kernel_rows.lines, one.by_kernel, item)) for item in items]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert list(found.values()) == [wanted] * 4


@pytest.mark.parametrize(("switch", "used"), [("", True), ("on", True), ("off", False), ("OFF", False), ("0", False)])
def test_a_variable_switches_the_kernel_off(switch: str, used: bool) -> None:
    with kernel_rows.switched(switch):
        assert kernel.is_used() is used


def test_without_the_kernels_file_python_decodes() -> None:
    """As in Spark's workers, which import modules from a zip file."""
    program = (
        "import sys; sys.modules['slotkeeper.core.sources.mysql._kernel'] = None\n"
        "from slotkeeper.core.sources.mysql import kernel; from tests.support.mysql_types import TABLE, decoder\n"
        "assert not kernel.is_used(); print(decoder([TABLE[0]]).rows(b'\\xfe\\x07', 0, 2))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ)
    assert done.stdout == "[(7,)]\n"
