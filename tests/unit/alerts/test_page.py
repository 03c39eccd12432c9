"""docs/alerts.md lists every existing rule, metric and key, and no others."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

from bench.schemas.jobs import NOTIFICATION
from slotkeeper.core.alerts.rules import Kind, Notification, Place, message
from slotkeeper.core.config.keys import ALERTS
from slotkeeper.core.domain.fault import Fault, Party, Severity
from slotkeeper.core.domain.job import JobState
from tests.support.promised import broken
from tests.unit.alerts.made import T0, a_fault
from tests.unit.alerts.test_metrics import FACTS, figures

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "alerts.md").read_text("utf-8")
TABLES = (JobState.FAILED, JobState.STOPPED, JobState.PAUSED)
"""The states in which a table of a job is reported (`slotkeeper.core.domain.job.amiss`)."""


def rows(title: str) -> list[list[str]]:
    """The cells of the first table below a heading."""
    part = PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = part.split("\n### ", 1)[0].splitlines()
    lines = [line for line in lines if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def rules_in(text: str) -> set[str]:
    """The rules of the faults in a source file: the first argument of `Fault` and `_of_process`, and `_RULES`."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Fault", "_of_process"):
            named = (
                [node.args[0]] if not isinstance(node.args[0], ast.IfExp) else [node.args[0].body, node.args[0].orelse]
            )
            found |= {first.value for first in named if isinstance(first, ast.Constant)}
        if (
            isinstance(node, ast.Assign)
            and ast.unparse(node.targets[0]) == "_RULES"
            and isinstance(node.value, ast.Dict)
        ):
            found |= {one.value for one in node.value.values if isinstance(one, ast.Constant)}
    return {str(one) for one in found}


def test_every_rule_of_the_judgement_is_on_the_page() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "core" / "judgement").glob("*.py")]
    code = {rule for text in texts for rule in rules_in(text)} | {f"table_{one.value.lower()}" for one in TABLES}
    assert any('else f"table_{' in text for text in texts)
    assert {row[0].strip("`") for row in rows("Rules")} == code


def test_a_rule_that_is_on_no_page_is_found() -> None:
    assert rules_in('yield Fault("new_rule", party)\n_RULES = {1: "other"}\n_of_process("third", seen)\n') == {
        "new_rule", "other", "third",
    }  # fmt: skip


def test_rows_name_parties_severities_and_keys_that_there_are() -> None:
    parties, severities = {one.value for one in Party}, {one.value for one in Severity}
    for rule, whose, severity, begins, ends, do in rows("Rules"):
        assert set(whose.split(", ")) <= parties, rule
        assert set(severity.split(", ")) <= severities, rule
        assert begins and ends and do
        named = [word for word in re.findall(r"`([a-z_]+)`", begins + ends) if "_" in word or word == "crashes"]
        assert set(named) <= set(ALERTS), rule


def test_the_schema_is_that_of_the_message() -> None:
    said = message(Notification(Kind.FIRED, a_fault(), T0, T0), Place("h1", "/state"))
    assert broken(NOTIFICATION, said) == []
    keys = [key.strip("`") for row in rows("The command") for key in row[0].split(", ")]
    assert keys == list(said)
    (fault,) = [row[1] for row in rows("The command") if row[0] == "`fault`"]
    assert re.findall(r"`([a-z]+)`", fault) == list(Fault.__dataclass_fields__)
    assert re.findall(r"`([a-z]+)`", rows("The command")[1][1]) == [kind.value for kind in Kind]
    example = json.loads(PAGE.split("```json\n", 1)[1].split("```", 1)[0])
    assert broken(NOTIFICATION, example) == []
    assert list(example) == list(said) and list(example["fault"]) == list(Fault.__dataclass_fields__)


def test_every_metric_is_on_the_page() -> None:
    assert {row[0].strip("`").removeprefix("slotkeeper_") for row in rows("Figures")} == {
        key[0] for key in figures(FACTS, a_fault())
    }
