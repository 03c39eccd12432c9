"""The texts of a MySQL's places, and of what it keeps for a job, which is nothing: positions are ours."""

from __future__ import annotations

import re

from slotkeeper.core.domain.position import NothingKept, nothing_of
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, MysqlPosition, parse_position

_SHOWN = re.compile(r"(\d{1,10}):(\d{1,13})")


class BinlogPositions:
    """Implements `slotkeeper.core.domain.position.Positions`."""

    unit = "bytes"
    name = "binlog position"
    part = "stream"
    marks: tuple[str, ...] = ()

    def position(self, text: str) -> MysqlPosition:
        """A stored position; raises ValueError where it is none."""
        return parse_position(text)

    def place(self, text: str) -> MysqlPosition:
        """The same, or one as it is shown, which names a file by its number alone.

        >>> POSITIONS.place("3:1234").shown, POSITIONS.place("mysql-bin.000003/1234").shown
        ('3:1234', '3:1234')
        """
        short = _SHOWN.fullmatch(text.strip())
        if short is None:
            return parse_position(text)
        offset = int(short[2])
        if offset < FIRST_OFFSET:
            raise ValueError(f"a binlog's first event begins at offset {FIRST_OFFSET}")
        return MysqlPosition(f".{int(short[1]):06d}", offset)

    def kept(self, text: str) -> NothingKept:
        """What is stored for nothing; raises ValueError for anything else."""
        return nothing_of(text)


POSITIONS = BinlogPositions()
