"""What lanes that fail or hear nothing say together: which server, or which DN, and since when. Pure.

A session to a source is one to its coordinator, so what breaks a line is the source's; what names one DN, or is
refused for some of them, is that DN's, and so is a line that was cut while that DN alone did not answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.lane import Activity, Lane
from slotkeeper.core.domain.report import Condition, merged, server_of

_LINE = ("08", "57P", "28")
"""SQLSTATE classes of a line and a login: connection exceptions, operator intervention, authorization."""


def of_lanes(lanes: Iterable[Lane], now: float, utc: float, names: Mapping[str, str]) -> tuple[Condition, ...]:
    """The conditions of a job's lanes; `now` is monotonic, `utc` the same moment in seconds since 1970.

    `names` are a job's source and sink in words, by "source" and "sink": for errors that do not name their server.
    """
    living = [lane for lane in lanes if lane.activity is not Activity.STOPPED]
    troubled = [lane for lane in living if lane.error or lane.silent_since is not None]
    several = len({lane.shard.name for lane in living}) > 1
    return merged(_condition(lane, len(living), several, utc - now, names) for lane in troubled)


def _condition(lane: Lane, of: int, several: bool, apart: float, names: Mapping[str, str]) -> Condition:
    began = [at for at in (lane.failing_since if lane.error else None, lane.silent_since) if at is not None]
    party, name, cause = _blamed(lane, several, names)
    return Condition(
        party.value, name, _without(cause, lane), min(began) + apart, (lane.name,), of, lane.history.failures
    )


def _blamed(lane: Lane, several: bool, names: Mapping[str, str]) -> tuple[Party, str, str]:
    """Whose fault it is, their name, and what they said; `several`: the lanes are of more than one DN."""
    said, called, cause = server_of(lane.error) if lane.error else ("source", "", lane.silent)
    side = said or lane.side
    if lane.silent_since is not None and not side:  # a step of it was given up: it is not what is wrong
        side, cause = "source", lane.silent
    if side == "source" and several and (lane.silent_since is not None or not _of_line(lane)):
        return Party.DN, lane.shard.name, cause
    party = {"source": Party.SOURCE, "sink": Party.SINK}.get(side, Party.PROCESS)
    return party, called or names.get(side, "Spark" if side == "spark" else "this job's driver"), cause


def _of_line(lane: Lane) -> bool:
    """Whether it is the line to the server, and no DN behind it, that fails."""
    named = lane.shard.name in lane.error.removeprefix(f"{lane.name}: ")
    return bool(lane.error) and not named and lane.code.startswith(_LINE)


def _without(cause: str, lane: Lane) -> str:
    for name in (lane.name, lane.shard.name, lane.key.source_table):
        cause = cause.removeprefix(f"{name}: ")
    return cause
