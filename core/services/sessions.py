"""Sessions of commands that look: their name is not a job's, whose sessions its next start ends.

Next door: `core.wiring.worker` opens those of jobs, and of commands that change a job's slot.
"""

from __future__ import annotations

from core.config.secrets import resolve
from core.domain.endpoint import Endpoint
from core.domain.spec import JobSpec
from core.sinks.postgres.session import SinkSession
from core.sources.dws.session import DwsSession
from core.sources.dws.viewer import DwsViewer


def poll_name(what: str) -> str:
    """The session name of a command that looks.

    >>> poll_name("orders_rt")
    'slotkeeper-status/orders_rt'
    """
    return f"slotkeeper-status/{what}"[:63]


def open_source(endpoint: Endpoint, name: str) -> DwsSession:
    """A session at a source, by a name of its own."""
    return DwsSession(endpoint, resolve(endpoint.password), name)


def open_viewer(endpoint: Endpoint) -> DwsViewer:
    """A session at a source that only looks."""
    return DwsViewer(open_source(endpoint, poll_name(endpoint.name)))


def open_sink(job: JobSpec) -> SinkSession:
    """A session at a job's sink that is not the job's."""
    return SinkSession(job.sink, resolve(job.sink.password), poll_name(job.name), job.progress_schema, job.sink_kind)
