"""A slot's resets in the sink: the table `slotkeeper_resets`, and the rows that a reset rewrites: progress, quarantine.

A reset changes quarantine entries in the same transaction as the progress row. If it moves the position back, entries
after the new position are archived, because their rows will be read again. If it moves the position forward to a
backup, entries that the undone reset archived are restored, except entries whose rows have been read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from slotkeeper.core.domain.position import Positions
from slotkeeper.core.domain.progress import ProgressRow
from slotkeeper.core.domain.reset import DONE, ROLLED_BACK, ResetEntry, Swap
from slotkeeper.core.domain.reset_checks import moved_from
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Superseded, Trouble, TroubleName
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.check import seen
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress, key_of, parameters_of, row_of
from slotkeeper.core.sinks.postgres.quarantine import entries
from slotkeeper.core.sinks.postgres.session import SinkSession

_SQL: Book = ("slotkeeper.core.sinks.postgres.progress", "resets.sql")


class PostgresResets(PostgresProgress):
    """The progress rows and resets of one slot, accessed through the session that holds the lease."""

    def lease_id(self) -> str:
        """Return the run that holds the lease according to the progress rows; "" if no run has held it."""
        found = self.session.fetched("lease_id", self._all, _SQL)
        return str(found[0][0]) if found else ""

    def end_holder(self) -> None:
        self.session.changed("end_holder", {"lease": self._lease}, _SQL)

    def writable(self) -> bool:
        name = f'"{self.session.schema.string}".slotkeeper_progress'
        return bool(self.session.fetched("writable", {"table": name}, _SQL)[0][0])

    def make_table(self) -> None:
        """Create or migrate `slotkeeper_resets`."""
        with self.session.transaction() as cursor:
            # a reset can run before the first start of this version
            own_tables.prepare(self.session, cursor, "progress")
            own_tables.prepare(self.session, cursor, "resets")

    def insert_reset(self, entry: ResetEntry) -> None:
        values = {name: getattr(entry, name) for name in ResetEntry.__dataclass_fields__}
        self.session.changed("insert", values, _SQL)

    def step(self, reset: str, step: str, outcome: str = "") -> None:
        with self.session.transaction() as cursor:
            _step(self.session, cursor, reset, step, outcome)

    def quarantined_beyond(self, rows: Sequence[ProgressRow]) -> int:
        with self.session.transaction() as cursor:
            if not self.session.has(cursor, "exists", entries.SQL):
                return 0
            found = 0
            for row in rows:
                if row.position is not None:  # without a position, a copy archives all entries
                    values = _at(self._all, row)
                    (count,) = self.session.run(cursor, "beyond", values, entries.SQL).fetchone() or (0,)
                    found += int(count)
            return found

    def write(
        self, reset: str, step: str, swap: Swap, epoch: int, by: str = "", undone: str = "", outcome: str = ""
    ) -> list[str]:
        """Write rows by compare-and-swap under the epoch and record the reset's step, in one transaction.

        Returns a description of each row that no longer has its expected values. If there are any such rows, nothing is
        written; with `partly`, the other rows are written. Raises Superseded if a row has another epoch, and PROGRESS
        LOST if a row is missing. Quarantine entries after the new positions are archived by `by` (by default the reset
        itself); entries that the reset `undone` archived are restored.
        """
        with self.session.transaction() as cursor:
            moved: dict[str, str] = {}
            for was in swap.expected:
                words = self._moved(cursor, was, epoch, swap.partly)
                if words:
                    moved[was.key.shard] = f"{was.key.shard}: {words}"
            if moved and not swap.partly:
                return list(moved.values())
            pairs = zip(swap.expected, swap.wanted, strict=True)
            hit = [(was, row) for was, row in pairs if was.key.shard not in moved]
            rows = [row for _, row in hit]
            place = (self.session, cursor, self._all, self._positions)
            before_move(*place, rows, by or reset, undone)
            for was, row in hit:
                before = parameters_of(was)
                expected = {"was_position": before["position"], "was_state": before["state"]}
                values = {**parameters_of(row), **expected, "epoch": epoch, "ordered": swap.ordered}
                if self.session.run(cursor, "write", values, _SQL).rowcount != 1:
                    raise Superseded(f"{row.key.shard}: the row changed under its lock")
            _step(self.session, cursor, reset, step, outcome)
        return list(moved.values())

    def _moved(self, cursor: pg.Cursor, was: ProgressRow, epoch: int, partly: bool) -> str:
        """Lock a row and return a description of its unexpected values, or "" if there are none."""
        try:
            found = self.session.run(cursor, "lock", key_of(was.key)).fetchone()
            if found is None:
                raise trouble(TroubleName.PROGRESS_LOST, f"the sink has lost the progress row of {was.key.shard}")
            now = row_of(was.key, found, self._positions)
        except Trouble as lost:
            if not partly:
                raise
            return str(lost)
        if now.epoch != epoch:
            raise Superseded(
                f"{was.key.shard}: another run has taken over (epoch {now.epoch}; this reset has epoch {epoch})"
            )
        return moved_from(was, now)

    def reset(self, reset: str) -> ResetEntry | None:
        found = self._entries("reset", {"id": reset})
        return found[0] if found else None

    def open_entry(self) -> ResetEntry | None:
        """Return the slot's reset that a crash left unfinished, if any."""
        found = self._entries("unfinished", self._all)
        return found[0] if found else None

    def history(self, limit: int = 100) -> list[ResetEntry]:
        """Return the slot's resets, newest first."""
        return self._entries("history", {**self._all, "limit": limit})

    def note_epoch(self, reset: str, epoch: int) -> None:
        self.session.changed("note_epoch", {"id": reset, "epoch": epoch}, _SQL)

    def ended(self, limit: int = 100) -> list[tuple[str, int]]:
        with self.session.transaction() as cursor:
            if not all(self.session.has(cursor, name, _SQL) for name in ("exists", "has_epoch")):
                return []
            which = {**self._all, "limit": limit}
            return [(plan, epoch) for plan, epoch in self.session.run(cursor, "ended", which, _SQL).fetchall()]

    def target_changed(self) -> str:
        with self.session.transaction() as cursor:
            return seen.written_down(self.session, cursor, self._all)

    def _entries(self, name: str, parameters: dict[str, Any]) -> list[ResetEntry]:
        with self.session.transaction() as cursor:
            if not self.session.has(cursor, "exists", _SQL):
                return []
            return [ResetEntry(*row) for row in self.session.run(cursor, name, parameters, _SQL).fetchall()]


