"""Errors that pass by themselves, by the codes that a coordinator of a DWS retries and by sentences that hide a code.

DWS, "Automatic Retry upon SQL Statement Execution Errors" (CN Retry, table of supported error types) and the GUC
parameter retry_ecode_list, whose default is YY001 to YY016, 53200, 08006, 08000, 57P01, XX003, XX009, CG003, CG004,
F0011 and 45003. A coordinator does not retry inside a transaction block, COPY FROM STDIN, or while a cluster is scaled
out, so these reach a client. Next door: the faults of both dialects say what else an error may be.
"""

from __future__ import annotations

import re

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
"""Lines inside the cluster that broke: somebody is restarting, or a switch of primary and standby is under way."""
BUSY = frozenset(
    {
        "YY003",  # lock wait timeout
        "YY006",  # out of logical memory: of what all sessions share
        "YY007",  # SCTP: memory could not be allocated
        "YY014",  # snapshot invalid
        "YY016",  # concurrent update of a stream
        "XX009",  # duplicate query id
        "CG003",  # code generation: memory
        "CG004",  # code generation
        "F0011",  # a temporary file of a hash join
        "45003",  # the number of partitions changed meanwhile
    }
)
"""Something else that runs at the moment is in the way; the same statement succeeds later."""

_WRAPPED = re.compile(r"\b(YY0\d\d|53300|57P0[123])\b")
_SENTENCES = (
    ("too many clients", "53300"),
    ("too many connections", "53300"),
    ("lock wait timeout", "YY003"),
)


def wrapped(text: str) -> str:
    """The code that an error without a SQLSTATE of its own names or describes; "" where there is none.

    psycopg2 brings no code with an error at login, so what the server wrapped into its sentence is all there is.

    >>> wrapped("FATAL:  could not set up the session: ERROR YY003: Lock wait timeout"), wrapped("no route to host")
    ('YY003', '')
    """
    found = _WRAPPED.search(text)
    if found:
        return found[1]
    lower = text.lower()
    return next((code for words, code in _SENTENCES if words in lower), "")
