"""Parses Doris's answers about loads into the SlotkeeperError for an answer, or a transaction's outcome. Pure.

Sources of the strings: BE's stream_load.cpp, stream_load_2pc.cpp and http_common.h, FE's LoadAction and
LabelAlreadyUsedException.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import (
    AccessRefused,
    Busy,
    Refused,
    RowRefused,
    SlotkeeperError,
    TooLarge,
    Unclassified,
    Unreachable,
)

SUCCESS, PUBLISH_TIMEOUT, TAKEN = "Success", "Publish Timeout", "Label Already Exists"
"""Values of `Status`; a load with a publish timeout is committed and becomes visible later."""
FINISHED, PRECOMMITTED, RUNNING = "FINISHED", "PRECOMMITTED", "RUNNING"
"""Values of `ExistingJobStatus`."""
EXISTING = {"PREPARE": RUNNING, "PRECOMMITTED": PRECOMMITTED, "COMMITTED": FINISHED, "VISIBLE": FINISHED}
"""`ExistingJobStatus` for each state that `get_load_state` returns; a label with UNKNOWN or ABORTED is free."""

_RELATED = re.compile(r"relate to txn \[(\d+)\]")
_DONE = re.compile(r"is already (committed|visible)", re.I)
_ABORTED = re.compile(r"is already aborted", re.I)
_MISSING = re.compile(r"transaction \[\d+\] not found", re.I)
_NAMED_COLUMN = re.compile(r"column_name\[[^\]\[\x00-\x1f]{1,256}\]|column\([\w$ -]{1,128}\)")
_REASON = re.compile(r"^Reason: (.*?)(?:[.;] ?src line|\Z)", re.M | re.S)
"""Matches a rejection reason; because a value in it can contain line breaks, the match ends at the BE's own text
(`append_error_msg_to_file`)."""
_SOFT_LIMIT = "too long than vec schema"
"""BE's text for a value above string_type_length_soft_limit_bytes (vtablet_block_convertor.cpp)."""
_NO_ROW = "all partitions have no load data"
"""FE's text for a load that has no rows, or all of whose rows FE rejects (apache/doris #8133)."""
PAGE_LETTERS, PAGE_LINES = 200_000, 1_000
"""Maximum number of characters and of reasons that the sink reads from an error page."""
_NAMED = 3
"""Maximum number of rejection reasons in an error."""

_BUSY = (
    "current running txns on db",
    "too many versions",
    "version count",
    "-235",
    "no backend load available",
    "no available backend",
    "there are no backends available",
    "timeout",
)
_LARGE = ("exceed max size", "exceed the max size")
_PERSON = {
    "compress data of json format is not supported": 'this version rejects compressed JSON: set compression = "none"',
    "unknown database": "the database was dropped: recreate it and its tables, and reset the slot",
    "unknown table": "the table was dropped: recreate it, and reset the slot",
    "unknown column": "the table's columns differ from those that the job writes: alter the table",
    "two phase commit (2pc) for stream load was disabled": "set disable_stream_load_2pc = false in be.conf",
    "need to specify the sequence column": "the target now has a sequence column: restart the job",
    "only supported in unique tables": "the target is not a unique-key table: recreate it with UNIQUE KEY",
}


def related(message: str) -> str:
    """Return the number of the transaction that used a label; "" if unknown.

    >>> related("errCode = 2, detailMessage = Label [a] has already been used, relate to txn [77]")
    '77'
    """
    found = _RELATED.search(message)
    return found[1] if found else ""


def is_done(message: str) -> bool:
    """Whether Doris rejects the second phase because it is already done.

    >>> is_done("transaction [7] is already visible, not pre-committed.")
    True
    """
    return bool(_DONE.search(message)) and "could not abort" not in message


def is_aborted(message: str) -> bool:
    """Whether Doris rejects the second phase because the transaction has been aborted."""
    return bool(_ABORTED.search(message))


def is_missing(message: str) -> bool:
    """Whether Doris reports that the transaction was not found."""
    return bool(_MISSING.search(message))


def still_runs(message: str) -> bool:
    """Whether Doris rejects the second phase because the load has not ended."""
    return "is prepare, not pre-committed" in message


def refusal(message: str, target: str, filtered: int = 0) -> SlotkeeperError:
    """Return the error for the message of a failed load; `filtered` of its rows were rejected.

    >>> type(refusal("current running txns on db 1 is 100, larger than limit 100", "a.b")).__name__
    'Busy'
    >>> type(refusal("errCode = 7, detailMessage = unknown table, tableName=b", "a.b")).__name__
    'Refused'
    """
    low, text = message.lower(), f"{target}: {safe(message, 300)}"
    if "access denied" in low or "authorization" in low or "access_denied" in low:
        return AccessRefused(text, "check user and password, and GRANT LOAD_PRIV on the target", where="sink")
    for words, cure in _PERSON.items():
        if words in low:
            return Refused(text, cure, where="sink")
    if any(words in low for words in _LARGE):
        return TooLarge(text, where="sink")
    if "too many filtered rows" in low or "data_quality" in low or (filtered and _NO_ROW in low):
        return RowRefused(text, where="sink")
    if any(words in low for words in (*_BUSY, _NO_ROW)):
        return Busy(text, where="sink")
    return Unclassified(text, where="sink")


