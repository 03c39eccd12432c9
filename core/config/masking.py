"""What a process that has a secret does about it: it masks the secret's spellings in all its texts and
dumps no core.
"""

from __future__ import annotations

import base64
import json
import re
import resource
import shlex
import sys
import threading
import traceback
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, quote_plus

from slotkeeper.core import redaction
from slotkeeper.core.domain.text import safe

SHORTEST = 8
"""Characters of the shortest secret that is masked."""
PLAIN = 12
"""The same where all are of one kind."""
NEWEST = 4
"""Secrets of one reference that are masked: the one that logins use now, the one before it, which sessions and late
answers of servers still have, and two more, because a rotation may be seen half done or be taken back."""
_KINDS = ("[a-z]", "[A-Z]", "[0-9]", "[^a-zA-Z0-9]")
_secrets: dict[object, dict[str, tuple[str, ...]]] = {}
"""The newest secrets by their reference, the newest last, with their spellings."""
_lock = threading.Lock()


def maskable(secret: str) -> bool:
    """Whether a secret can be taken out of texts: a short one, a plain word or number, stands in our own texts, too.

    At least 8 characters of two kinds (small, capital, digit, other), or 12. DWS asks its users for 8 of three kinds
    ("Creating a Custom Password Policy for DWS").

    >>> [maskable(each) for each in ("Tr0ub4d&", "postgres", "12345678", "correcthorsebattery")]
    [True, False, False, True]
    """
    kinds = sum(bool(re.search(kind, secret)) for kind in _KINDS)
    return len(secret) >= PLAIN or (len(secret) >= SHORTEST and kinds > 1)


def remember(secret: str, of: object = None) -> None:
    """From here on this process has a secret `of` a reference: it masks it where it can, and writes no core dump.

    Older secrets of that reference than the newest few are forgotten. Without a reference none is.
    """
    with _lock:
        newest = _secrets.setdefault(secret if of is None else of, {})
        if secret in newest:
            newest[secret] = newest.pop(secret)
            return
        _dump_no_core()
        shown = spellings(secret) if maskable(secret) else ()
        newest[secret] = tuple(each for each in shown if len(each) >= SHORTEST)
        for old in list(newest)[:-NEWEST]:
            del newest[old]
        redaction.know(each for known in _secrets.values() for all_of in known.values() for each in all_of)


def without_newest(text: str, of: object) -> str:
    """The text without the newest secrets of a reference as they are, however short or plain."""
    for secret in sorted(_secrets.get(of, ()), key=len, reverse=True):
        text = text.replace(secret, redaction.MASK)
    return text


def mask_tracebacks() -> None:
    """What ends a thread or the program unexpectedly is shown on stderr as ever, without known secrets."""

    def show(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        sys.stderr.write(redaction.masked("".join(traceback.format_exception(kind, error, trace))))

    sys.excepthook = show
    threading.excepthook = lambda ended: show(ended.exc_type, ended.exc_value, ended.exc_traceback)


def _dump_no_core() -> None:
    """No core dump, also of children; and where one is piped to a program, which heeds no limit (core(5)), no memory.

    Not PR_SET_DUMPABLE: it would give /proc/<pid> to root, and with it the marks by which we know our own processes.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/coredump_filter").write_text("0", encoding="ascii")


def spellings(secret: str) -> set[str]:
    """A secret as servers, shells, URLs, JSON and SQL write it; as a whole, never a part of it."""
    if not secret:
        return set()
    import html  # who only looks has no secret, and its tables are large

    raw = secret.encode("utf-8", "surrogateescape")
    wide = "\0".join(secret)  # UTF-16 that is read as text of one byte a character
    urls = {quote(raw, safe=""), quote(raw), quote_plus(raw)}
    found = {
        secret,
        safe(secret, len(secret) * 10),
        " ".join(secret.split()),
        repr(secret)[1:-1],
        ascii(secret)[1:-1],
        json.dumps(secret)[1:-1],
        json.dumps(secret, ensure_ascii=False)[1:-1],
        *urls,
        *(re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), each) for each in urls),
        html.escape(secret),
        secret.replace("'", "''"),
        secret.replace('"', '""'),
        secret.replace("\\", "\\\\").replace("'", "\\'"),
        shlex.quote(secret),
        wide,
        safe(wide, len(wide) * 10),
        repr(wide)[1:-1],
        json.dumps(wide)[1:-1],
        *filter(maskable, (secret.lower(), secret.upper())),  # a server folds what it takes for a name
        *(_base64(raw) if len(raw) >= SHORTEST else ()),
    }
    # what is known already is masked in it
    return {each for each in found if redaction.MASK not in each or redaction.MASK in secret}


def _base64(raw: bytes) -> set[str]:
    """As a whole, with the padding or without, and in hexadecimal as PostgreSQL writes bytes."""
    coded = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    coded.add(base64.b64encode(raw.decode("utf-8", "replace").encode("utf-16-le")).decode())
    return coded | {each.rstrip("=") for each in coded} | {raw.hex(), raw.hex().upper()}
