"""How a PostgreSQL sink's error counts, by SQLSTATE; the message never carries a row's values.

Next door: `core.retry` decides from the kind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from core.domain.text import safe
from core.drivers import logins, passing, pg
from core.errors import AccessRefused, Busy, Refused, RowRefused, SlotkeeperError, TooLarge, Unclassified, Unreachable

_BY_CODE: dict[str, type[SlotkeeperError]] = {
    "57P01": Unreachable,
    "57P02": Unreachable,
    "57P03": Unreachable,
    "25006": Unreachable,  # read-only after a failover
    "53300": Busy,
    "40001": Busy,
    "40P01": Busy,
    "55P03": Busy,
    "25P03": Busy,
    "57014": TooLarge,  # our own statement_timeout in a step
    "53100": TooLarge,
    "53200": TooLarge,
    "53400": TooLarge,
    "28000": AccessRefused,
    "28P01": AccessRefused,
    "42501": AccessRefused,
}
_BY_CODE.update(dict.fromkeys(passing.UNREACHABLE, Unreachable))  # the sink may be a DWS
_BY_CODE.update(dict.fromkeys(passing.BUSY, Busy))
BAD_ROW = ("22", "23")


def classify(error: BaseException, place: str) -> SlotkeeperError:
    """The error of ours for a driver's; `place` is the endpoint in words."""
    code, text = pg.failure(error)
    message = f"sink {place}: {safe(pg.without_values(text, code), 300)}"
    if logins.refusal(code, text):
        return AccessRefused(message, logins.cure(text), code, "sink")
    if code in _BY_CODE:
        return _BY_CODE[code](message, "", code, "sink")
    if code.startswith("08"):
        return _BY_CODE.get(passing.wrapped(text), Unreachable)(message, "", code, "sink")
    if code[:2] in BAD_ROW:
        return RowRefused(message, "the target cannot hold a row of the source; compare their columns", code, "sink")
    if code[:2] == "42":
        return Refused(message, "the target or a progress table is not as it was; run slotkeeper doctor", code, "sink")
    return Unclassified(message, "", code, "sink")


def is_bad_row(error: BaseException) -> bool:
    """Whether a driver error is about a row's values: SQLSTATE classes 22 (data) and 23 (constraints)."""
    return pg.failure(error)[0][:2] in BAD_ROW


def sentence(error: BaseException) -> tuple[str, str]:
    """(SQLSTATE, the server's sentence without a row's values)."""
    code, text = pg.failure(error)
    return code, safe(pg.without_values(text, code), 300)


@contextmanager
def translated(place: str) -> Iterator[None]:
    """Turn a driver error raised inside the block into one of ours."""
    try:
        yield
    except pg.DriverError as error:
        raise classify(error, place) from error
