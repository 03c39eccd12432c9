"""Whose protocol a port answers with, where a login has failed: a host or port of another server is a common slip.

Sources: PostgreSQL, "Message Flow: SSL Session Encryption" (an SSLRequest is answered by one byte, S or N); MySQL,
"Connection Phase: Protocol::HandshakeV10" (the server speaks first: a packet numbered 0, whose first byte is 10);
Spark, "Spark Standalone Mode: REST API" (the status of a submission is a JSON object with the server's version).
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress

_SSL_REQUEST = bytes((0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F))
_SECONDS = 1.0
"""The time for each of: the connection, a greeting, an answer."""
_MOST = 64
_REST_SECONDS = 5.0
_REST_BYTES = 4_096
_REST_STATUS = b"GET /v1/submissions/status/none HTTP/1.0\r\n\r\n"


def speaks(host: str, port: int) -> str:
    """Return "MySQL" or "PostgreSQL", or "" where it is neither for certain. No login and no password is sent."""
    with suppress(OSError), socket.create_connection((host, port), _SECONDS) as line:
        greeted = _read(line, 5)
        if greeted[3:5] == b"\x00\x0a":
            return "MySQL"
        if not greeted:
            line.sendall(_SSL_REQUEST)
            return "PostgreSQL" if _read(line, 2) in (b"S", b"N") else ""
    return ""


def takes_submissions(host: str, port: int) -> bool:
    """Whether a Spark master's REST server answers there: it takes submissions of any client, without a secret."""
    with suppress(OSError), socket.create_connection((host, port), _SECONDS) as line:
        line.sendall(_REST_STATUS)
        return b"serverSparkVersion" in _read(line, _REST_BYTES, _REST_SECONDS)
    return False


def _read(line: socket.socket, enough: int, seconds: float = _SECONDS) -> bytes:
    """What comes in time, until there is enough of it."""
    end, found = time.monotonic() + seconds, b""
    while len(found) < enough and (left := end - time.monotonic()) > 0:
        line.settimeout(left)
        try:
            piece = line.recv(_MOST)
        except TimeoutError:
            break
        if not piece:
            break
        found += piece
    return found
