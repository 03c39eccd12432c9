"""Wraps generated Markdown at 100 columns: paragraphs and list items are filled, everything else is unchanged."""

from __future__ import annotations

import re
import textwrap

WIDTH = 100
_START = re.compile(r"\n(?=- |\||#)")
_CODE = re.compile(r"`[^`]*`")
_BLANK = "\0"


def wrapped(page: str) -> str:
    """Return the page with each wide paragraph or list item filled; table rows and code spans are not broken.

    >>> made = wrapped("# A\\n\\n- " + "word " * 20 + "`a b`\\n- b\\n| " + "cell " * 30 + "|\\n")
    >>> [len(line) for line in made.splitlines()]
    [3, 0, 96, 12, 3, 153]
    """
    blocks = page.split("\n\n")
    return "\n\n".join("\n".join(_filled(part) for part in _START.split(block)) for block in blocks)


def _filled(part: str) -> str:
    if part.startswith(("|", "#")) or all(len(line) <= WIDTH for line in part.splitlines()):
        return part
    whole = _CODE.sub(lambda code: code[0].replace(" ", _BLANK), " ".join(part.split()))
    indent = "  " if part.startswith("- ") else ""
    filled = textwrap.fill(whole, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    return filled.replace(_BLANK, " ") + "\n" * part.endswith("\n")
