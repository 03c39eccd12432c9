"""The required contents of a target: one event after another, by the documented meaning of every option. Pure Python.

It has no steps, no staging and no SQL, so only the rules themselves can be wrong. Each rule names its
source.

Random histories are many and small, each over its own keys (the key's first column is its number), so that one batch
holds hundreds of them and a failure names one: changed keys, re-used keys, many changes in one transaction.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

Key = tuple[int, ...]
Value = str | int | None
Image = Mapping[str, Value]
Accepts = Callable[[Image], bool]

UPDATE_ONLY = frozenset({"update", "copy_update", "update_auto"})
"""Connector, "Result table", writeMode: UPDATE sends `UPDATE t SET ... WHERE key`, which inserts nothing."""


@dataclass(frozen=True, slots=True)
class Event:
    """One binlog row: `image` holds the mirrored columns of I and U; `then` is the key of the U that follows a B."""

    point: int
    sequence: int
    kind: str
    key: Key
    image: Image | None = None
    then: Key | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """The sink's options, and the row filter; `others` are columns that only the target has, with their defaults."""

    write_mode: str = "auto"
    conflict_strategy: str = "update"
    ignore_update_before: bool = True
    ignore_delete: bool = False
    ignore_null_when_update: bool = False
    accepts: Accepts | None = None
    others: Mapping[str, Value] = field(default_factory=dict)


class Oracle:
    """The target's rows by key; a row holds the mirrored columns and the target's own."""

    def __init__(self, rules: Rules, rows: Mapping[Key, Image]) -> None:
        self.rules = rules
        self.rows: dict[Key, dict[str, Value]] = {key: dict(row) for key, row in rows.items()}

    def apply(self, events: Iterable[Event]) -> None:
        """All events, in the order of (point, sequence).

        DWS: a sync point is unique and ordered, `gs_binlog_event_sequence` orders operations inside a transaction.
        """
        for event in sorted(events, key=lambda one: (one.point, one.sequence)):
            self._one(event)

    def _one(self, event: Event) -> None:
        if event.kind == "d":
            self._deleted(event.key)
        elif event.kind == "B":
            self._before(event)
        else:
            assert event.image is not None
            self._written(event.key, event.image)

    def _deleted(self, key: Key) -> None:
        """Connector, ignoreDelete: deletes are dropped. DWS: type d; only its key is read, it may hold no more."""
        if not self.rules.ignore_delete:
            self.rows.pop(key, None)

    def _before(self, event: Event) -> None:
        """Connector, ignoreUpdateBefore (default true): an UPDATE_BEFORE is dropped; false: it is a delete by key.

        Slotkeeper's own rule, because a mirror would otherwise retain the old row for ever: a B whose U has another key
        is always a delete, whatever the switch, and no `d` either, so that ignoreDelete does not touch it.
        """
        if not self.rules.ignore_update_before or event.then != event.key:
            self.rows.pop(event.key, None)

    def _written(self, key: Key, image: Image) -> None:
        """A sink treats I and U alike. Ours: an image that the row filter rejects is a delete by key.

        DWS: I maps to INSERT, U to UPDATE_AFTER, and the connector writes both alike.
        """
        if self.rules.accepts and not self.rules.accepts(image):
            self.rows.pop(key, None)
        elif key in self.rows:
            self._conflict(self.rows[key], image)
        elif self.rules.write_mode not in UPDATE_ONLY:
            self.rows[key] = {**image, **self._others()}

    def _others(self) -> dict[str, Value]:
        """Values of columns that are not mirrored in a new row: their default, as in an INSERT that does not name them.

        Connector, conflictStrategy = replace: absent columns become NULL; ours: in a new row too, so that a row does
        not tell how often it was written.
        """
        replaced = self.rules.conflict_strategy == "replace"
        return {name: None if replaced else default for name, default in self.rules.others.items()}

    def _conflict(self, row: dict[str, Value], image: Image) -> None:
        """Connector, conflictStrategy: ignore keeps the old row, update sets supplied columns, replace the whole row.

        Connector, ignoreNullWhenUpdate: with update, NULL values are skipped.
        """
        if self.rules.conflict_strategy == "ignore":
            return
        if self.rules.conflict_strategy == "replace":
            row.update(image, **self._others())
            return
        skipped = self.rules.ignore_null_when_update
        row.update({name: value for name, value in image.items() if value is not None or not skipped})


COLUMNS = ("h", "k", "a", "b", "tags", "j")
"""The mirrored columns: two key columns, then a number, a text, an array and a json (which cannot be sorted)."""

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
    """The events of one history; `steps` are its parts, split at random between transactions."""

    number: int
    rows: dict[Key, Image] = field(default_factory=dict)
    target: dict[Key, Image] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    steps: list[list[Event]] = field(default_factory=list)


def history(draw: random.Random, number: int, keys: int = 4, transactions: int = 8, cuts: int = 3) -> History:
    """One history; source and target start with separate rows, which need not agree."""
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
    """Events as a source writes them; rows that the filter rejects have kind x.

    Old images contain only their key or, every second one, other values that must not be used.
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
