"""Which columns of a table keep its binlog from being read: pure rules over the catalogs' facts.

Next door: `eligibility.py` has the rules about the table itself, `selection.py` which columns a channel mirrors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from core.domain.objection import Objection
from core.sources.dws.eligibility import TableFacts
from core.sqltext import dotted, quoted

NEW_NAMES = ("gs_binlog_sync_point", "gs_binlog_event_sequence", "gs_binlog_event_type")
OLD_NAMES = ("sync_point", "event_sequence", "type")
"""The three system columns by kernel: `new_system_value = false` for kernels that still have the old names."""

_TAKEN = {True: (*NEW_NAMES, "gs_binlog_timestamp_us"), False: OLD_NAMES}


def column_objections(
    table: str, facts: TableFacts | None, new_names: bool, mirrored: Collection[str]
) -> Iterator[Objection]:
    """What keeps a job from following these columns of a table (none named: all of them).

    What a DWS makes of a column that is named like one of the binlog's own is not documented: neither could be read by
    its name. DWS, CREATE TABLE: a column-store table, as HStore tables are, has no generated columns.
    """
    if facts is None:
        return
    for name in facts.columns:
        if name in _TAKEN[new_names]:
            cure = f"ALTER TABLE {dotted(table)} RENAME COLUMN {quoted(name)} TO ..."
            yield Objection(f"column {name} of {table} has the name of a column of the binlog", cure)
    for name in facts.virtual:
        if not mirrored or name in mirrored:
            what = f"column {name} of {table} is computed when it is read, so that the binlog has no value of it"
            made = f"make it anew with GENERATED ALWAYS AS (...) STORED: ALTER TABLE {dotted(table)} DROP COLUMN"
            yield Objection(what, f"leave it out with columns = {{ ... }}, or {made} {quoted(name)}, ADD COLUMN ...")
