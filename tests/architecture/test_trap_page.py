"""`docs/binlog-load.md` names a test for each fault and trap, and `docs/mysql.md` for each setting: all exist."""

from __future__ import annotations

import ast
import re

from tests.architecture.checkout import ROOT

PAGE = ROOT / "docs" / "binlog-load.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
SETTINGS = ROOT / "docs" / "mysql.md"
ROWS = re.compile(r"^\| (?!-|fault|trap)(.*) \|$", re.MULTILINE)


def missing(row: str) -> list[str]:
    """Tests that a row's last cell names and that do not exist; the row itself if it names none."""
    cell = row.rpartition(" | ")[2]
    named = NAMED.findall(cell)
    if not named and cell != "the same":
        return [row]
    return [f"{file}::{test}" for file, test in named if not there(file, test)]


def there(file: str, test: str) -> bool:
    path = ROOT / file
    if not path.is_file():
        return False
    parts = ast.parse(path.read_text("utf-8")).body
    return not test or any(isinstance(part, ast.FunctionDef) and part.name == test for part in parts)


def test_each_fault_and_trap_has_a_test_that_is_there() -> None:
    rows = ROWS.findall(PAGE.read_text("utf-8"))
    assert len(rows) > 50
    assert [name for row in rows for name in missing(row)] == []


def test_each_test_that_the_page_about_settings_names_is_there() -> None:
    named = NAMED.findall(SETTINGS.read_text("utf-8"))
    assert len(named) > 15
    assert [f"{file}::{test}" for file, test in named if not there(file, test)] == []


def test_a_name_that_is_not_there_is_found() -> None:
    here = "tests/architecture/test_trap_page.py"
    assert missing(f"a fault | `{here}::test_a_name_that_is_not_there_is_found`") == []
    assert missing(f"a fault | `{here}::test_nothing`, `tests/none.py`") == [f"{here}::test_nothing", "tests/none.py::"]
    assert missing("a fault | none") == ["a fault | none"]
