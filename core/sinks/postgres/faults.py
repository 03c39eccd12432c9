"""How a PostgreSQL sink's error counts, by SQLSTATE; the message never carries a row's values."""

from __future__ import annotations

import re

from slotkeeper.core.domain import refusals
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import passing, pg
from slotkeeper.core.errors import Refused, RowRefused, SlotkeeperError, TooLarge, Unclassified, Unreachable

BAD_ROW = ("22", "23")
LIMIT = "57014"
"""query_canceled: our statement_timeout."""
_LACKED = frozenset({"42704", "42P01", "42883", "42725", "42602", "42601", "3F000"})
"""What a server says where a name leads to nothing."""
_AT_A_VALUE = re.compile(r"\bCOPY .*, line \d+, column ", re.DOTALL)
"""Where COPY read a value as it failed: then the name stood in that value (regrole, aclitem, regclass, ...)."""


def classify(error: BaseException, place: str, timed_out: type[SlotkeeperError] = TooLarge) -> SlotkeeperError:
    """The error of ours for a driver's; `place` is the endpoint in words, `timed_out` what our own limit means here."""
    code, text = pg.failure(error)
    if isinstance(error, pg.NoAnswer):
        return Unreachable(f"sink {place} {text}", "", code, "sink").after_limit()
    if isinstance(error, pg.TooMuch):
        return TooLarge(f"sink {place} {text}", "", code, "sink")
    message = f"sink {place}: {safe(_shown(error, text, code), 300)}"
    if refusals.refusal(code, text):
        return refusals.error_of(text)(message, refusals.cure(text), code, "sink")
    if code == LIMIT:
        return timed_out(message, "", code, "sink").after_limit()
    if code in passing.BY_CODE:
        return passing.BY_CODE[code](message, "", code, "sink")
    if code.startswith("08"):
        return passing.lost_line(text)(message, "", code, "sink")
    if code[:2] in BAD_ROW:
        return RowRefused(
            message,
            "have the target take the row (its columns, types and constraints), or correct it at the source",
            code,
            "sink",
        )
    if names_absent(error):
        hint = "a value names something that the sink lacks (a role, a table, a function, a type, ...)"
        return RowRefused(message, f"{hint}: make it there, or have the target keep the column as text", code, "sink")
    if code == "42703":
        hint = "the target has other columns, or slotkeeper's own tables are of an older version: "
        return Refused(message, f"{hint}`slotkeeper jobs start JOB` migrates them", code, "sink")
    if code[:2] == "42":
        return Refused(
            message,
            "bring the target or the progress table back as it was; `slotkeeper doctor` says what is missing",
            code,
            "sink",
        )
    return Unclassified(message, "", code, "sink")


def is_bad_row(error: BaseException) -> bool:
    """Whether a driver error is about a row's values.

    SQLSTATE classes 22 (data) and 23 (constraints), and a value that names what the sink lacks.
    """
    return pg.failure(error)[0][:2] in BAD_ROW or names_absent(error)


def names_absent(error: BaseException) -> bool:
    """Whether a value of a row names something that this server has not; no table or column of ours does."""
    return pg.failure(error)[0] in _LACKED and bool(_AT_A_VALUE.search(pg.named(error).context))


def sentence(error: BaseException) -> tuple[str, str]:
    """(SQLSTATE, the server's sentence without a row's values)."""
    code, text = pg.failure(error)
    return code, safe(_shown(error, text, code), 300)


def _shown(error: BaseException, text: str, code: str) -> str:
    """The server's sentence without a row's values; one about an absent name may tell the value without quotes."""
    shown = pg.without_values(text, code)
    if not names_absent(error):
        return shown
    return re.sub(r'".*"', '"..."', re.sub(r": .*", "", shown, flags=re.DOTALL))
