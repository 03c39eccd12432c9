"""One message of a binlog stream, cut into its rows. Pure.

Two numbers of eight bytes, the highest byte first: the protocol's version, which must be 0, and the table's version.
Then, the lowest byte first: four bytes that nobody reads, a count of rows, an offset for each, and the rows. With
compression four bytes with the whole's size come first, the highest byte first, then one LZ4 block.
Source: holo-client, HoloBinlogDecoder.deserialize and .decompress.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

from slotkeeper.core.errors import Refused
from slotkeeper.core.sources.hologres.stream.values import garbled

PROTOCOL = 0
_HEAD = struct.Struct(">qq")
_COUNT = struct.Struct("<ii")
_SMALLEST = _HEAD.size + _COUNT.size
_MOST_TIMES = 255
"""How many bytes one byte of an LZ4 block can become at most."""
MOST_BYTES = 1 << 30
"""The most that a message may become: as much as one may have that is not compressed
(`slotkeeper.core.drivers.pg_stream`).
"""


@dataclass(frozen=True, slots=True)
class Payload:
    """A message: the table's version, and its rows; `filtered` of them the server sent without a byte.

    One without any row at all says that the shard has no more for now.
    """

    version: int
    rows: tuple[bytes, ...]
    filtered: int = 0

    @property
    def empty(self) -> bool:
        """Whether the server had nothing to send."""
        return not self.rows and not self.filtered


def payload(raw: bytes, compressed: bool = False) -> Payload:
    """The message; raises an error of ours where the bytes are none, Refused where the protocol is another."""
    if compressed:
        raw = _inflated(raw)
    if len(raw) < _SMALLEST:
        raise garbled(f"a message of {len(raw)} bytes")
    protocol, version = _HEAD.unpack_from(raw)
    if protocol != PROTOCOL:
        what = f"the binlog stream speaks version {protocol} of its protocol, and {PROTOCOL} is read here"
        raise Refused(what, "read the binlog by SQL", where="source")
    body = raw[_HEAD.size :]
    _, count = _COUNT.unpack_from(body)
    first = _COUNT.size + 4 * count
    if count < 0 or first > len(body):
        raise garbled(f"a message of {len(raw)} bytes for {count} rows")
    edges = (*struct.unpack_from(f"<{count}i", body, _COUNT.size), len(body))
    if (count and edges[0] < first) or any(low > high for low, high in pairwise(edges)):
        raise garbled("rows that are not one behind the other")
    pieces = [body[low:high] for low, high in pairwise(edges)]
    rows = tuple(one for one in pieces if one)
    return Payload(version, rows, count - len(rows))


def _inflated(raw: bytes) -> bytes:
    import lz4.block  # asked for by those who read compressed streams only

    if len(raw) < 5:
        raise garbled(f"a compressed message of {len(raw)} bytes")
    (size,) = struct.unpack_from(">i", raw)
    if not 0 <= size <= min(_MOST_TIMES * len(raw), MOST_BYTES):
        raise garbled(f"a compressed message of {len(raw)} bytes that would be {size}")
    try:
        whole: bytes = lz4.block.decompress(raw[4:], uncompressed_size=size)
    except lz4.block.LZ4BlockError:
        raise garbled("a compressed message that is no LZ4 block") from None
    if len(whole) != size:
        raise garbled(f"a compressed message of {size} bytes that has {len(whole)}")
    return whole
