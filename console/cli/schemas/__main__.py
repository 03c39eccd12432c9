"""Writes `docs/schemas`: `python -m console.cli.schemas docs/schemas`; a test compares what lies there.

Next door: `console.cli.schemas` has what is written.
"""

from __future__ import annotations

import sys
from pathlib import Path

from console.cli.schemas.pages import pages


def main(folder: Path) -> None:
    """Write every file anew, and take away those that are none any more."""
    made = pages()
    for left in {path.name for path in folder.iterdir()} - set(made):
        (folder / left).unlink()
    for name, content in made.items():
        (folder / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
