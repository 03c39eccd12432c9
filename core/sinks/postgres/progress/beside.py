"""The store for a separate sink: the range planned for the sink, the settled position, and the sink's quarantine.

Repeats are counted before they are written. Quarantine entries are written together with the plan and marked with its
label. Withdrawing the plan removes the entries; settling the plan retains them (ADR 50). A replay is a plan with an
empty range.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.progress import Decided, LaneKey
from slotkeeper.core.domain.quarantine import (
    COPIED,
    DAMAGED,
    EVERYWHERE,
    OUTDATED,
    OUTDATED_WHY,
    EntryState,
    LeftOut,
    Refusal,
    RowLeftOut,
)
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Defect, Refused
from slotkeeper.core.ports.driver import NOTHING_OUT
from slotkeeper.core.sinks.postgres.progress.store import DECISIONS, LaneRows, key_of
from slotkeeper.core.sinks.postgres.quarantine import entries
from slotkeeper.core.sinks.postgres.session import SinkSession

SQL: Book = ("slotkeeper.core.sinks.postgres.progress", "beside.sql")
_NUL = "\x00"


def _planned(label: str) -> str:
    return f"planned: {label}" if label else ""


def _replayed(label: str) -> str:
    return f"replay {label}"


def write(session: SinkSession, cursor: pg.Cursor, key: LaneKey, label: str, left_out: LeftOut) -> None:
    """Supersede the entries whose keys occur in a range, and quarantine the omitted rows of the range.

    Raises QUARANTINE FULL if the limit is exceeded.
    """
    place = key_of(key)
    entries.open(cursor, key)
    if left_out.touched:
        keys = pg.sql.Literal(json.dumps(left_out.touched))
        of = "SELECT ARRAY(SELECT jsonb_array_elements_text(k)) FROM jsonb_array_elements({}::jsonb) k"
        by = {**place, "by": _planned(label)}
        entries.run(session, cursor, "supersede", by, keys=pg.sql.SQL(of).format(keys))
    if not left_out.rows:
        return
    (before,) = entries.run(session, cursor, "quarantined", place).fetchone() or (0,)
    if before + len(left_out.rows) > left_out.limit:
        last = left_out.rows[-1].refusal
        raise entries.full(key, left_out.limit, f"{last.sqlstate} {last.message}")
    copied = entries.copied(session, cursor, key) if left_out.rows[0].kind == COPIED else None
    more = {"names": list(left_out.columns), "mark": _planned(label)}
    for left in left_out.rows:
        row, shard, point = copied or (key.shard, key.shard, left.point)
        values = {**place, **more, **_values_of(left), "row": row, "in_shard": shard, "point": point}
        if session.run(cursor, "left_out_row", values, SQL).rowcount != 1:
            raise Defect(f"a row of {key.source_table} was not quarantined: its lane has no progress row")


def _values_of(left: RowLeftOut) -> dict[str, Any]:
    damaged = any(_NUL in text for text in (*left.key, *left.texts) if text is not None)
    return {
        "sequence": left.sequence,
        "kind": left.kind,
        "key": [_spelled(text) for text in left.key],
        "texts": [None if text is None else _spelled(text) for text in left.texts],
        "damaged": damaged,
        "sqlstate": DAMAGED if damaged else left.refusal.sqlstate,
        "column": left.refusal.column,
        "message": left.refusal.message,
    }


def _spelled(text: str) -> str:
    """Escape NUL, which PostgreSQL cannot store in a string."""
    return text.replace(_NUL, "\\x00")


def withdrawn(session: SinkSession, cursor: pg.Cursor, key: LaneKey, label: str) -> None:
    """Withdraw a plan: remove its entries and restore the entries that it superseded; a replayed entry stays open."""
    values = {**key_of(key), "mark": _planned(label)}
    session.run(cursor, "plan_withdrawn", values, SQL)
    session.run(cursor, "plan_revived", values, SQL)
    session.run(cursor, "replay_left", {**values, "mark": _replayed(label)}, SQL)


def settled(session: SinkSession, cursor: pg.Cursor, key: LaneKey, label: str, by: str) -> None:
    """Settle a plan that was carried out: remove its markers, and close the entry that it replayed."""
    values = {**key_of(key), "mark": _planned(label), "by": f"{key.shard} {by}"}
    session.run(cursor, "plan_settled", values, SQL)
    session.run(cursor, "replay_applied", {**values, "mark": _replayed(label)}, SQL)


class BesideReplays:
    """Replays of one slot's table; implements `slotkeeper.core.ports.sink.ReplaysBeside`."""

    def __init__(self, session: SinkSession, key: LaneKey) -> None:
        self._session = session
        self._place = key_of(key)

    def waiting(self) -> Sequence[tuple[str, str]]:
        tokens = [str(token) for (token,) in self._session.fetched("replay_waiting", self._place, SQL) if token]
        parts = [token.removeprefix("label:").partition(" ") for token in tokens]
        return [(label, load) for label, _, load in parts]

    def arm(self, id: int, load: tuple[str, str], by: str, reason: str) -> bool:
        label, number = load
        with self._session.transaction() as cursor:
            # find the entry's shard first, because lanes are locked before the entry, in the same order as in a step
            found = entries.run(self._session, cursor, "shard_of", {**self._place, "id": id}).fetchone()
            shard = found[0] if found else EVERYWHERE
            place = {**self._place, "shard": shard, "every": shard == EVERYWHERE}
            lanes = self._session.run(cursor, "replay_lanes", place, SQL).fetchall()
            self._refuse(cursor, id, lanes)
            if any(decided or not position for _, _, position, decided in lanes):
                return False
            token = {"token": f"label:{label} {number}"}
            if self._session.run(cursor, "replay_armed", {**place, **token}, SQL).rowcount != len(lanes):
                raise Defect("locked lanes have changed")
            marked = {"id": id, "mark": _replayed(label), "by": by, "reason": reason}
            self._session.run(cursor, "replay_marked", marked, SQL)
            return True

    def _refuse(self, cursor: pg.Cursor, id: int, lanes: Sequence[tuple[Any, ...]]) -> None:
        if not lanes:
            raise Refused("the lane of the entry has no progress row", "start the job first", where="sink")
        entries.refuse_copying(state for _, state, _, _ in lanes)
        unit = entries.run(self._session, cursor, "unit", {**self._place, "id": id}).fetchone()
        state = unit[1] if unit else "removed"
        if unit and unit[-1] == OUTDATED:
            raise Refused(f"entry {id}: {OUTDATED_WHY}", where="sink")
        if state != EntryState.QUARANTINED.value:
            raise Refused(f"entry {id} was already {state}", "no action needed", where="sink")

    def resolve(self, label: str, applied: bool) -> None:
        with self._session.transaction() as cursor:
            self._session.run(cursor, "replay_over", {**self._place, "label": f"label:{label}"}, SQL)
            name = "replay_applied" if applied else "replay_left"
            self._session.run(cursor, name, {**self._place, "mark": _replayed(label)}, SQL)

    def still_bad(self, id: int, refusal: Refusal) -> None:
        named = {"sqlstate": refusal.sqlstate, "column": refusal.column, "constraint": "", "message": refusal.message}
        with self._session.transaction() as cursor:
            entries.run(self._session, cursor, "still_bad", {**named, "ids": [id]})


