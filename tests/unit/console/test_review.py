"""The page that answers the console's review lists each defect by its number, and each test that it names exists.

Also tests of small defects from the review that no other test covers.
"""

from __future__ import annotations

import ast
import re
from datetime import timedelta
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.job import JobState
from tests.architecture.checkout import ROOT
from tests.tui.filled import console

PAGE = ROOT / "docs" / "reports" / "console-review-2026-11-23.md"
TEST = re.compile(r"`(tests/[\w/]+\.py)`\s+`(test_\w+)`")
ITEM = re.compile(r"^(?:(\d+)\.|-) (.+(?:\n +[^\n]+)*)", re.MULTILINE)
PIECES = (
    "SLOT LOST: SLOT LOST", "safe safe", "1 times", "job PAUSE", "slotkeeper errors", "last drill-down", "slots line",
    "critical counts", '"safe" sends', "jobs stop", "doctor --help", "audit list", "sparkline", "replay footer",
    "verify", "closing table",
)  # fmt: skip


def items(heading: str) -> list[tuple[str, str]]:
    """(number or nothing, text) of each item of the first list below a heading."""
    text = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return ITEM.findall(text)


def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_each_defect_is_there_by_its_number_and_each_piece_by_its_words() -> None:
    assert [number for number, _ in items("Defects")] == [str(number) for number in range(1, 18)]
    found = [" ".join(text.split()) for _, text in items("16, piece by piece")]
    assert [one for one in PIECES if not any(one in text for text in found)] == []


@pytest.mark.parametrize("heading", ["Defects", "16, piece by piece"])
def test_each_is_fixed_with_a_test_that_exists_or_refused_with_a_reason(heading: str) -> None:
    wrong = []
    for _, text in items(heading):
        named = TEST.findall(text)
        wrong += [f"{path} has no {name}" for path, name in named if name not in functions_of(path)]
        said = " ".join(text.split())
        if not (": fixed" in said and named) and not re.search(": refused because|: see below", said):
            wrong.append(said)
    assert wrong == []


def test_a_group_without_its_verb_names_its_verbs_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["errors"]) == 2
    said = capsys.readouterr().err
    assert "list, show, replay, discard" in said and "\\n" not in said


def test_the_help_of_doctor_has_all_its_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert re.search(r"\b1\b", said) and re.search(r"\b5\b", said)


def test_a_failed_job_is_stopped_with_0_and_stays_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = console(tmp_path)
    made.store.set_state("orders_rt", JobState.STOPPED, "stopped")
    made.store.begin_run("orders_rt", "run-2")  # one without a process
    made.store.set_state("orders_rt", JobState.FAILED, "gave up", "SLOT LOST")
    made.clock.at += timedelta(seconds=60)
    assert main(["jobs", "stop", "orders_rt", "--config", str(tmp_path / "c.toml")]) == 0, capsys.readouterr().err
    assert "FAILED" in capsys.readouterr().out
    made.store.close()
