"""`python -m bench.mutants --seed N`: counts how many random small faults the fast tests find.

The faults are drawn in functions of the given folders. Each fault is planted separately (`bench.hunt`), and the fast
tests that execute the changed function run until one fails, the cheapest first. The same seed and the same sources give
the same faults, the same number in each folder. `--map FILE` stores which test executes which function: delete the file
after a change of the sources. `--minutes` limits the hunt.

Faults that no test can detect are left out: annotations, docstrings, texts for people, checks of types, `__repr__`,
abstract members, decorators, and tuning values (a float, or a round number above 50). So are faults that cannot be
planted in a running process: in code outside functions and in defaults of parameters.

mutmut and cosmic-ray plant a fault in a file and start pytest again, which takes most of the time here; both would be
further pinned dependencies.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from bench.hunt import ROOT, Change, Hunt, Hunted, changes_code, hunt

FAST = [f"tests/{name}" for name in ("unit", "contract", "property")]
MAP = "SLOTKEEPER_MUTANTS_MAP"
"""The variable for the plugin in the tests' processes: the folder of the map to write."""
CPU_SECONDS = 60.0
"""CPU seconds of all tests of a fault, as measured without it."""
TEXT_FILES = ("messages.py", "words.py")
SWAPPED: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "+"), ast.FloorDiv: ("//", "*"),
}  # fmt: skip
SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE|WHERE|SET|FROM|ON CONFLICT|VALUES|ORDER BY|ALTER|CREATE|DROP)\b")
SQL_SWAPPED = {" AND ": " OR ", " OR ": " AND ", " = ": " <> ", " < ": " <= ", " <= ": " < ", " > ": " >= "}
EMPTY = {"tuple": "()", "list": "[]", "dict": "{}"}
CHECKS = {"isinstance", "issubclass", "cast", "TypeVar", "NewType", "field", "super", "print", "getattr"}


@dataclass(frozen=True, slots=True)
class Fault:
    """A replacement of some bytes of a file; `scope` is the (first line, last line) of the innermost function."""

    path: str
    start: int
    end: int
    text: str
    line: int
    scope: tuple[int, int] | None

    def planted(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]


