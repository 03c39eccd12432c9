"""What a range leaves of each key: which rows are written, and which keys are deleted before. Pure.

The rules are those of the PostgreSQL sink's statements, in (point, sequence) order: d, x and B end a key's row, I and U
write it, a B whose U has the same key is nothing of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.ports.sink import Fields

EVENT_FIELDS = 3
"""Fields before the columns of an event: point, sequence, kind."""
_WRITES = frozenset({"I", "U"})
KeyTexts = tuple[str | None, ...]
_Event = tuple[int, int, str, int]
"""Point, sequence, kind, and the number of its row among the range's."""


@dataclass(frozen=True, slots=True)
class NetEffect:
    """Keys whose rows are to go first, and the numbers of the rows to be written, one for each key."""

    ended: tuple[KeyTexts, ...]
    written: frozenset[int]


def net_effect(rows: Iterable[Fields], key: Sequence[int], options: SinkOptions, whole: bool) -> NetEffect:
    """The net effect of a range's events; `key` are the key's places among the columns.

    `whole`: a row that is written has every column of the target, so that its key need not be deleted before.
    Memory grows with the keys of a range, and with its events where `conflict_strategy` is "ignore".
    """
    places = [EVENT_FIELDS + place for place in key]
    seen: dict[KeyTexts, list[_Event]] = {}
    last_only = whole and options.conflict_strategy != "ignore"
    for number, row in enumerate(rows):
        kind = row[2] or ""
        if options.ignore_delete and kind == "d":
            continue
        event = (int(row[0] or 0), int(row[1] or 0), kind, number)
        events = seen.setdefault(tuple(row[place] for place in places), [])
        if not (last_only and events):
            events.append(event)
        elif event > events[0]:
            events[0] = event
    ended: list[KeyTexts] = []
    written: set[int] = set()
    for texts, events in seen.items():
        stays, ends = _of_key(sorted(events), options)
        if stays is not None:
            written.add(stays)
        if ends and (stays is None or not last_only):
            ended.append(texts)
    return NetEffect(tuple(ended), frozenset(written))


def _of_key(events: list[_Event], options: SinkOptions) -> tuple[int | None, bool]:
    """The row that stays of a key's events, and whether the key's row was ended before it."""
    number: int | None = None
    ends = False
    for place, (point, sequence, kind, row) in enumerate(events):
        if kind in _WRITES:
            if number is None or options.conflict_strategy != "ignore":
                number = row
        elif not (kind == "B" and options.ignore_update_before and _has_after(events, place, point, sequence)):
            number, ends = None, True
    return number, ends


def _has_after(events: list[_Event], place: int, point: int, sequence: int) -> bool:
    """Whether a B's own U is behind it. DWS: an update is B then U at one sync point with consecutive sequences."""
    return events[place + 1 : place + 2] != [] and events[place + 1][:3] == (point, sequence + 1, "U")


def selected(rows: Callable[[], Iterator[Fields]], effect: NetEffect) -> Iterator[Fields]:
    """The columns of the rows to be written."""
    return (row[EVENT_FIELDS:] for number, row in enumerate(rows()) if number in effect.written)
