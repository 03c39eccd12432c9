"""The board of docs/grafana uses only metrics and labels that the real output has."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from slotkeeper.core.alerts.metrics import exposition
from tests.unit.alerts.made import a_fault
from tests.unit.alerts.test_metrics import FACTS, parsed

BOARD = json.loads((Path(__file__).parents[3] / "docs" / "grafana" / "slotkeeper.json").read_text("utf-8"))
OF_PROMETHEUS = {"instance"}
"""The labels that Prometheus adds."""


def queries(value: Any) -> Iterator[tuple[str, str]]:
    """Each query with its legend."""
    if isinstance(value, dict):
        if "expr" in value:
            yield value["expr"], value["legendFormat"]
        elif isinstance(value.get("query"), str) and "slotkeeper_" in value["query"]:
            yield value["query"], ""
        for one in value.values():
            yield from queries(one)
    elif isinstance(value, list):
        for one in value:
            yield from queries(one)


def test_every_query_of_the_board_names_a_metric_and_labels_that_there_are() -> None:
    labels: dict[str, set[str]] = defaultdict(set)
    for family in parsed(exposition(FACTS, [a_fault()])):
        for sample in family.samples:
            labels[sample.name] |= set(sample.labels)
    asked = list(queries(BOARD))
    named = set()
    for query, legend in asked:
        (metric,) = set(re.findall(r"slotkeeper_\w+", query))
        named.add(metric)
        used = set(re.findall(r"(\w+)=[~\"]", query)) | set(re.findall(r"\{\{(\w+)\}\}", legend))
        for words in re.findall(r"by \(([^)]*)\)|label_values\(\w+, (\w+)\)", query):
            used |= {word for one in words for word in re.findall(r"\w+", one)}
        assert used <= labels[metric] | OF_PROMETHEUS, query
    assert named == labels.keys(), "every metric has a panel"
    assert all("$job" in query or "job=" not in query for query, _ in asked)
