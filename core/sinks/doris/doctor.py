"""Findings of `doctor` about a Doris sink: login, label retention, longest value, targets and minimum privileges.

Changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from slotkeeper.core.domain.endpoint import Line, line_finding
from slotkeeper.core.domain.finding import Finding, Level
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.drivers.mysql_queries import MysqlQueries
from slotkeeper.core.errors import Refused, SlotkeeperError, Unreachable
from slotkeeper.core.ports.kinds import SinkAsked
from slotkeeper.core.sinks.doris import shape
from slotkeeper.core.sinks.doris.http import BE_PORT
from slotkeeper.core.sinks.doris.shape import quoted
from slotkeeper.core.sinks.doris.target import partitions

KEPT_SECONDS, KEPT_LABELS = "streaming_label_keep_max_second", "label_num_threshold"
"""FE settings that limit how long the FE retains the label of a Stream Load (Doris, "FE Configuration").

`label_keep_max_second` is for other loads (apache/doris, `TransactionState.isShortTxn`).
"""
LEAST_SECONDS, LEAST_LABELS = 43_200, 2_000
"""Doris's defaults: labels survive an outage of 12 h if at most this number of loads end in the database meanwhile."""
_WHOLE = re.compile(r"-?\d+$")
STRING_LIMIT, STRING_BYTES = "string_type_length_soft_limit_bytes", 1_048_576
"""The BE setting that limits a STRING, and its default (Doris, "STRING")."""


