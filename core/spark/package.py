"""Our package as one file that executors are sent, so that no worker of a cluster has to have it installed.

Made from the package that this driver runs, with everything in it that is not Python too (statements in SQL files).
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import slotkeeper

NAME = "slotkeeper.zip"
"""Spark puts it into an executor's working folder under this name."""
_KEPT = (".py", ".sql")


def write(folder: Path) -> Path:
    """Write the package into `folder` and return the file."""
    root = Path(slotkeeper.__file__).parent
    target = folder / NAME
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in [*sorted(root.glob("*.py")), *sorted((root / "core").rglob("*"))]:
            if file.suffix in _KEPT and "__pycache__" not in file.parts:
                archive.write(file, Path(root.name) / file.relative_to(root))
    return target
