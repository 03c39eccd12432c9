"""The core as a library: read the changes of a table, and write batches or single records.

A reader delivers at least once; a `TableWriter` with positions writes each record once.
"""

from __future__ import annotations

from slotkeeper.core.library import *  # noqa: F403
from slotkeeper.core.library import __all__ as __all__
