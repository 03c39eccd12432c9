"""Ranges and chunks of one channel into its target, in statements that each stand alone.

Implements `slotkeeper.core.ports.sink.BatchSink` of a server that keeps nothing unseen: what is decided is written, and
may be written once more.
"""

from __future__ import annotations

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.drivers.session import Session
from slotkeeper.core.errors import Defect, RowRefused
from slotkeeper.core.ports.sink import Batch
from slotkeeper.core.sinks.hologres import statements as compose
from slotkeeper.core.sinks.hologres.net_effect import EVENT_FIELDS, net_effect, selected
from slotkeeper.core.sinks.hologres.statements import Composable, RowTarget

LIMIT_MS = 120_000
"""Of one statement, at the server and here."""
_REPORT = "look at it with `slotkeeper slots peek`, and report it; a new snapshot goes past it"


class HologresSink:
    """Writes into one target; not shared between threads.

    `required` are the mirrored columns that hold no NULL there; `whole`: the target has no column of its own, or those
    that it has are made NULL.
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
        """Refuse what is known to be refused before the range is decided; nothing is sent, and nothing kept."""
        places = self.target.places
        for row in batch.rows():
            columns = row[EVENT_FIELDS:]
            if any(columns[place] is None for place in places):
                what = (
                    f"{self.target.target}: the source sent an event without the values of its key; nothing was applied"
                )
                raise Defect(what, _REPORT, where="source")
            if row[2] in ("I", "U"):
                for place in self._required:
                    if columns[place] is None:
                        name = self.target.columns[place]
                        what = (
                            f"{self.target.target}: column {name!r} refuses NULL, which a row of the source has there"
                        )
                        raise RowRefused(what, "have the target take it, or correct it at the source", "23502", "sink")
        return ""

    def commit(self, token: str) -> bool:
        """Nothing is ever kept under a token."""
        return False

    def discard(self, token: str) -> None:
        """Nothing is kept."""

    def write(self, batch: Batch) -> None:
        """Delete what ended, then write what stays, statement by statement; seen at once, and cut off anywhere."""
        effect = net_effect(batch.rows(), self.target.places, self._options, self._whole)
        for keys in compose.pieces(effect.ended):
            self._run(compose.delete(self.target, keys))
        for rows in compose.pieces(selected(batch.rows, effect)):
            self._run(compose.insert(self.target, rows))

    def write_chunk(self, batch: Batch) -> None:
        """The rows of a chunk."""
        for rows in compose.pieces(batch.rows()):
            self._run(compose.insert(self.target, rows))

    def _run(self, statement: Composable) -> None:
        """One statement, which is its own transaction."""
        self.session.composed_rows(statement, None, LIMIT_MS)

    def rest(self) -> None:
        """Between two tasks: end a session that has been used for long enough."""
        self.session.retire(self._options.connection_max_use_time)

    def abandon(self) -> None:
        """No transaction is ever open."""

    def close(self) -> None:
        """End the session; safe to call twice."""
        self.session.close()
