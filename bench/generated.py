"""`python -m bench.generated`: writes every page that is generated from the program, and prints those that changed.

Tests compare each page with the program. The pictures of the console need a run of the demo: `make snapshots`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from bench import chart, imported, keymap_page, messages, parameters, report, schemas
from slotkeeper import __version__
from slotkeeper.console.commands import man
from slotkeeper.console.commands.main import main_command

DOCS = Path(__file__).parents[1] / "docs"
SCHEMAS = DOCS / "schemas"


def _manual() -> str:
    return man.page(main_command(), __version__)


def _chart() -> str:
    return chart.drawn(json.loads(report.KEPT.read_text("utf-8")))


PAGES: Mapping[Path, Callable[[], str]] = {
    DOCS / "keymap.md": keymap_page.page,
    DOCS / "parameters.md": parameters.page,
    DOCS / "import.md": imported.page,
    DOCS / "messages.md": messages.page,
    DOCS / "man" / "slotkeeper.1": _manual,
    chart.FILE: _chart,
}


def made() -> dict[Path, str]:
    """Return the text of every generated page."""
    found = {path: make() for path, make in PAGES.items()}
    return found | {SCHEMAS / name: content for name, content in schemas.pages().items()}


def stale(pages: Mapping[Path, str]) -> list[Path]:
    """Return the pages whose files differ from this text, and schemas of commands that no longer exist."""
    differing = [path for path, text in pages.items() if not path.exists() or path.read_text("utf-8") != text]
    return sorted([*differing, *(path for path in SCHEMAS.iterdir() if path not in pages)])


def main() -> None:
    """Write the pages that differ."""
    pages = made()
    for path in stale(pages):
        if path in pages:
            path.write_text(pages[path], "utf-8")
        else:
            path.unlink()
        sys.stdout.write(f"{path.relative_to(DOCS.parent)}\n")


if __name__ == "__main__":
    main()
