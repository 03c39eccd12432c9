"""The driver's access to the sink: progress rows, epochs, the lease, chunks, and the lock held during a registration.

The store also has the columns of each source table by fingerprint, for the comparison with a changed table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from slotkeeper.core.domain.consent import Ordered
from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.locks import LockOwner, explain_writer
from slotkeeper.core.domain.position import Kept, Position, Positions
from slotkeeper.core.domain.progress import Decided, LaneKey, LaneState, ProgressRow
from slotkeeper.core.domain.shape import columns_from, columns_text
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import parts_of
from slotkeeper.core.domain.target_seen import TargetSeen
from slotkeeper.core.domain.watch import Turn, explain_chunks, explain_turn, not_passed, trouble
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Refused, Superseded, Trouble, TroubleName
from slotkeeper.core.ports.driver import ChunkCounts, Followed, Lock, Repeats, Runner
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.check import seen
from slotkeeper.core.sinks.postgres.check.seen import PostgresRecords
from slotkeeper.core.sinks.postgres.check.viewer import PostgresViewer
from slotkeeper.core.sinks.postgres.progress import locks
from slotkeeper.core.sinks.postgres.progress.placement import refuse_owned
from slotkeeper.core.sinks.postgres.quarantine import entries
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sqltext import dotted

COLUMNS: Book = ("slotkeeper.core.sinks.postgres.progress", "columns.sql")


def note_columns(
    session: SinkSession, cursor: pg.Cursor, lane: Mapping[str, str], fingerprint: str, columns: Sequence[Column]
) -> None:
    values = {**lane, "fingerprint": fingerprint, "columns": columns_text(columns)}
    session.run(cursor, "forget", values, COLUMNS)
    session.run(cursor, "note", values, COLUMNS)


def read_columns(
    session: SinkSession, cursor: pg.Cursor, lane: Mapping[str, str], fingerprint: str
) -> tuple[Column, ...] | None:
    """Return the columns of a fingerprint; None if they were never stored."""
    if not session.has(cursor, "exists", COLUMNS):
        return None
    found = session.run(cursor, "read", {**lane, "fingerprint": fingerprint}, COLUMNS).fetchone()
    return columns_from(found[0]) if found else None


DECISIONS: Book = ("slotkeeper.core.sinks.postgres.progress", "decisions.sql")
"""The driver's statements for a sink separate from the store; a worker's statements are in `beside.py`."""

STREAMS: Book = ("slotkeeper.core.sinks.postgres.progress", "stream.sql")
"""The statements for the tables of Spark queries."""


def _nothing(cursor: pg.Cursor) -> None:
    """Do nothing in the store's transaction: the copy is written to a sink separate from the store."""


class LaneRows:
    """The progress row of one lane, as read by both drivers and workers."""

    def __init__(self, session: SinkSession, positions: Positions) -> None:
        self.session = session
        self._positions = positions
        self.close = session.close

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        found = self.session.fetched("row", key_of(key))
        return row_of(key, found[0], self._positions) if found else None

    def advance_empty(self, key: LaneKey, epoch: int, after: Position, new: Position) -> bool:
        fence = {"new": new.text, "after": after.text, "epoch": epoch, "rows": 0}
        return self.session.changed("fence", {**key_of(key), **fence}) == 1


