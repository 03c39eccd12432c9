"""Errors in a binlog's bytes, and the classification of MySQL and MariaDB errors: by number first, then by text.

The pure parts raise `BinlogError`; readers of a stream convert it to an error of `slotkeeper.core.errors` that names
the position. Sources: MySQL, "Server Error Message Reference"; MariaDB, "MariaDB Error Code Reference"; the message
texts of error 1236 come from sql/rpl_source.cc and sql/sql_repl.cc.
"""

from __future__ import annotations

from slotkeeper.core.domain import refusals
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import my, tls_context
from slotkeeper.core.errors import (
    AccessRefused,
    Busy,
    Refused,
    SlotkeeperError,
    Trouble,
    TroubleName,
    Unclassified,
    Unreachable,
)


class BinlogError(ValueError):
    """The binlog cannot be read any further; `cure` is the action for the operator."""

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure


class Damaged(BinlogError):
    """Bytes that violate the format: a wrong checksum, or a length that does not fit."""


class GoneBack(BinlogError):
    """The server writes GTIDs that it had already written: its binlog was reset, or the server was restored."""


class Unsupported(BinlogError):
    """An unsupported feature of the format, which the error names."""


_LOST = frozenset({0, 1040, 1053, 1077, 1079, 1080, 1129, 1152, 1153, 1156, 1158, 1159, 1160, 1161, 1184, 1203, 1205})
_LOST |= {1927, 2002, 2003, 2005, 2006, 2013, 2014, 2027, 2055, 3032, 4031}
_LOGIN = frozenset({1044, 1045, 1130, 1251, 1524, 1698, 1820, 1862, 3118, 3955, 4151})
RIGHTS = frozenset({1142, 1143, 1227, 1370})
"""Errors whose hint contains the account's name; the session still works and can be queried for that name."""
_BUSY = frozenset({1205, 1213, 1226, 1637, 3024, 1969})
_PURGED = (
    "could not find first log file name",
    "could not find gtid state requested",
    "cannot replicate because the master purged",
    "cannot replicate because the source purged",
    "has purged binary logs containing gtids",
    "purged required binary logs",
)
_NO_SUCH_PLACE = (
    "impossible position",
    "exceeded max_allowed_packet",
    "truncated in the middle",
    "bogus data in log event",
    "which is not in the master's binlog",
    "slave has more gtids than the master",
    "replica has more gtids than the source",
)
_OTHER_READER = ("same server_uuid/server_id", "same server_id", "same server_uuid")
_USED_TWICE = "another replica uses this server_id"


def as_replica(error: BaseException, place: str, user: str) -> SlotkeeperError:
    """Classify an error after login. MariaDB also reports a missing replication privilege as "access denied".

    Such an error is given the number that MySQL sends for a missing privilege, and is not treated as a rejected
    password. All other errors are passed to `classify`.
    """
    if my.code_of(error) == _DENIED:
        message = f"source {place}: a replication privilege is missing: {safe(my.said(error), 300)}"
        return AccessRefused(message, _grant(place, user, refusals.REPLICA, "*.*"), _NO_RIGHT, "source")
    return classify(error, place, user)


def _grant(place: str, user: str, right: str, on: str) -> str:
    """Return a hint, with the GRANT only if the host is known: otherwise the GRANT would create another account."""
    if user.endswith(f"@'{NO_HOST}'"):
        return (
            f"As an administrator of source {place}, grant {right} ON {on} to the account of {user.partition('@')[0]}."
        )
    return f"As an administrator of source {place}, run `GRANT {right} ON {on} TO {user};`."


NO_HOST = "HOST"
"""Placeholder for the unknown host of an account."""
_DENIED, _NO_RIGHT = 1045, "1227"
_NEEDS_TLS = 3159
_USE_TLS = 'the server requires TLS: set sslmode = "verify-full", or "require" without a certificate'
_MAY_NEED_TLS = 'if the account has REQUIRE SSL, set sslmode = "require"'
_IN_CLEAR = 2061
"""Error number that `drivers.my` raises instead of sending the password over an unencrypted connection."""


