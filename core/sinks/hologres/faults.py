"""How an error of a Hologres counts; the message never carries a row's values.

By SQLSTATE where it is PostgreSQL's, and by the words that holo-client tells errors by (ExceptionCode, ConnectionUtil).
"""

from __future__ import annotations

import re

from slotkeeper.core.domain import refusals
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import passing, pg
from slotkeeper.core.errors import Busy, Refused, RowRefused, SlotkeeperError, Unclassified, Unreachable

_LIMIT = "57014"
_LINE = re.compile(r"\s*\bLINE \d+: .*", re.DOTALL)
"""The part of our own statement that a server points at: it holds the values of rows."""
_PASSING: tuple[tuple[str, type[SlotkeeperError]], ...] = (
    ("not allowed in readonly mode", Unreachable),
    ("mismatches the version of the table", Busy),
    ("invalid table id", Busy),
    ("replay not finished yet", Busy),
    ("could not open relation with oid", Busy),
    ("resource busy", Busy),
    ("remaining connection slots are reserved", Busy),
)
"""What passes by itself by holo-client's word: a change of role, a coordinator behind in what it knows of a table."""


def classify(error: BaseException, place: str, timed_out: type[SlotkeeperError] = Busy) -> SlotkeeperError:
    """The error of ours for a driver's; `place` is the endpoint in words, `timed_out` what our own limit means here."""
    code, text = pg.failure(error)
    if isinstance(error, pg.NoAnswer):
        return Unreachable(f"sink {place} {text}", "", code, "sink").after_limit()
    message = f"sink {place}: {safe(_LINE.sub('', pg.without_values(text, code)), 300)}"
    if refusals.refusal(code, text):
        return refusals.error_of(text)(message, refusals.cure(text), code, "sink")
    if code == _LIMIT:
        return timed_out(message, "", code, "sink").after_limit()
    lower = text.lower()
    for words, kind in _PASSING:
        if words in lower:
            return kind(message, "", code, "sink")
    if code in passing.BY_CODE:
        return passing.BY_CODE[code](message, "", code, "sink")
    if code.startswith("08"):
        return passing.lost_line(text)(message, "", code, "sink")
    if code[:2] in ("22", "23"):
        hint = "have the target take the row (its columns, types and constraints), or correct it at the source"
        return RowRefused(message, hint, code, "sink")
    if code[:2] in ("42", "0A", "25"):
        return Refused(
            message, "bring the target back as it was; `slotkeeper doctor` says what is missing", code, "sink"
        )
    return Unclassified(message, "", code, "sink")
