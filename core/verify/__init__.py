"""Comparison of a source table with its mirror by bisecting checksums; may import ports, domain and errors only.

`compare` is the entry; `comparison` holds the values, `core.ports.table` is what each side answers.
"""

from __future__ import annotations

from core.ports.table import Key, KeyRange, TableReader
from core.verify.compare import compare
from core.verify.comparison import Comparison, Found, Options

__all__ = ["Comparison", "Found", "Key", "KeyRange", "Options", "TableReader", "compare"]