def _step(session: SinkSession, cursor: pg.Cursor, reset: str, step: str, outcome: str) -> None:
    ended = step in (DONE, ROLLED_BACK)
    session.run(cursor, "step", {"id": reset, "step": step, "outcome": outcome, "ended": ended}, _SQL)


def before_move(
    session: SinkSession,
    cursor: pg.Cursor,
    place: dict[str, Any],
    positions: Positions,
    rows: Iterable[ProgressRow],
    by: str,
    undone: str,
) -> None:
    """Archive entries on behalf of `by`, and restore the entries that `undone` archived, before `rows` are written."""
    if not session.has(cursor, "exists", entries.SQL):
        return
    own_tables.refuse_newer(session, cursor, "quarantine")
    found = session.run(cursor, "positions", place, entries.SQL)
    now = {shard: positions.position(text) for shard, text in found if text}
    for row in rows:
        old, new = now.get(row.key.shard), row.position
        if old is None or new is None:
            continue
        if new < old:
            session.run(cursor, "archive_beyond", {**_at(place, row), "by": by}, entries.SQL)
        elif undone and new > old:
            before = dict(zip(("old_point", "old_sequence"), old.pair, strict=True))
            session.run(cursor, "revive", {**_at(place, row), **before, "by": undone}, entries.SQL)
            session.run(cursor, "outdone", {**place, "by": by}, entries.SQL)


def _at(place: dict[str, Any], row: ProgressRow) -> dict[str, Any]:
    assert row.position is not None
    point, sequence = row.position.pair
    return {**place, "shard": row.key.shard, "point": point, "sequence": sequence}
