"""What a target must hold: one event after another, by the documented meaning of every option. Pure Python.

It knows no steps, no staging and no SQL, so that it can be wrong only about the rules themselves. Each rule names its
source.
"""

from __future__ import annotations

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

        Ours, because a mirror would else keep the old row for ever: a B whose U has another key is always a delete,
        whatever the switch, and no `d` either, so that ignoreDelete does not touch it.
        """
        if not self.rules.ignore_update_before or event.then != event.key:
            self.rows.pop(event.key, None)

    def _written(self, key: Key, image: Image) -> None:
        """I and U are one thing to a sink. Ours: an image that the row filter refuses is a delete by key.

        DWS: I maps to INSERT, U to UPDATE_AFTER, and the connector writes both alike.
        """
        if self.rules.accepts and not self.rules.accepts(image):
            self.rows.pop(key, None)
        elif key in self.rows:
            self._conflict(self.rows[key], image)
        elif self.rules.write_mode not in UPDATE_ONLY:
            self.rows[key] = {**image, **self._others()}

    def _others(self) -> dict[str, Value]:
        """What columns that are not mirrored get in a new row: their default, as INSERT does without naming them.

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
