"""Findings of `doctor` about a PostgreSQL sink: login, version, clock, privileges on progress tables and targets.

The checks neither create nor lock anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from slotkeeper.core.domain.endpoint import Endpoint, line_finding
from slotkeeper.core.domain.finding import Finding, Level, clock_finding
from slotkeeper.core.domain.locks import explain_lease, explain_writer, is_stranger, lease_cure, target_cure
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.text import typed
from slotkeeper.core.drivers.session import path_findings
from slotkeeper.core.errors import ErrorKind, SlotkeeperError
from slotkeeper.core.ports.kinds import SinkAsked
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.check import eligibility
from slotkeeper.core.sinks.postgres.check.target import target_of
from slotkeeper.core.sinks.postgres.check.viewer import SCHEMA_RIGHTS, TABLE_RIGHTS, PostgresViewer, Rights, ServerSeen
from slotkeeper.core.sinks.postgres.progress import locks
from slotkeeper.core.sqltext import dotted, quoted, statements

_PROGRESS = ("slotkeeper_progress", "slotkeeper_chunks")
_AUDIT = "slotkeeper_audit"
_OWN = (*_PROGRESS, "slotkeeper_columns", "slotkeeper_quarantine", "slotkeeper_resets")
_ROWS = TABLE_RIGHTS[:4]
"""Privileges that a job needs on its target; a replacing copy also needs TRUNCATE."""
_APPENDS = ("SELECT", "INSERT")
"""Privileges that a job needs on the audit copy; a login with only these privileges cannot change a copied line."""


def findings(viewer: PostgresViewer, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
    """Yield the findings, first those about the server."""
    place = f"sink {asked.name}"
    before = utc().timestamp()
    server = viewer.server()
    after = utc().timestamp()
    yield Finding(place, Level.OK, f"{asked.endpoint.place} answers as {server.user}: PostgreSQL {server.version}")
    yield line_finding(place, asked.endpoint, viewer.session.line())
    yield Finding(place, Level.OK, viewer.session.prove())
    yield clock_finding(place, server.clock, before, after)
    yield from (Finding(place, Level.FAIL, one.text) for one in viewer.objections())
    if server.superuser:
        yield Finding(place, Level.WARN, f"{server.user} is a superuser; the rights of the GRANT script are sufficient")
    yield from path_findings(place, server.user, viewer.open_schemas(server.user))
    if not server.temporary:
        yield Finding(place, Level.FAIL, "cannot create temporary tables, which staging needs")
    yield _progress_finding(place, asked.progress_schema, viewer)
    if not server.superuser:
        yield from _audit_findings(place, asked.progress_schema, server.user, viewer)
    yield from _left_behind(place, asked, viewer)
    for job in asked.jobs:
        yield from _lock_findings(place, job, asked.progress_schema, viewer)
        yield from _target_findings(f"{place} {job.channel.target}", job, server, viewer)
        yield from _fit_findings(f"{place} {job.channel.target}", job, viewer, asked)


def _progress_finding(place: str, schema: str, viewer: PostgresViewer) -> Finding:
    """Report whether Slotkeeper's own tables can be created (on first use) and written."""
    rights = viewer.schema(schema)
    if rights is None:
        return Finding(place, Level.FAIL, f"schema {schema} for the progress tables does not exist")
    lacking = rights.lacks(*SCHEMA_RIGHTS)
    if lacking:
        return Finding(place, Level.FAIL, f"lacks {lacking} on schema {schema}, which the progress tables need")
    there = {name: its for name in _OWN if (its := viewer.table(f"{schema}.{name}")) is not None}
    closed = [f"{its.lacks(*_ROWS)} on {schema}.{name}" for name, its in there.items() if its.lacks(*_ROWS)]
    audit = viewer.table(f"{schema}.{_AUDIT}")
    closed += [f"{audit.lacks(*_APPENDS)} on {schema}.{_AUDIT}"] if audit and audit.lacks(*_APPENDS) else []
    if closed:
        text = f"lacks {'; '.join(closed)}: the progress tables belong to another owner"
        return Finding(place, Level.FAIL, text)
    ready = (
        "exist and are writable"
        if there.keys() >= {*_PROGRESS}
        else "do not exist yet: the first start can create them"
    )
    return Finding(place, Level.OK, f"the progress tables in schema {schema} {ready}")


def _audit_findings(place: str, schema: str, user: str, viewer: PostgresViewer) -> Iterator[Finding]:
    """Report whether the audit copy is protected: this login should be able to append lines but not to change them."""
    table = f"{quoted(schema)}.{_AUDIT}"
    how = viewer.alters(schema, _AUDIT)
    if how is None:
        return
    if not how:
        yield Finding(place, Level.OK, f"{table}: {user} can append lines but not change them")
        return
    cure = f"REVOKE ALL ON {table} FROM {quoted(user)}; GRANT {', '.join(_APPENDS)} ON {table} TO {quoted(user)}"
    cure = f"ALTER TABLE {table} OWNER TO your_administrator; {cure}" if how[0].startswith("owns") else cure
    text = f"{table}: {user} {', '.join(how)}, so that login can change this copy; as an administrator: `{cure}`"
    yield Finding(place, Level.WARN, text)


