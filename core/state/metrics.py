"""The ring of frames: what each job looked like every few seconds of the last day, for replay and for rates.

A frame that cannot be read is left out, never raised: what was is told as far as it is there.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from slotkeeper.core.state.frames import Frame, frame_of, packed, text_of, unpacked
from slotkeeper.core.state.rows import EventRow, event_from
from slotkeeper.core.state.sqlite import Store

KEPT_SECONDS = 86_400.0
KEPT_FRAMES = 20_000
GROUP = 60
"""Frames that share a base: the bases are the larger ones, and what is dropped is dropped by whole groups."""
_BASES = 64
_MOST = 5_000

_WITH_BASE = (
    "SELECT f.id, f.job, f.base, f.frame, b.frame AS base_frame FROM frames f LEFT JOIN frames b ON b.id = f.base"
)


@dataclass(frozen=True, slots=True)
class Base:
    """The frame that later ones are compressed with, as its writer remembers it."""

    id: int
    text: bytes
    used: int = 0


@dataclass(frozen=True, slots=True)
class NumberedFrame:
    """A frame with its number in the ring."""

    id: int
    frame: Frame


class Metrics:
    """The frames of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._bases: OrderedDict[int, bytes] = OrderedDict()

    def add(self, frame: Frame, base: Base | None) -> Base:
        """Keep a frame; returns the base for the writer's next one. A new base begins where the old is used up."""
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
        """Drop what is too old or too many, by whole groups; a job's newest group stays however old it is."""
        with self._store.write() as sql:
            sql.execute(
                "DELETE FROM frames WHERE job = ?1 AND id < (SELECT max(id) FROM frames WHERE job = ?1 AND base IS NULL"
                " AND (at <= ?2 OR id <= coalesce("
                "(SELECT id FROM frames WHERE job = ?1 ORDER BY at DESC LIMIT 1 OFFSET ?3), 0)))",
                (job, now - seconds, most),
            )

    def frames(self, at: datetime) -> list[Frame]:
        """Each job's last frame at that moment or before it; its age says whether it still tells anything."""
        rows = self._store.read(
            f"{_WITH_BASE} WHERE f.id IN (SELECT (SELECT id FROM frames WHERE job = j.name AND at <= ?"
            " ORDER BY at DESC, id DESC LIMIT 1) FROM jobs j)",
            at.timestamp(),
        )
        return [kept.frame for kept in self._kept(rows)]

    def newest(self) -> list[Frame]:
        """Each job's frame that was recorded last: a clock that was set back has older ones of the same hour."""
        rows = self._store.read(
            f"{_WITH_BASE} WHERE f.id IN (SELECT (SELECT max(id) FROM frames WHERE job = j.name) FROM jobs j)"
        )
        return [kept.frame for kept in self._kept(rows)]

    def since(self, id: int, first: datetime) -> list[NumberedFrame]:
        """The frames after number `id`, and not before `first`, the oldest first."""
        rows = self._store.read(
            f"{_WITH_BASE} WHERE +f.id > ? AND f.at >= ? ORDER BY f.id LIMIT ?", id, first.timestamp(), _MOST
        )
        return self._kept(rows)

    def some(self, job: str, first: datetime, last: datetime, every: float) -> list[Frame]:
        """A job's frames between two moments, the last of each so many seconds, the oldest first."""
        rows = self._store.read(
            f"{_WITH_BASE} WHERE f.id IN (SELECT max(id) FROM frames WHERE job = ? AND at BETWEEN ? AND ?"
            " GROUP BY CAST(at / ? AS INTEGER)) ORDER BY f.id LIMIT ?",
            job, first.timestamp(), last.timestamp(), every, _MOST,
        )  # fmt: skip
        return [kept.frame for kept in self._kept(rows)]

    def times(self, first: datetime, last: datetime) -> list[float]:
        """When frames were taken between two moments, as seconds of UTC in their order."""
        rows = self._store.read(
            "SELECT DISTINCT at FROM frames WHERE at BETWEEN ? AND ? ORDER BY at", first.timestamp(), last.timestamp()
        )
        return [row["at"] for row in rows]

    def beside(self, at: datetime) -> tuple[float | None, float | None]:
        """The last moment until `at` and the first after it at which a frame was taken; None where there is none."""
        (row,) = self._store.read(
            "SELECT (SELECT max(at) FROM frames WHERE at <= ?1) AS before,"
            " (SELECT min(at) FROM frames WHERE at > ?1) AS after",
            at.timestamp(),
        )
        return row["before"], row["after"]

    def events_until(self, at: datetime, limit: int = 100) -> list[EventRow]:
        """What had happened to all jobs until then, the newest first."""
        wanted = "SELECT * FROM events WHERE at <= ? ORDER BY id DESC LIMIT ?"
        return self._store.values("an event", event_from, wanted, at.timestamp(), limit)

    def events_between(self, job: str, first: datetime, last: datetime, limit: int = 500) -> list[EventRow]:
        """What happened to a job between two moments, the newest first."""
        wanted = "SELECT * FROM events WHERE job = ? AND at BETWEEN ? AND ? ORDER BY id DESC LIMIT ?"
        return self._store.values("an event", event_from, wanted, job, first.timestamp(), last.timestamp(), limit)

    def _kept(self, rows: Iterable[sqlite3.Row]) -> list[NumberedFrame]:
        found = []
        for row in rows:
            try:
                text = self._text(row)
                found.append(NumberedFrame(row["id"], frame_of(text)))
            except (zlib.error, ValueError, KeyError, TypeError, AttributeError, OverflowError):
                continue  # a frame of another version, or a damaged one
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
