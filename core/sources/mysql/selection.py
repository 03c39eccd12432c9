"""What a channel mirrors of a table: some columns or all, and which rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import ALLOW, ChannelSpec
from slotkeeper.core.errors import Refused


@dataclass(frozen=True, slots=True)
class Selection:
    """Names of the columns to read, in order; none for all. `where` is the row filter, "" where there is none.

    `cascades_known`: foreign keys that change the table's rows without row events are allowed.
    """

    names: tuple[str, ...] = ()
    where: str = ""
    cascades_known: bool = False

    @classmethod
    def of(cls, channel: ChannelSpec) -> Selection:
        """What a channel mirrors."""
        return cls(tuple(source for source, _ in channel.columns), channel.where, channel.cascades == ALLOW)

    def places(self, identity: TableIdentity) -> tuple[int, ...]:
        """Where the columns lie in the table."""
        there = {column.name: place for place, column in enumerate(identity.columns)}
        return tuple(there[name] for name in self.names) if self.names else tuple(there.values())

    def serves(self, identity: TableIdentity) -> None:
        """Raise Refused where a column is not there, or a key column is left out."""
        there = [column.name for column in identity.columns]
        absent = [name for name in self.names if name not in there]
        if absent:
            what = f"columns names {absent[0]!r}, which the source table has not"
            raise Refused(what, f"it has {', '.join(there)}", where="source")
        left = [name for name in identity.key if self.names and name not in self.names]
        if left:
            what = f"columns leaves out {left[0]!r}, which is part of the source's key"
            raise Refused(what, "map every column of the primary key", where="source")
