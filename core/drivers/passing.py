"""Error classes by SQLSTATE, which determine whether errors are transient; also for codes found only in a message.

DWS, "Automatic Retry upon SQL Statement Execution Errors" (CN Retry, table of supported error types) and the GUC
parameter retry_ecode_list, whose default is YY001 to YY016, 53200, 08006, 08000, 57P01, XX003, XX009, CG003, CG004,
F0011 and 45003. A coordinator does not retry inside a transaction block, COPY FROM STDIN, or while a cluster is scaled
out, so these errors reach a client.
"""

from __future__ import annotations

import re

from slotkeeper.core.errors import AccessRefused, Busy, SlotkeeperError, TooLarge, Unreachable

UNREACHABLE = frozenset(
    {
        "YY001",  # connection reset by peer, between CN and DN
        "YY002",  # stream connection reset by peer, between DNs
        "YY004",  # connection timed out
        "YY005",  # a SET could not be delivered
        "YY008",  # SCTP: no data in buffer
        "YY009",  # SCTP: release memory, close
        "YY010",  # SCTP, TCP disconnect
        "YY011",  # SCTP disconnect
        "YY012",  # stream closed by remote
        "YY013",  # unknown poll
        "YY015",  # connection receive wrong
        "XX003",  # stream: remote socket closed
    }
)
"""Broken connections within the cluster, for example while a node restarts or during a switchover."""
BUSY = frozenset(
    {
        "YY003",  # lock wait timeout
        "YY006",  # out of logical memory, which all sessions share
        "YY007",  # SCTP: memory could not be allocated
        "YY014",  # snapshot invalid
        "YY016",  # concurrent update of a stream
        "XX009",  # duplicate query id
        "CG003",  # code generation: memory
        "CG004",  # code generation
        "F0011",  # a temporary file of a hash join
        "45003",  # the number of partitions has changed
    }
)
"""Contention with other sessions; the same statement succeeds later."""

BY_CODE: dict[str, type[SlotkeeperError]] = {
    **dict.fromkeys(UNREACHABLE, Unreachable),
    **dict.fromkeys(BUSY, Busy),
    "57P01": Unreachable,  # admin_shutdown
    "57P02": Unreachable,  # crash_shutdown
    "57P03": Unreachable,  # cannot_connect_now
    "25006": Unreachable,  # read_only_sql_transaction: after a switchover
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
}
"""The error class of each code at sources and sinks, including DWS; each `classify` function overrides some of them."""

_WRAPPED = re.compile(r"\b(YY0\d\d|53300|57P0[123])\b")
_SENTENCES = (("too many clients", "53300"), ("too many connections", "53300"), ("lock wait timeout", "YY003"))


def lost_line(text: str) -> type[SlotkeeperError]:
    """Return the error class for a lost connection, according to the SQLSTATE in the error's message, if any."""
    return BY_CODE.get(wrapped(text), Unreachable)


def wrapped(text: str) -> str:
    """Return the code that the message of an error without SQLSTATE names or describes; "" if there is none.

    psycopg2 provides no code for a login error, so the code can only be found in the server's message.

    >>> wrapped("FATAL:  could not set up the session: ERROR YY003: Lock wait timeout"), wrapped("no route to host")
    ('YY003', '')
    """
    found = _WRAPPED.search(text)
    if found:
        return found[1]
    lower = text.lower()
    return next((code for words, code in _SENTENCES if words in lower), "")
