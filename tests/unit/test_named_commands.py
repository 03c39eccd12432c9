"""Every command and option that a sentence of the pages names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from slotkeeper.console.commands.main import main_command
from tests.architecture.checkout import ROOT

PAGES = ["README.md", *sorted(f"docs/{page.name}" for page in ROOT.glob("docs/*.md"))]
CODE = re.compile(r"```.*?```|`([^`\n]+)`", re.DOTALL)
SHARED = {"--help", "--config", "--state-dir", "--ascii", "--mono", "--read-only", "--version"}


def spans(text: str) -> Iterator[str]:
    """The code spans of sentences, and the lines of code blocks."""
    for found in CODE.finditer(text):
        yield from [found[1]] if found[1] else found[0].splitlines()[1:-1]


def child(command: Any, name: str) -> Any:
    """The subcommand of that name; None if there is none."""
    find = getattr(command, "get_command", None)
    return find(None, name) if find is not None else None


def named(span: str, root: Any) -> tuple[list[str], list[str]] | None:
    """The commands and options that a span names; None if it names no command."""
    words = span.strip().removeprefix(".venv/bin/").split()
    if words[:1] == ["slotkeeper"]:
        words = words[1:]
        while words[:1] == ["--config"]:
            words = words[2:]
    group = child(root, words[0]) if words else None
    if group is None:
        return None
    if not hasattr(group, "get_command"):
        whole, rest = [words[0]], words[1:] if span.startswith("slotkeeper") else []
    elif words[1:] and re.fullmatch(r"[a-z|]+", words[1]):
        whole, rest = [f"{words[0]} {verb}" for verb in words[1].split("|")], words[2:]
    else:
        return None
    command_ends = [place for place, word in enumerate(rest) if word in ("&&", "||", "|", ";", "#")]
    rest = rest[: command_ends[0]] if command_ends else rest
    return whole, [option for word in rest for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", word)]


def amiss(span: str, root: Any) -> list[str]:
    found = named(span, root)
    if found is None:
        return []
    wrong = []
    for words in found[0]:
        command = root
        for word in words.split():
            command = child(command, word)
        if command is None:
            wrong.append(f"no command {words!r}: {span}")
            continue
        known = {one for param in command.params for one in (*param.opts, *param.secondary_opts)} | SHARED
        wrong += [f"{words} has no {option}: {span}" for option in found[1] if option not in known]
    return wrong


@pytest.mark.parametrize("page", PAGES)
def test_every_command_and_option_that_a_page_names_is_there(page: str) -> None:
    root = main_command()
    assert [wrong for span in spans((ROOT / page).read_text("utf-8")) for wrong in amiss(span, root)] == []


def test_they_are_found_and_what_is_not_there_is_seen() -> None:
    root, text = main_command(), (ROOT / "docs" / "runbook.md").read_text("utf-8")
    assert sum(named(span, root) is not None for span in spans(text)) > 100
    for span in (
        "jobs pause|resum",
        "slots reset --too earliest",
        "slots drp ods.orders x",
        "verify --soon",
    ):
        assert amiss(f"slotkeeper {span}", root), span
