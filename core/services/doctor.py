"""What jobs need at the servers, checked with sessions that only look; and the least rights, as GRANT statements.

No slot, table or row is made. Next door: `core.services.sessions` opens them,
`console.commands.doctor` checks this machine and shows the findings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

from core.clock import Clock, SystemClock
from core.config.model import Loaded, SinkEntry, SourceEntry, tables
from core.config.secrets import resolve
from core.domain.objection import Objection
from core.domain.slot import TableIdentity
from core.domain.spec import JobSpec
from core.domain.text import typed
from core.domain.ttl import ttl_of
from core.errors import ConfigError, ErrorKind, SlotkeeperError
from core.services.sessions import open_viewer, poll_name
from core.sinks.postgres.check import eligibility as sinks
from core.sinks.postgres.check.target import image_of, target_of
from core.sinks.postgres.check.viewer import PostgresViewer, Rights, ServerSeen
from core.sinks.postgres.session import SinkSession
from core.sources.dws import eligibility as sources
from core.sources.dws import sight
from core.sources.dws.eligibility import ServerFacts, column_objections
from core.sources.dws.source import DwsSource, Selection
from core.sources.dws.viewer import USEFUL, DwsViewer, TableSeen
from core.sqltext import dotted, quoted
from core.state import probes
from core.state.probes import points_proven

CLOCK_SECONDS = 2.0
"""A clock further away than this makes ages between machines misleading."""

V = TypeVar("V", DwsViewer, PostgresViewer)
_PROGRESS = ("slotkeeper_progress", "slotkeeper_chunks")


class Level(Enum):
    """How a finding counts."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `unreachable` tells a server that did not answer from one that answers no."""

    place: str
    level: Level
    text: str
    unreachable: bool = False


def check_source(loaded: Loaded, entry: SourceEntry, clock: Clock | None = None) -> list[Finding]:
    """Reachable, login, version, clock, binlog functions, and the tables that jobs read there."""
    return _checked(
        f"source {entry.name}",
        lambda: open_viewer(entry.endpoint),
        lambda viewer: list(_source_findings(loaded, entry, viewer, clock or SystemClock())),
    )


def check_sink(loaded: Loaded, entry: SinkEntry, clock: Clock | None = None) -> list[Finding]:
    """Reachable, login, version, clock, and the rights that progress tables and targets need."""

    def opened() -> PostgresViewer:
        password = resolve(entry.endpoint.password)
        session = SinkSession(entry.endpoint, password, poll_name(entry.name), entry.progress_schema, entry.kind)
        return PostgresViewer(session)

    jobs = _writers(loaded, entry)
    return _checked(
        f"sink {entry.name}", opened, lambda viewer: list(_sink_findings(entry, jobs, viewer, clock or SystemClock()))
    )


def _checked(place: str, opened: Callable[[], V], status: Callable[[V], list[Finding]]) -> list[Finding]:
    try:
        viewer = opened()
    except ConfigError as error:  # a password reference that cannot be resolved
        return [Finding(place, Level.FAIL, str(error))]
    try:
        return status(viewer)
    except SlotkeeperError as error:
        text = f"{error}" + (f" ({error.hint})" if error.hint else "")
        return [Finding(place, Level.FAIL, text, error.kind is ErrorKind.TRANSIENT)]
    finally:
        viewer.close()


# -- sources --------------------------------------------------------------------------------------------------------


def _source_findings(loaded: Loaded, entry: SourceEntry, viewer: DwsViewer, clock: Clock) -> Iterator[Finding]:
    place = f"source {entry.name}"
    before = clock.utc().timestamp()
    server = viewer.server()
    after = clock.utc().timestamp()
    yield Finding(place, Level.OK, f"{entry.endpoint.place} answers as {server.user}: {server.version[:100]}")
    yield _clock_finding(place, server.clock, before, after)
    if server.superuser:
        yield Finding(place, Level.WARN, f"{server.user} is a superuser; SELECT on the tables is enough")
    facts = viewer.server_facts()
    proven = points_proven(loaded.state_dir, entry.name, entry.endpoint.place)
    yield from _function_findings(place, facts, list(sources.server_objections(facts, entry.name, proven)))
    yield from _setting_findings(place, facts.settings, proven)
    yield _sight_finding(place, viewer, server.user)
    for _, table in tables(loaded, entry.name):
        followers = [job for job in _readers(loaded, entry.name, table) if job.binlog.binlog]
        seen = viewer.table(table)
        yield from _column_findings(f"{place} {table}", table, seen, followers)
        yield from _table_findings(f"{place} {table}", table, seen, bool(followers), facts.settings)
    yield from _partition_findings(loaded, entry, viewer)


