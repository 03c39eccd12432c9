"""The two tables of a channel, opened so that they can be compared: same key, same columns, same form of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from slotkeeper.core.ports.kinds import COUNTED, ComparedTable


class Opened(Protocol):
    """Opens a table of one server, as `slotkeeper.core.ports.kinds.TableSession.table`."""

    def __call__(
        self, name: str, key: Sequence[str] = (), columns: Sequence[str] = (), where: str = ""
    ) -> ComparedTable: ...


def open_pair(
    source: Opened,
    source_table: str,
    sink: Opened,
    target: str,
    mapping: Mapping[str, str] | None = None,
    where: str = "",
) -> tuple[ComparedTable, ComparedTable]:
    """Readers of a channel's two tables: the source's primary key and columns, by `mapping` or by name at the sink.

    With a `mapping` only its columns (and the key) are compared; extra columns of the target are never looked at.
    """
    left = source(source_table, where=where)
    if mapping is not None:
        key = [column.name for column in left.key]
        left = source(source_table, key, list(dict.fromkeys([*key, *mapping])), where)
    names = mapping or {}
    right = sink(
        target,
        [names.get(column.name, column.name) for column in left.key],
        [names.get(column, column) for column in left.columns],
    )
    forms = [ours if ours == theirs else COUNTED for ours, theirs in zip(left.forms, right.forms, strict=True)]
    left.hashes_by(forms)
    right.hashes_by(forms)
    return left, right
