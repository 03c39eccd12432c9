"""The import contracts between the packages hold, and the check of them can fail."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.architecture.checkout import PACKAGES, ROOT, committed, link, module, python
from tests.architecture.contracts import broken

SEEDED = {
    # wrong import -> Slotkeeper's file that receives it
    "import time": "core/domain/position.py",
    "import slotkeeper.core.drivers.pg": "core/retry.py",
    "import random": "core/ports/source.py",
    "import psycopg2": "core/state/seeded.py",
    "import pyspark": "core/engine/seeded.py",
    "import textual": "core/config/seeded.py",
    "import rich": "core/slots/seeded.py",
    "import slotkeeper.console.seeded": "core/verify/seeded.py",
    "import slotkeeper.core.engine.seeded": "core/sources/dws/seeded.py",
    "import slotkeeper.core.sinks.postgres.seeded": "core/engine/seeded2.py",
    "import slotkeeper.core.spark.seeded": "core/launch/seeded.py",
    "import slotkeeper.core.state.seeded": "demo/ledger.py",
    "import slotkeeper.core.config.seeded": "core/drivers/seeded.py",
    "import slotkeeper.core.ports": "core/errors.py",
    "import slotkeeper.console.views.seeded": "console/monitor/seeded.py",
    "import slotkeeper.console.commands.seeded": "console/tui/seeded.py",
}
HEADLESS = (
    "slotkeeper.core.config.load",
    "slotkeeper.core.drivers.pg",
    "slotkeeper.core.engine",
    "slotkeeper.core.state",
    "slotkeeper.core.launch.supervisor",
    "slotkeeper.core.retry",
    "slotkeeper.core.spark.task",
    "slotkeeper.core.wiring",
    "slotkeeper.console.__main__",
    "slotkeeper.console.commands.main",
    "slotkeeper.console.cli.output",
    "slotkeeper.console.cli.diagnostics",
)
HEAVY = ("textual", "pyspark", "py4j", "pandas", "numpy", "sqlglot")


def copy(root: Path) -> Path:
    """A copy of the checkout's contracts and packages that a test can change."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / ".importlinter", root)
    link(root)
    return root


def test_every_import_contract_is_kept(tmp_path: Path) -> None:
    said = broken(ROOT, tmp_path / "contracts")
    assert not said, said


def test_wrong_imports_are_each_reported(tmp_path: Path) -> None:
    root = copy(tmp_path)
    for name in {line.split()[1] for line in SEEDED if ".seeded" in line}:
        root.joinpath(*name.split(".")).with_suffix(".py").touch()
    for line, name in SEEDED.items():
        file = root / name
        before = file.read_text("utf-8") if file.exists() else ""
        future = "from __future__ import annotations\n"
        file.write_text(before.replace(future, f"{future}{line}\n", 1) if future in before else before + line + "\n")
    said = broken(root, tmp_path / "contracts")
    for line, name in SEEDED.items():
        wrong = f"{module(root / name, root)} -> {line.split()[1]}"
        assert wrong in said, f"not reported: {wrong}"


@pytest.mark.parametrize("module", HEADLESS)
def test_a_module_without_a_screen_loads_neither_textual_nor_pyspark(module: str) -> None:
    path = ROOT.joinpath(*module.split("."))
    if not (path.with_suffix(".py").exists() or (path / "__init__.py").exists()):
        pytest.skip(f"{module} does not exist yet")
    ran = python(f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])")
    assert (ran.stdout.strip(), ran.returncode) == ("[]", 0), ran.stderr


def test_listing_jobs_loads_neither_textual_nor_pyspark(tmp_path: Path) -> None:
    if not (ROOT / "console" / "commands" / "jobs.py").exists():
        pytest.skip("the command `jobs list` does not exist yet")
    code = (
        "import os, sys\n"
        f"os.environ.update(dict.fromkeys(('XDG_STATE_HOME', 'XDG_CONFIG_HOME', 'HOME'), {str(tmp_path)!r}))\n"
        "os.environ.pop('SLOTKEEPER_CONFIG', None)\n"
        "from slotkeeper.console.__main__ import main\n"
        "sys.argv = ['slotkeeper', 'jobs', 'list', '--json']\n"
        "try:\n    main()\n"
        "except SystemExit:\n    pass\n"
        f"print('loaded', [m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    ran = python(code)
    assert ran.stderr.strip().endswith("loaded []"), ran.stderr


@pytest.mark.parametrize("package", PACKAGES)
def test_the_imported_packages_are_ours(package: str) -> None:
    ran = python(f"import slotkeeper.{package} as package; print(package.__file__)")
    assert Path(ran.stdout.strip()).is_relative_to(ROOT / "slotkeeper"), ran.stdout + ran.stderr


SHORT = re.compile(r"^\s*(?:from|import) (?:core|console)\b", re.MULTILINE)


def test_every_module_of_slotkeeper_is_imported_under_its_one_name() -> None:
    users = ROOT / "tests" / "spark" / "test_beside_our_names.py"  # a program next to folders with the same names
    files = [path for path in committed(ROOT) if path.suffix in (".py", ".md") and path != users]
    assert [str(path) for path in files if SHORT.search(path.read_text("utf-8"))] == []


def test_a_program_beside_folders_of_our_names_imports_ours_once(tmp_path: Path) -> None:
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('the folder beside the program')\n")
    code = (
        "import sys; sys.path.insert(0, '.');"
        " import slotkeeper.dataframe, slotkeeper.library, slotkeeper.core.spark.job, slotkeeper.console.__main__;"
        " print([name for name in sys.modules if name.partition('.')[0] in ('core', 'console')])"
    )
    ran = python(code, ROOT, tmp_path)
    assert (ran.stdout.strip(), ran.returncode) == ("[]", 0), ran.stderr
