"""A job at one moment as a value, and that value as few bytes. Pure.

The lanes of a report are turned into columns, because neighbours of one kind compress well, and a frame is compressed
with an earlier one of its job as dictionary, because little changes in five seconds.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from typing import Any

from slotkeeper.core.domain.job import JobState, TableReport, WantedState
from slotkeeper.core.domain.report import Condition, Identity, JobReport, JobView, LaneReport
from slotkeeper.core.state.rows import lock_wait_from

LEVEL = 6
_LANE_FIELDS = tuple(each.name for each in fields(LaneReport))
_TABLE_FIELDS = tuple(each.name for each in fields(TableReport))
_CONDITION_FIELDS = tuple(each.name for each in fields(Condition))
_REPORT_FIELDS = frozenset(each.name for each in fields(JobReport))
_NAMES = (
    b'{"job":"","at":0.0,"state":"CATCHING UP","wanted":"run","reason":"retrying , next in s","trouble":"","safe":"",'
    b'"config":"","run":"","supervisor":{"pid":0,"started":"","session_id":0,"run_id":"","host":""},'
    b'"supervisor_alive":true,"driver":{"pid":0},"driver_alive":true,"elsewhere":false,"changed_at":0.0,'
    b'"started_at":0.0,"ended_at":null,"exit_code":null,"report":{"changes":0,"chunks_done":null,"chunks_total":null,'
    b'"environment":"","epoch":1,"job":"","registrations":0,"run":"","safe":"","snapshot_rows":0,"state":"RUNNING",'
    b'"tasks_started":0,"trouble":"","lanes":{"shard":["dn_6001_6002","dn_"],"node_id":[-1],"state":["running",'
    b'"running"],"activity":["idle","idle","applying","registering"],"position":["/-1","/-1"],"latest":[],'
    b'"registered":[],"at":[],"latest_at":[],"behind":[],"changes":[],"last_commit_age":[],"retry":["",""],"error":["",""],'
    b'"side":["",""],"polled_age":[],"read_s":[],"write_s":[],"register_s":[]}},"reported_at":0.0,"reported":true,'
    b'"lags":{"dn_6001_6002":0.0,"dn_":0.0}}'
)
"""What a frame without a base is compressed with. Never to be changed: older frames could not be read any more."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A job as it was seen at one moment; `lags` are seconds by lane, None where unknown.

    `least` is what lanes of unknown lag lag by at least.
    """

    view: JobView
    at: datetime
    lags: Mapping[str, float | None] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)


_VIEW_FIELDS = tuple(each.name for each in fields(JobView))
_PROCESSES = ("supervisor", "driver")
_TIMES = ("at", "changed_at", "started_at", "ended_at", "reported_at")


def text_of(frame: Frame) -> bytes:
    """A frame as text, which also serves as dictionary for later ones of its job."""
    view = {name: getattr(frame.view, name) for name in _VIEW_FIELDS}
    made = {"job": view.pop("name"), "at": frame.at, **view}
    made |= {"state": frame.view.state.value, "wanted": frame.view.wanted.value}
    for name in _TIMES:
        made[name] = None if made[name] is None else round(made[name].timestamp(), 1)
    for name in _PROCESSES:
        made[name] = None if made[name] is None else asdict(made[name])
    made["report"] = None if frame.view.report is None else _columns(frame.view.report)
    made["lags"] = {shard: None if lag is None else round(lag, 1) for shard, lag in frame.lags.items()}
    made["least"] = {shard: round(lag, 1) for shard, lag in frame.least.items()}
    return json.dumps(made, separators=(",", ":")).encode()


def packed(text: bytes, base: bytes | None) -> bytes:
    """The text in few bytes; `base` is the text of the frame that serves as dictionary."""
    press = zlib.compressobj(LEVEL, zdict=_NAMES if base is None else base)
    return press.compress(text) + press.flush()


def unpacked(content: bytes, base: bytes | None) -> bytes:
    """The text again; raises zlib.error where it cannot be had."""
    press = zlib.decompressobj(zdict=_NAMES if base is None else base)
    return press.decompress(content) + press.flush()


def frame_of(text: bytes) -> Frame:
    """The frame again; raises ValueError, KeyError or TypeError where the text is none of ours."""
    found = json.loads(text)
    for name in _TIMES:
        found[name] = None if found[name] is None else datetime.fromtimestamp(found[name], timezone.utc)
    for name in _PROCESSES:
        found[name] = None if found[name] is None else Identity(**found[name])
    found |= {"name": found["job"], "state": JobState(found["state"]), "wanted": WantedState(found["wanted"])}
    found["report"] = None if found["report"] is None else _report(found["report"])
    view = JobView(**{name: found[name] for name in _VIEW_FIELDS if name in found})
    return Frame(view, found["at"], found["lags"], found.get("least", {}))


def _columns(report: JobReport) -> dict[str, Any]:
    made = {name: getattr(report, name) for name in sorted(_REPORT_FIELDS) if name != "lanes"}
    made["tables"] = [asdict(table) for table in report.tables]
    made["conditions"] = [asdict(one) for one in report.conditions]
    made["lock_waits"] = [asdict(wait) for wait in report.lock_waits]
    made["lanes"] = {name: [_short(getattr(lane, name)) for lane in report.lanes] for name in _LANE_FIELDS}
    return made


def _short(value: object) -> object:
    return round(value, 1) if isinstance(value, float) else value


def _report(found: dict[str, Any]) -> JobReport:
    columns = {name: values for name, values in found.pop("lanes").items() if name in _LANE_FIELDS}
    number = len(columns["shard"])
    lanes = tuple(LaneReport(**{name: values[n] for name, values in columns.items()}) for n in range(number))
    tables = tuple(
        TableReport(**{name: table[name] for name in _TABLE_FIELDS if name in table})
        for table in found.pop("tables", ())
    )
    conditions = tuple(
        Condition(**{name: one[name] for name in _CONDITION_FIELDS if name in one} | {"lanes": tuple(one["lanes"])})
        for one in found.pop("conditions", ())
    )
    waits = tuple(lock_wait_from(wait) for wait in found.pop("lock_waits", ()))
    known = {name: value for name, value in found.items() if name in _REPORT_FIELDS}
    return JobReport(**known, lanes=lanes, tables=tables, conditions=conditions, lock_waits=waits)
