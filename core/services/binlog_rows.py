"""What the console asks of a source: slots while they are shown, rows of a binlog on demand.

Values of a PROD source are masked but for the key; who wants them shown leaves two lines in the audit, and is refused
where those cannot be written. Nothing here creates a slot or moves a point.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime

from slotkeeper.core.clock import Clock
from slotkeeper.core.config.model import Loaded, owners, tables
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.inspection import Ask, Page
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.text import many
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.services.audit import audited
from slotkeeper.core.services.sessions import open_source
from slotkeeper.core.services.slot_commands import own_lanes, own_places
from slotkeeper.core.slots.change import PROD, Done
from slotkeeper.core.slots.status.binlog_rows import peek
from slotkeeper.core.slots.status.poll import StatusPoller
from slotkeeper.core.slots.status.retained import OwnLane
from slotkeeper.core.sources import registry
from slotkeeper.core.state.audit import Audit, intent
from slotkeeper.core.state.folder import StateFolder

ACTION = "slots peek --unmask"


def slot_poller(loaded: Loaded, source: str, clock: Clock) -> StatusPoller:
    """Watches the slots of the tables that configured jobs read at a source; nothing is asked before its first turn."""
    entry = loaded.sources[source]
    mine = {table: owners(loaded, source, table) for _, table in tables(loaded, source)}

    def ours(table: str, slot: str, now: datetime) -> Sequence[OwnLane]:
        return own_lanes(loaded.jobs[mine[table][slot]].of(table), now)

    reader = registry.open(entry.dialect).poller(login(entry.endpoint, f"slotkeeper-console/{source}"))
    return StatusPoller(reader, source, mine, ours, time.monotonic, clock.utc)


def place(loaded: Loaded, source: str, text: str) -> Position:
    """The place that a person has typed, by the dialect of a source; what lies at it is read. Raises ConfigError."""
    positions = registry.open(loaded.sources[source].dialect).positions
    try:
        return positions.place(text).from_here
    except ValueError:
        raise ConfigError(
            f"{text!r} is no {positions.name}", "one as slots show and slots peek spell it, or latest"
        ) from None


def masks(loaded: Loaded, source: str) -> bool:
    """Whether the values of a source are masked where nobody asked for them."""
    return loaded.sources[source].environment.upper() == PROD


def rows(loaded: Loaded, source: str, table: str, ask: Ask, unmask: bool = False, reason: str = "") -> Page:
    """Rows of a table's binlog on one DN; raises what the source raises.

    `masked` in the page says whether its values may be shown; they are there all the same, to tell what changed.
    """
    if source not in loaded.sources:
        raise ConfigError(f"there is no source {source!r}", f"it has: {', '.join(sorted(loaded.sources)) or 'none'}")
    if not masks(loaded, source):
        return _read(loaded, source, table, ask)
    if not unmask:
        return replace(_read(loaded, source, table, ask), masked=True)
    return _audited(loaded, source, table, ask, reason)


def _audited(loaded: Loaded, source: str, table: str, ask: Ask, reason: str) -> Page:
    found: list[Page] = []

    def act() -> Done:
        page = _read(loaded, source, table, ask)
        found.append(page)
        span = f"{page.rows[0].position.text} to {page.rows[-1].position.text}" if page.rows else "none"
        return Done(f"shown: {many(len(page.rows), 'row')}", {page.shard: span})

    line = intent(ACTION, f"{source} {table} binlog", reason)
    audited(Audit(StateFolder.open(loaded.state_dir)), line, act)
    return found[0]


def _read(loaded: Loaded, source: str, table: str, ask: Ask) -> Page:
    entry = loaded.sources[source]
    ours = _ours(loaded, source, table, ask.slot)
    with closing(open_source(entry.dialect, entry.endpoint, f"slotkeeper-peek/{source}")) as session:
        return peek(session.reader(_options(loaded, source, table)), source, table, ask, time.monotonic, ours)


def _ours(loaded: Loaded, source: str, table: str, slot: str) -> dict[str, Position] | None:
    """Where a slot stands by our own rows, of a source that keeps nothing; None where the server is to be asked."""
    if registry.open(loaded.sources[source].dialect).traits.keeps_positions:
        return None
    job = owners(loaded, source, table).get(slot)
    return own_places(loaded.jobs[job].of(table)) if job else {}


def _options(loaded: Loaded, source: str, table: str) -> BinlogOptions:
    """The options of a job that reads the table; the defaults where none does."""
    for job in loaded.jobs.values():
        if job.source.name == source and any(channel.source_table == table for channel in job.channels):
            return job.binlog
    return BinlogOptions()