def _partition_findings(loaded: Loaded, entry: SourceEntry, viewer: DwsViewer) -> Iterator[Finding]:
    """Tables of which a partition may go without a word."""
    found = probes.record(loaded.state_dir, entry.name)
    answers = [probes.answered(found, entry.endpoint.place, f"partition_{verb}") for verb in ("truncate", "drop")]
    for _, table in tables(loaded, entry.name):
        facts = viewer.table_facts(table)
        if facts and facts.partitioned and any(job.binlog.binlog for job in _readers(loaded, entry.name, table)):
            warned = sources.partition_warning(table, entry.name, answers)
            if warned:
                yield Finding(f"source {entry.name} {table}", Level.WARN, warned.text)


def _column_findings(place: str, table: str, seen: TableSeen | None, followers: list[JobSpec]) -> Iterator[Finding]:
    """What one of these jobs has against the table's columns, each complaint once."""
    found = {
        one.text: Finding(place, Level.FAIL, one.text)
        for job in followers
        for one in column_objections(
            table, seen.facts if seen else None, job.binlog.new_system_value, Selection.of(job.channel).names
        )
    }
    yield from found.values()


def _readers(loaded: Loaded, source: str, table: str) -> list[JobSpec]:
    parts = (part for job in loaded.jobs.values() for part in job.narrowed if job.source.name == source)
    return [part for part in parts if part.channel.source_table == table]


def _function_findings(place: str, facts: ServerFacts, objections: list[Objection]) -> Iterator[Finding]:
    there = facts.functions
    found = [Finding(place, Level.FAIL, one.text) for one in objections]
    yield from found
    refused = [name for name in USEFUL if there.get(name) is False]
    less = [name for name in USEFUL if name not in there]
    if refused:
        yield Finding(place, Level.FAIL, f"may not execute {', '.join(refused)}")
    if less:
        text = f"no {', '.join(less)} (kernel 9.1.0.223 or newer): slots cannot be listed, measured or dropped here"
        yield Finding(place, Level.WARN, text)
    if not (found or refused or less):
        yield Finding(place, Level.OK, "all binlog functions are there and may be called")


def _setting_findings(place: str, settings: Mapping[str, str], proven: bool) -> Iterator[Finding]:
    mode, free = settings.get("gtm_option"), settings.get("enable_gtm_free", "off")
    if mode is None and free != "on":
        yield Finding(place, Level.UNKNOWN, "gtm_option cannot be read: one sync point per transaction is assumed")
    elif mode and mode.lower() in sources.LITE and proven:
        text = f"gtm_option is {mode}, and a probe has recorded one sync point per transaction, in order"
        yield Finding(place, Level.OK, text)
    elif mode and mode.lower() not in (*sources.FREE, *sources.LITE) and free != "on":
        yield Finding(place, Level.OK, f"gtm_option is {mode}")
    for one in sources.creation_objections(settings):
        yield Finding(place, Level.WARN, one.text)
    if settings.get("enable_generate_binlog") == "off":
        text = "enable_generate_binlog is off for this user's sessions by default; cure: ALTER ROLE ... SET it to on"
        yield Finding(place, Level.FAIL, text)
    empties = sources.empties(settings)
    if empties:
        yield Finding(place, Level.OK, empties)


def _sight_finding(place: str, viewer: DwsViewer, user: str) -> Finding:
    """Whether a start sees everybody whom it has to wait for."""
    seen = sight.read(viewer.session)
    if seen.whole:
        return Finding(place, Level.OK, "every session of every coordinator is seen")
    waits = "a start waits for every DN's xmin too"
    if not seen.all_coordinators:
        waits += ", and 15 s for sessions of an earlier one"
    return Finding(place, Level.WARN, f"{seen.lacks}: {waits}; cure: {sight.CURE.format(user=quoted(user))}")


def _table_findings(
    place: str, table: str, seen: TableSeen | None, binlog: bool, settings: Mapping[str, str]
) -> Iterator[Finding]:
    found = list(sources.table_objections(table, seen.facts if seen else None, binlog, settings))
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if seen is None:
        return
    if seen.complaint and binlog:
        yield Finding(place, Level.FAIL, f"the binlog functions do not serve it: {seen.complaint}")
    if binlog and ttl_of(seen.facts.options).by_record:
        text = "records are deleted after binlog_ttl, read or not: a job that is behind for longer loses changes"
        yield Finding(place, Level.WARN, text)
    if not (found or (seen.complaint and binlog)):
        facts = seen.facts
        spread = "distribution unknown" if facts.distribution is None else "distributed by hash"
        options = f", options {facts.options}" if facts.options else ""
        answers = "its binlog answers" if binlog else "no binlog is asked for"
        yield Finding(place, Level.OK, f"readable, primary key, {answers}; {spread}{options}")


