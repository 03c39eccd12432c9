"""The path of one change, file by file: the page lists the modules that a real step with its registration enters."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import slotkeeper
from slotkeeper.core import retry
from slotkeeper.core.domain.tries import NO_HISTORY
from slotkeeper.core.drivers import pipe
from slotkeeper.core.engine.driver.loop import Loop
from slotkeeper.core.engine.driver.registration import TargetWatch
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import Busy
from slotkeeper.core.retry import Failure, RetryRules
from slotkeeper.demo.warehouse import Warehouse
from tests.architecture.checkout import ROOT
from tests.support.mirror import MakeMirror, Mirror
from tests.support.waiting import until

PAGE = ROOT / "docs" / "architecture.md"
MOST = 10
BESIDE = (
    "core/domain/",
    "core/drivers/",
    "core/errors.py",
    "core/redaction.py",
    "core/clock.py",
    "core/sqltext.py",
    "core/sources/dws/position.py",
)
"""Values, pure rules, clocks and drivers: what every file may use. A dialect's positions are such values."""
HOME = Path(slotkeeper.__file__).parent


def codes(function: Callable[..., object]) -> set[CodeType]:
    """The code of a function and of those defined in it."""
    found, waiting = set(), [function.__code__]
    while waiting:
        code = waiting.pop()
        found.add(code)
        waiting += [one for one in code.co_consts if isinstance(one, CodeType)]
    return found


def registering() -> CodeType:
    """Return what a thread runs to register a lane that a task has returned."""
    return next(code for code in codes(TargetWatch.register) if code.co_name == "<lambda>")


ROOTS = frozenset(
    {
        Loop._assign_lanes.__code__,
        Loop._task_ended.__code__,
        entries.run_stream.__code__,
        pipe._Reading.run.__code__,
        registering(),
    }
)


class Walk:
    """Files of the packages `under` that are entered below the roots while `on`; in order of the first entry."""

    def __init__(self, roots: Collection[CodeType] = ROOTS, under: Sequence[str] = ("core",)) -> None:
        self.on = False
        self.files: dict[str, None] = {}
        self._roots = frozenset(roots)
        self._under = tuple(f"{one}/" for one in under)
        self._names: dict[str, str] = {}
        self._depth = threading.local()

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        depth = getattr(self._depth, "value", 0)
        inside = frame.f_code in self._roots
        if inside:
            depth = self._depth.value = depth + (1 if event == "call" else -1)
        if self.on and event == "call" and (depth > 0 or inside):
            self._enter(frame.f_code.co_filename)

    @contextmanager
    def elsewhere(self) -> Iterator[None]:
        """The block represents another process: nothing is below a root until it enters one."""
        depth, self._depth.value = getattr(self._depth, "value", 0), 0
        try:
            yield
        finally:
            self._depth.value = depth

    def _enter(self, name: str) -> None:
        if name not in self._names:
            path = Path(name)
            self._names[name] = path.relative_to(HOME).as_posix() if path.is_relative_to(HOME) else ""
        if self._names[name].startswith(self._under):
            self.files.setdefault(self._names[name])


def walked(mirror: Mirror, walk: Walk) -> list[str]:
    """What one batch of changes and its registration enter, of a job that has been streaming for a while."""
    mirror.start().wait_running()
    mirror.source("INSERT INTO ods.walk SELECT n, 0 FROM generate_series(1, 50) n")
    mirror.wait_equal()
    done = mirror.heard.registrations
    until(lambda: mirror.heard.registrations > done + 4, 30, "registrations of every lane")
    done, walk.on = mirror.heard.registrations, True
    mirror.source("INSERT INTO ods.walk SELECT n, 0 FROM generate_series(101, 150) n")
    mirror.wait_equal()
    until(lambda: mirror.heard.registrations > done + 4, 30, "the registrations behind it")
    walk.on = False
    mirror.stop()
    return [file for file in walk.files if not file.startswith(BESIDE)]


def listed(heading: str) -> list[str]:
    """Return the files of a walk as listed on the page."""
    text = PAGE.read_text("utf-8")
    section = text[text.index(f"## {heading}\n") :].split("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)


def test_a_change_walks_through_the_files_that_the_page_lists_and_no_other(
    warehouse: Warehouse, make_mirror: MakeMirror
) -> None:
    warehouse.create_table("ods.walk", "id bigint, v integer", ("id",))
    walk = Walk()
    threading.setprofile(walk)
    try:
        found = walked(make_mirror(warehouse, "ods.walk"), walk)
    finally:
        threading.setprofile(None)
    print("\n".join(found))
    assert sorted(found) == sorted(listed("The walk of one change"))
    assert len(found) <= MOST


def test_a_file_that_is_entered_beside_the_list_is_found() -> None:
    walk = Walk({_enters.__code__})
    walk.on = True
    sys.setprofile(walk)
    try:
        _enters()
    finally:
        sys.setprofile(None)
    assert [file for file in walk.files if not file.startswith(BESIDE)] == ["core/retry.py"]


def _enters() -> None:
    retry.after(NO_HISTORY, Failure.of(Busy("a lock")), RetryRules())