class PostgresProgress(LaneRows):
    """Implements `slotkeeper.core.ports.driver.StartStore` for one table's slot; not shared between threads.

    `lane` is the key of any lane of the slot: calls that concern all lanes ignore its `shard`.
    """

    def __init__(
        self, session: SinkSession, positions: Positions, lane: LaneKey, runner: Runner, quarantines: bool = False
    ) -> None:
        super().__init__(session, positions)
        self.cancel, self.sever = session.cancel, session.sever
        self._lane = lane
        self._all = key_of(lane)
        self._runner = runner
        self._quarantines = quarantines
        self._lease = locks.lease_lock(lane)
        self._rows_lock = locks.rows_lock(session.schema.string, lane)
        self._leased_in, self._guarded_in = 0, 0
        """The generation numbers of the connections that hold the lease and the target's lock."""
        self._passed = False

    def create_tables(self) -> None:
        """Create or migrate the progress tables, and the quarantine table if it exists or the job uses it.

        Raises Refused if the server would alter the values that are written.
        """
        refuse(PostgresViewer(self.session).objections(), "sink")
        with self.session.transaction() as cursor:
            own_tables.prepare(self.session, cursor, "progress")
            entries.prepare(self.session, cursor, self._all, self._quarantines)

    def take_lease(self) -> bool:
        """Try to take the lease (an advisory lock) until this session ends; it avoids conflicts but does not fence."""
        with self.session.transaction() as cursor:
            taken = locks.try_lock(cursor, self._lease)
        self._leased_in = self.session.generation if taken else 0
        self._passed = self._passed and not taken
        return taken

    def pass_lease(self) -> None:
        self._passed = True  # the epoch in the rows is the fence (ADR 31)

    @property
    def passes(self) -> bool:
        return self._passed

    def lease_owners(self) -> list[LockOwner]:
        with self.session.transaction() as cursor:
            return locks.owners(self.session, cursor, self._lease, self._rows_lock)

    def take_target(self, target: str) -> bool:
        """Try to take the lock of `schema.table` until this session ends; jobs of other progress schemas see this lock.

        DWS, "Advisory Lock Functions": the session holds the lock; whether other CNs see it is not documented.
        """
        with self.session.transaction() as cursor:
            taken = locks.try_target(cursor, target, shares=self._guarded_in == self.session.generation)
            if taken:
                locks.try_lock(cursor, self._rows_lock)
        self._guarded_in = self.session.generation if taken else 0
        return taken

    def give_back(self, target: str) -> None:
        with self.session.transaction() as cursor:
            for lock in (locks.target_lock(target), self._rows_lock, self._lease):
                locks.unlock(cursor, lock)
            if parts_of(target)[1] and self._guarded_in == self.session.generation:
                locks.unshare(cursor, target)
        self._leased_in = self._guarded_in = 0
        self._passed = False

    def leased(self, asks: bool = True) -> bool:
        """Return whether this session still holds the lease and the target's lock; with `asks`, query the server.

        If the job runs without the lease (`pass_lease`), try to take it, because its holder may have released it.
        """
        if self._passed:
            self.take_lease()
        elif asks:
            with self.session.transaction() as cursor:
                cursor.execute("SELECT 1")
        leased_in = self._guarded_in if self._passed else self._leased_in
        return leased_in == self._guarded_in == self.session.generation

    def target_owners(self, target: str) -> list[LockOwner]:
        with self.session.transaction() as cursor:
            return locks.target_owners(self.session, cursor, target, self._rows_lock)

    def writer(self, target: str) -> str:
        """Describe the holder of the target's lock; empty if the lock is free or held for these progress rows."""
        found = self.target_owners(target)
        if not found or found[0].rows:
            return ""
        with self.session.transaction() as cursor:
            cursor.execute("SELECT current_database()")
            named = _target_names(f"{cursor.fetchall()[0][0]}.{target}")
            ours = self.session.run(cursor, "target_taken", {**self._all, **named}).fetchone()
        return explain_writer(found[0], other_schema=not ours)

    def holder(self) -> str:
        """Describe the last run of the slot's job according to the progress rows; empty if the job never ran."""
        found = self.session.fetched("holder", self._all)
        if not found:
            return ""
        job, run, host, user, pid, age = found[0]
        heard = f"{age:.0f} s ago" if age >= 0 else "before the sink's clock was set back"
        return f"job {job} run {run} by {user}@{host} pid {pid}, last report {heard}"

    def open_reset(self) -> str:
        """Return the id of the slot's reset that a crash left unfinished, or ""."""
        with self.session.transaction() as cursor:
            if not self.session.has(cursor, "resets_exist"):
                return ""
            found = self.session.run(cursor, "open_reset", self._all).fetchone()
        return str(found[0]) if found else ""

    def end_others(self) -> None:
        """End the job's other sessions in the sink, including the lease holder, as far as the server allows it."""
        job = self.session.application_name.rpartition("/")[0]
        self.session.end_sessions(f"{job}/", begins=True)

    def rows(self) -> list[ProgressRow]:
        """Return all rows of the source table's slot, by DN name."""
        return [self._row(one) for one in self.session.fetched("rows", self._all)]

    def _rows(self, cursor: pg.Cursor) -> list[ProgressRow]:
        return [self._row(one) for one in self.session.run(cursor, "rows", self._all).fetchall()]

    def insert(self, rows: Iterable[ProgressRow]) -> None:
        """Insert rows, also of the job's other channels, in one transaction; raises Refused if a target is in use."""
        by_table: dict[str, list[ProgressRow]] = {}
        for row in rows:
            by_table.setdefault(row.key.source_table, []).append(row)
        with self.session.transaction() as cursor:
            for mine in by_table.values():
                self._refuse_taken(cursor, mine[0])
                self._insert(cursor, mine, len(mine))

    def replace_creating(self, rows: Iterable[ProgressRow], epoch: int) -> None:
        """Replace the rows in state creating with `rows`, in one transaction under the epoch."""
        rows = list(rows)
        with self.session.transaction() as cursor:
            ordered = Ordered.of(str(text) for (text,) in self.session.run(cursor, "ordered", self._all).fetchall())
            record, _ = seen.recorded(self.session, cursor, self._lane)
            if self.session.run(cursor, "delete_creating", {**self._all, "epoch": epoch}).rowcount == 0:
                raise Superseded("the rows of this start do not exist, or another run has taken over")
            self._insert(cursor, rows, len(rows))
            if record is not None:
                seen.write(self.session, cursor, self._lane, record)
            self.session.run(cursor, "order", {**self._all, "epoch": epoch, "ordered": ordered.text})

    def known_dns(self) -> int | None:
        """Return the number of lanes that the slot's rows record; None if a row records none or the rows differ."""
        found = self.session.fetched("known_dns", self._all)
        return int(found[0][0]) if len(found) == 1 and found[0][0] is not None else None

    def adopt(self, renamed: Mapping[str, str], come: Iterable[ProgressRow], epoch: int, dns: int) -> None:
        """Rename the DNs of rows and insert the rows of new DNs, in one transaction under the epoch."""
        with self.session.transaction() as cursor:
            come = list(come)
            if self.session.run(cursor, "set_dns", {**self._all, "epoch": epoch, "dns": dns}).rowcount != dns - len(
                come
            ):
                raise Superseded(f"another run has taken over: epoch {epoch} is no longer the newest")
            between = {old: f"slotkeeper renames {old}" for old in renamed}  # two DNs may have swapped their names
            for old, new in (*between.items(), *((between[old], new) for old, new in renamed.items())):
                names = {**self._all, "epoch": epoch, "shard": old, "new": new}
                self.session.run(cursor, "rename", names)
                self.session.run(cursor, "renamed", names)
                entries.rename(self.session, cursor, names)
            self._insert(cursor, come, dns)

    def switch(self, moved: Sequence[tuple[ProgressRow, ProgressRow]], epoch: int) -> None:
        with self.session.transaction() as cursor:
            self._switch(cursor, moved, epoch)

    def _switch(self, cursor: pg.Cursor, moved: Sequence[tuple[ProgressRow, ProgressRow]], epoch: int) -> None:
        for old, new in moved:
            values = parameters_of(new) | {"epoch": epoch, "after": old.position.text if old.position else ""}
            for name, row in (("was_decided", old), ("decided", new)):
                values[name] = row.decided.end.text if row.decided is not None else ""
            if self.session.run(cursor, "switch", values).rowcount != 1:
                raise Superseded(f"another run has taken over: the row of epoch {epoch} has changed")

    def follow(self, followed: Followed) -> None:
        with self.session.transaction() as cursor:
            self.follow_in(cursor, followed)

    def follow_in(self, cursor: pg.Cursor, followed: Followed) -> None:
        """Do the same as `follow` in an open transaction."""
        self._switch(cursor, [(followed.row, followed.moved)], followed.epoch)
        known = followed.identity.known or followed.identity.columns
        note_columns(self.session, cursor, self._all, followed.moved.fingerprint, known)
        if followed.losses:
            entries.outdate(self.session, cursor, self._all)

    def target_records(self) -> PostgresRecords:
        return PostgresRecords(self.session)

    def target_record(self) -> TargetSeen | None:
        with self.session.transaction() as cursor:
            record, due = seen.recorded(self.session, cursor, self._lane)
        return None if due else record

    def note_columns(self, fingerprint: str, known: Sequence[Column], renews: bool = False) -> None:
        values = {**self._all, "fingerprint": fingerprint, "columns": columns_text(known)}
        with self.session.transaction() as cursor:
            for name in ("renew", "note") if renews else ("note",):
                self.session.run(cursor, name, values, COLUMNS)

    def noted_columns(self, fingerprint: str) -> tuple[Column, ...] | None:
        with self.session.transaction() as cursor:
            return read_columns(self.session, cursor, self._all, fingerprint)

    def empty(self, epoch: int, fingerprint: str, known: Sequence[Column]) -> None:
        with self.session.transaction() as cursor:
            values = {**self._all, "epoch": epoch, "fingerprint": fingerprint}
            if self.session.run(cursor, "empty", values, COLUMNS).rowcount == 0:
                raise Superseded(f"another run has taken over: epoch {epoch} is no longer the newest")
            note_columns(self.session, cursor, self._all, fingerprint, known)

    def forget_creating(self, epoch: int) -> None:
        """Remove the rows of a start that was not carried out."""
        self.session.changed("delete_creating", {**self._all, "epoch": epoch})

    def raise_epoch(self, tables: Sequence[str] = ()) -> int:
        """Raise the epoch of all rows and chunks and record who runs the job, in one transaction; return the new epoch.

        `tables` are the source tables of the job's channels, which all get the same epoch; by default only this table.
        """
        places = [{**self._all, "source_table": table} for table in tables] or [self._all]
        with self.session.transaction() as cursor:
            if self._runner.owner:
                refuse_owned(self.session, cursor, self._runner.job, self._runner.owner)
            raised = [self._raised(cursor, place) for place in places]
            epoch = max(raised)
            for place, its in zip(places, raised, strict=True):
                if its != epoch:
                    self.session.run(cursor, "level_epoch", {**place, "epoch": epoch})
                self.session.run(cursor, "raise_chunk_epoch", {**place, "epoch": epoch})
        return epoch

    def _raised(self, cursor: pg.Cursor, place: Mapping[str, str]) -> int:
        self.session.run(cursor, "raise_epoch", {**place, **asdict(self._runner)})
        epochs = self.session.run(cursor, "epochs", dict(place)).fetchall()
        if not epochs:
            raise trouble(TroubleName.PROGRESS_LOST, f"the sink has lost the progress rows of {place['source_table']}")
        if len(set(epochs)) != 1:
            raise trouble(TroubleName.SINK_OLDER, "the lanes' epochs differ: the rows are from different times")
        return int(epochs[0][0])

    def set_state(self, turn: Turn, noted_end: Mapping[str, Position] | None = None) -> None:
        """Set the state of all lanes and record the positions to reach, in one transaction.

        Raises an error if a lane's row was not updated.
        """
        with self.session.transaction() as cursor:
            self._turn(cursor, turn, noted_end)

    def _turn(self, cursor: pg.Cursor, turn: Turn, noted_end: Mapping[str, Position] | None = None) -> None:
        place = {**self._all, "epoch": turn.epoch}
        states = {"state": turn.to.value, "came_from": [state.value for state in turn.came_from]}
        if turn.to is LaneState.RUNNING and noted_end is None:
            # the sink may have been restored to an older state since these positions were reached
            locked = [self._row(found) for found in self.session.run(cursor, "lock_rows", self._all).fetchall()]
            if not_passed(locked, turn):
                raise explain_turn(locked, turn)
        if self.session.run(cursor, "set_state", {**place, **states}).rowcount != turn.lanes:
            raise explain_turn(self._rows(cursor), turn)
        for shard, position in (noted_end or {}).items():
            self.session.run(cursor, "set_noted_end", {**place, "shard": shard, "noted_end": position.text})

    def begin_copy(
        self, turn: Turn, chunks: Sequence[Chunk], copying: str, prepare: Callable[[pg.Cursor], None] = _nothing
    ) -> None:
        """Record the plan and the mode of the copy, and enter the copying state, in one transaction with `prepare`."""
        with self.session.transaction() as cursor:
            self._turn(cursor, turn)
            prepare(cursor)
            entries.archive(self.session, cursor, self._all)
            place = {**self._all, "epoch": turn.epoch}
            self.session.run(cursor, "record_copy", {**place, "copying": copying, "chunks": len(chunks)})
            self._plan_chunks(cursor, place, chunks)

    def _plan_chunks(self, cursor: pg.Cursor, place: Mapping[str, object], chunks: Sequence[Chunk]) -> None:
        self.session.run(cursor, "forget_chunks", self._all)
        for chunk in chunks:
            bounds = {"number": chunk.number, "lo": list(chunk.lo), "hi": list(chunk.hi)}
            self.session.run(cursor, "plan_chunk", {**place, **bounds})

    def plan_again(self, epoch: int, chunks: Sequence[Chunk]) -> None:
        with self.session.transaction() as cursor:
            self._plan_chunks(cursor, {**self._all, "epoch": epoch}, chunks)
            # last, so that the lane's steps hardly wait; a start that raises the epoch meanwhile waits here, and then
            # raises that of the chunks as well
            rows = [self._row(one) for one in self.session.run(cursor, "lock_rows", self._all).fetchall()]
            if not rows or any(row.epoch != epoch or row.state is not LaneState.RUNNING for row in rows):
                raise Superseded(f"another run has taken over: epoch {epoch} is no longer the newest")

    def end_copy(
        self, turn: Turn, noted_end: Mapping[str, Position], finish: Callable[[pg.Cursor], None] = _nothing
    ) -> None:
        """End the copy and record the positions to reach, in one transaction with `finish`, which changes the target.

        All chunks must be complete. The progress rows are updated last so that they are not locked while `finish` runs.
        """
        with self.session.transaction() as cursor:
            self._refuse_undone(cursor, turn)
            finish(cursor)
            self._turn(cursor, turn, noted_end)

    def _refuse_undone(self, cursor: pg.Cursor, turn: Turn) -> None:
        records = self.session.run(cursor, "copy_record", self._all).fetchall()
        planned = records[0][1] if len(records) == 1 else None
        counts = self._counts(cursor)
        if counts.done == counts.total == planned:
            return
        rows = self._rows(cursor)
        if any(row.epoch > turn.epoch for row in rows):
            raise explain_turn(rows, turn)
        raise explain_chunks(counts.done, counts.total, planned)

    def way_of_copy(self) -> str:
        """Return the mode of the most recently started copy; empty if the progress rows do not record it."""
        found = self.session.fetched("copy_record", self._all)
        return str(found[0][0]) if len(found) == 1 and None not in found[0] else ""

    def ordered(self) -> Ordered:
        return Ordered.of(str(text) for (text,) in self.session.fetched("ordered", self._all))

    def chunks_left(self) -> list[Chunk]:
        found = self.session.fetched("chunks_left", self._all)
        return [Chunk(number, tuple(lo), tuple(hi)) for number, lo, hi in found]

    def repeats(self) -> Repeats:
        """Return how many rows a sink separate from this store may have received twice, in ranges and in chunks."""
        ((ranges, chunks),) = self.session.fetched("repeats", self._all, DECISIONS)
        return Repeats(ranges, chunks)

    def registered_age(self) -> float | None:
        """Return the seconds since the oldest registration among the lanes, by the sink's clock."""
        found = self.session.fetched("registered_age", self._all)
        return found[0][0] if found else None

    def chunk_counts(self) -> ChunkCounts:
        with self.session.transaction() as cursor:
            return self._counts(cursor)

    def _counts(self, cursor: pg.Cursor) -> ChunkCounts:
        found = self.session.run(cursor, "chunk_counts", self._all).fetchone()
        done, total, rows = map(int, found or (0, 0, 0))
        return ChunkCounts(done, total, rows)

    @contextmanager
    def registration(self, key: LaneKey, epoch: int, others: Sequence[LaneKey] = ()) -> Iterator[Lock]:
        # committed at the end of the block
        with self.session.transaction() as cursor:
            # always in the same order, so that two sessions that lock the same rows never deadlock
            keys = sorted((key, *others), key=lambda lane: (lane.source_table, lane.shard))
            rows = {lane: self._locked(cursor, lane, epoch) for lane in keys}

            def record(kept: Kept, seen_then: str) -> None:
                with self.session.translated():
                    values = {**key_of(key), "registered": kept.text, "seen": seen_then}
                    self.session.run(cursor, "registered", values)

            yield Lock(rows[key], record, tuple(rows[lane] for lane in others))

    def _locked(self, cursor: pg.Cursor, key: LaneKey, epoch: int) -> ProgressRow:
        found = self.session.run(cursor, "lock", key_of(key)).fetchone()
        if not found:
            raise trouble(TroubleName.PROGRESS_LOST, f"the sink has lost the progress row of {key.shard}")
        row = row_of(key, found, self._positions)
        if row.epoch != epoch:
            raise Superseded(f"another run has taken over (epoch {row.epoch}; this run has epoch {epoch})")
        return row

    def quarantined(self) -> int:
        return int(self.session.fetched("quarantined", self._all, entries.SQL)[0][0])

    def newest_quarantined(self) -> tuple[int, Sequence[str], str, str]:
        return next(iter(self.session.fetched("newest", self._all, entries.SQL)), (0, (), "", ""))

    @property
    def generation(self) -> int:
        return self.session.generation

    def _insert(self, cursor: pg.Cursor, rows: Iterable[ProgressRow], dns: int) -> None:
        for row in rows:
            self.session.run(cursor, "insert", {**parameters_of(row), **asdict(self._runner), "dns": dns})

    def _row(self, found: tuple[Any, ...]) -> ProgressRow:
        return row_of(self._lane, found, self._positions)

    def _refuse_taken(self, cursor: pg.Cursor, row: ProgressRow) -> None:
        target = row.target
        named = _target_names(target)
        found = self.session.run(cursor, "target_taken", {**key_of(row.key), **named}).fetchone()
        if found:
            job, source, table, slot = found
            raise Refused(
                f"target {target} belongs to job {job} ({source} {table} slot {slot})",
                "choose another target, or cancel that job: a target can have only one job",
                where="sink",
            )
        if not self.session.has(cursor, "exists", STREAMS, name="slotkeeper_streams"):
            return
        found = self.session.run(cursor, "query", {"target": named["whole"]}, STREAMS).fetchone()
        if found:
            table = target.partition(".")[2]
            forget = f"DELETE FROM {dotted(self.session.schema.string)}.slotkeeper_streams WHERE target = '...'"
            raise Refused(
                f"Spark query {found[0]} writes target {target} (batch {found[1]})",
                f"choose another target; or end that query permanently, then run in the sink, for {table}: {forget}",
                where="sink",
            )


