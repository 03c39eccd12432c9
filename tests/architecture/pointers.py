"""Files and modules that docstrings name, and whether they exist; pure except for reading the disk."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.checkout import tree

_FILE = re.compile(r"`([\w./]+\.(?:py|sql))`")
_MODULE = re.compile(r"`((?:slotkeeper|tests|bench)(?:\.\w+)+)`")


def docstrings(text: str) -> str:
    """All docstrings of a module, in order."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    found = [ast.get_docstring(node, clean=False) for node in tree(text) if isinstance(node, kinds)]
    return "\n".join(one for one in found if one)


def leading_nowhere(path: Path, root: Path) -> list[str]:
    """Return the names in a file's docstrings that do not exist: files, modules, names in modules."""
    said = docstrings(path.read_text("utf-8"))
    above = [folder for folder in path.parents if folder == root or root in folder.parents]
    files = [name for name in _FILE.findall(said) if not any((folder / name).exists() for folder in above)]
    return files + [name for name in _MODULE.findall(said) if not _is_there(name.split("."), root)]


def _is_there(parts: list[str], root: Path) -> bool:
    """Whether these parts name a package, a module, or a module and a name that is in its text."""
    for length in range(len(parts), 0, -1):
        at = root.joinpath(*parts[:length])
        if at.is_dir() and length == len(parts):
            return True
        for file in (at.with_suffix(".py"), at / "__init__.py"):
            if file.exists():
                text = file.read_text("utf-8")
                return all(re.search(rf"\b{name}\b", text) for name in parts[length:])
    return False
