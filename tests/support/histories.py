"""Random histories of a table as its binlog tells them: changed keys, re-used keys, many changes in one transaction.

Histories are many and small, each over keys of its own (the key's first column is its number), so that one batch holds
hundreds of them and a failure names one.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.oracle import Accepts, Event, Image, Key, Value

COLUMNS = ("h", "k", "a", "b", "tags", "j")
"""The mirrored columns: two of the key, then a number, a text, an array and a json (which has no order)."""

_TEXTS: tuple[Value, ...] = (None, "", "x", "y\tz", "back\\slash", "new\nline", "\\N")
_TAGS: tuple[Value, ...] = (None, "{}", "{1,2}", "{NULL,3}", "{{1,2},{3,4}}")
_DOCUMENTS: tuple[Value, ...] = (None, '{"a": 1}', "null", "[]")


def image(draw: random.Random, key: Key) -> Image:
    """A random row under a key; every third value is NULL."""
    a = draw.choice((None, 0, 1, 2, 3))
    return {"h": key[0], "k": key[1], "a": a} | {
        "b": draw.choice(_TEXTS),
        "tags": draw.choice(_TAGS),
        "j": draw.choice(_DOCUMENTS),
    }


@dataclass
class History:
    """The events of one history; `steps` are its parts, cut at random between transactions."""

    number: int
    rows: dict[Key, Image] = field(default_factory=dict)
    target: dict[Key, Image] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    steps: list[list[Event]] = field(default_factory=list)


def history(draw: random.Random, number: int, keys: int = 4, transactions: int = 8, cuts: int = 3) -> History:
    """One history; source and target begin with rows of their own, which need not agree."""
    made = History(number)
    places: list[Key] = [(number, k) for k in range(keys)]
    made.rows = {key: image(draw, key) for key in places if draw.random() < 0.5}
    made.target = {key: image(draw, key) for key in places if draw.random() < 0.5}
    rows, cut_at = dict(made.rows), sorted(draw.choices(range(transactions + 1), k=cuts))
    sequence, restarts = 2, draw.random() < 0.5
    for point in range(transactions):
        sequence = 2 if restarts else sequence
        made.steps += [[] for _ in range(cut_at.count(point))] if point else [[]]
        for _ in range(draw.randint(1, 5)):
            for event in _change(draw, rows, places, point, sequence):
                made.events.append(event)
                made.steps[-1].append(event)
                sequence = event.sequence + 1
            sequence += draw.choice((0, 0, 1))
    return made


def _change(draw: random.Random, rows: dict[Key, Image], places: list[Key], point: int, at: int) -> list[Event]:
    key = draw.choice(places)
    if key not in rows:
        rows[key] = image(draw, key)
        return [Event(point, at, "I", key, rows[key])]
    what = draw.choice(("update", "update", "delete", "move"))
    if what == "delete":
        del rows[key]
        return [Event(point, at, "d", key)]
    to = draw.choice(places) if what == "move" else key
    if to in rows and to != key:
        return []
    del rows[key]
    rows[to] = image(draw, to)
    return [Event(point, at, "B", key, then=to), Event(point, at + 1, "U", to, rows[to])]


def copy_text(events: Iterable[Event], accepts: Accepts | None) -> bytes:
    """Events as a source writes them, what the filter refuses as kind x.

    Old images hold their key alone or, every other one, values that must not get anywhere.
    """
    lines = []
    for event in events:
        refused = event.image is not None and accepts is not None and not accepts(event.image)
        row = event.image if event.image is not None and not refused else {"h": event.key[0], "k": event.key[1]}
        if row is not event.image and event.sequence % 2:
            row = {**row, "a": -1, "b": "old", "tags": "{-1}", "j": "-1"}
        values: list[Value] = [event.point, event.sequence, "x" if refused else event.kind]
        lines.append("\t".join(map(_field, (*values, *(row.get(name) for name in COLUMNS)))) + "\n")
    return "".join(lines).encode()


def _field(value: Value) -> str:
    if value is None:
        return "\\N"
    return str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
