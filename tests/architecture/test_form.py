"""Files and functions stay short, names are meaningful, and the checks can fail."""

from __future__ import annotations

import pytest

from tests.architecture import form
from tests.architecture.checkout import PACKAGES, ROOT, sources

OURS = sources(ROOT, *PACKAGES, "bench")


def test_files_and_functions_keep_their_budgets() -> None:
    long = {}
    for path in OURS:
        found = form.too_long(path.read_text("utf-8"))
        if found:
            long[str(path.relative_to(ROOT))] = found
    assert not long, long


def test_no_module_or_class_has_a_name_that_says_nothing() -> None:
    named = {str(p.relative_to(ROOT)): form.badly_named(p.stem, p.read_text("utf-8")) for p in OURS}
    assert not {path: names for path, names in named.items() if names}


def test_every_module_says_what_is_in_it() -> None:
    silent = [
        str(p.relative_to(ROOT))
        for p in OURS
        if p.stat().st_size and not p.read_text("utf-8").lstrip().startswith(('"""', 'r"""', "#!"))
    ]
    assert not silent


def test_a_long_file_and_a_long_function_are_reported() -> None:
    function = "def f():\n" + "    x = 1\n" * 60
    assert form.too_long(function) == ["f (line 1): 61 lines, at most 60"]
    assert form.too_long("x = 1\n" * 601) == ["601 lines, at most 600"]
    assert form.too_long("x = 1\n" * 600 + "def f():\n    pass\n"[:0]) == []


@pytest.mark.parametrize(
    ("module", "text", "found"),
    [
        ("utils", "", ["utils"]),
        ("slot_helper", "", ["slot_helper"]),
        ("slot", "class LaneManager: ...", ["LaneManager"]),
        ("slot", "class Outer:\n    class HTTPInfo: ...", ["HTTPInfo"]),
        ("processes", "", ["processes"]),
        ("database", "class Information: ...", []),
    ],
)
def test_names_that_say_nothing_are_reported(module: str, text: str, found: list[str]) -> None:
    assert form.badly_named(module, text) == found