# -- sinks ----------------------------------------------------------------------------------------------------------


def _sink_findings(entry: SinkEntry, jobs: list[JobSpec], viewer: PostgresViewer, clock: Clock) -> Iterator[Finding]:
    place = f"sink {entry.name}"
    before = clock.utc().timestamp()
    server = viewer.server()
    after = clock.utc().timestamp()
    yield Finding(place, Level.OK, f"{entry.endpoint.place} answers as {server.user}: PostgreSQL {server.version}")
    yield _clock_finding(place, server.clock, before, after)
    if server.superuser:
        yield Finding(place, Level.WARN, f"{server.user} is a superuser; the rights of the GRANT script are enough")
    if not server.temporary:
        yield Finding(place, Level.FAIL, "may not make temporary tables, which staging needs")
    yield _progress_finding(place, entry.progress_schema, viewer)
    yield from _left_behind(place, entry, jobs, viewer)
    silent: set[str] = set()
    for job in jobs:
        yield from _target_findings(f"{place} {job.channel.target}", job, server, viewer)
        yield from _fit_findings(f"{place} {job.channel.target}", job, viewer, silent)


def _writers(loaded: Loaded, entry: SinkEntry) -> list[JobSpec]:
    """The jobs that write to a sink, once per channel."""
    return [part for job in loaded.jobs.values() if job.sink.name == entry.name for part in job.narrowed]


def _progress_finding(place: str, schema: str, viewer: PostgresViewer) -> Finding:
    rights = viewer.schema(schema)
    if rights is None:
        return Finding(place, Level.FAIL, f"there is no schema {schema} for the progress tables")
    found = [viewer.table(f"{schema}.{name}") for name in _PROGRESS]
    quarantine = viewer.table(f"{schema}.slotkeeper_quarantine")
    there = [one for one in (*found, quarantine) if one is not None]
    if not all(one.first for one in there):
        return Finding(place, Level.FAIL, f"the progress tables in {schema} belong to somebody else and are closed")
    if not (rights.first and rights.second):
        # each start asks for CREATE TABLE IF NOT EXISTS, which needs the right even where the table is there
        return Finding(place, Level.FAIL, f"may not create the progress tables in schema {schema}")
    ready = "can be made at the first start" if None in found else "are there and may be written"
    return Finding(place, Level.OK, f"the progress tables in schema {schema} {ready}")


def _left_behind(place: str, entry: SinkEntry, jobs: list[JobSpec], viewer: PostgresViewer) -> Iterator[Finding]:
    """Tables that a job has followed and its configuration names no more: nobody registers their slots.

    Whose progress table may not be read, its own finding says.
    """
    named = {(job.name, job.source.name, job.channel.source_table, job.slot) for job in jobs}
    known = {job.name for job in jobs}
    try:
        followed = viewer.followed(entry.progress_schema)
    except SlotkeeperError as error:
        if error.kind is ErrorKind.TRANSIENT:
            raise
        return
    for job, source, table, slot in followed:
        if job in known and (job, source, table, slot) not in named:
            text = (
                f"job {job} follows {table} of {source} by slot {slot} no more: nobody registers it, its rows stay here"
            )
            drop = f"slotkeeper slots drop {typed(table, slot)}"
            yield Finding(place, Level.WARN, f"{text}; name the table again, or `{drop}`")


def _target_findings(place: str, job: JobSpec, server: ServerSeen, viewer: PostgresViewer) -> Iterator[Finding]:
    target = viewer.table(job.channel.target)
    if target is not None:
        yield _existing_target(place, job, target)
    elif not job.channel.create_target:
        yield Finding(place, Level.FAIL, "does not exist, and the channel does not say create_target = true")
    elif not server.creates:
        # the start asks for CREATE SCHEMA IF NOT EXISTS, which needs the right even where the schema is there
        yield Finding(place, Level.FAIL, "is to be made at the first start, which needs CREATE on the database")
    else:
        schema = job.channel.target.partition(".")[0]
        rights = viewer.schema(schema)
        if rights is None or (rights.first and rights.second):
            yield Finding(place, Level.OK, "does not exist yet and can be made at the first start")
        else:
            yield Finding(place, Level.FAIL, f"may not create tables in schema {schema}")


