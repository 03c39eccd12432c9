"""Hostile texts, each of which would do something to a terminal, a reader, a parser or a spreadsheet.

Every one is planted behind a tag of letters (`tagged`), so that a test can tell whether it was shown at all.
"""

from __future__ import annotations

from string import ascii_lowercase

ESC, BEL, ST = "\x1b", "\x07", "\x1b\\"

TERMINAL = [
    f"{ESC}]52;c;aGFjaw=={BEL}",
    f"{ESC}]52;p;?{ST}",
    f"{ESC}]8;;http://x.example{ST}link{ESC}]8;;{ST}",
    f"{ESC}]8;id=a;file:///etc/passwd{BEL}y{ESC}]8;;{BEL}",
    f"{ESC}]0;title{BEL}",
    f"{ESC}]2;title{ST}",
    f"{ESC}]1;icon{BEL}",
    f"{ESC}]4;1;rgb:ff/00/00{ST}",
    f"{ESC}]10;?{BEL}",
    f"{ESC}]7;file://h/tmp{BEL}",
    f"{ESC}]9;4;1;50{BEL}",
    f"{ESC}]777;notify;a;b{BEL}",
    f"{ESC}]1337;File=inline=1:AAAA{BEL}",
    f"{ESC}]133;A{BEL}",
    f"{ESC}]50;font{BEL}",
    f"{ESC}]22;wait{BEL}",
    f"{ESC}[5;31;45mred",
    f"{ESC}[38;5;9;5mx{ESC}[0m",
    f"{ESC}[2J{ESC}[77;1H",
    f"{ESC}[3J",
    f"{ESC}[999;999H",
    f"{ESC}[99A{ESC}[99D",
    f"{ESC}[2K{ESC}[1G",
    f"{ESC}[6n",
    f"{ESC}[c",
    f"{ESC}[>c",
    f"{ESC}[=c",
    f"{ESC}[>q",
    f"{ESC}[18t",
    f"{ESC}[21t",
    f"{ESC}[8;1;1t",
    f"{ESC}[?1049l",
    f"{ESC}[?1003h",
    f"{ESC}[?2004l",
    f"{ESC}[?25h",
    f"{ESC}[?7h",
    f"{ESC}[4h",
    f"{ESC}[20h",
    f"{ESC}[1;5r",
    f"{ESC}[!p",
    f"{ESC}[5i",
    f"{ESC}[200~rm -rf{ESC}[201~",
    f"{ESC}[>4;2m",
    f"{ESC}[<u",
    f"{ESC}c",
    f"{ESC}7{ESC}8",
    f"{ESC}(0lqk",
    f"{ESC}#8",
    f"{ESC}D{ESC}M",
    f"{ESC}P$q m{ST}",
    f"{ESC}P+q544e{ST}",
    f"{ESC}Pq#0;2;0;0;0#0~~@@{ST}",
    f"{ESC}Ptmux;{ESC}{ESC}]52;c;aGFjaw=={BEL}{ST}",
    f"{ESC}_Gf=24,s=1,v=1;AAAA{ST}",
    f"{ESC}^private{ST}",
    f"{ESC}Xstring{ST}",
    f"{ESC}[31",
    f"{ESC}]52;c;",
    f"{ESC}",
    "\x9b31m",
    "\x9d0;title\x9c",
    "\x90q\x9c",
    "\x85\x84\x8d",
]
CHARACTERS = [
    "\u202egnp.exe\u202c",
    "\u2066a\u2069\u2067b\u2069",
    "\u200fr\u200el\u061c",
    "a\u200bb\u200cc\u200dd\u2060e",
    "\ufeffbom",
    "\u00adshy",
    "\u2028line\u2029paragraph",
    "\U000e0041\U000e0042tags",
    "\ufff9a\ufffab\ufffb",
    "e" + "\u0301" * 300,
    "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 40,
    "\u2764\ufe0f1\ufe0f\u20e3",
    "\u5bbd" * 200,
    "\u115f\u3164\uffa0",
    "\ue000\uf8ff\U0010ffff",
    "line\nline",
    "back\b\b\b\bspace",
    "return\rover",
    "tab\ttab\x0bvt\x0cff",
    "bell\x07\x05\x0e\x0f",
    "del\x7f\x7f",
    "x" * 100_000,
]
WORDS = [
    "[@click=app.quit]x[/]",
    "[@click=app.go('jobs')]x[/]",
    "[/x]",
    "[/]",
    "[red]r[/red]",
    "[bold red on white blink]b",
    "[link=http://x.example]y[/link]",
    "[[[]]]\\[",
    "$x {0} %s%n%999d {x!r}",
    "'; DROP TABLE jobs; --",
    "$(touch owned)`touch owned`",
    "; touch owned | sh &",
    "../../../etc/passwd",
    "=cmd|' /C calc'!A0",
    "+1+cmd|' /C calc'!A0",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    '=HYPERLINK("http://x.example","y")',
    '","a"\r\n"b',
    '{"a":"b"}</script><script>',
    "q",
    ":rw because",
]
NOT_IN_DATABASES = ["nul\x00nul", b"\xff\xfe bad \xc3\x28".decode("utf-8", "surrogateescape"), "\ud83d lone \udc00"]
"""What PostgreSQL does not take as text; everything else could stand in a row."""

PAYLOADS = [*TERMINAL, *CHARACTERS, *WORDS, *NOT_IN_DATABASES]


def tag(number: int) -> str:
    """Letters only, because digits are folded where errors are counted.

    >>> tag(0), tag(27)
    ('Zaa', 'Zbb')
    """
    return f"Z{ascii_lowercase[number // 26]}{ascii_lowercase[number % 26]}"


def tagged() -> list[str]:
    """Every payload behind its tag."""
    return [tag(number) + payload for number, payload in enumerate(PAYLOADS)]


def storable(text: str) -> str:
    """A text as UTF-8 can carry it, with what it cannot carry spelled out."""
    return text.encode("utf-8", "surrogateescape" if _is_bytes(text) else "backslashreplace").decode(
        "utf-8", "backslashreplace"
    )


def _is_bytes(text: str) -> bool:
    return not any("\ud800" <= c < "\udc80" or "\udcff" < c <= "\udfff" for c in text)
