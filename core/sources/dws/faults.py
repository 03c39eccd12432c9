"""How a DWS error counts: SQLSTATE first, the message only where DWS gives nothing better."""

from __future__ import annotations

import re

from slotkeeper.core.domain import refusals
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import passing, pg
from slotkeeper.core.errors import (
    Busy,
    Refused,
    SlotkeeperError,
    TooLarge,
    Trouble,
    TroubleName,
    Unclassified,
    Unreachable,
)

LIMIT = "57014"
"""query_canceled: our statement_timeout."""
_NAMES = re.compile(r"\b(gs_binlog_(sync_point|event_sequence|event_type)|sync_point|event_sequence)\b")
"""The binlog's own columns as kernels of either age call them; `type` may be a column of anybody's."""
SWITCH = "set new_system_value = {} in the job's [jobs.JOB.binlog], and start the job"
_POOLER = ("pooler: failed to create", "could not connect", "Connection refused", "connection to server")


def classify(error: BaseException, place: str, timed_out: type[SlotkeeperError] = Unreachable) -> SlotkeeperError:
    """The error of ours for a driver's; `place` is the endpoint in words, `timed_out` what our own limit means here."""
    code, text = pg.failure(error)
    if isinstance(error, pg.NoAnswer):
        return Unreachable(f"source {place} {text}", "", code, "source").after_limit()
    if isinstance(error, pg.TooMuch):
        return TooLarge(f"source {place} {text}", "", code, "source")
    message = f"source {place}: {safe(pg.without_values(text, code), 300)}"
    if refusals.refusal(code, text):
        return refusals.error_of(text)(message, refusals.cure(text), code, "source")
    if code == "42P01":
        return Trouble(message, "the table is gone or renamed", code, "source", name=TroubleName.SCHEMA_CHANGED)
    named = _NAMES.search(text) if code == "42703" else None  # undefined_column
    if named:
        old = "gs_" in named[0]
        what = f"{message}: new_system_value = {str(old).lower()} does not fit this kernel"
        return Refused(what, SWITCH.format("false" if old else "true"), code, "source")
    if code == "42883":  # undefined_function
        return Refused(message, "this kernel lacks a binlog function: 9.1.0.200 or newer is needed", code, "source")
    return _kind(code, text, timed_out)(message, "", code, "source").after_limit(code == LIMIT)


def _kind(code: str, text: str, timed_out: type[SlotkeeperError]) -> type[SlotkeeperError]:
    """What a code means here; a code that says no more than that a line is lost gives way to one in the sentence."""
    if code == LIMIT:
        return timed_out
    if code == "53200" and timed_out is not TooLarge:
        return Busy  # nothing here could be made smaller, and others' memory comes free
    if code in passing.BY_CODE:
        return passing.BY_CODE[code]
    lost = code.startswith("08") or (code[:2] != "22" and any(words in text for words in _POOLER))
    return passing.lost_line(text) if lost else Unclassified
