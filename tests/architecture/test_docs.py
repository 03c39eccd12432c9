"""The pages hold together: every decision has its four parts, every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.architecture.checkout import ROOT

HEADINGS = ["Status", "Context", "Decision", "Consequences"]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
PAGES = sorted(
    page for place in ("*.md", "docs/**/*.md", "tests/**/*.md", "bench/**/*.md") for page in ROOT.glob(place)
)
DECISIONS = sorted(ROOT.glob("docs/adr/*.md"))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def headings(text: str, level: int) -> list[str]:
    return re.findall(rf"^{'#' * level} (.+)$", CODE.sub("", text), re.MULTILINE)


def anchors(text: str) -> set[str]:
    """The anchors of a page, as they are made from its headings."""
    titles = (title for level in range(1, 7) for title in headings(text, level))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(page: Path, text: str) -> list[str]:
    """The links of a page that lead nowhere; those to the world outside are not followed."""
    found = []
    for link in LINK.findall(CODE.sub("", text)):
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


def test_decisions_are_numbered_once() -> None:
    numbers = [page.name[:4] for page in DECISIONS]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_link_leads_somewhere(page: Path) -> None:
    assert not broken(page, page.read_text("utf-8"))


def test_a_broken_link_and_a_wrong_anchor_are_reported(tmp_path: Path) -> None:
    page = ROOT / "docs" / "glossary.md"
    text = "[a](nowhere.md) [b](states.md) [c](states.md#no-such) [d](https://x.example) `[e](f.md)` [g](#glossary)\n"
    assert broken(page, text + "\n# Glossary\n") == ["nowhere.md", "states.md#no-such"]


def test_the_promise_is_told_in_one_wording() -> None:
    text = " ".join((ROOT / "docs" / "delivery.md").read_text("utf-8").replace("\n> ", " ").split())
    assert "We never skip on our own." in text
    assert "every committed source change takes effect exactly once, in order per key" in text
