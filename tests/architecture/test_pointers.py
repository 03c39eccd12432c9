"""Files and modules that docstrings name exist."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.checkout import PACKAGES, ROOT, sources
from tests.architecture.pointers import leading_nowhere


def test_every_file_and_module_that_a_docstring_names_is_there() -> None:
    files = sources(ROOT, *PACKAGES, "bench", "tests")
    wrong = {str(path.relative_to(ROOT)): leading_nowhere(path, ROOT) for path in files}
    assert not {path: names for path, names in wrong.items() if names}


def test_a_pointer_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "near.py").write_text("THERE = 1\n")
    file = tmp_path / "bench" / "file.py"
    file.write_text('"""See `near.py`, `far.py`, `bench.near.THERE`, `bench.near.GONE`, `bench.absent`."""\n')
    assert leading_nowhere(file, tmp_path) == ["far.py", "bench.near.GONE", "bench.absent"]
