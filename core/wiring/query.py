"""Opens the sink of a query or program that writes batches: in its own store, or beside it under labels (ADR 106)."""

from __future__ import annotations

from slotkeeper.core.config.model import SinkEntry
from slotkeeper.core.config.secrets import login
from slotkeeper.core.ports.sink import QuerySink, QueryTarget
from slotkeeper.core.sinks import registry as sinks


def query_sink(sink: SinkEntry, store: SinkEntry, target: QueryTarget, name: str) -> QuerySink:
    """Open sessions that the servers show as `name`; raises a SlotkeeperError, also for a secret of this process."""
    session = sinks.open(store.kind).connect(login(store.endpoint, name), store.progress_schema)
    if sink == store:
        return session.query_sink(target)
    try:
        beside = sinks.open(sink.kind).connect_beside(login(sink.endpoint, name))
        return session.planned_query_sink(target, f"{sink.endpoint.database}.{target.name}", beside)
    except BaseException:
        session.close()
        raise