def _left_behind(place: str, asked: SinkAsked, viewer: PostgresViewer) -> Iterator[Finding]:
    """Report tables that a job has followed but that are no longer configured, so that no job registers their slots.

    An unreadable progress table is reported by a separate finding.
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
            text = f"job {job} no longer follows {table} of {source}: no job confirms slot {slot}; its rows remain here"
            drop = f"slotkeeper slots drop {typed(table, slot)}"
            yield Finding(place, Level.WARN, f"{text}; configure the table again, or run `{drop}`")


def _lock_findings(place: str, job: JobSpec, schema: str, viewer: PostgresViewer) -> Iterator[Finding]:
    """Report locks that a start needs but another job's session holds, with the same wording as the start.

    The locks are the lease and the target's lock. A lock taken on another coordinator is not visible here; only a start
    detects it when it tries to take the lock.
    """
    key = job.lane_key()
    rows = locks.rows_lock(schema, key)
    with viewer.session.transaction() as cursor:
        of_lease = locks.owners(viewer.session, cursor, locks.lease_lock(key), rows)
        of_target = locks.target_owners(viewer.session, cursor, job.locked_target, rows)
    if of_lease and is_stranger(of_lease):
        what = explain_lease(f"{job.channel.source_table} slot {job.slot}", of_lease, "")
        yield Finding(place, Level.WARN, f"{what}; {lease_cure(of_lease, job.name)}")
    if of_target and not of_target[0].rows:
        what = f"target {job.sink.database}.{job.locked_target} belongs to {explain_writer(of_target[0], True)}"
        yield Finding(place, Level.WARN, f"{what}; {target_cure(of_target)}")


def _target_findings(place: str, job: JobSpec, server: ServerSeen, viewer: PostgresViewer) -> Iterator[Finding]:
    schema = job.channel.target.partition(".")[0]
    rights, target = viewer.schema(schema), viewer.table(job.channel.target)
    if rights is None and job.channel.create_target:
        if server.creates:
            yield Finding(place, Level.OK, "does not exist yet: the first start can create it, with its schema")
        else:
            text = f"unknown schema {schema}: CREATE SCHEMA {quoted(schema)}, or grant CREATE on the database"
            yield Finding(place, Level.FAIL, text)
    elif target is None and not job.channel.create_target:
        yield Finding(place, Level.FAIL, "does not exist, and the channel does not set create_target = true")
    elif rights is not None:
        yield _rights_finding(place, job, rights, target)


def _rights_finding(place: str, job: JobSpec, schema: Rights, target: Rights | None) -> Finding:
    """Report whether the target can be created or written; a replacing copy creates its shadow table in that schema."""
    replaces = job.on_existing == "replace"
    lacking = [schema.lacks(*(SCHEMA_RIGHTS if replaces or target is None else ("USAGE",)))]
    name = job.channel.target.partition(".")[0]
    said = [f"{lacking[0]} on schema {name}"] if lacking[0] else []
    if target is not None:
        rows = target.lacks(*(TABLE_RIGHTS if replaces else _ROWS))
        said += [f"{rows} on the table"] if rows else []
    if said:
        why = (
            ' (on_existing = "replace" needs TRUNCATE, and CREATE on the schema for its shadow table)'
            if replaces
            else ""
        )
        return Finding(place, Level.FAIL, f"lacks {' and '.join(said)}{why}")
    done = "does not exist yet: the first start can create it" if target is None else "exists and is writable"
    return Finding(place, Level.OK, done)


def _fit_findings(place: str, job: JobSpec, viewer: PostgresViewer, asked: SinkAsked) -> Iterator[Finding]:
    """Report whether an existing target fits the source; if the source did not answer, check only the target."""
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
            found = eligibility.made_objections(name, image, viewer.session)
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if identity is not None and job.channel.create_target:
        for column, collation in eligibility.collations_lacked(image_of(job.channel, identity), viewer.session):
            text = f"column {column!r} has collation {collation} in the source, which the sink does not support"
            text += ": a created target uses the default collation; its values are the same"
            yield Finding(place, Level.WARN, text)


def grants(endpoint: Endpoint, progress_schema: str, jobs: Sequence[JobSpec]) -> list[str]:
    """Return GRANT statements with the minimum privileges that these jobs need.

    Creating a target, or the shadow of a replacing copy, requires CREATE on the schema. The administrator who runs the
    script creates the schema, so that no login needs CREATE on the database. DWS, CREATE SCHEMA: IF NOT EXISTS is
    available since 9.1.0.
    """
    user, own = quoted(endpoint.user), quoted(progress_schema)
    kept = [job for job in jobs if not job.channel.create_target]
    used = {_schema(job) for job in jobs}
    filled = {_schema(job) for job in jobs if job.channel.create_target or job.on_existing == "replace"}
    made = {_schema(job) for job in jobs if job.channel.create_target}
    found = [
        f"GRANT CONNECT, TEMPORARY ON DATABASE {quoted(endpoint.database)} TO {user};",
        *(f"CREATE SCHEMA IF NOT EXISTS {one};" for one in sorted(made - {own})),
        f"GRANT USAGE, CREATE ON SCHEMA {own} TO {user}; -- an upgrade that adds a column needs the table's owner",
        *(f"GRANT USAGE, CREATE ON SCHEMA {one} TO {user};" for one in sorted(filled - {own})),
        *(f"GRANT USAGE ON SCHEMA {one} TO {user};" for one in sorted(used - filled - {own})),
    ]
    made_by_another = statements(*own_tables.migrations("audit")[0])["apply"].format(schema=own)
    found += [
        f"{' '.join(made_by_another.split())}; -- with another owner, so that the login can only append lines",
        f"GRANT {', '.join(_APPENDS)} ON {own}.{_AUDIT} TO {user};",
    ]
    for job in kept:
        rights = ", ".join(TABLE_RIGHTS if job.on_existing == "replace" else _ROWS)
        found.append(f"GRANT {rights} ON {dotted(job.channel.target)} TO {user};")
    return found


def _schema(job: JobSpec) -> str:
    return quoted(job.channel.target.partition(".")[0])
