"""Hostile texts for names and values: SQL, format marks, control and bidi characters, own names; more from a seed."""

from __future__ import annotations

import random
import re

RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""Characters that must not appear raw in a terminal, log or file; newlines and tabs are allowed."""

FIRST = [
    "a\x1fb",
    "a\x1eb\x1dc",
    '"; DROP TABLE public.victim; --',
    "'; DROP TABLE public.victim; --",
    "\\'; DROP TABLE public.victim; --",
    "\x1b]52;c;aGFjaw==\x07",
    "\x1b[2J\x1b[31mred",
    "100%s %(table)s %%",
    "{0}{table}{{",
    "line\nline\r\tend",
    "back\\slash\\",
    "\\.",
    "\\N",
    "$$; DROP TABLE public.victim; $$",
    "\u202egnp.exe\u2069",
    "a\u200bb\ufeff",
    "\x9b31m\x90x\x9c",
    "select",
    "c1",
    "é" * 31 + "x",
    "\x7f\x01",
    'q"q""q',
    "pg_temp.t",
    "public",
    " ",
    " lead",
    "trail ",
    "NULL",
    "ctid2",
    "\u2028line\u2029",
    "e\u0301\u0301\u0301\u0301\u0301",
    "\U0001f4a5",
    "/* */ -- #",
    "a.b.c",
    "*",
    "?",
    "$1",
    ":name",
    "@x",
    "`tick`",
    "[/red][bold]",
    "=cmd|' /C calc'!A0",
    "../../etc/passwd",
    "${HOME}$(id)`id`",
    "excluded",
    "point",
    "sequence",
    "kind",
    "key",
    "unit",
    "slotkeeper_stage",
    "x" * 63,
    "\x0b\x0c",
    "\x08\x08\x08",
    "\u0085",
    "\u00a0",
    "K",
    "k",
    "ﬁ",
    "İ",
    "0",
    "-1",
    "true",
    "E'\\x41'",
    'U&"\\0041"',
]
_PARTS = [
    *FIRST[:19],
    "a",
    "Z",
    "9",
    "_",
    "-",
    ",",
    ";",
    "'",
    '"',
    "\\",
    "\x1f",
    "\x1e",
    "\x1d",
    "\x1b",
    "\n",
    "\t",
    "%",
    "{",
    "}",
]


def texts(count: int, seed: int) -> list[str]:
    """This number of different texts, each a valid name on a server: the fixed ones first, then random ones."""
    chance = random.Random(seed)
    found = dict.fromkeys(FIRST[:count])
    while len(found) < count:
        made = "".join(chance.choice(_PARTS) for _ in range(chance.randint(1, 4)))
        short = made.encode()[:63].decode(errors="ignore")
        if short:
            found[short] = None
    return list(found)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
