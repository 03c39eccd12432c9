"""Plants faults in a process that has collected the tests, and runs tests against each fault in a forked child.

Nothing is written to the checkout: the child replaces the code of the functions that the file defines, or the text that
the loader of SQL files reads. Code outside functions, and defaults of parameters, cannot be changed in this way.
Processes that a test starts do not have the fault.
"""

from __future__ import annotations

import gc
import os
import pkgutil
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
TEST_SECONDS = 120
"""Time limit of one test; five times as long for all tests of a fault. A fault that exceeds a limit counts as found."""

_FAILED = "the fault could not be planted"


@dataclass(frozen=True, slots=True)
class Change:
    """A file of the product, and the changed text that the tests see."""

    path: str
    text: str


@dataclass(slots=True)
class Hunted:
    """A fault, the tests to run in this order, and the test that failed (`by`): "" if all passed."""

    title: str
    change: Change
    tests: Sequence[str] = ()
    by: str | None = None
    seconds: float = 0.0


def functions_in(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of the functions of a module and of its classes, without functions inside functions."""
    for one in code.co_consts:
        if isinstance(one, CodeType):
            if one.co_flags & 2:  # CO_NEWLOCALS: set for a function, not for a class body
                yield one
            else:
                yield from functions_in(one)


def changes_code(path: str, text: str) -> bool:
    """Whether a changed Python file differs in the code of a function, so that it can be planted."""
    try:
        found = compile(text, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    before = compile((ROOT / path).read_text("utf-8"), path, "exec", dont_inherit=True)
    old, new = ({one.co_qualname: one for one in functions_in(each)} for each in (before, found))
    return old.keys() == new.keys() and any(old[name] != new[name] for name in old)


def plant(change: Change) -> None:
    """Make this process run the changed file; raises ValueError if none of its functions is loaded."""
    real = str((ROOT / change.path).resolve())
    if not change.path.endswith(".py"):
        _plant_data(real, change.text)
        return
    code = {one.co_qualname: one for one in functions_in(compile(change.text, real, "exec", dont_inherit=True))}
    gc.unfreeze()
    count = 0
    for one in gc.get_objects():
        if isinstance(one, FunctionType) and str(Path(one.__code__.co_filename).resolve()) == real:
            new = code.get(one.__code__.co_qualname)
            if new is not None and new.co_freevars == one.__code__.co_freevars:
                one.__code__ = new
                count += 1
    if not count:
        raise ValueError(f"no function of {change.path} is imported")


def _plant_data(real: str, text: str) -> None:
    from slotkeeper.core import sqltext

    read = pkgutil.get_data

    def changed(package: str, name: str) -> bytes | None:
        spec = __import__(package, fromlist=["x"]).__path__[0]
        return text.encode() if str(Path(spec, name).resolve()) == real else read(package, name)

    pkgutil.get_data = changed  # type: ignore[assignment]
    sqltext.statements.cache_clear()


@dataclass(eq=False)
class Hunt:
    """A pytest plugin that runs the hunt instead of the tests; `found` is called after each fault."""

    faults: Sequence[Hunted]
    folder: Path
    processes: int = 2
    until: float = float("inf")
    found: Callable[[Hunted], None] = lambda one: None
    _failed: list[str] = field(default_factory=list)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Fork a child for each fault."""
        waiting, running = list(enumerate(self.faults)), dict[int, tuple[Hunted, int, float]]()
        while waiting or running:
            while waiting and len(running) < self.processes and time.monotonic() < self.until:
                number, fault = waiting.pop(0)
                mine = [item for test in fault.tests for item in session.items if item.nodeid.startswith(test)]
                if mine:
                    running.update([self._fork(number, fault, list(dict.fromkeys(mine)))])
                else:
                    fault.by = ""
                    self.found(fault)
            if not running and time.monotonic() >= self.until:
                break
            for end in select.select(list(running), [], [], 1)[0]:
                fault, child, began = running.pop(end)
                fault.by = os.read(end, 65_536).decode("utf-8", "replace")
                if fault.by.startswith(_FAILED):  # no test has found it
                    print(f"{fault.title}: {fault.by}", file=sys.stderr)
                    fault.by = ""
                self._close(end, child, fault, began)
            for end, (fault, child, began) in list(running.items()):
                if time.monotonic() - began > 5 * TEST_SECONDS:
                    del running[end]
                    fault.by = "the tests did not end"
                    self._close(end, child, fault, began)
        return True

    def _close(self, end: int, child: int, fault: Hunted, began: float) -> None:
        os.close(end)
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        fault.seconds = time.monotonic() - began
        self.found(fault)

    def _fork(self, number: int, fault: Hunted, items: list[pytest.Item]) -> tuple[int, tuple[Hunted, int, float]]:
        reading, writing = os.pipe()
        child = os.fork()
        if child:
            os.close(writing)
            return reading, (fault, child, time.monotonic())
        said = _FAILED
        try:
            os.setsid()
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in (0, 1, 2):
                os.dup2(nowhere, stream)
            items[0].config.get_terminal_writer()._file = Path(os.devnull).open("w")  # noqa: SIM115
            plant(fault.change)
            said = self._run(number, items)
        except BaseException as error:
            said = f"{said}: {error!r}"
        finally:
            os.write(writing, said[:60_000].encode())
            os._exit(0)

    def _run(self, number: int, items: list[pytest.Item]) -> str:
        """Run tests in the child until one fails; return its id."""
        factory: Any = items[0].config._tmp_path_factory  # type: ignore[attr-defined]
        factory._given_basetemp, factory._basetemp = self.folder / f"child{number}", None
        for item, after in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._failed:
                items[0].session._setupstate.teardown_exact(None)
                return self._failed[0]
        return ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record a failure in any phase."""
        if report.failed:
            self._failed.append(report.nodeid)


def hunt(files: Sequence[str], plugin: Hunt, *more: str) -> None:
    """Collect the tests of these files and run the hunt; raises SystemExit if the collection fails."""
    arguments = ["-qq", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--no-summary"]
    code = pytest.main([*arguments, "--timeout", str(TEST_SECONDS), *more, *files], [plugin])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"pytest ended with {code}")
