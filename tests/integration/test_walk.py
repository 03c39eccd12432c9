"""The path of one change, file by file: the page lists the modules that a real step with its registration enters.

Also from MySQL to Doris, and of a row into a DataFrame.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType, FrameType

import slotkeeper
from slotkeeper.core import retry
from slotkeeper.core.dataframe.reader.read import read
from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.domain.tries import NO_HISTORY
from slotkeeper.core.drivers import pipe
from slotkeeper.core.engine.driver.loop import Loop
from slotkeeper.core.engine.driver.registration import TargetWatch
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import Busy
from slotkeeper.core.retry import Failure, RetryRules
from slotkeeper.demo.doris.server import DorisStandin
from slotkeeper.demo.warehouse import Warehouse
from tests.architecture.checkout import ROOT
from tests.support import frames
from tests.support.mirror import MakeMirror, Mirror
from tests.support.pairs import MysqlPair
from tests.support.waiting import until

PAGE = ROOT / "docs" / "architecture.md"
MOST, MOST_TO_DORIS, MOST_OF_A_FRAME = 10, 19, 9
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
BESIDE_DORIS = (*BESIDE, "core/sources/mysql/position.py", "core/config/")
"""Also the configuration: a login to Doris, which each request has, reads its password there."""
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


def returned(mirror: Mirror, applied: int) -> int:
    """Return the changes that the only lane has applied, if a task has returned it with more than `applied`; else 0."""
    (lane,) = mirror.heard.now.values()
    return lane.changes if lane.activity is Activity.IDLE and lane.changes > applied else 0


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


def test_a_change_in_mysql_walks_to_doris_through_the_files_that_the_page_lists_and_no_other(
    mysql_pair: MysqlPair, doris: DorisStandin
) -> None:
    pair, walk, applied = mysql_pair, Walk(), 0
    pair.into(doris)
    threading.setprofile(walk)
    try:
        pair.mirror.start().wait_running()
        for value in (1, 2, 3):
            pair.write(*((key, value) for key in range(30)))
            pair.wait_equal()
            applied = until(partial(returned, pair.mirror, applied), 60, "the end of the task")
            walk.on = True
        walk.on = False
        pair.mirror.stop()
    finally:
        threading.setprofile(None)
    found = [file for file in walk.files if not file.startswith(BESIDE_DORIS)]
    print("\n".join(found))
    left_out = set(listed("The walk from MySQL to Doris")) - set(found)
    assert set(found) <= set(listed("The walk from MySQL to Doris"))
    assert left_out <= {"core/sources/mysql/tables.py"}, "a session that knows the table already does not read it again"
    assert len(found) <= MOST_TO_DORIS


def test_a_row_walks_into_a_dataframe_through_the_files_that_the_page_lists_and_no_other(
    warehouse: Warehouse, make_mirror: MakeMirror, tmp_path: Path
) -> None:
    warehouse.create_table("ods.walk", "id bigint, v integer", ("id",))
    mirror, walk = make_mirror(warehouse, "ods.walk"), Walk({read.__code__, pipe._Reading.run.__code__})
    program = frames.Program(frames.configured(mirror, tmp_path / "frames"), start="initial", poll_interval="0ms")
    try:
        program.until_idle()
        for first in (1, 101):
            mirror.source(f"INSERT INTO ods.walk SELECT n, 0 FROM generate_series({first}, {first + 49}) n")
            until(lambda: program.batch() > 0, 30, "the rows")
            threading.setprofile(walk)  # from the second batch on, whose session is already open
            sys.setprofile(walk)
            walk.on = True
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        program.query.close()
    found = [file for file in walk.files if not file.startswith(BESIDE)]
    print("\n".join(found))
    assert sorted(found) == sorted(listed("The walk of a row into a DataFrame"))
    assert len(found) <= MOST_OF_A_FRAME


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
