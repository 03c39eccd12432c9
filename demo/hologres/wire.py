"""Messages of PostgreSQL's protocol for the stand-in's proxy: message boundaries, and a few kinds of messages.

Source: PostgreSQL documentation, "Message Formats" and "Streaming Replication Protocol".
"""

from __future__ import annotations

import socket
import struct

BLOCK = 1 << 16
STARTUP = 196_608
"""The code of a login; other codes request TLS or cancel a query."""
ENCRYPTION = (80_877_103, 80_877_104)
"""The codes that request TLS and GSSAPI, answered by one byte instead of a message."""
COPY_BOTH = b"W\x00\x00\x00\x07\x00\x00\x00"
"""CopyBothResponse: both sides can send from now on."""


def exactly(line: socket.socket, size: int) -> bytes:
    """Return exactly the requested bytes; raises EOFError if the connection ends first."""
    found = b""
    while len(found) < size:
        some = line.recv(size - len(found))
        if not some:
            raise EOFError
        found += some
    return found


def message(line: socket.socket) -> tuple[bytes, bytes]:
    """Return the next message: its type byte and its body."""
    head = exactly(line, 5)
    return head[:1], exactly(line, struct.unpack("!i", head[1:])[0] - 4)


def framed(letter: bytes, body: bytes) -> bytes:
    """Return a message with its length."""
    return letter + struct.pack("!i", len(body) + 4) + body


def startup(body: bytes) -> dict[str, str]:
    """Return the parameters of a login."""
    words = [word.decode() for word in body.split(b"\0")]
    return dict(zip(words[::2], words[1::2], strict=False))


def login(parameters: dict[str, str]) -> bytes:
    """Return the login message with these parameters."""
    body = b"".join(f"{name}\0{value}\0".encode() for name, value in parameters.items() if name) + b"\0"
    return struct.pack("!ii", len(body) + 8, STARTUP) + body


def error(code: str, text: str) -> bytes:
    """Return an error message."""
    return framed(b"E", f"SERROR\0VERROR\0C{code}\0M{text}\0\0".encode())


READY = framed(b"Z", b"I")
"""ReadyForQuery: the server waits for a command."""


def logged(payload: bytes) -> bytes:
    """Return a message of a stream; its frame has LSN 0, which a driver accepts as flushed."""
    return framed(b"d", b"w" + struct.pack("!qqq", 0, 0, 0) + payload)


def keepalive(lsn: int, reply: bool) -> bytes:
    """Return a keepalive of a stream."""
    return framed(b"d", b"k" + struct.pack("!qqb", lsn, 0, reply))


def flushed(body: bytes) -> int | None:
    """Return the flushed LSN that a client reports in a message of a stream; None for any other message."""
    return int(struct.unpack_from("!q", body, 9)[0]) if body[:1] == b"r" and len(body) >= 17 else None
