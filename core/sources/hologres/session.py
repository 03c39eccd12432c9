"""A session to a Hologres front end: autocommit, fixed text-format settings, and a timeout for each kind of call.

Reads by SQL need an ordinary connection and SELECT on the table, but no walsender (Hologres, "Subscribe to Hologres
binlogs"). `classify` determines the kind of an error from its SQLSTATE first, then from the messages that Hologres's
own client distinguishes (Hologres, "Troubleshoot Blink and Flink issues", and the error codes of its published client:
ExceptionCode, HoloClientException).
"""

from __future__ import annotations

from slotkeeper.core.domain.endpoint import Endpoint, Secret
from slotkeeper.core.drivers import passing
from slotkeeper.core.drivers.session import Dialect, Session
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
from slotkeeper.core.sources.pg_base import LIMIT, plain_error

REBUILT = ("shard id does not exist", "shard id not exist", "invalid table id", "no table is defined in publication")
"""Messages that mean that the table was recreated or its number of shards changed: old positions are invalid."""
CHANGED = ("mismatches the version of the table", "could not open relation with oid", "tableversionexpired")
"""Messages that mean that the table's columns changed while the table was read."""
BUSY = (
    "resource busy",
    "replay not finished yet",
    "too many clients already",
    "remaining connection slots",
    "is active for",
)
"""Messages of transient errors; the job retries."""
MOVING = ("not allowed in readonly mode",)
"""Messages of an instance that is switching over."""


def classify(error: BaseException, place: str, timed_out: type[SlotkeeperError] = Unreachable) -> SlotkeeperError:
    """Return Slotkeeper's error for a driver error at endpoint `place`; `timed_out` is the error class for timeouts."""
    found, code, text, message = plain_error(error, place)
    if found is not None:
        return found
    lower = text.lower()
    if code in ("42P01", "3F000") or any(words in lower for words in CHANGED):
        hint = "check whether the table was dropped, renamed or altered"
        return Trouble(message, hint, code, "source", name=TroubleName.SCHEMA_CHANGED)
    if any(words in lower for words in REBUILT):
        hint = "the table was recreated, or its number of shards changed: take a new snapshot"
        return Trouble(message, hint, code, "source", name=TroubleName.TOPOLOGY_CHANGED)
    if "hg_binlog" in lower and code in ("42703", "42883"):  # undefined_column, undefined_function
        hint = (
            "turn binlog.level on for the table (`slotkeeper doctor` prints the statement); Hologres before 2.0 needs"
            " CREATE EXTENSION hg_binlog once in each database"
        )
        return Refused(message, hint, code, "source")
    return _kind(code, lower, timed_out)(message, "", code, "source").after_limit(code == LIMIT)


def _kind(code: str, lower: str, timed_out: type[SlotkeeperError]) -> type[SlotkeeperError]:
    """Return the error class for a code; for a lost connection, a more specific cause in the message has precedence."""
    if code == LIMIT:
        return timed_out
    if any(words in lower for words in BUSY) or code == "53000":
        return Busy
    if any(words in lower for words in MOVING):
        return Unreachable
    if code == "53200" and timed_out is not TooLarge:
        return Busy
    if code in passing.BY_CODE:
        return passing.BY_CODE[code]
    return passing.lost_line(lower) if code.startswith("08") or not code else Unclassified


STATUS_LIMIT_MS = 2_000
"""Timeout of a query about a shard in milliseconds, after which the shard counts as not answering."""

SETTINGS = {"client_connection_check_interval": "500"}
"""Settings that are omitted if the server does not know them (its dialect is PostgreSQL 11)."""

HOLOGRES = Dialect(
    "source",
    ("slotkeeper.core.sources.hologres", "queries.sql"),
    SETTINGS,
    classify,
    autocommit=True,
    limit_ms=STATUS_LIMIT_MS,
)


class HoloSession(Session):
    """A session to Hologres."""

    def __init__(self, endpoint: Endpoint, password: Secret | str, application_name: str) -> None:
        super().__init__(endpoint, password, application_name, HOLOGRES)
        self.source = endpoint.name
