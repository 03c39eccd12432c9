"""Finds phrases that a reader has to decode in strings, docstrings, comments and pages; pure.

A message or a page names the actor and uses the field's term: "no session", not "nobody"; "copied again", not "anew".
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.checkout import tree

PHRASES = {
    "anew": r"anew",
    "nobody": r"nobody",
    "whoever": r"whoever",
    "by hand": r"by hand",
    "goes on": r"goes on",
    "given up": r"given up",
    "of ours": r"of ours",
    "night": r"nights?",
    "next door": r"next door",
    "so many": r"so many",
    "stands still": r"stands still",
    "is told": r"is told",
    "at rest": r"at rest",
    "is no X": r"(?<!there\s)is no (?!longer\b|more\b|later\b|less\b)(?=\w)",
    "a DWS": r"a DWS",
}
"""The counted phrases, each with its pattern between word boundaries."""
EXCEPTIONS = {
    "`nobody`": "the account of that name",
    "tests/architecture/voice.py": "names the phrases",
    "tests/architecture/test_voice.py": "shows that each is found",
}
"""Texts or files that are not counted, and why."""
_ALL = {name: re.compile(rf"\b{pattern}\b", re.IGNORECASE) for name, pattern in PHRASES.items()}
_ANY = re.compile("|".join(pattern.replace(" ", r"[\s#]+") for pattern in PHRASES.values()), re.IGNORECASE)
"""Whether a source text can contain one at all, also across lines of a comment."""
_COMMENT = re.compile(r"#[^\n]*")
"""What may be a comment: a module that has no phrase in any is not tokenized."""


def phrases(text: str) -> Counter[str]:
    """How often a text has each phrase; lines may break within one."""
    if not _ANY.search(text):
        return Counter()
    flat = " ".join(text.split())
    for allowed in EXCEPTIONS:
        flat = flat.replace(allowed, "")
    found = Counter({name: len(pattern.findall(flat)) for name, pattern in _ALL.items()})
    return +found


def spoken(source: str) -> Iterator[str]:
    """The strings, docstrings and blocks of comments of a Python module."""
    for node in tree(source):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value != "nobody":
            yield node.value
    if not _ANY.search(" ".join(_COMMENT.findall(source))):
        return
    block: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            block.append(token.string.lstrip("# "))
        elif token.type not in {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}:
            if block:
                yield " ".join(block)
            block = []
    if block:
        yield " ".join(block)


def in_file(path: Path, root: Path) -> Counter[str]:
    """How often a page, a SQL file or a Python module has each phrase."""
    text = path.read_text("utf-8")
    if path.relative_to(root).as_posix() in EXCEPTIONS or not _ANY.search(text):
        return Counter()
    if path.suffix != ".py":
        return phrases(text)
    return sum((phrases(one) for one in spoken(text)), Counter())
