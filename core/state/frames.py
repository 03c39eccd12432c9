"""The ring buffer of frames: the status of each job every few seconds for one day, for replay and for rates.

The lanes of a report are stored as columns, because adjacent values of the same kind compress well. A frame is
compressed with an earlier frame of its job as the dictionary, because little changes in five seconds. A frame that
cannot be read is skipped without an error; the history shows all other frames.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from slotkeeper.core import codec
from slotkeeper.core.domain.host import HostReport
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.state.rows import EventRow, event_from
from slotkeeper.core.state.sqlite import Store

LEVEL = 6
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
"""The dictionary for frames without a base. Changing this value would make older frames unreadable."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A job's status at a point in time; `lags` are seconds by lane, or None if unknown.

    `least` is a lower bound for the lag of each lane whose lag is unknown.
    """

    view: JobStatus
    at: datetime
    lags: Mapping[str, float | None] = field(default_factory=dict)
    least: Mapping[str, float] = field(default_factory=dict)
    host: HostReport | None = None
    """The supervisor's measurements of this host."""


_TIMES = ("changed_at", "started_at", "ended_at", "reported_at")


def text_of(frame: Frame) -> bytes:
    """Return a frame as text, which also serves as the dictionary for later frames of its job."""
    view = codec.values_of(frame.view)
    made = {"job": view.pop("name"), "at": _tenths(frame.at), **view}
    made |= {name: _tenths(getattr(frame.view, name)) for name in _TIMES}
    report = made["report"]
    if report is not None:
        lanes = report.pop("lanes")
        columns = {
            name: [round(found, 1) if isinstance(found := lane[name], float) else found for lane in lanes]
            for name in (lanes[0] if lanes else ())
        }
        made["report"] = {**dict(sorted(report.items())), "lanes": columns}
    made["lags"] = {shard: None if lag is None else round(lag, 1) for shard, lag in frame.lags.items()}
    made["least"] = {shard: round(lag, 1) for shard, lag in frame.least.items()}
    if frame.host is not None:
        made["host"] = codec.values_of(frame.host)
    return json.dumps(made, separators=(",", ":")).encode()


def _tenths(at: datetime | None) -> float | None:
    return None if at is None else round(at.timestamp(), 1)


def packed(text: bytes, base: bytes | None) -> bytes:
    """Compress text; `base` is the text of the frame that serves as the dictionary."""
    press = zlib.compressobj(LEVEL, zdict=_NAMES if base is None else base)
    return press.compress(text) + press.flush()


def unpacked(content: bytes, base: bytes | None) -> bytes:
    """Decompress text; raises zlib.error if that fails."""
    press = zlib.decompressobj(zdict=_NAMES if base is None else base)
    return press.decompress(content) + press.flush()


def frame_of(text: bytes) -> Frame:
    """Parse a frame; raises an error of many kinds if the text is not a frame (see `_read`)."""
    found = json.loads(text)
    report = found["report"]
    if report is not None:
        columns = report["lanes"]
        report["lanes"] = [dict(zip(columns, lane, strict=True)) for lane in zip(*columns.values(), strict=True)]
    view = codec.record_of(JobStatus, found | {"name": found["job"]})
    host = codec.record_of(HostReport, found["host"]) if found.get("host") else None
    at = datetime.fromtimestamp(found["at"], timezone.utc)
    return Frame(view, at, found["lags"], found.get("least", {}), host)


KEPT_SECONDS = 86_400.0
KEPT_FRAMES = 20_000
GROUP = 60
"""Number of frames that share a base; a base is larger than the other frames. Frames are deleted in whole groups."""
_BASES = 64
_MOST = 5_000

_WITH_BASE = (
    "SELECT f.id, f.job, f.base, f.frame, b.frame AS base_frame FROM frames f LEFT JOIN frames b ON b.id = f.base"
)


@dataclass(frozen=True, slots=True)
class Base:
    """The frame that serves as the dictionary for later frames, kept in memory by the writer."""

    id: int
    text: bytes
    used: int = 0


@dataclass(frozen=True, slots=True)
class NumberedFrame:
    """A frame with its number in the ring buffer."""

    id: int
    frame: Frame