class Planter(ast.NodeVisitor):
    """Collects the possible faults of a file, one list for each place."""

    def __init__(self, path: str, source: bytes) -> None:
        self.places: list[list[Fault]] = []
        self._path, self._source = path, source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scopes: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        self.visit(ast.parse(source))

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef):
            if not any(ast.unparse(base).split("[")[0] == "Protocol" for base in node.bases):
                self._visit_all(node.body)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            marks = " ".join(map(ast.unparse, node.decorator_list))
            if node.name not in ("__repr__", "__str__") and "abstract" not in marks and "overload" not in marks:
                self._scopes.append(node)
                self._visit_all([*node.args.defaults, *(one for one in node.args.kw_defaults if one), *node.body])
                self._scopes.pop()
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None:
                self.visit(node.value)
        elif isinstance(node, (ast.Assert, ast.JoinedStr)):
            if isinstance(node, ast.JoinedStr) and SQL.search(ast.unparse(node)):
                self._sql(node)
        elif not _changes_nothing(node):
            getattr(self, f"_{type(node).__name__.lower()}", lambda one: None)(node)
            self.generic_visit(node)

    def _visit_all(self, nodes: list[Any]) -> None:
        for node in nodes:
            self.visit(node)

    def _at(self, node: Any) -> tuple[int, int]:
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _add(self, node: Any, *changes: tuple[int, int, str]) -> None:
        scope = self._scopes[-1] if self._scopes else None
        lines = (scope.lineno, scope.end_lineno or 0) if scope else None
        self.places.append([Fault(self._path, start, end, text, node.lineno, lines) for start, end, text in changes])

    def _text(self, node: Any) -> str:
        start, end = self._at(node)
        return self._source[start:end].decode()

    def _operator(self, node: Any, operator: ast.AST, left: ast.AST, right: ast.AST) -> None:
        """Swap the operator between two operands."""
        if type(operator) not in SWAPPED:
            return
        old, new = SWAPPED[type(operator)]
        start, end = self._at(left)[1], self._at(right)[0]
        between = self._source[start:end].decode()
        if between.count(old) == 1 or re.search(rf"(?<!\w){re.escape(old)}(?!\w)", between):
            self._add(node, (start, end, between.replace(old, new, 1)))

    def _compare(self, node: ast.Compare) -> None:
        for operator, left, right in zip(node.ops, [node.left, *node.comparators], node.comparators, strict=False):
            self._operator(node, operator, left, right)

    def _boolop(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._operator(node, node.op, left, right)

    def _binop(self, node: ast.BinOp) -> None:
        texts = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple)
        if not any(isinstance(one, texts) and not _is_number(one) for one in (node.left, node.right)):
            self._operator(node, node.op, node.left, node.right)

    def _unaryop(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, (*self._at(node), f"({self._text(node.operand)})"))

    def _constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._add(node, (*self._at(node), str(not value)))
        elif isinstance(value, int) and not (value > 50 and value % 10 == 0):
            self._add(node, (*self._at(node), str(value + 1)), (*self._at(node), str(value - 1)))
        elif isinstance(value, str) and SQL.search(value) and not self._text(node).startswith(("'''", '"""')):
            self._sql(node)

    def _sql(self, node: ast.AST) -> None:
        text = self._text(node)
        start, end = self._at(node)
        changes = [(start, end, text.replace(old, new, 1)) for old, new in SQL_SWAPPED.items() if old in text]
        if changes:
            self._add(node, *changes)

    def _call(self, node: ast.Call) -> None:
        pairs = [
            (one, two)
            for one, two in zip(node.args, node.args[1:], strict=False)
            if not any(isinstance(each, ast.Starred) for each in (one, two)) and self._text(one) != self._text(two)
        ]
        if pairs:
            changes = list[tuple[int, int, str]]()
            for one, two in pairs:
                (start, middle), (other, end) = self._at(one), self._at(two)
                between = self._source[middle:other].decode()
                changes.append((start, end, self._text(two) + between + self._text(one)))
            self._add(node, *changes)

    def _expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, (ast.Call, ast.Await)):
            self._add(node, (*self._at(node), "pass"))

    def _assign(self, node: ast.Assign) -> None:
        if any(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets):
            self._add(node, (*self._at(node), "pass"))

    def _augassign(self, node: ast.AugAssign) -> None:
        self._add(node, (*self._at(node), "pass"))

    _raise = _continue = _break = _augassign

    def _return(self, node: ast.Return) -> None:
        if node.value is None or not self._scopes:
            return
        wanted = self._scopes[-1].returns
        name = ast.unparse(wanted) if wanted is not None else ""
        start, end = self._at(node.value)
        value = self._text(node.value)
        if name == "bool":
            self._add(node, (start, end, f"not ({value})"))
        elif name in ("int", "float"):
            self._add(node, (start, end, f"({value}) + 1"))
        elif name.endswith("| None") and value != "None":
            self._add(node, (start, end, "None"))
        elif name.split("[")[0] in EMPTY and value not in EMPTY.values():
            self._add(node, (start, end, EMPTY[name.split("[")[0]]))


def _changes_nothing(node: ast.AST) -> bool:
    """Whether a node is about types, or about an error that cannot occur."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).split(".")[-1] in CHECKS
    if isinstance(node, ast.If):
        return ast.unparse(node.test) == "TYPE_CHECKING"
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float))


def drawn(seed: int, count: int, folders: list[str]) -> list[Fault]:
    """Return the faults of a seed: the same number in each folder, each at a different place, in the order of the
    files."""
    faults = list[Fault]()
    for number, folder in enumerate(folders):
        places, sources = list[list[Fault]](), dict[str, bytes]()
        for path in sorted(one for one in (ROOT / folder).rglob("*.py") if one.name not in TEXT_FILES):
            name = str(path.relative_to(ROOT))
            sources[name] = path.read_bytes()
            places += Planter(name, sources[name]).places
        chance = random.Random(f"{seed} {folder}")
        chance.shuffle(places)
        share, found = count // len(folders) + (number < count % len(folders)), list[Fault]()
        while len(found) < share:  # the text of an expression over several lines may need its parentheses
            valid = [
                fault
                for fault in places.pop()
                if fault.scope and changes_code(fault.path, fault.planted(sources[fault.path]).decode())
            ]
            found += [chance.choice(valid)] if valid else []
        faults += found
    return sorted(faults, key=lambda fault: (folders.index(_folder(fault, folders)), fault.path, fault.line))


def _folder(fault: Fault, folders: list[str]) -> str:
    return next(folder for folder in folders if Path(fault.path).is_relative_to(folder))


# In the processes of the tests, where this file is a plugin of pytest.

_executed: set[tuple[str, int]] = set()
_took: dict[str, tuple[float, list[tuple[str, int]]]] = {}


def _trace(frame: FrameType, event: str, argument: Any) -> None:
    code = frame.f_code
    if "/core/" in code.co_filename:
        _executed.add((code.co_filename, code.co_firstlineno))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Record the functions of `core` that a test and its fixtures execute, and the test's duration."""
    if MAP not in os.environ:
        return (yield)
    _executed.clear()
    threading.settrace(_trace)
    sys.settrace(_trace)
    begun = time.process_time()
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        _took[item.nodeid] = (time.process_time() - begun, sorted(_executed))