def classify(error: BaseException, place: str, user: str, in_clear: bool = False) -> SlotkeeperError:
    """Return Slotkeeper's error for a driver error; `place` names the endpoint, `user` is the login in GRANT syntax.

    `in_clear` means that the login did not use TLS. The server then reports the error for a wrong password if the
    account has REQUIRE SSL (MySQL, "CREATE USER SSL/TLS Options"; MariaDB, "Securing Connections for Client and
    Server"), so the hint can only name a possible cause. A server with require_secure_transport names the cause (error
    3159; older MariaDB: 1045).
    """
    code, text = my.code_of(error), safe(my.said(error), 300)
    message, number = f"source {place}: {text}", str(code or "")
    if isinstance(error, my.NoAnswer):
        return Unreachable(f"source {place} {text}", "", "08000", "source").after_limit()
    if code in (1236, 4052) or any(words in text.lower() for words in _OTHER_READER):
        return _of_dump(message, text.lower(), number)
    refused = tls_context.refused(error, f"source {place}", "source")
    if refused is not None:
        return refused
    if code == _IN_CLEAR:
        return AccessRefused(message, "", number, "source")
    if code in RIGHTS:
        return AccessRefused(message, _grant(place, user, *refusals.mysql_right(text)), number, "source")
    if code == _NEEDS_TLS:
        return AccessRefused(message, _USE_TLS, number, "source")
    if code in _LOGIN:
        refused_as = refusals.error_of(text)
        tls = f"; {_MAY_NEED_TLS}" if in_clear and code == _DENIED else ""
        hint = f"check the user, password and host of the login on the server{tls}"
        return refused_as(message, hint, number, "source")
    if code in (1146, 1049, 1051):
        return Trouble(
            message, "check whether the table was dropped or renamed", number, "source", name=TroubleName.SCHEMA_CHANGED
        )
    if code == 1381:
        return Refused(message, "set log_bin, and binlog_format = ROW, and restart the server", number, "source")
    if code in _BUSY:
        return Busy(message, "", number, "source").after_limit(code in (3024, 1969))
    kind = Unreachable if code in _LOST else Unclassified
    return kind(message, "", number, "source")


def _of_dump(message: str, text: str, number: str) -> SlotkeeperError:
    """Classify error 1236, which a server sends for any failure of a binlog dump."""
    if any(words in text for words in _OTHER_READER):
        # an abandoned worker of this job can continue to read for a moment; the server keeps only the last reader
        hint = "if it persists, another program uses the job's server_id: see SHOW SLAVE HOSTS"
        return Busy(f"{message} ({_USED_TWICE})", hint, number, "source")
    if any(words in text for words in _PURGED):
        hint = (
            "the server purged the binlog after the stored position: take a new snapshot, and retain binlogs for longer"
        )
        return Trouble(message, hint, number, "source", name=TroubleName.SLOT_LOST)
    if any(words in text for words in _NO_SUCH_PLACE):
        hint = "the server has no such position: it was restored, reset or replaced; take a new snapshot"
        return Trouble(message, hint, number, "source", name=TroubleName.SOURCE_OLDER)
    return Unclassified(message, "", number, "source")


def of_stream(error: my.DriverError, place: str, user: str, server_id: int) -> SlotkeeperError:
    """Classify an error that ends the stream of a replica with this server_id."""
    found = classify(error, place, user)
    if is_used_twice(found):
        found.message = found.message.replace(_USED_TWICE, f"{_USED_TWICE}, {server_id}")
    return found


def is_used_twice(error: SlotkeeperError) -> bool:
    """Whether the server ended the stream because another replica connected with its server_id.

    MySQL, "Replication and Binary Logging Options and Variables" (server_id); both servers end the older stream.
    """
    return isinstance(error, Busy) and _USED_TWICE in error.message


def of_binlog(error: BinlogError, place: str, where: str) -> SlotkeeperError:
    """Return the SlotkeeperError for undecodable bytes; `where` is the end of the last transaction before the bytes."""
    message = f"source {place}, binlog after {where}: {error.message}"
    if isinstance(error, GoneBack):
        return Trouble(message, error.cure, "", "source", name=TroubleName.SOURCE_OLDER)
    if isinstance(error, Damaged) and not error.cure:
        return Refused(message, "report this error with the server version; a new snapshot avoids it", "", "source")
    return Refused(message, error.cure, "", "source")