def _fit_findings(place: str, job: JobSpec, viewer: PostgresViewer, silent: set[str]) -> Iterator[Finding]:
    """Whether an existing target can hold the source; where the source does not answer, only what needs no source.

    `silent` collects sources that do not answer: each is waited for once.
    """
    name = job.channel.target
    identity, complaint = (None, "") if job.source.name in silent else _identity(job, silent)
    if complaint:
        yield Finding(place, Level.FAIL, complaint)
    if identity is None:
        facts = sinks.read(viewer.session, name)
        found = list(sinks.table_objections(name, facts)) if facts else []
    else:
        image = image_of(job.channel, identity)
        facts = sinks.read(viewer.session, name, identity.user_types)
        target = target_of(job.channel, identity)
        found = list(sinks.objections(target, image, facts, job.sink_options)) if facts else []
        if facts is None and job.channel.create_target:
            found = sinks.type_objections(name, image, viewer.session)
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if identity is not None and job.channel.create_target:
        for column, collation in sinks.collations_lacked(image_of(job.channel, identity), viewer.session):
            text = f"column {column!r} is sorted by {collation} at the source, which the sink has not, or has for equal"
            text += " texts only: a made target sorts it by the default; its values are the same"
            yield Finding(place, Level.WARN, text)


def _identity(job: JobSpec, silent: set[str]) -> tuple[TableIdentity | None, str]:
    """The source's table, and what the channel asks of it in vain; None where it cannot be told or is not to be had.

    What a source has against being read its own findings say.
    """
    try:
        source = DwsSource(open_viewer(job.source).session, job.channel.source_table, job.slot, job.binlog)
    except ConfigError:  # a password reference that cannot be resolved
        return None, ""
    try:
        identity = source.identify()
        source.selection = Selection.of(job.channel)
        source.selects(identity)
    except SlotkeeperError as error:
        if error.kind is ErrorKind.TRANSIENT:
            silent.add(job.source.name)
        chosen = bool(source.selection.names or source.selection.where)
        return None, (f"{error}" + (f" ({error.hint})" if error.hint else "")) if chosen else ""
    finally:
        source.close()
    return identity, ""


def _existing_target(place: str, job: JobSpec, target: Rights) -> Finding:
    if not target.first:
        return Finding(place, Level.FAIL, "SELECT, INSERT, UPDATE and DELETE are not all granted")
    if job.on_existing == "replace" and not target.second:
        return Finding(place, Level.FAIL, 'on_existing = "replace" needs TRUNCATE')
    return Finding(place, Level.OK, "is there and may be written")


def _clock_finding(place: str, clock: float, before: float, after: float) -> Finding:
    """The server's clock against ours at the middle of the question; certain only to half of its duration."""
    offset, doubt = clock - (before + after) / 2, (after - before) / 2
    text = f"clock {offset:+.3f} s from here (to within {doubt:.3f} s)"
    return Finding(place, Level.WARN if abs(offset) > CLOCK_SECONDS + doubt else Level.OK, text)


# -- the least rights -----------------------------------------------------------------------------------------------


def grants(loaded: Loaded) -> list[tuple[str, list[str]]]:
    """(server, statements) with the least rights that the configured jobs need."""
    scripts = [(f"source {name}", _source_grants(loaded, entry)) for name, entry in loaded.sources.items()]
    return scripts + [(f"sink {name}", _sink_grants(loaded, entry)) for name, entry in loaded.sinks.items()]


def _source_grants(loaded: Loaded, entry: SourceEntry) -> list[str]:
    user = quoted(entry.endpoint.user)
    names = [table for _, table in tables(loaded, entry.name)]
    found = [f"GRANT USAGE ON SCHEMA {one} TO {user};" for one in _schemas(names)]
    return found + [f"GRANT SELECT ON {dotted(name)} TO {user};" for name in names]


def _sink_grants(loaded: Loaded, entry: SinkEntry) -> list[str]:
    user, schema = quoted(entry.endpoint.user), quoted(entry.progress_schema)
    jobs = _writers(loaded, entry)
    made = [job.channel.target for job in jobs if job.channel.create_target]
    kept = [job for job in jobs if not job.channel.create_target]
    wide = "CONNECT, TEMPORARY" + (", CREATE" if made else "")
    found = [
        f"GRANT {wide} ON DATABASE {quoted(entry.endpoint.database)} TO {user};",
        f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {user};",
    ]
    found += [f"GRANT USAGE ON SCHEMA {one} TO {user};" for one in _schemas([job.channel.target for job in kept])]
    for job in kept:
        rights = "SELECT, INSERT, UPDATE, DELETE" + (", TRUNCATE" if job.on_existing == "replace" else "")
        found.append(f"GRANT {rights} ON {dotted(job.channel.target)} TO {user};")
    return found


def _schemas(names: list[str]) -> list[str]:
    return sorted({quoted(name.partition(".")[0]) for name in names})
