"""Which DNs hold a table, out of the catalogs; no slot is touched.

Next door: `source.py` makes lanes of them, `viewer.py` shows them; `queries.sql` says whose words the catalogs are.
"""

from __future__ import annotations

from core.errors import SlotkeeperError
from core.sources.dws.session import DwsSession

_CLOSED = frozenset({"42501", "42703"})
"""No right to pgxc_class, or a catalog without one of the columns."""


def homes(session: DwsSession, table: str) -> list[tuple[str, int, bool]]:
    """(name, id, whether the table lies there) of every DN; where that is not told, it is taken to lie on all."""
    try:
        rows = session.rows("nodes", {"table": table})
    except SlotkeeperError as error:
        if error.code not in _CLOSED and not (error.code == "42P01" and "pgxc_class" in error.message):
            raise
        rows = [(name, node, True) for name, node in session.rows("all_nodes", {})]
    return [(str(name), int(node), bool(here)) for name, node, here in rows]
