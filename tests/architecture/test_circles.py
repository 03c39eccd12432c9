"""There are no import cycles, no package of the console imports one above it, and the checks can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.arrows import arrows, circle, upwards
from tests.architecture.checkout import ROOT

ROOMS = (
    "monitor",
    "views",
    "actions",
    "cli",
    "tui",
    "commands",
    "__main__",
)
"""Those of the console, from the lowest to the highest; `.importlinter` has the same order."""
PROGRAMS = {
    "slotkeeper.core.launch.launch": {"slotkeeper.core.launch.supervisor", "slotkeeper.core.spark.job"},
    "slotkeeper.console.actions.runner": {"slotkeeper.console.actions.child"},
}
"""Modules that start a program by its name do not depend on it."""
MOST_ENTRIES = 12
_FUTURE = "from __future__ import annotations\n"
_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    "


def test_there_is_no_circle() -> None:
    assert circle({name: named - PROGRAMS.get(name, set()) for name, named in arrows(ROOT).items()}) == []


def test_no_arrow_goes_upwards_in_the_console() -> None:
    assert upwards(arrows(ROOT), "console", ROOMS) == []


def test_the_rooms_of_the_console_are_these_and_few() -> None:
    entries = [one for one in (ROOT / "console").iterdir() if one.name != "__pycache__" and not one.is_symlink()]
    assert {one.stem for one in entries if one.suffix == ".py" or one.is_dir()} == {"__init__", *ROOMS}
    assert len(entries) <= MOST_ENTRIES


@pytest.mark.parametrize(
    "upper",
    [
        "import slotkeeper.console.views.upper",
        "from slotkeeper.console.views import upper",
        "from slotkeeper.console.views.upper import x",
        f"{_TYPES}import slotkeeper.console.views.upper",
        "def f():\n    from slotkeeper.console.views.upper import x",
        "importlib.import_module('slotkeeper.console.views.upper')",
        "run('slotkeeper.console.views.upper.x')",
    ],
)
def test_a_wrong_arrow_is_found_however_it_is_written(tmp_path: Path, upper: str) -> None:
    for name, line in (("monitor/lower", upper), ("views/upper", "from slotkeeper.console.monitor.lower import y")):
        path = tmp_path / "console" / f"{name}.py"
        path.parent.mkdir(parents=True)
        path.write_text(f"{_FUTURE}{line}\n", "utf-8")
    found = arrows(tmp_path)
    assert upwards(found, "console", ROOMS) == ["slotkeeper.console.monitor.lower -> slotkeeper.console.views.upper"]
    assert set(circle(found)) == {"slotkeeper.console.monitor.lower", "slotkeeper.console.views.upper"}
