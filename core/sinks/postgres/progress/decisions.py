"""The store's side of a sink beside it: which range it is to have next, repeats counted before, and what is settled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.progress import Decided, LaneKey, ProgressRow
from slotkeeper.core.domain.quarantine import LeftOut
from slotkeeper.core.drivers import pg
from slotkeeper.core.ports.driver import NOTHING_OUT
from slotkeeper.core.sinks.postgres.progress.store import DECISIONS, key_of, row_of
from slotkeeper.core.sinks.postgres.quarantine import beside, entries
from slotkeeper.core.sinks.postgres.session import SinkSession


class PostgresDecisions:
    """Implements `slotkeeper.core.ports.driver.Decisions`; each move is one statement in a transaction of its own."""

    def __init__(self, session: SinkSession, positions: Positions, quarantines: bool = False) -> None:
        self.session = session
        self._positions = positions
        self._quarantines = quarantines

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        """The lane's progress row as it is committed now."""
        found = self.session.fetched("row", key_of(key))
        return row_of(key, found[0], self._positions) if found else None

    def advance_empty(self, key: LaneKey, epoch: int, after: Position, new: Position) -> bool:
        """Move a position over a range without rows."""
        values = {**key_of(key), "new": new.text, "after": after.text, "epoch": epoch, "rows": 0}
        with self.session.transaction() as cursor:
            return self.session.run(cursor, "fence", values).rowcount == 1

    def decide(
        self, key: LaneKey, epoch: int, after: Position, decided: Decided, left_out: LeftOut = NOTHING_OUT
    ) -> bool:
        """Say which range the sink is to have next; where epoch and position are these and nothing is decided."""
        then = partial(beside.write, self.session, key=key, label=decided.label, left_out=left_out)
        return self._swapped("decide", _values(key, epoch, after, decided), then if left_out else None)

    def quarantined_any(self, key: LaneKey) -> bool:
        """Whether the lane's table has rows in quarantine."""
        return bool(self.session.fetched("holds", key_of(key), entries.SQL)[0][0])

    def repeat(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        """Count the rows of a decided range as repeats, before they are written again."""
        return self._swapped("repeat", _values(key, epoch, after, decided))

    def arm(self, key: LaneKey, epoch: int, after: Position, was: Decided, armed: Decided) -> bool:
        """Say which load of a planned range may be committed, in the place of the one that `was` has."""
        return self._swapped("arm", {**_values(key, epoch, after, armed), "was": was.text})

    def send_again(self, key: LaneKey, epoch: int, after: Position, was: Decided, planned: Decided) -> bool:
        """Count a range as repeated whose load nobody knows any more, and put it back to a plan."""
        return self._swapped("send_again", {**_values(key, epoch, after, planned), "was": was.text})

    def withdraw(self, key: LaneKey, epoch: int, after: Position, planned: Decided) -> bool:
        """Give up a plan of which nothing may be committed, and what the quarantine has of it."""
        then = partial(beside.withdrawn, self.session, key=key, label=planned.label)
        values = _values(key, epoch, after, planned)
        return self._swapped("withdraw", values, then if self._quarantines or planned.end == after else None)

    def settle(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        """The sink has the decided range: move the position to its end."""
        then = partial(beside.settled, self.session, key=key, label=decided.label, by=decided.end.text)
        values = _values(key, epoch, after, decided)
        return self._swapped("settle", values, then if self._quarantines or decided.end == after else None)

    def begin_chunk(self, key: LaneKey, epoch: int, number: int, rows: int) -> bool:
        """Say that a planned chunk of so many rows is about to be written; counted where it may have been before."""
        values = {**key_of(key), "epoch": epoch, "number": number, "rows": rows}
        return self._swapped("begin_chunk", values) or self._swapped("repeat_chunk", values)

    def end_chunk(self, key: LaneKey, epoch: int, number: int, left_out: LeftOut = NOTHING_OUT) -> bool:
        """The sink has the chunk, but for rows that go into quarantine."""
        then = partial(beside.write, self.session, key=key, label="", left_out=left_out) if left_out else None
        return self._swapped("end_chunk", {**key_of(key), "epoch": epoch, "number": number}, then)

    def rest(self, session: str = "") -> None:
        """Between two tasks: roll back whatever is open; `session` is the name that it goes by from here on."""
        self.session.rollback()
        self.session.go_by(session)

    def close(self) -> None:
        """End the session; safe to call twice."""
        self.session.close()

    def _swapped(self, name: str, values: dict[str, Any], then: Callable[[pg.Cursor], None] | None = None) -> bool:
        """Whether the swap hit its row; `then` goes on in its transaction."""
        with self.session.transaction() as cursor:
            if self.session.run(cursor, name, values, DECISIONS).rowcount != 1:
                return False
            if then is not None:
                then(cursor)
            return True


def _values(key: LaneKey, epoch: int, after: Position, decided: Decided) -> dict[str, Any]:
    end = {"end": decided.end.text, "token": decided.text, "rows": decided.rows}
    return {**key_of(key), "epoch": epoch, "after": after.text, **end}
