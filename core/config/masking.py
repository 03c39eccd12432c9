"""Protect the secrets of this process: mask all their written forms in its output, and disable core dumps."""

from __future__ import annotations

import base64
import json
import re
import resource
import shlex
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, quote_plus

from slotkeeper.core import redaction
from slotkeeper.core.domain.text import safe

SHORTEST = 8
"""Minimum length in characters of a secret that is masked."""
PLAIN = 12
"""Minimum length of a masked secret whose characters are all of one kind."""
NEWEST = 4
"""Number of secrets per reference that are masked: the current secret; the previous secret, which may still occur in
sessions and late server responses; and two more, because a rotation can be incomplete or rolled back."""
_KINDS = ("[a-z]", "[A-Z]", "[0-9]", "[^a-zA-Z0-9]")
_secrets: dict[object, dict[str, tuple[str, ...]]] = {}
"""The newest secrets of each reference, newest last, each with its written forms."""
_lock = threading.Lock()


def maskable(secret: str) -> bool:
    """Return whether a secret can be masked; a short plain word or number can also occur in Slotkeeper's own texts.

    A secret needs at least 8 characters of two kinds (lowercase, uppercase, digit, other), or at least 12 characters.
    DWS requires 8 characters of three kinds ("Creating a Custom Password Policy for DWS").

    >>> [maskable(each) for each in ("Tr0ub4d&", "postgres", "12345678", "correcthorsebattery")]
    [True, False, False, True]
    """
    kinds = sum(bool(re.search(kind, secret)) for kind in _KINDS)
    return len(secret) >= PLAIN or (len(secret) >= SHORTEST and kinds > 1)


def remember(secret: str, of: object = None) -> None:
    """Register a secret of the reference `of`; this process then masks it, if possible, and writes no core dumps.

    Only the newest secrets of each reference are retained. Secrets without a reference are never dropped.
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
    """Return the text with the newest secrets of a reference masked, including short and plain secrets."""
    for secret in sorted(_secrets.get(of, ()), key=len, reverse=True):
        text = text.replace(secret, redaction.MASK)
    return text


def mask_tracebacks() -> None:
    """Mask known secrets in the tracebacks of unexpected errors, which the program and its threads write to stderr."""
    import traceback  # most commands fail with a message, without one

    def show(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        sys.stderr.write(redaction.masked("".join(traceback.format_exception(kind, error, trace))))

    sys.excepthook = show
    threading.excepthook = lambda ended: show(ended.exc_type, ended.exc_value, ended.exc_traceback)


def _dump_no_core() -> None:
    """Disable core dumps, also of child processes, and exclude memory from dumps that are piped to a program.

    Piped dumps ignore the size limit (core(5)). PR_SET_DUMPABLE is not used, because it would make root the owner of
    /proc/<pid>, including the markers with which Slotkeeper recognizes its own processes.
    """
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):
        Path("/proc/self/coredump_filter").write_text("0", encoding="ascii")


def spellings(secret: str) -> set[str]:
    """Return the forms in which servers, shells, URLs, JSON and SQL write a secret; each form is the whole secret."""
    if not secret:
        return set()
    import html  # not needed in a process without secrets, and its tables are large

    raw = secret.encode("utf-8", "surrogateescape")
    wide = "\0".join(secret)  # UTF-16 decoded as one-byte characters
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
        *filter(maskable, (secret.lower(), secret.upper())),  # a server can convert the case of a name
        *(_base64(raw) if len(raw) >= SHORTEST else ()),
    }
    # leave out forms in which a known secret is already masked
    return {each for each in found if redaction.MASK not in each or redaction.MASK in secret}


def _base64(raw: bytes) -> set[str]:
    """Return the whole secret in base64, with and without padding, and in hexadecimal as PostgreSQL writes bytea."""
    coded = {base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()}
    coded.add(base64.b64encode(raw.decode("utf-8", "replace").encode("utf-16-le")).decode())
    return coded | {each.rstrip("=") for each in coded} | {raw.hex(), raw.hex().upper()}