def findings(queries: MysqlQueries, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
    """Return the findings about the server, then those about the targets."""
    place = f"sink {asked.name}"
    comment = str(queries.rows("SELECT @@version_comment")[0][0])
    yield Finding(place, Level.OK, f"{asked.endpoint.place} answers: {comment}")
    yield line_finding(place, asked.endpoint, Line(*queries.line()))
    yield _kept(place, queries, KEPT_SECONDS, " s", LEAST_SECONDS, "after a longer outage")
    yield _kept(place, queries, KEPT_LABELS, "", LEAST_LABELS, "after more loads than that in its database")
    limit = string_limit(queries)
    if limit is None:
        text = f"cannot read {STRING_LIMIT} (it needs ADMIN_PRIV): its default is {STRING_BYTES:,}"
        yield Finding(place, Level.UNKNOWN, text)
    if not shape.backends(queries):
        text = f"SHOW BACKENDS is denied (it needs ADMIN_PRIV or NODE_PRIV): port {BE_PORT} is assumed for each BE"
        more = f'for another port add `backends = ["host:port"]` to [sinks.{asked.name}]'
        yield Finding(place, Level.UNKNOWN, f"{text}; {more}")
    for job in asked.jobs:
        yield from _target_findings(f"{place} {job.channel.target}", job, queries, asked, limit or STRING_BYTES)


def _kept(place: str, queries: MysqlQueries, name: str, unit: str, least: int, when: str) -> Finding:
    """Check whether Doris retains labels long enough, that is, from the commit of a load until a row records it."""
    try:
        found = queries.rows(f"ADMIN SHOW FRONTEND CONFIG LIKE '{name}'")
    except Unreachable:
        raise
    except SlotkeeperError:
        text = f"cannot read {name} (it needs ADMIN_PRIV): loads are exactly-once only while Doris retains labels"
        return Finding(place, Level.UNKNOWN, text)
    number = next((int(row[1]) for row in found if _WHOLE.match(str(row[1]))), None)
    if number is None:
        return Finding(place, Level.UNKNOWN, f"{name}: unknown")
    if 0 < number < least or (number <= 0 and name == KEPT_SECONDS):
        text = f"{name} = {number}{unit}: {when} the job may send a load again (counted as repeats)"
        return Finding(place, Level.WARN, f"{text}; set it to at least {least}")
    return Finding(place, Level.OK, f"{name} = {number}{unit}")


def string_limit(queries: MysqlQueries) -> int | None:
    """Return the lowest limit of a STRING among the BEs, in bytes; None if this login cannot see it.

    Doris, "SHOW BACKEND CONFIG": BackendId, Host, Key, Value, Type, IsMutable (apache/doris, `ShowConfigCommand`).
    """
    try:
        found = queries.rows(f"SHOW BACKEND CONFIG LIKE '{STRING_LIMIT}'")
    except Unreachable:
        raise
    except SlotkeeperError:
        return None
    return min((int(row[3]) for row in found if row[2] == STRING_LIMIT and _WHOLE.match(str(row[3]))), default=None)


def _longest(place: str, table: shape.DorisTable, image: TableIdentity, limit: int) -> Iterator[Finding]:
    """Yield the longest value of columns without a length; bytes are written as `\\x` and two hex digits each."""
    names = shape.of_types(table, [one.name for one in image.columns], shape.UNSIZED)
    raw = [one.name for one in image.columns if one.name in names and image.plain(one.type) == "bytea"]
    end = f"longer values are rejected, never truncated ({STRING_LIMIT})"
    if raw:
        text = f"{', '.join(raw)}: a value of at most {(limit - 2) // 2:,} bytes, stored as hex digits; {end}"
        yield Finding(place, Level.WARN, text)
    if len(names) > len(raw):
        text = f"{', '.join(one for one in names if one not in raw)}: a value of at most {limit:,} bytes; {end}"
        yield Finding(place, Level.OK, text)


def _target_findings(
    place: str, job: JobSpec, queries: MysqlQueries, asked: SinkAsked, limit: int
) -> Iterator[Finding]:
    identity, why = asked.identity_of(job)
    try:
        table = shape.read(queries, job.channel.target)
    except Unreachable:
        raise
    except SlotkeeperError as error:
        makes = job.channel.create_target and isinstance(error, Refused)
        yield Finding(
            place,
            Level.OK if makes else Level.FAIL,
            "does not exist yet: the first start creates it" if makes else error.message,
        )
        return
    if identity is None:
        yield Finding(place, Level.UNKNOWN, why or "cannot read the source's table")
        return
    image = image_of(job.channel, identity)
    found = list(shape.objections(table, image))
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if not found:
        yield Finding(place, Level.OK, "is a unique-key table with a delete sign, and accepts the source's columns")
    yield from _longest(place, table, image, limit)
    if not partitions(queries, job.channel.target):
        text = "cannot read partitions (SHOW PARTITIONS): only missing rows reveal a TRUNCATE or an exchange"
        yield Finding(place, Level.WARN, f"{text}; grant the right, and run `slotkeeper verify`")
    names = [one.name for one in image.columns]
    if rounded := shape.of_types(table, names, shape.INEXACT):
        text = f"{', '.join(rounded)}: FLOAT and DOUBLE are compared as numbers"
        yield Finding(place, Level.WARN, f"{text}, which are equal if Doris returns all digits; otherwise use DECIMAL")
    if rendered := shape.of_types(table, names, shape.RENDERED):
        text = f"{', '.join(rendered)}: Doris formats JSON differently, so `verify` reports a difference"
        yield Finding(place, Level.WARN, f"{text}; use STRING")


def grants(user: str, jobs: Sequence[JobSpec]) -> list[str]:
    who = "'" + user.replace("'", "''") + "'"
    names = dict.fromkeys(job.channel.target for job in jobs)
    makes = {job.channel.target.partition(".")[0] for job in jobs if job.channel.create_target}
    makes |= {job.channel.target.partition(".")[0] for job in jobs if job.on_existing == "replace"}
    found = [f"GRANT SELECT_PRIV, LOAD_PRIV ON internal.{quoted(name)} TO {who}" for name in names]
    more = "SELECT_PRIV, LOAD_PRIV, CREATE_PRIV, ALTER_PRIV, DROP_PRIV"
    return found + [f"GRANT {more} ON internal.{quoted(one)}.* TO {who}" for one in sorted(makes)]