def _target_names(target: str) -> dict[str, str]:
    """Return a row's target, and the whole target if it is a part, as parameters of `target_taken`."""
    return {"target": target, "whole": parts_of(target)[0]}


key_of = asdict
"""Return a lane's key as parameters of a statement."""


def row_of(key: LaneKey, found: tuple[Any, ...], positions: Positions) -> ProgressRow:
    """Parse a result row of the statements `rows`, `row` and `lock`; raises PROGRESS LOST for an invalid position."""
    shard, node_id, target, position, epoch, changes, state, start, end, channel, fingerprint, registered = found[:12]
    up_to, token, rows, repeats = found[12:]
    try:
        here = positions.position(position) if position else None
        noted_start, noted_end = (positions.place(text) if text else None for text in (start, end))
        decided = Decided.read(positions.position(up_to), token, rows) if up_to else None
        kept = None if registered is None else positions.kept(registered)
        lane_state = LaneState(state)
    except ValueError as error:
        raise Trouble(f"the progress row of {shard} is damaged: {error}", name=TroubleName.PROGRESS_LOST) from error
    lane, noted = replace(key, shard=shard), (noted_start, noted_end)
    made = (lane, node_id, target, here, epoch, changes, lane_state, *noted, channel, fingerprint, kept)
    return ProgressRow(*made, decided=decided, repeats=repeats)


_AS_THEY_ARE = ("node_id", "target", "epoch", "changes", "channel", "fingerprint")


def parameters_of(row: ProgressRow) -> dict[str, Any]:
    """Return a row as parameters of the statement `insert`, without the columns that describe the run."""
    return {
        **key_of(row.key),
        **{name: getattr(row, name) for name in _AS_THEY_ARE},
        "position": row.position.text if row.position else "",
        "state": row.state.value,
        "noted_start": row.noted_start.text if row.noted_start else None,
        "noted_end": row.noted_end.text if row.noted_end else None,
        "registered": row.registered.text if row.registered else None,
    }
