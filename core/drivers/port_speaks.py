"""Whose protocol a port answers with, where a login has failed: a host or port of another server is a common slip.

Sources: PostgreSQL, "Message Flow: SSL Session Encryption" (an SSLRequest is answered by one byte, S or N); MySQL,
"Connection Phase: Protocol::HandshakeV10" (the server speaks first: a packet numbered 0, whose first byte is 10).
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress

_SSL_REQUEST = bytes((0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F))
_SECONDS = 1.0
"""The time for each of: the connection, a greeting, an answer."""
_MOST = 64


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


def _read(line: socket.socket, enough: int) -> bytes:
    """What comes in time, until there is enough of it."""
    end, found = time.monotonic() + _SECONDS, b""
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
