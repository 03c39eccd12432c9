"""How a DWS error counts: SQLSTATE first, the message only where DWS gives nothing better.

Next door: `core.retry` decides from the kind; `core.drivers.pg` carries code and text out of the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from core.domain import refused_login
from core.domain.text import safe
from core.drivers import passing, pg
from core.errors import (
    AccessRefused,
    Busy,
    Refused,
    SlotkeeperError,
    TooLarge,
    Trouble,
    TroubleName,
    Unclassified,
    Unreachable,
)

_BY_CODE: dict[str, type[SlotkeeperError]] = {
    "57P01": Unreachable,  # admin_shutdown
    "57P02": Unreachable,  # crash_shutdown
    "57P03": Unreachable,  # cannot_connect_now
    "25006": Unreachable,  # read_only_sql_transaction: a switch of primary and standby
    "53300": Busy,  # too_many_connections
    "40001": Busy,
    "40P01": Busy,
    "55P03": Busy,  # lock_not_available
    "25P03": Busy,  # idle_in_transaction_session_timeout
    "53100": TooLarge,  # disk_full
    "53200": TooLarge,  # out_of_memory
    "53400": TooLarge,  # configuration_limit_exceeded (temp_file_limit)
    "28000": AccessRefused,
    "28P01": AccessRefused,
    "42501": AccessRefused,
    "42883": Refused,  # undefined_function: a kernel without this binlog function
}
_BY_CODE.update(dict.fromkeys(passing.UNREACHABLE, Unreachable))
_BY_CODE.update(dict.fromkeys(passing.BUSY, Busy))
_POOLER = ("pooler: failed to create", "could not connect", "Connection refused", "connection to server")


def classify(error: BaseException, place: str, timed_out: type[SlotkeeperError] = Unreachable) -> SlotkeeperError:
    """The error of ours for a driver's; `place` is the endpoint in words, `timed_out` what our own limit means here."""
    code, text = pg.failure(error)
    message = f"source {place}: {safe(pg.without_values(text, code), 300)}"
    if refused_login.refusal(code, text):
        return AccessRefused(message, refused_login.cure(text), code, "source")
    if code == "42P01":
        return Trouble(message, "the table is gone or renamed", code, "source", name=TroubleName.SCHEMA_CHANGED)
    kind = _kind(code, text, timed_out)
    if kind is Refused:
        return Refused(message, "this kernel lacks a binlog function: 9.1.0.200 or newer is needed", code, "source")
    return kind(message, "", code, "source")


def _kind(code: str, text: str, timed_out: type[SlotkeeperError]) -> type[SlotkeeperError]:
    """What a code means here; a code that says no more than that a line is lost gives way to one in the sentence."""
    if code == "57014":
        return timed_out  # query_canceled: our statement_timeout
    if code == "53200" and timed_out is not TooLarge:
        return Busy  # nothing here could be made smaller, and others' memory comes free
    lost = code.startswith("08") or (code[:2] != "22" and any(words in text for words in _POOLER))
    if code in _BY_CODE:
        return _BY_CODE[code]
    return _BY_CODE.get(passing.wrapped(text), Unreachable) if lost else Unclassified


@contextmanager
def translated(place: str, timed_out: type[SlotkeeperError] = Unreachable) -> Iterator[None]:
    """Turn a driver error raised inside the block into one of ours."""
    try:
        yield
    except pg.DriverError as error:
        raise classify(error, place, timed_out) from error