OTHER = "22000"
"""SQLSTATE of a row that was rejected for an unknown reason: data exception."""
_CODES = (
    ("null value for not null column", "23502"),
    ("null value in not null", "23502"),
    ("too long", "22001"),
    ("no partition", "23514"),
    ("cast", "22P02"),
    ("parse", "22P02"),
    ("overflow", "22003"),
    ("out of range", "22003"),
    ("not valid decimal", "22003"),
    ("not valid date", "22007"),
)
"""SQLSTATEs by the text of a rejection reason; Doris has no SQLSTATEs, but users filter error lists by SQLSTATE."""
_COLUMN = re.compile(r"column(?:_name)?\s*(?:\[([^\]]+)\]|=\s*([\w$]+)|\(([^)]+)\))", re.I)


def code_of(reason: str) -> str:
    """Return the closest SQLSTATE to a reason.

    >>> code_of("column_name[v], null value for not null column"), code_of("an unknown reason")
    ('23502', '22000')
    """
    low = reason.lower()
    return next((code for words, code in _CODES if words in low), OTHER)


def column_of(reason: str) -> str:
    """Return the column that a reason names; "" if it names none.

    >>> column_of("column_name[v], the value"), column_of("null value for not null column, column=k1"), column_of("?")
    ('v', 'k1', '')
    """
    found = _COLUMN.search(reason)
    return safe(next((one for one in found.groups() if one), ""), 128) if found else ""


def page_name(url: str) -> str:
    """Return an error page's short address, without login data.

    >>> page_name("http://u:p@be:8040/api/_load_error_log?file=a")
    'http://be:8040/api/_load_error_log?file=a'
    """
    try:
        where = urlsplit(url)
        port = f":{where.port}" if where.port else ""
    except ValueError:
        return "its URL is invalid"
    host = f"[{where.hostname}]" if ":" in (where.hostname or "") else where.hostname
    return safe(f"{where.scheme}://{host}{port}{where.path}?{where.query}", 300)


def reasons_of(page: str) -> list[str]:
    """Return the distinct reasons at the beginning of an error page of any length, without values of rows."""
    reasons: list[str] = []
    for found in islice(_REASON.finditer(page[:PAGE_LETTERS]), PAGE_LINES):
        if (reason := without_values(found[1]).rstrip("; ")) not in reasons:
            reasons.append(reason)
    return reasons


def rejected(target: str, answer: Mapping[str, Any], page: str, url: str) -> SlotkeeperError:
    """Return the error for a load whose rows were rejected; it has Doris's own reasons, but no values of rows."""
    reasons = reasons_of(page)
    rows, total = (counted(answer, name) for name in ("NumberFilteredRows", "NumberTotalRows"))
    what = f"{target} rejects {rows} of {total} rows"
    said = "; ".join(safe(one, 200) for one in reasons[:_NAMED]) or "its error page gives no reason"
    more = f" (and {len(reasons) - _NAMED} more reasons)" if len(reasons) > _NAMED else ""
    hint = "alter the target's columns to match the source, or filter such rows"
    if any(_SOFT_LIMIT in one for one in reasons):
        hint = 'raise string_type_length_soft_limit_bytes on each BE, or set on_bad_row = "quarantine"'
    at = f"; Doris's page: {page_name(url)}"
    return RowRefused(f"{what}: {said}{more}{at}", hint, code_of(" ".join(reasons)), where="sink")


def without_values(reason: str) -> str:
    """Return a reason without the values in brackets or quotes after its column's name, or after `value=`.

    A value can itself contain brackets and quotes, so everything from the first to the last of them is hidden.

    >>> without_values("column_name[v], the value [secret] cannot be cast, input str: [x]]y] at all")
    'column_name[v], the value [..] at all'
    >>> without_values("decimal value is not valid for definition, column=v, value=12.3, precision=2")
    'decimal value is not valid for definition, column=v, value=..'
    >>> without_values("column_name[v], first 32 bytes of input str: [secret] schema length: 1; actual length: 6; ")
    'column_name[v], first 32 bytes of input str: [..] schema length: 1; actual length: 6; '
    """
    named = _NAMED_COLUMN.match(reason)
    head = named[0] if named else ""
    rest = re.sub(r"\[.*\]", "[..]", reason[len(head) :], flags=re.S)
    rest = re.sub(r"(['\"]).*\1", "'..'", rest, flags=re.S)
    return head + re.sub(r"\b(value|input|str)\s*[=:](?!\s*\[\.\.\]).*", r"\1=..", rest, flags=re.S)


def counted(answer: Mapping[str, Any], name: str) -> int:
    """Return a number of rows from an answer; 0 if the answer does not contain the number.

    >>> counted({"a": 3, "b": "4", "c": [5], "d": True}, "a"), counted({"b": "4"}, "b"), counted({"c": [5]}, "c")
    (3, 0, 0)
    """
    found = answer.get(name)
    return found if type(found) is int else 0


def unreadable(target: str, status: int) -> SlotkeeperError:
    """Return the error for a response that is not from Doris; the outcome of the load is unknown."""
    if status in (401, 403):
        return AccessRefused(f"{target}: HTTP {status}", "check user and password", where="sink")
    return Unreachable(f"{target}: HTTP {status}, not a Stream Load response", where="sink")
