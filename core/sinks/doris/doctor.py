"""What `doctor` finds at a Doris sink: login, labels' life, the targets, and the least rights. Changes nothing.

Next door: `shape.py` has the rules for targets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from core.domain.finding import Finding, Level
from core.domain.image import image_of
from core.domain.spec import JobSpec
from core.domain.tls import Line, line_finding
from core.drivers.mysql_queries import MysqlQueries
from core.errors import Refused, SlotkeeperError, Unreachable
from core.ports.kinds import SinkAsked
from core.sinks.doris import shape
from core.sinks.doris.seen import partitions
from core.sinks.doris.shape import quoted

LIVES = ("label_keep_max_second", "streaming_label_keep_max_second")
"""Settings of the FE that say how long labels are known (Doris, "FE Configuration")."""
SHORTEST_SECONDS = 86_400
"""A label that is known for less does not outlast a night in which nobody can be reached."""


def findings(queries: MysqlQueries, asked: SinkAsked, utc: Callable[[], datetime]) -> Iterator[Finding]:
    """What is found, the server first."""
    place = f"sink {asked.name}"
    comment = str(queries.rows("SELECT @@version_comment")[0][0])
    yield Finding(place, Level.OK, f"{asked.endpoint.place} answers: {comment}")
    yield line_finding(place, asked.endpoint, Line(*queries.line()))
    yield from _life_findings(place, queries)
    for job in asked.jobs:
        yield from _target_findings(f"{place} {job.channel.target}", job, queries, asked)


def _life_findings(place: str, queries: MysqlQueries) -> Iterator[Finding]:
    """How long an outage may last between the commit of a load and the row that notes it."""
    for name in LIVES:
        try:
            found = queries.rows(f"ADMIN SHOW FRONTEND CONFIG LIKE '{name}'")
        except Unreachable:
            raise
        except SlotkeeperError:
            text = f"{name} cannot be read (it needs ADMIN_PRIV): loads are exactly once for as long as labels are kept"
            yield Finding(place, Level.UNKNOWN, text)
            continue
        seconds = int(found[0][1]) if found and str(found[0][1]).isdigit() else None
        if seconds is None:
            yield Finding(place, Level.UNKNOWN, f"{name} is not told")
        elif name == LIVES[0] and seconds < SHORTEST_SECONDS:
            text = f"{name} = {seconds} s: after a longer outage a load may be sent again, as counted repeats"
            yield Finding(place, Level.WARN, f"{text}; set it to {SHORTEST_SECONDS} at least")
        else:
            yield Finding(place, Level.OK, f"{name} = {seconds} s")


def _target_findings(place: str, job: JobSpec, queries: MysqlQueries, asked: SinkAsked) -> Iterator[Finding]:
    identity, why = asked.identity_of(job)
    try:
        table = shape.read(queries, job.channel.target)
    except Unreachable:
        raise
    except SlotkeeperError as error:
        makes = job.channel.create_target and isinstance(error, Refused)
        yield Finding(
            place, Level.OK if makes else Level.FAIL, "is made by the first start" if makes else error.message
        )
        return
    if identity is None:
        yield Finding(place, Level.UNKNOWN, why or "the source's table cannot be told")
        return
    image = image_of(job.channel, identity)
    found = list(shape.objections(table, image))
    yield from (Finding(place, Level.FAIL, one.text) for one in found)
    if not found:
        yield Finding(place, Level.OK, "is a unique table with a delete sign, and takes the source's columns")
    if not partitions(queries, job.channel.target):
        text = "partitions are not told (SHOW PARTITIONS): a TRUNCATE or an exchange is known by missing rows alone"
        yield Finding(place, Level.WARN, f"{text}; grant the right, and `slotkeeper verify`")
    names = [one.name for one in image.columns]
    if rounded := shape.of_types(table, names, shape.INEXACT):
        text = f"{', '.join(rounded)}: FLOAT and DOUBLE are compared as numbers"
        yield Finding(place, Level.WARN, f"{text}, and equal where Doris tells all digits: else use DECIMAL")
    if rendered := shape.of_types(table, names, shape.RENDERED):
        text = (
            f"{', '.join(rendered)}: a JSON is told in another text than the source's, so `verify` finds it different"
        )
        yield Finding(place, Level.WARN, f"{text}; use STRING")


def grants(user: str, jobs: Sequence[JobSpec]) -> list[str]:
    """The least rights that these jobs need, as statements."""
    who = "'" + user.replace("'", "''") + "'"
    names = dict.fromkeys(job.channel.target for job in jobs)
    makes = {job.channel.target.partition(".")[0] for job in jobs if job.channel.create_target}
    makes |= {job.channel.target.partition(".")[0] for job in jobs if job.on_existing == "replace"}
    found = [f"GRANT SELECT_PRIV, LOAD_PRIV ON internal.{quoted(name)} TO {who}" for name in names]
    more = "SELECT_PRIV, LOAD_PRIV, CREATE_PRIV, ALTER_PRIV, DROP_PRIV"
    return found + [f"GRANT {more} ON internal.{quoted(one)}.* TO {who}" for one in sorted(makes)]