def pytest_sessionfinish() -> None:
    if MAP in os.environ:
        (Path(os.environ[MAP]) / f"{os.getpid()}.json").write_text(json.dumps(_took))


def mapped(file: Path) -> dict[str, tuple[float, set[tuple[str, int]]]]:
    """Return the CPU seconds of each fast test and the functions that it executes; without `file`, run all tests."""
    if not file.exists():
        with tempfile.TemporaryDirectory() as into:
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-p",
                "no:cacheprovider",
                "-p",
                "bench.mutants",
                "-m",
                "fast",
            ]
            command += ["--basetemp", f"{into}/files", "-n", "2", "--dist", "loadfile", *FAST]
            said = subprocess.run(
                command, cwd=ROOT, env={**os.environ, MAP: into}, capture_output=True, text=True, check=False
            ).stdout
            failed = {line.split()[1] for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))}
            if failed:
                print(f"left out, because they fail without a fault: {', '.join(sorted(failed))}")
            found = dict[str, Any]()
            for part in Path(into).glob("*.json"):
                for name, (took, functions) in json.loads(part.read_text()).items():
                    if name not in failed:
                        found[name] = (
                            took,
                            sorted({(path[path.rindex("/core/") + 1 :], line) for path, line in functions}),
                        )
        file.write_text(json.dumps(found))
    kept = json.loads(file.read_text()).items()
    return {name: (took, {(path, line) for path, line in functions}) for name, (took, functions) in kept}


def tests_of(fault: Fault, tests: dict[str, tuple[float, set[tuple[str, int]]]]) -> list[str]:
    """Return the tests that execute the fault's function, cheapest first, for at most `CPU_SECONDS` together."""
    found, left = list[str](), CPU_SECONDS
    for name, (took, functions) in sorted(tests.items(), key=lambda one: one[1][0]):
        if any(path == fault.path and fault.scope and _within(line, fault.scope) for path, line in functions):
            left -= took
            if left < 0:
                break
            found.append(name)
    return found


def _within(line: int, scope: tuple[int, int]) -> bool:
    """Whether code whose first line is this one (a decorator's, if there is one) is the function or inside it."""
    return scope[0] - 4 <= line <= scope[1]


def difference(fault: Fault) -> Iterator[str]:
    source = (ROOT / fault.path).read_bytes()
    before, after = source.decode().splitlines(), fault.planted(source).decode().splitlines()
    for line in list(difflib.unified_diff(before, after, lineterm="", n=0))[3:]:
        yield f"    {line}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="*", default=["core/engine", "core/sinks", "core/slots", "core/domain"])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--map", type=Path, default=ROOT / ".cache" / "mutants.json")
    given = parser.parse_args()
    given.map.parent.mkdir(exist_ok=True)
    tests = mapped(given.map)
    until = time.monotonic() + 60 * given.minutes
    faults = drawn(given.seed, given.count, given.folders)
    random.Random(given.seed).shuffle(faults)  # so that the faults tried within the time limit come from every folder
    hunted, of = list[Hunted](), dict[str, Fault]()
    for fault in faults:
        text = fault.planted((ROOT / fault.path).read_bytes()).decode()
        hunted.append(
            Hunted(f"{fault.path}:{fault.line}:{fault.start}", Change(fault.path, text), tests_of(fault, tests))
        )
        of[hunted[-1].title] = fault
    found: Counter[str] = Counter()

    def say(one: Hunted) -> None:
        fault = of[one.title]
        found[_folder(fault, given.folders)] += bool(one.by)
        mark = "found" if one.by else "SURVIVED"
        print(f"{mark:8} {fault.path}:{fault.line}  {len(one.tests)} tests, {one.seconds:.0f} s  {one.by}")
        print("\n".join(difference(fault)), flush=True)

    folder = Path(tempfile.mkdtemp(prefix="mutants-"))
    try:
        files = sorted({name.split("::")[0] for one in hunted for name in one.tests})
        hunt(files, Hunt(hunted, folder, given.processes, until, say), "-m", "fast")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    run = sum(one.by is not None for one in hunted)
    print(", ".join(f"{name}: {number}" for name, number in sorted(found.items())))
    print(f"seed {given.seed}: {found.total()} of {run} mutations found, {len(hunted) - run} not run")


if __name__ == "__main__":
    main()
