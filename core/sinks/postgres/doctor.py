"""What `doctor` finds at a PostgreSQL sink: login, version, clock, the rights that progress tables and targets need.

Nothing is made or locked. Next door: `check/eligibility.py` has the rules, `check/viewer.py` asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from core.domain.endpoint import Endpoint
from core.domain.finding import Finding, Level, clock_finding
from core.domain.spec import JobSpec
from core.domain.text import typed
from core.drivers.search_path import path_findings
from core.errors import ErrorKind, SlotkeeperError
from core.ports.kinds import SinkAsked
from core.sinks.postgres.check import eligibility
from core.sinks.postgres.check.target import image_of, target_of
from core.sinks.postgres.check.viewer import PostgresViewer, Rights, ServerSeen
from core.sqltext import dotted, quoted

_PROGRESS = ("slotkeeper_progress", "slotkeeper_chunks")


def findings(viewer: PostgresViewer, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
    """What is found, the server first."""
    place = f"sink {asked.name}"
    before = utc().timestamp()
    server = viewer.server()
    after = utc().timestamp()
    yield Finding(place, Level.OK, f"{asked.endpoint.place} answers as {server.user}: PostgreSQL {server.version}")
    yield clock_finding(place, server.clock, before, after)
    if server.superuser:
        yield Finding(place, Level.WARN, f"{server.user} is a superuser; the rights of the GRANT script are enough")
    yield from path_findings(place, server.user, viewer.open_schemas(server.user))
    if not server.temporary:
        yield Finding(place, Level.FAIL, "may not make temporary tables, which staging needs")
    yield _progress_finding(place, asked.progress_schema, viewer)
    yield from _left_behind(place, asked, viewer)
    for job in asked.jobs:
        yield from _target_findings(f"{place} {job.channel.target}", job, server, viewer)
        yield from _fit_findings(f"{place} {job.channel.target}", job, viewer, asked)


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


def _left_behind(place: str, asked: SinkAsked, viewer: PostgresViewer) -> Iterator[Finding]:
    """Tables that a job has followed and its configuration names no more: nobody registers their slots.

    Whose progress table may not be read, its own finding says.
    """
    named = {(job.name, job.source.name, job.channel.source_table, job.slot) for job in asked.jobs}
    known = {job.name for job in asked.jobs}
    try:
        followed = viewer.followed(asked.progress_schema)
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


def _fit_findings(place: str, job: JobSpec, viewer: PostgresViewer, asked: SinkAsked) -> Iterator[Finding]:
    """Whether an existing target can hold the source; where the source does not answer, only what needs no source."""
    name = job.channel.target
    identity, complaint = asked.identity_of(job)
    if complaint:
        yield Finding(place, Level.FAIL, complaint)
    if identity is None:
        facts = eligibility.read(viewer.session, name)
        found = list(eligibility.table_objections(name, facts)) if facts else []
    else:
        image = image_of(job.channel, identity)
        facts = eligibility.read(viewer.session, name, identity.user_types)
        target = target_of(job.channel, identity)
        found = list(eligibility.objections(target, image, facts, job.sink_options)) if facts else []
        if facts is None and job.channel.create_target:
            found = eligibility.type_objections(name, image, viewer.session)
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if identity is not None and job.channel.create_target:
        for column, collation in eligibility.collations_lacked(image_of(job.channel, identity), viewer.session):
            text = f"column {column!r} is sorted by {collation} at the source, which the sink has not, or has for equal"
            text += " texts only: a made target sorts it by the default; its values are the same"
            yield Finding(place, Level.WARN, text)


def _existing_target(place: str, job: JobSpec, target: Rights) -> Finding:
    if not target.first:
        return Finding(place, Level.FAIL, "SELECT, INSERT, UPDATE and DELETE are not all granted")
    if job.on_existing == "replace" and not target.second:
        return Finding(place, Level.FAIL, 'on_existing = "replace" needs TRUNCATE')
    return Finding(place, Level.OK, "is there and may be written")


def grants(endpoint: Endpoint, progress_schema: str, jobs: Sequence[JobSpec]) -> list[str]:
    """The least rights that these jobs need, as statements."""
    user, schema = quoted(endpoint.user), quoted(progress_schema)
    made = [job.channel.target for job in jobs if job.channel.create_target]
    kept = [job for job in jobs if not job.channel.create_target]
    wide = "CONNECT, TEMPORARY" + (", CREATE" if made else "")
    found = [
        f"GRANT {wide} ON DATABASE {quoted(endpoint.database)} TO {user};",
        f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {user};",
    ]
    found += [
        f"GRANT USAGE ON SCHEMA {one} TO {user};"
        for one in sorted({quoted(job.channel.target.partition(".")[0]) for job in kept})
    ]
    for job in kept:
        rights = "SELECT, INSERT, UPDATE, DELETE" + (", TRUNCATE" if job.on_existing == "replace" else "")
        found.append(f"GRANT {rights} ON {dotted(job.channel.target)} TO {user};")
    return found