class PostgresDecisions(LaneRows):
    """Implements `slotkeeper.core.ports.driver.Decisions`; each change is one statement in its own transaction."""

    def __init__(self, session: SinkSession, positions: Positions, quarantines: bool = False) -> None:
        super().__init__(session, positions)
        self._quarantines = quarantines

    def decide(
        self, key: LaneKey, epoch: int, after: Position, decided: Decided, left_out: LeftOut = NOTHING_OUT
    ) -> bool:
        then = partial(write, self.session, key=key, label=decided.label, left_out=left_out)
        return self._swapped("decide", _values(key, epoch, after, decided), then if left_out else None)

    def quarantined_any(self, key: LaneKey) -> bool:
        return bool(self.session.fetched("holds", key_of(key), entries.SQL)[0][0])

    def repeat(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        return self._swapped("repeat", _values(key, epoch, after, decided))

    def arm(self, key: LaneKey, epoch: int, after: Position, was: Decided, armed: Decided) -> bool:
        return self._swapped("arm", {**_values(key, epoch, after, armed), "was": was.text})

    def send_again(self, key: LaneKey, epoch: int, after: Position, was: Decided, planned: Decided) -> bool:
        return self._swapped("send_again", {**_values(key, epoch, after, planned), "was": was.text})

    def withdraw(self, key: LaneKey, epoch: int, after: Position, planned: Decided) -> bool:
        then = partial(withdrawn, self.session, key=key, label=planned.label)
        values = _values(key, epoch, after, planned)
        return self._swapped("withdraw", values, then if self._quarantines or planned.end == after else None)

    def settle(self, key: LaneKey, epoch: int, after: Position, decided: Decided) -> bool:
        then = partial(settled, self.session, key=key, label=decided.label, by=decided.end.text)
        values = _values(key, epoch, after, decided)
        return self._swapped("settle", values, then if self._quarantines or decided.end == after else None)

    def begin_chunk(self, key: LaneKey, epoch: int, number: int, rows: int) -> bool:
        values = {**key_of(key), "epoch": epoch, "number": number, "rows": rows}
        return self._swapped("begin_chunk", values) or self._swapped("repeat_chunk", values)

    def end_chunk(self, key: LaneKey, epoch: int, number: int, left_out: LeftOut = NOTHING_OUT) -> bool:
        then = partial(write, self.session, key=key, label="", left_out=left_out) if left_out else None
        return self._swapped("end_chunk", {**key_of(key), "epoch": epoch, "number": number}, then)

    def rest(self, session: str = "") -> None:
        self.session.rollback()
        self.session.go_by(session)

    def _swapped(self, name: str, values: dict[str, Any], then: Callable[[pg.Cursor], None] | None = None) -> bool:
        """Return whether the compare-and-swap changed its row; `then` runs in the same transaction."""
        with self.session.transaction() as cursor:
            if self.session.run(cursor, name, values, DECISIONS).rowcount != 1:
                return False
            if then is not None:
                then(cursor)
            return True


def _values(key: LaneKey, epoch: int, after: Position, decided: Decided) -> dict[str, Any]:
    end = {"end": decided.end.text, "token": decided.text, "rows": decided.rows}
    return {**key_of(key), "epoch": epoch, "after": after.text, **end}
