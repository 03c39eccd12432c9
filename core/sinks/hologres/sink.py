"""Writes ranges and chunks of one channel to its target: the net effect of each key, in independent statements.

`HologresSink` implements `slotkeeper.core.ports.sink.BatchSink` for a server that cannot store invisible rows: a
decided range is written and may be written again. The rules of the net effect are those of the PostgreSQL sink's
statements, in (point, sequence) order: d, x and B end a key's row, I and U write it, and a B whose U has the same key
has no effect of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers.session import Session
from slotkeeper.core.errors import Defect, RowRefused
from slotkeeper.core.ports.sink import Batch, Fields
from slotkeeper.core.sinks.hologres import statements as compose
from slotkeeper.core.sinks.hologres.statements import Composable, RowTarget

EVENT_FIELDS = 3
"""The number of fields before the columns of an event: point, sequence, kind."""
_WRITES = frozenset({"I", "U"})
KeyTexts = tuple[str | None, ...]
_Event = tuple[int, int, str, int]
"""Point, sequence, kind, and the row's number in the range."""


@dataclass(frozen=True, slots=True)
class NetEffect:
    """The keys whose rows are deleted first, and the numbers of the rows to write, one for each key."""

    ended: tuple[KeyTexts, ...]
    written: frozenset[int]


def net_effect(rows: Iterable[Fields], key: Sequence[int], options: SinkOptions, whole: bool) -> NetEffect:
    """Return the net effect of a range's events; `key`: the key's indexes among the columns.

    `whole`: a written row has every column of the target, so that the key need not be deleted first. Memory grows with
    the keys of a range, and with its events if `conflict_strategy` is "ignore".
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
    """Return the row that remains after a key's events, and whether they ended the key's existing row first."""
    number: int | None = None
    ends = False
    for place, (point, sequence, kind, row) in enumerate(events):
        if kind in _WRITES:
            if number is None or options.conflict_strategy != "ignore":
                number = row
            continue
        # DWS: an update is B, then U, at one sync point with consecutive sequences
        own = [(point, sequence + 1, "U")]
        if kind != "B" or not options.ignore_update_before or [it[:3] for it in events[place + 1 : place + 2]] != own:
            number, ends = None, True
    return number, ends


def selected(rows: Callable[[], Iterator[Fields]], effect: NetEffect) -> Iterator[Fields]:
    """Return the columns of the rows to write."""
    return (row[EVENT_FIELDS:] for number, row in enumerate(rows()) if number in effect.written)


LIMIT_MS = 120_000
"""Time limit of one statement in milliseconds, on the server and on this host."""
_REPORT = "inspect it with `slotkeeper slots peek`, and report it; a new snapshot avoids it"


class HologresSink:
    """Writes to one target; not shared between threads.

    `required`: the mirrored columns that are NOT NULL in the target; `whole`: the target has no columns of its own, or
    the statements set them to NULL.
    """

    def __init__(
        self, session: Session, target: RowTarget, options: SinkOptions, required: frozenset[str], whole: bool
    ) -> None:
        self.session = session
        self.target = target
        self._options = options
        self._required = tuple(place for place, name in enumerate(target.columns) if name in required)
        self._whole = whole

    def prepare(self, batch: Batch) -> str:
        """Raise an error for predictable rejections before the range is decided; send and store nothing."""
        places = self.target.places
        for row in batch.rows():
            columns = row[EVENT_FIELDS:]
            if any(columns[place] is None for place in places):
                what = f"{self.target.target}: the source sent an event without its key values; nothing applied"
                raise Defect(what, _REPORT, where="source")
            if row[2] in ("I", "U"):
                for place in self._required:
                    if columns[place] is None:
                        name = self.target.columns[place]
                        what = f"{self.target.target}: column {name!r} rejects NULL, but a source row has NULL there"
                        hint = "Alter the target so that it accepts NULL there, or correct the row in the source"
                        raise RowRefused(what, hint, "23502", "sink")
        return ""

    def commit(self, token: str) -> bool:
        """Return False: the server stores nothing under a token."""
        return False

    def discard(self, token: str) -> None:
        """Do nothing: nothing is stored."""

    def write(self, batch: Batch) -> None:
        """Delete ended rows, then write the others; each statement takes effect at once, and any of them can fail."""
        effect = net_effect(batch.rows(), self.target.places, self._options, self._whole)
        for keys in compose.pieces(effect.ended):
            self._run(compose.delete(self.target, keys))
        for rows in compose.pieces(selected(batch.rows, effect)):
            self._run(compose.insert(self.target, rows))

    def write_chunk(self, batch: Batch) -> None:
        for rows in compose.pieces(batch.rows()):
            self._run(compose.insert(self.target, rows))

    def _run(self, statement: Composable) -> None:
        """Run one statement, which is its own transaction."""
        self.session.composed_rows(statement, None, LIMIT_MS)

    def rest(self) -> None:
        self.session.retire(self._options.connection_max_use_time)

    def abandon(self) -> None:
        """Do nothing: no transaction is ever open."""

    def close(self) -> None:
        self.session.close()
