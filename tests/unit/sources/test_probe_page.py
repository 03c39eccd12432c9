"""The page about probes lists every question of every kind, with the vendor's page; each question has one place."""

from __future__ import annotations

import re
from types import ModuleType

import pytest

from slotkeeper.core.sinks.doris import probe as doris
from slotkeeper.core.sources.dws.probe import questions as dws
from slotkeeper.core.sources.dws.probe.run import GROUPS as DWS_GROUPS
from slotkeeper.core.sources.hologres import probe as hologres
from slotkeeper.core.sources.mysql import probe as mysql
from tests.architecture.checkout import ROOT

ROW = re.compile(r"^\| `(\w+)` \| (.+) \| (.*) \| (.+) \|$", re.MULTILINE)
HEAD = re.compile(r"^### .+: (.+)$", re.MULTILINE)
KINDS = {
    "DWS": (dws, DWS_GROUPS),
    "MySQL and MariaDB": (mysql, mysql.GROUPS),
    "Doris": (doris, doris.GROUPS),
    "Hologres": (hologres, hologres.GROUPS),
}


@pytest.mark.parametrize("title", KINDS)
def test_the_page_lists_every_question(title: str) -> None:
    module: ModuleType = KINDS[title][0]
    page = (ROOT / "docs" / "probe.md").read_text("utf-8").split(f"\n## {title}\n")[1].partition("\n## ")[0]
    rows = {name: (asks, documented, rule) for name, asks, documented, rule in ROW.findall(page)}
    assert rows == {
        one.name: (one.asks, module.NEVER_ASKED.get(one.name) or one.documented or "not", one.rule)
        for one in module.QUESTIONS.values()
    }
    assert list(rows) == list(module.QUESTIONS)
    assert HEAD.findall(page) == list(dict.fromkeys(one.topic for one in module.QUESTIONS.values()))
    text = " ".join(page.split())
    assert {one.page for one in module.QUESTIONS.values() if one.page not in text} == set()


@pytest.mark.parametrize("title", KINDS)
def test_each_question_is_asked_by_one_group_or_never(title: str) -> None:
    module, groups = KINDS[title]
    asked = [name for _, names, _ in groups for name in names]
    assert sorted([*asked, *module.NEVER_ASKED]) == sorted(module.QUESTIONS)
    assert set(module.NEVER_ASKED) == {one.name for one in module.QUESTIONS.values() if one.topic == "not asked"}
    assert all((one.page or one.topic == "not asked") and one.rule and one.asks for one in module.QUESTIONS.values())
