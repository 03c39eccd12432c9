"""Sessions of commands that look: their name is not a job's, whose sessions its next start ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.ports.kinds import SourceSession, StoreSession
from slotkeeper.core.ports.source import SlotViewer
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources

STORE_LIMIT_MS = 30_000
"""Of one statement that a command asks of a store: somebody waits, who would not for the ten minutes of a step."""


def poll_name(what: str) -> str:
    """The session name of a command that looks.

    >>> poll_name("orders_rt")
    'slotkeeper-status/orders_rt'
    """
    return f"slotkeeper-status/{what}"[:63]


def open_source(kind: str, endpoint: Endpoint, name: str = "") -> SourceSession:
    """A session at a source, by a name of its own: of a command that looks, where none is given."""
    return sources.open(kind).connect(login(endpoint, name or poll_name(endpoint.name)))


@contextmanager
def viewing(kind: str, endpoint: Endpoint) -> Iterator[SlotViewer]:
    """A session at a source that only looks, for the block."""
    with closing(open_source(kind, endpoint)) as session:
        yield session.viewer()


def open_store(job: JobSpec, limit_ms: int | None = None, name: str = "") -> StoreSession:
    """A session where a job's progress rows live that is not the job's; of a command that looks, where unnamed."""
    endpoint, kind = job.store_at
    endpoint = replace(endpoint, socket_timeout_ms=STORE_LIMIT_MS if limit_ms is None else limit_ms)
    positions = sources.open(job.source_kind).positions
    return sinks.open(kind).connect(login(endpoint, name or poll_name(job.name)), job.progress_schema, positions)
