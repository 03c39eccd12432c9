"""What lanes that fail or hear nothing say together: which server, or which DN, and since when. Pure.

A session to a source is one to its coordinator, so what breaks a line is the source's; what names one DN, or is
refused for some of them, is that DN's. Next door: `core.domain.condition` is the value, `loop.py` has the lanes,
`core.spark.narrator` tells.
"""

from __future__ import annotations

from collections.abc import Iterable

from core.domain.condition import Condition, merged, server_of
from core.domain.fault import Party
from core.domain.lane import Activity, Lane

_LINE = ("08", "57P", "28")
"""SQLSTATE classes of a line and a login: connection exceptions, operator intervention, authorization."""


def of_lanes(lanes: Iterable[Lane], now: float, utc: float) -> tuple[Condition, ...]:
    """The conditions of a job's lanes; `now` is monotonic, `utc` the same moment in seconds since 1970."""
    living = [lane for lane in lanes if lane.activity is not Activity.STOPPED]
    troubled = [lane for lane in living if lane.error or lane.silent_since is not None]
    return merged(_condition(lane, len(living), now, utc) for lane in troubled)


def _condition(lane: Lane, of: int, now: float, utc: float) -> Condition:
    began = [at for at in (lane.failing_since if lane.error else None, lane.silent_since) if at is not None]
    since = utc - (now - min(began))
    tries = lane.history.failures
    if not lane.error:
        return Condition(Party.DN.value, lane.shard.name, lane.silent, since, (lane.name,), of, tries)
    side, name, cause = server_of(lane.error)
    side = side or lane.side
    if side == "source" and not _of_line(lane):
        return Condition(Party.DN.value, lane.shard.name, _without(cause, lane), since, (lane.name,), of, tries)
    party = {"source": Party.SOURCE, "sink": Party.SINK}.get(side, Party.PROCESS)
    called = name or {"source": "source", "sink": "sink", "spark": "Spark"}.get(side, "this job's driver")
    return Condition(party.value, called, _without(cause, lane), since, (lane.name,), of, tries)


def _of_line(lane: Lane) -> bool:
    """Whether it is the line to the server, and no DN behind it, that fails."""
    return lane.shard.name not in lane.error.removeprefix(f"{lane.name}: ") and lane.code.startswith(_LINE)


def _without(cause: str, lane: Lane) -> str:
    for name in (lane.name, lane.shard.name, lane.key.source_table):
        cause = cause.removeprefix(f"{name}: ")
    return cause
