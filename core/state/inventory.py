"""The tables of a job with patterns, as its driver has last found them: one file per job in the state folder.

Only the driver writes it. Commands and screens read it, so that they need no connection to the source.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from slotkeeper.core import codec
from slotkeeper.core.domain.inventory import Inventory
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.files import ResetFiles
from slotkeeper.core.state.folder import StateFolder

TABLES = "tables"
"""The folder of the inventories."""


def known(state_dir: Path, job: str) -> Inventory:
    """Return the stored inventory of a job; empty if there is none, or if it cannot be read."""
    with suppress(SlotkeeperError, ValueError):
        text = ResetFiles(StateFolder.looked_at(state_dir)).load(TABLES, job)
        if text:
            return codec.record_from(Inventory, text)
    return Inventory()


def keep(folder: StateFolder, job: str, found: Inventory) -> None:
    """Store the inventory of a job; raises StateError."""
    ResetFiles(folder).save(TABLES, job, codec.text_of(found))
