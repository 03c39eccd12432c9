"""The checkout and Slotkeeper's files in it, shared by the architecture tests."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("core", "console", "demo")
"""Folders of our packages; `slotkeeper` has links to them, which determine the names of modules."""


def sources(root: Path, *folders: str) -> list[Path]:
    """The Python files below the folders, without build results."""
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def module(path: Path, root: Path) -> str:
    """The name under which a file of one of our packages is imported."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(("slotkeeper", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def link(root: Path) -> None:
    """Create the links of a checkout in a copy that contains only packages."""
    (root / "slotkeeper").mkdir(exist_ok=True)
    (root / "slotkeeper" / "__init__.py").touch()
    for package in PACKAGES:
        (root / "slotkeeper" / package).symlink_to(Path("..") / package)


@cache
def tree(text: str) -> tuple[ast.AST, ...]:
    """Every node of a source text; cached, because many tests read the same files."""
    return tuple(ast.walk(ast.parse(text)))


def committed(root: Path) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [root / name for name in sorted(set(listed.split("\0"))) if name and (root / name).is_file()]


def python(code: str, root: Path = ROOT, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a new interpreter that imports the packages below `root`, in `folder` (default: there)."""
    environ = {**os.environ, "PYTHONPATH": str(root), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(
        command, cwd=folder or root, env=environ, capture_output=True, text=True, timeout=120, check=False
    )
