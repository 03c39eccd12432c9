"""Tables of either half as a comparison reads them: whole rows in memory, keys in the order of their texts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import COUNTED, Checksum, ComparedKey, Digest, Key, KeyRange
from tests.support.sqlite_pair.binlog import connect, quoted, table_columns

Row = Sequence[str | None]


@dataclass(frozen=True)
class KeyColumn:
    """Implements `slotkeeper.core.ports.kinds.ComparedKey`."""

    name: str

    def of_copy(self, text: str) -> str:
        return text


@dataclass
class RowsRead:
    """Implements `ports.table.ComparedTable`; `read` gives all rows, each with the values of `names`."""

    label: str
    names: Sequence[str]
    key: Sequence[ComparedKey]
    columns: Sequence[str]
    read: Callable[[], list[Row]]
    signature: Sequence[str] = ("text",)
    forms: Sequence[str] = field(init=False)

    def __post_init__(self) -> None:
        lacks = [name for name in (*self.columns, *(one.name for one in self.key)) if name not in self.names]
        if lacks:
            raise Refused(f"{self.label} has no column {lacks[0]!r}", f"it has {', '.join(self.names)}")
        self.forms = [COUNTED] * len(self.columns)

    def hashes_by(self, forms: Sequence[str]) -> None:
        """There is one form."""

    def count(self, bounds: KeyRange) -> int:
        return len(self._found(bounds))

    def checksum(self, bounds: KeyRange) -> Checksum:
        found = self._found(bounds)
        return Checksum(len(found), sum(int(_hash(list(one)), 16) for one in found.values()))

    def split(self, bounds: KeyRange, rows: int) -> list[Key]:
        return sorted(self._found(bounds))[rows::rows]

    def rows(self, bounds: KeyRange, limit: int) -> list[tuple[Key, str]]:
        return [(key, _hash(list(one))) for key, one in self._found(bounds).items()][:limit]

    def digests(self, keys: Collection[Key]) -> dict[Key, Digest]:
        found = self._found(KeyRange())
        return {
            key: tuple(None if text is None else _hash(text) for text in found[key]) for key in keys if key in found
        }

    def _found(self, bounds: KeyRange) -> dict[Key, Row]:
        keys = [self.names.index(one.name) for one in self.key]
        places = [self.names.index(name) for name in self.columns]
        found = {tuple(row[at] or "" for at in keys): [row[at] for at in places] for row in self.read()}
        low, high = bounds.low, bounds.high
        return {key: row for key, row in found.items() if (low is None or key >= low) and (high is None or key < high)}


def _hash(value: object) -> str:
    return hashlib.md5(json.dumps(value).encode()).hexdigest()


@dataclass
class SourceTables:
    """Implements `slotkeeper.core.ports.kinds.TableSession` over the file of a source."""

    file: str

    def table(self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = "") -> RowsRead:
        with closing(connect(self.file)) as connection:
            there = table_columns(connection, name)
        if not there or where:
            raise Refused(f"{name} cannot be compared: there is no such table, or it has a filter", where="source")
        names = [one for one, _, _, _ in there]
        texts = ", ".join(f"CAST({quoted(one)} AS TEXT)" for one in names)

        def read() -> list[Row]:
            with closing(connect(self.file)) as connection:
                return connection.execute(f"SELECT {texts} FROM {quoted(name)}").fetchall()

        keys = key or [one for _, one in sorted((place, one) for one, _, _, place in there if place)]
        return RowsRead(name, names, [KeyColumn(one) for one in keys], columns or names, read)

    def close(self) -> None:
        """Each question has a session of its own."""
