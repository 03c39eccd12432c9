"""Commands that pages other than the runbook print: the command line accepts each of them as printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest

from tests.architecture.checkout import ROOT
from tests.unit.test_runbook import BLOCK, refused_by_parser

PAGES = sorted({"README.md", *(f"docs/{page.name}" for page in ROOT.glob("docs/*.md"))} - {"docs/runbook.md"})
_STANDS_FOR = {"JOB": "orders_rt", "TABLE": "ods.orders", "SLOT": "orders_rt", "KEY": "1", "SOURCE": "dws1"}
_REMARK = re.compile(r" {3,}.*")
"""A comment after a command in a code block."""
_NAMED_ONLY = re.compile(r"\.\.\.|\[|\|| --?[\w-]+$")
"""A command that is incomplete on purpose: it has an ellipsis, or ends with an option that may need a value."""
_FLAGS = ("--exit-code", "--resume", "--origin")


def printed(page: str) -> Iterator[str]:
    """Command lines in the page's code blocks, and those with arguments in its sentences."""
    text = (ROOT / page).read_text("utf-8")
    for line in "\n".join(BLOCK.findall(text)).splitlines():
        for part in re.split(r" && | \| ", _REMARK.sub("", line.strip())):
            if re.match(r"(\.venv/bin/)?slotkeeper ", part):
                yield part
    for mention in re.findall(r"`((?:\.venv/bin/)?slotkeeper [^`\n]+ [^`\n]+)`", BLOCK.sub("", text)):
        whole = re.search(r" --|[A-Z]{2}|orders", mention) and not _NAMED_ONLY.search(mention)
        if whole or mention.endswith(_FLAGS):
            yield mention


COMMANDS = sorted({(page, one) for page in PAGES for one in printed(page)})


def test_commands_were_found() -> None:
    assert len(COMMANDS) > 15


@pytest.mark.parametrize("page", [*PAGES, "CONTRIBUTING.md"])
def test_a_shell_reads_a_remark_beside_a_command_as_a_comment(page: str) -> None:
    lines = "\n".join(BLOCK.findall((ROOT / page).read_text("utf-8"))).splitlines()
    commands = [line for line in lines if re.match(r"(\.venv/bin/)?(slotkeeper|make|pip|python3) ", line)]
    assert not [
        line for line in commands if (beside := _REMARK.search(line)) and not beside[0].lstrip().startswith("#")
    ]


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_the_command_line_takes_it(page: str, command: str) -> None:
    words = [_STANDS_FOR.get(word, word) for word in shlex.split(command)]
    assert not refused_by_parser(shlex.join(words)), page
