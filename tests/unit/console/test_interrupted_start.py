"""Ctrl-C while the modules of a command still load."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = "import sys; from slotkeeper.console.__main__ import main; sys.exit(main())"
STARTS = {"the console script": ["-c", SCRIPT], "python -m slotkeeper.console": ["-m", "slotkeeper.console"]}
HOOK = """
import importlib.abc, signal, sys
class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == {!r}:
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupting())
"""


@pytest.mark.parametrize("words", STARTS.values(), ids=STARTS)
@pytest.mark.parametrize(
    ("module", "said"),
    [("slotkeeper.console.cli.diagnostics", ""), ("typer", "slotkeeper: interrupted\n")],
    ids=["before main", "in main"],
)
def test_an_interrupt_while_modules_load_ends_with_130_and_no_traceback(
    words: list[str], module: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(HOOK.format(module), "utf-8")
    ran = subprocess.run(
        [sys.executable, *words, "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", said)
