"""Comparison of a source table with its mirror by bisecting checksums; may import drivers, domain and errors only.

`compare` is the entry; `reader` holds the port and the values, `pg` the reader for PostgreSQL-compatible servers.
"""

from __future__ import annotations

from core.verify.compare import compare
from core.verify.reader import Comparison, Found, Key, KeyRange, Options, TableReader

__all__ = ["Comparison", "Found", "Key", "KeyRange", "Options", "TableReader", "compare"]
