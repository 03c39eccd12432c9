"""From binlog records to the changes that a sink takes: types as letters, an update's two images side by side. Pure.

Hologres, "Subscribe to Hologres binlogs": 5 insert, 2 delete, 3 and 7 an update's row before and after it, consecutive
and with one time; an update by Holo Client or Flink may also be 2 then 5. 27 is a heartbeat without a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from slotkeeper.core.errors import Refused

INSERT, DELETE, BEFORE, AFTER, HEARTBEAT = 5, 2, 3, 7, 27
WORDS = {
    INSERT: "insert (5)",
    DELETE: "delete (2)",
    BEFORE: "before update (3)",
    AFTER: "after update (7)",
    HEARTBEAT: "heartbeat (27)",
}
"""The event types in words, with the vendor's numbers."""
LETTERS = {INSERT: "I", DELETE: "d", BEFORE: "B", AFTER: "U"}
"""As a batch spells them."""


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a shard's binlog; `values` are its columns as text, `us` is its time."""

    lsn: int
    type: int
    us: int
    values: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """What a batch has of a record: the two numbers that order it, its letter, its row, and the record's time."""

    point: int
    sequence: int
    kind: str
    values: tuple[str | None, ...]
    us: int


@dataclass(frozen=True, slots=True)
class Left:
    """What is left out, by a parameter that is the vendor's: `deletes` and `images` before an update."""

    deletes: bool = False
    images: bool = False

    @property
    def types(self) -> tuple[int, ...]:
        """The types that make no change of their own."""
        return (HEARTBEAT, BEFORE, *((DELETE,) if self.deletes else ()))


def changes(events: Iterable[Event], before: Event | None, left: Left) -> Iterator[Change]:
    """The changes of consecutive records of a shard.

    Both images of an update have the point of the second: a range that ends between the two has neither, and the one
    that begins there has both, for which `before` is the record at which it begins, where that is a 3. Raises Refused
    for a type that is not known, and for a 3 that no 7 follows: what either does to a row is not known.
    """
    image = before
    for event in events:
        if event.type == HEARTBEAT:
            continue
        if image is not None and not (event.type == AFTER and event.us == image.us):
            raise _unpaired(image, event)
        if event.type == BEFORE:
            image = event
            continue
        if event.type == AFTER and image is not None and not left.images:
            yield Change(event.lsn, 0, LETTERS[BEFORE], image.values, image.us)
        image = None
        if event.type not in LETTERS:
            what = f"LSN {event.lsn} has event type {event.type}, and what it does to a row is not known"
            raise Refused(what, "ask for a release that knows it; nothing was skipped", where="source")
        if event.type != DELETE or not left.deletes:
            yield Change(event.lsn, 1, LETTERS[event.type], event.values, event.us)


def _unpaired(image: Event, event: Event) -> Refused:
    then = WORDS.get(event.type, str(event.type))
    what = f"LSN {image.lsn} is the row before an update, and {then} follows it at {event.lsn}"
    return Refused(what, "the row after it is not in the binlog; copy anew", where="source")
