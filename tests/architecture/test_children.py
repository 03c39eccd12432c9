"""Every child process is started with an explicit environment, which contains no secret."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, sources, tree

_STARTS = ("run", "Popen", "call", "check_call", "check_output")
_BY_PLACE = {"posix_spawn": 3, "posix_spawnp": 3}
"""Calls of `os` that take an environment, and the number of arguments up to and including it."""
_INHERIT = ("system", "popen", "spawnv", "spawnl")
"""Not `exec`: it starts no child, and the new program already had this process's environment."""


def inheriting(text: str) -> Iterator[int]:
    """The lines of a source text that start a program with this process's whole environment."""
    for node in tree(text):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        owner = node.func.value.id if isinstance(node.func.value, ast.Name) else ""
        name = node.func.attr
        if owner == "subprocess" and name in _STARTS:
            given = next((one.value for one in node.keywords if one.arg == "env"), None)
        elif owner == "os" and name in _BY_PLACE and len(node.args) >= _BY_PLACE[name]:
            given = node.args[_BY_PLACE[name] - 1]
        elif owner == "os" and name in (*_INHERIT, *_BY_PLACE):
            given = None
        else:
            continue
        if given is None or ast.unparse(given) in ("os.environ", "None"):
            yield node.lineno


def test_no_child_inherits_our_environment_as_it_is() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sources(ROOT, *PACKAGES)
        if (lines := list(inheriting(path.read_text("utf-8"))))
    }
    assert not found, "give it slotkeeper.core.config.handover.environment(), or passed() where it resolves secrets"


@pytest.mark.parametrize(
    "text",
    [
        "subprocess.run(['a'])",
        "subprocess.Popen(a, env=os.environ)",
        "os.system('a')",
        "os.posix_spawn(a, b, os.environ)",
    ],
)
def test_a_child_that_would_is_reported(text: str) -> None:
    assert list(inheriting(text)) == [1]


def from_here(text: str) -> Iterator[int]:
    """The lines of a source text that start our interpreter with the current folder on its module search path.

    Python, "Command line and environment": -m and -c put it there, first; -P and -I do not.
    """
    if "sys.executable" not in text:
        return
    for node in tree(text):
        if isinstance(node, ast.List | ast.Tuple):
            words = [ast.unparse(each) for each in node.elts]
            for place, word in enumerate(words):
                if word == "sys.executable" and words[place + 1 : place + 2] not in (["'-P'"], ["'-I'"]):
                    yield node.lineno


def test_no_child_imports_what_somebody_left_in_the_current_folder() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): lines
        for path in sources(ROOT, *PACKAGES)
        if (lines := list(from_here(path.read_text("utf-8"))))
    }
    assert not found, "another user may have left a folder named console in /tmp: pass -P after sys.executable"


@pytest.mark.parametrize("text", ["[sys.executable, '-m', 'console']", "(sys.executable,)", "f(['a', sys.executable])"])
def test_a_child_that_would_import_it_is_reported(text: str) -> None:
    assert list(from_here(text)) == [1]