class Metrics:
    """The frames of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bases: OrderedDict[int, bytes] = OrderedDict()

    def add(self, frame: Frame, base: Base | None) -> Base:
        """Store a frame; return the base for the writer's next frame. Every `GROUP` frames, a new base starts."""
        text = text_of(frame)
        fresh = base is None or base.used >= GROUP
        content = packed(text, None if fresh or base is None else base.text)
        with self._store.write() as sql:
            added = sql.execute(
                "INSERT INTO frames (job, at, base, frame) VALUES (?, ?, ?, ?)",
                (frame.view.name, frame.at.timestamp(), None if fresh or base is None else base.id, content),
            ).lastrowid
        if fresh or base is None:
            return Base(added or 0, text)
        return Base(base.id, base.text, base.used + 1)

    def prune(self, job: str, now: float, seconds: float = KEPT_SECONDS, most: int = KEPT_FRAMES) -> None:
        """Delete a job's frames that are too old or too many, in whole groups; never delete the newest group."""
        with self._store.write() as sql:
            sql.execute(
                "DELETE FROM frames WHERE job = ?1 AND id < (SELECT max(id) FROM frames WHERE job = ?1 AND base IS NULL"
                " AND (at <= ?2 OR id <= coalesce("
                "(SELECT id FROM frames WHERE job = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?3), 0)))",
                (job, now - seconds, most),
            )

    def frames(self, at: datetime) -> list[Frame]:
        """Return each job's last frame at or before a time; the caller checks whether the frame is recent enough."""
        rows = self._store.read(
            f"{_WITH_BASE} WHERE f.id IN (SELECT (SELECT id FROM frames WHERE job = j.name AND at <= ?"
            " ORDER BY at DESC, id DESC LIMIT 1) FROM jobs j)",
            at.timestamp(),
        )
        return [kept.frame for kept in self._kept(rows)]

    def newest(self) -> list[Frame]:
        """Return each job's last recorded frame. (If a clock was set back, older frames can have later times.)"""
        rows = self._store.read(
            f"{_WITH_BASE} WHERE f.id IN (SELECT (SELECT max(id) FROM frames WHERE job = j.name) FROM jobs j)"
        )
        return [kept.frame for kept in self._kept(rows)]

    def since(self, id: int, first: datetime) -> list[NumberedFrame]:
        """Return the frames after number `id` and not before `first`, oldest first."""
        rows = self._store.read(
            f"{_WITH_BASE} WHERE +f.id > ? AND f.at >= ? ORDER BY f.id LIMIT ?", id, first.timestamp(), _MOST
        )
        return self._kept(rows)

    def some(self, job: str, first: datetime, last: datetime, every: float) -> list[Frame]:
        """Return a job's frames between two times, oldest first; only the last per interval of `every` seconds."""
        rows = self._store.read(
            f"{_WITH_BASE} WHERE f.id IN (SELECT max(id) FROM frames WHERE job = ? AND at BETWEEN ? AND ?"
            " GROUP BY CAST(at / ? AS INTEGER)) ORDER BY f.id LIMIT ?",
            job, first.timestamp(), last.timestamp(), every, _MOST,
        )  # fmt: skip
        return [kept.frame for kept in self._kept(rows)]

    def times(self, first: datetime, last: datetime) -> list[float]:
        """Return the times of the frames between two times, in UTC seconds, ascending."""
        rows = self._store.read(
            "SELECT DISTINCT at FROM frames WHERE at BETWEEN ? AND ? ORDER BY at", first.timestamp(), last.timestamp()
        )
        return [row["at"] for row in rows]

    def beside(self, at: datetime) -> tuple[float | None, float | None]:
        """Return the times of the last frame at or before `at` and of the first frame after it, or None for each."""
        (row,) = self._store.read(
            "SELECT (SELECT max(at) FROM frames WHERE at <= ?1) AS before,"
            " (SELECT min(at) FROM frames WHERE at > ?1) AS after",
            at.timestamp(),
        )
        return row["before"], row["after"]

    def events_until(self, at: datetime, limit: int = 100) -> list[EventRow]:
        """Return the events of all jobs up to a time, newest first."""
        wanted = "SELECT * FROM events WHERE at <= ? ORDER BY id DESC LIMIT ?"
        return self._store.values("an event", event_from, wanted, at.timestamp(), limit)

    def events_between(self, job: str, first: datetime, last: datetime, limit: int = 500) -> list[EventRow]:
        """Return the events of a job between two times, newest first."""
        wanted = "SELECT * FROM events WHERE job = ? AND at BETWEEN ? AND ? ORDER BY id DESC LIMIT ?"
        return self._store.values("an event", event_from, wanted, job, first.timestamp(), last.timestamp(), limit)

    def _kept(self, rows: Iterable[sqlite3.Row]) -> list[NumberedFrame]:
        found = []
        for row in rows:
            try:
                text = self._text(row)
                found.append(NumberedFrame(row["id"], frame_of(text)))
            except (zlib.error, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
                continue  # a damaged frame, or a frame of another version
        return found

    def _text(self, row: sqlite3.Row) -> bytes:
        base, content, base_content = row["base"], row["frame"], row["base_frame"]
        if base is None:
            return unpacked(content, None)
        if base not in self._bases:
            self._bases[base] = unpacked(base_content, None)
            if len(self._bases) > _BASES:
                self._bases.popitem(last=False)
        return unpacked(content, self._bases[base])
