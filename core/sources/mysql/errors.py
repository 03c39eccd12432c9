"""What can be wrong with a binlog's bytes, for a person in one line: damaged, or of a form that is not read.

The pure parts raise these; whoever reads a stream makes errors of `slotkeeper.core.errors` of them, with where it was.
"""

from __future__ import annotations


class BinlogError(ValueError):
    """A binlog that cannot be read on; `cure` is what a person may do."""

    def __init__(self, message: str, cure: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.cure = cure


class Damaged(BinlogError):
    """Bytes that are not what the format says: a wrong checksum, a length that does not fit."""


class GoneBack(BinlogError):
    """A server writes GTIDs again that it had written before: its binlog was reset, or it was restored."""


class Unsupported(BinlogError):
    """Something that the format has and that is refused, by its name."""
