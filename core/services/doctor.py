"""What jobs need at the servers, checked with sessions that only look; and the least rights, as GRANT statements.

No slot, table or row is made. Each kind of server finds for itself (`slotkeeper.core.ports.kinds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.config.model import Loaded, SinkEntry, SourceEntry, tables
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.drivers.login import speaks
from slotkeeper.core.errors import ConfigError, ErrorKind, SlotkeeperError
from slotkeeper.core.ports.kinds import FollowedTable, SinkAsked, SinkSession, SourceAsked, SourceSession
from slotkeeper.core.services.promise import promise_of
from slotkeeper.core.services.sessions import open_source, poll_name
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.state import probes

V = TypeVar("V", SourceSession, SinkSession)


def check_source(
    loaded: Loaded, entry: SourceEntry, clock: Clock | None = None, seen: list[Finding] | None = None
) -> list[Finding]:
    """Reachable, login, version, clock, what following a binlog needs, and the tables that jobs read there.

    `seen` gets each finding as it is made, for a command that stops waiting.
    """
    found = probes.record(loaded.state_dir, entry.name)
    asked = SourceAsked(
        name=entry.name,
        endpoint=entry.endpoint,
        tables=tuple(_followed(loaded, entry)),
        points_proven=probes.points_proven(loaded.state_dir, entry.name, entry.endpoint.place),
        recorded=partial(probes.answered, found, entry.endpoint.place),
    )

    def opened() -> SourceSession:
        return open_source(entry.dialect, entry.endpoint)

    utc, expected = (clock or SystemClock()).utc, sources.open(entry.dialect).traits.speaks
    findings = _checked(f"source {entry.name}", opened, lambda session: session.findings(asked, utc), seen)
    return _with_protocol(findings, entry, expected)


def _with_protocol(found: list[Finding], entry: SourceEntry, expected: str) -> list[Finding]:
    """What a port speaks is asked where nothing but a failure was found: then it can be that of another server."""
    if len(found) != 1 or found[0].level is not Level.FAIL:
        return found
    spoken = speaks(entry.endpoint.host, entry.endpoint.port)
    if spoken in ("", expected):
        return found
    text = f"{entry.endpoint.place} answers with {spoken}'s protocol, not {expected}'s; correct host and port"
    return [replace(found[0], text=text, unreachable=False)]


def check_sink(
    loaded: Loaded, entry: SinkEntry, clock: Clock | None = None, seen: list[Finding] | None = None
) -> list[Finding]:
    """Reachable, login, version, clock, and the rights that progress tables and targets need; `seen` as above."""
    asked = SinkAsked(
        name=entry.name,
        endpoint=entry.endpoint,
        progress_schema=entry.progress_schema,
        jobs=tuple(_writers(loaded, entry)),
        identity_of=partial(_identity, set()),
    )

    def opened() -> SinkSession:
        kind, its = sinks.open(entry.kind), login(entry.endpoint, poll_name(entry.name))
        return kind.connect(its, entry.progress_schema) if kind.traits.is_store else kind.connect_beside(its)

    utc = (clock or SystemClock()).utc
    return _checked(f"sink {entry.name}", opened, lambda session: session.findings(asked, utc), seen)


def _checked(
    place: str, opened: Callable[[], V], find: Callable[[V], Iterable[Finding]], seen: list[Finding] | None
) -> list[Finding]:
    found: list[Finding] = [] if seen is None else seen
    try:
        session = opened()
    except ConfigError as error:  # a password reference that cannot be resolved
        return [Finding(place, Level.FAIL, str(error))]
    with closing(session):
        try:
            for one in find(session):
                if one not in found:
                    found.append(one)
            return found
        except SlotkeeperError as error:
            text = f"{error}" + (f" ({error.hint})" if error.hint else "")
            return [Finding(place, Level.FAIL, text, error.kind is ErrorKind.TRANSIENT)]


def _followed(loaded: Loaded, entry: SourceEntry) -> Iterable[FollowedTable]:
    parts = [part for job in loaded.jobs.values() for part in job.narrowed if job.source.name == entry.name]
    for _, table in tables(loaded, entry.name):
        mine = (part for part in parts if part.channel.source_table == table and part.binlog.binlog)
        yield FollowedTable(table, tuple(mine))


def _writers(loaded: Loaded, entry: SinkEntry) -> list[JobSpec]:
    """The jobs that write to a sink, once per channel."""
    return [part for job in loaded.jobs.values() if job.sink.name == entry.name for part in job.narrowed]


def _identity(silent: set[str], job: JobSpec) -> tuple[TableIdentity | None, str]:
    """The source's table, and what the channel asks of it in vain; None where it cannot be told or is not to be had.

    What a source has against being read its own findings say. `silent` are sources that did not answer: each is waited
    for once.
    """
    if job.source.name in silent:
        return None, ""
    try:
        session = open_source(job.source_kind, job.source)
    except ConfigError:  # a password reference that cannot be resolved
        return None, ""
    with closing(session):
        identity = None
        try:
            whole = replace(job, channels=(replace(job.channel, columns=(), where=""),))
            identity = session.source(whole).identify()
            session.source(job).selects(identity)
        except SlotkeeperError as error:
            if error.kind is ErrorKind.TRANSIENT:
                silent.add(job.source.name)
            return None, (f"{error}" + (f" ({error.hint})" if error.hint else "")) if identity else ""
        return identity, ""


def promises(loaded: Loaded) -> list[Finding]:
    """What each configured job promises about its target."""
    return [Finding(f"job {name}", Level.OK, promise_of(job)) for name, job in loaded.jobs.items()]


# -- the least rights -----------------------------------------------------------------------------------------------


def grants(loaded: Loaded) -> list[tuple[str, list[str]]]:
    """(server, statements) with the least rights that the configured jobs need."""
    found = []
    for name, entry in loaded.sources.items():
        names = [table for _, table in tables(loaded, name)]
        found.append((f"source {name}", sources.open(entry.dialect).grants(entry.endpoint, names)))
    for name, sink in loaded.sinks.items():
        made = sinks.open(sink.kind).grants(sink.endpoint, sink.progress_schema, _writers(loaded, sink))
        found.append((f"sink {name}", made))
    return found
