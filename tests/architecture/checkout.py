"""Where the checkout is, and what of it is ours: shared by the architecture tests."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("core", "console", "demo")
"""Folders of our packages; in `slotkeeper` are links to them, and modules have the names that these give."""


def sources(root: Path, *folders: str) -> list[Path]:
    """The Python files below the folders, those of built things left out."""
    return sorted(path for folder in folders for path in (root / folder).rglob("*.py"))


def module(path: Path, root: Path) -> str:
    """The name that a file of one of our packages is imported under."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(("slotkeeper", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def link(root: Path) -> None:
    """Make the links of a checkout in a copy that has packages alone."""
    (root / "slotkeeper").mkdir(exist_ok=True)
    (root / "slotkeeper" / "__init__.py").touch()
    for package in PACKAGES:
        (root / "slotkeeper" / package).symlink_to(Path("..") / package)


@cache
def tree(text: str) -> tuple[ast.AST, ...]:
    """Every node of a source text; kept, because many tests walk the same files."""
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
