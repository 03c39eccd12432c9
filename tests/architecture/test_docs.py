"""The documentation is consistent: every decision record has its four parts, and every link has a target."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from slotkeeper.core.domain.text import anchor
from tests.architecture.checkout import ROOT

HEADINGS = ["Status", "Context", "Decision", "Consequences"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
"""A link in the text, of a picture, or a link definition."""
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
PAGES = sorted(
    page for place in ("*.md", "docs/**/*.md", "tests/**/*.md", "bench/**/*.md") for page in ROOT.glob(place)
)
DECISIONS = sorted(ROOT.glob("docs/adr/[0-9]*.md"))
OF_ALL = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "docs/schemas/README.md", "bench/*.md")
NARROW = sorted(
    page for place in (*OF_ALL, "docs/*.md", "docs/adr/*.md", "docs/reports/*.md") for page in ROOT.glob(place)
)
UNBROKEN = re.compile(r"\||(slotkeeper|uv) | *`[^`]+`\.?$")
"""Lines that must not wrap: a table row, a command typed exactly as printed, a name that fills its line."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def headings(text: str, level: int) -> list[str]:
    return re.findall(rf"^{'#' * level} (.+)$", CODE.sub("", text), re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors of a page, derived from its headings."""
    titles = (title for level in range(1, 7) for title in headings(text, level))
    return {anchor(title) for title in titles}


def broken(page: Path, text: str) -> list[str]:
    """The links of a page that have no target; external links are not followed."""
    found = []
    for link in ("".join(one) for one in LINK.findall(CODE.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name) if name else page
        there = target.exists() and target.resolve().is_relative_to(ROOT)
        if not there or (anchor and anchor not in anchors(target.read_text("utf-8"))):
            found.append(link)
    return found


@pytest.mark.parametrize("page", DECISIONS, ids=named)
def test_a_decision_has_its_four_parts(page: Path) -> None:
    text = page.read_text("utf-8")
    assert headings(text, 2) == HEADINGS
    number = int(page.name.split("-")[0])
    assert [title.split(".")[0] for title in headings(text, 1)] == [str(number)]


def test_decisions_are_numbered_once_and_a_number_that_none_has_is_named() -> None:
    numbers = [int(page.name[:4]) for page in DECISIONS]
    unused = set(range(1, max(numbers))) - set(numbers)
    assert len(numbers) == len(set(numbers))
    named = "never used: " + ", ".join(map(str, sorted(unused)))
    for page in ("CONTRIBUTING.md", "docs/adr/README.md"):
        assert named in " ".join((ROOT / page).read_text("utf-8").split())


def test_the_index_of_decisions_has_each_once() -> None:
    index = (ROOT / "docs/adr/README.md").read_text("utf-8")
    listed = re.findall(r"^- \[(\d+)\]\((\d{4}-.+\.md)\)", index, re.MULTILINE)
    assert sorted(page for _, page in listed) == [page.name for page in DECISIONS]
    assert [page for number, page in listed if int(number) != int(page[:4])] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert not broken(page, page.read_text("utf-8"))


def test_the_first_screen_of_the_readme_says_why_and_how_in_thirty_lines_of_eighty_columns() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    first = "\n".join(lines[: lines.index("## Try it in a checkout")]).strip()
    assert len(first.splitlines()) <= 30
    assert [line for line in first.splitlines() if len(line) > 80] == []
    assert first.count("![") == 1
    assert "slotkeeper demo" in first and "slotkeeper init" in first and "pip install" in first


@pytest.mark.parametrize("page", NARROW, ids=named)
def test_no_line_of_a_page_is_wider_than_100_columns_but_in_a_table_a_command_or_one_name(page: Path) -> None:
    readme = page == ROOT / "README.md"
    wide = [line for line in page.read_text("utf-8").splitlines() if len(line) > 100]
    assert [line for line in wide if readme or not UNBROKEN.match(line)] == []


def test_a_broken_link_and_a_wrong_anchor_are_reported(tmp_path: Path) -> None:
    page = ROOT / "docs" / "glossary.md"
    text = "[a](nowhere.md) [b](states.md) [c](states.md#no-such) [d](https://x.example) `[e](f.md)` [g](#glossary)\n"
    text += "![h](no.svg)\n[i]: not-there.md\n"
    assert broken(page, text + "\n# Glossary\n") == ["nowhere.md", "states.md#no-such", "no.svg", "not-there.md"]


def test_the_promise_has_one_wording() -> None:
    text = " ".join((ROOT / "docs" / "delivery.md").read_text("utf-8").replace("\n> ", " ").split())
    assert "We never skip on our own." in text
    assert "every committed source change takes effect exactly once, in order per key" in text
