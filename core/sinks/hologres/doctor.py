"""Findings of `doctor` about a Hologres sink: login, clock, targets, and minimum privileges. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from slotkeeper.core.domain.endpoint import line_finding
from slotkeeper.core.domain.finding import Finding, Level, clock_finding
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers.session import Session
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.ports.kinds import SinkAsked
from slotkeeper.core.sinks.hologres import shape
from slotkeeper.core.sqltext import dotted, quoted

RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


def findings(session: Session, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
    """Return the findings about the server, then those about the targets."""
    place = f"sink {asked.name}"
    before = utc().timestamp()
    version, user, clock = session.rows("server")[0]
    after = utc().timestamp()
    yield Finding(place, Level.OK, f"{asked.endpoint.place} answers as {user}: {safe(str(version), 80)}")
    yield line_finding(place, asked.endpoint, session.line())
    yield Finding(place, Level.OK, session.prove())
    yield clock_finding(place, float(clock), before, after)
    text = "changes are written at least once; a stalled writer may leave an older value (ADR 47)"
    yield Finding(place, Level.WARN, f"{text}; not verified yet with a live Hologres server")
    for job in asked.jobs:
        yield from _target_findings(f"{place} {job.channel.target}", job, session, asked)


def _target_findings(place: str, job: JobSpec, session: Session, asked: SinkAsked) -> Iterator[Finding]:
    identity, why = asked.identity_of(job)
    try:
        table = shape.read(session, job.channel.target)
        granted = session.rows("rights", {"oid": table.oid})[0]
    except Unreachable:
        raise
    except SlotkeeperError as error:
        yield Finding(place, Level.FAIL, error.message)
        return
    lacking = [name for name, there in zip(RIGHTS, granted, strict=True) if not there]
    if lacking:
        yield Finding(place, Level.FAIL, f"lacks {', '.join(lacking)} on the table")
    if identity is None:
        yield Finding(place, Level.UNKNOWN, why or "cannot read the source's table")
        return
    found = list(shape.objections(table, image_of(job.channel, identity), job.sink_options))
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if not found:
        how = "with unnest" if shape.written(table, image_of(job.channel, identity), job.sink_options).unnests else ""
        yield Finding(
            place,
            Level.OK,
            f"has the source's key and accepts its columns; changes are written {how or 'row by row (VALUES)'}",
        )


def grants(user: str, jobs: Sequence[JobSpec]) -> list[str]:
    names = dict.fromkeys(job.channel.target for job in jobs)
    schemas = dict.fromkeys(name.partition(".")[0] for name in names)
    return [
        *(f"GRANT USAGE ON SCHEMA {quoted(schema)} TO {quoted(user)};" for schema in schemas),
        *(f"GRANT {', '.join(RIGHTS)} ON {dotted(name)} TO {quoted(user)};" for name in names),
    ]
