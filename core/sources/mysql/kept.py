"""What a MySQL server keeps for a job, which is nothing: positions are ours. And the texts of its places.

Next door: `position.py` has positions; `core.domain.kept` says what is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from core.domain.kept import Kept
from core.domain.position import Position
from core.errors import Defect
from core.sources.mysql.position import FIRST_OFFSET, MysqlPosition, parse_position

_SHOWN = re.compile(r"(\d{1,10}):(\d{1,13})")


@dataclass(frozen=True, slots=True)
class KeptByUs(Kept):
    """What is kept of a position at the server: nothing."""

    @property
    def text(self) -> str:
        """The word for nothing."""
        return "nothing"

    @property
    def shown(self) -> str:
        """The word for nothing."""
        return "nothing"

    @property
    def marks(self) -> tuple[str, ...]:
        """No columns."""
        return ()

    @property
    def missing(self) -> bool:
        """Nothing has to be there."""
        return False

    @property
    def furthest(self) -> None:
        """Nothing is confirmed."""
        return None

    @property
    def oldest(self) -> None:
        """The server holds nothing back."""
        return None

    @property
    def settled(self) -> bool:
        """Nothing can be broken off."""
        return True

    @property
    def blank(self) -> KeptByUs:
        """Itself."""
        return self

    @property
    def known(self) -> KeptByUs:
        """Itself."""
        return self

    def at(self, position: Position) -> KeptByUs:
        """Itself."""
        return self

    def on_the_way(self, to: Kept) -> frozenset[Kept]:
        """Itself alone."""
        return frozenset({to})

    def behind(self, other: Kept) -> bool:
        """Never."""
        return False

    def found(self, there: Kept) -> KeptByUs:
        """Itself."""
        return self

    def no_newer(self, others: Iterable[Kept]) -> KeptByUs:
        """Itself."""
        return self

    @property
    def again(self) -> Position:
        """Raises Defect: nothing can be confirmed once more."""
        raise Defect("nothing is kept at a MySQL server, so nothing can be confirmed there")


KEPT_BY_US = KeptByUs()


class BinlogPositions:
    """Implements `core.domain.kept.Positions`."""

    unit = "bytes"
    name = "binlog position"
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

    def kept(self, text: str) -> KeptByUs:
        """What is stored for nothing; raises ValueError for anything else."""
        if text != KEPT_BY_US.text:
            raise ValueError("nothing is kept at a MySQL server")
        return KEPT_BY_US


POSITIONS = BinlogPositions()
