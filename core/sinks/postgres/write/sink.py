"""The sink of a worker: one step is one transaction, fenced by the progress row.

The order inside a transaction follows the protocol (design 4.2): staging, the caller's recheck, the fence, the net
effect, COMMIT. This way, no lock that other sessions need is held while the step waits for the source. A small step
(`small_step.py`) begins its transaction after the recheck.
`PostgresBatches` writes without a progress row.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import BinaryIO, cast

from slotkeeper.core.domain.position import Position, Positions
from slotkeeper.core.domain.progress import LaneKey, ProgressRow
from slotkeeper.core.domain.refusals import UNDEFINED_COLUMN, column_of
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import JobSpec, SinkOptions
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.traits import Encoding
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Busy, Defect, Refused, Unreachable
from slotkeeper.core.ports.again import AgainStep
from slotkeeper.core.ports.sink import Buffered, BufferedStep, Top
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.progress.store import key_of, row_of
from slotkeeper.core.sinks.postgres.quarantine import entries
from slotkeeper.core.sinks.postgres.session import COPY_LIMIT_MS, SinkSession, lengthen
from slotkeeper.core.sinks.postgres.write import (
    again,
    optimistic,
    routing,
    session_tables,
    small_step,
    text_staging,
)
from slotkeeper.core.sinks.postgres.write import statements as compose
from slotkeeper.core.sinks.postgres.write.query_sink import refuse_job, take_target
from slotkeeper.core.sinks.postgres.write.routing import Routed
from slotkeeper.core.sinks.postgres.write.row_isolation import Into, Quarantine, RowIsolation, move
from slotkeeper.core.sinks.postgres.write.small_step import BufferedSmall, SmallStep
from slotkeeper.core.sinks.postgres.write.statements import Plan, TargetTable
from slotkeeper.core.sinks.postgres.write.text_staging import Readable

ODD = {1: "an event of unknown type (not I, d, B or U)", 2: "an event without its key values"}
"""Events that a step cannot apply, by the code returned by the query of `statements.staged_top`."""
MOST_REJECTIONS = 8
"""Number of rejections after which the number of steps that a target does not buffer no longer grows."""
_REPORT = "inspect it with `slotkeeper slots peek`, and report it; a new snapshot avoids it"


class PostgresSink:
    """Implements `slotkeeper.core.ports.sink.StepSink` and `Sweeps` for one target; not shared between threads.

    `copying` is the destination of chunks: "direct" (the empty target), "refill" (an emptied part of it), "shadow" (a
    separate table) or "merge" (the target through staging). `read_timeout` is full_sync_binlog_read_timeout (ms), which
    also limits a chunk's statements.
    """

    encoding = Encoding.COPY_TEXT
    names_rows = True

    def __init__(
        self,
        session: SinkSession,
        positions: Positions,
        target: TargetTable,
        options: SinkOptions,
        copying: str = "direct",
        read_timeout: int = COPY_LIMIT_MS,
    ) -> None:
        self.session = session
        self._positions = positions
        self.target = target
        self.options = options
        self._copying = copying
        self._read_timeout = read_timeout
        self._nulls = bool(compose.nulled_columns(target, options))
        self._prepared_in = 0
        self._isolating, self._quarantines = False, False
        """Whether the open step isolates rows, and whether the slot's table has quarantined rows, as far as known."""
        self._texts_in = 0
        self._begun: pg.Connection | None = None
        """The connection of the open transaction: only this connection can commit it."""
        self._kept_in = 0
        self._kept: dict[str, int] = {}
        """Uses of this connection's prepared statements by name, and the generation of that connection."""
        self._optimistic = optimistic.fits(target, options)
        self._lanes: dict[LaneKey, optimistic.Lane] = {}
        self._routed: Routed | None = None
        """The separated inserts of the open step, if any."""
        self._small_form, self._typed_in = small_step.form_of(target, options), 0
        self._row_type = target.row_type
        self._long: tuple[str, ...] = ()
        self._wide = False
        """Columns of this connection's staging table with long values, and whether the open step is staged and wide."""
        self._small: SmallStep | None = None
        """The open step, if it is small: nothing of it is at the server before its commit."""
        self._alone, self._put_back_at = False, 0.0
        """Whether a sweep has put back the target's last step, not committed since then; and when it was put back."""
        self._rests, self._rejections = 0, 0
        """The number of next steps that are not buffered, and of sweeps that the target's own steps made fail."""
        self._passed, self._repeats = False, False
        """Reasons not to try the open step: its lane pauses after a miss, or a repeated key would cause a miss."""
        self.taken = optimistic.Taken()

    @property
    def sweeps(self) -> PostgresSink | None:
        """This sink, if it can hold small steps."""
        return self if self._small_form is not None else None

    def read_row(self, key: LaneKey) -> ProgressRow | None:
        with self.session.transaction() as cursor:
            found = self.session.run(cursor, "row", key_of(key)).fetchone()
            if self.options.quarantines:
                (self._quarantines,) = entries.run(self.session, cursor, "holds", key_of(key)).fetchone() or (False,)
        return row_of(key, found, self._positions) if found else None

    def stage(self, reader: BinaryIO) -> int:
        self._forget()
        begin = reader.read(routing.BLOCK)
        if self._small_form is not None and not self._quarantines:
            self._small = small_step.read(begin, self._small_form)
            if self._small is not None:
                return self._small.rows
        return self._stage(begin, reader)

    def _stage(self, begin: bytes, reader: BinaryIO) -> int:
        """Fill the staging table in a new transaction with a step of which `begin` was already read."""
        self._small = None
        self._wide = False
        self._prepare()
        with self._open(begins=True) as cursor:
            if not self._optimistic or self._quarantines:
                return self._fill(cursor, routing.whole(begin, reader))
            if len(begin) < routing.BLOCK and begin.count(b"\n") < routing.LEAST:
                return self._fill(cursor, io.BytesIO(begin))
            if self._lanes and all(lane.waits for lane in self._lanes.values()):
                self._passed = True
                return self._fill(cursor, routing.whole(begin, reader))
            routed = self._routed = Routed(reader, self.target.places, begin)
            rows = self._fill(cursor, routed.rest()) + routed.inserts + routed.left_out
            if not routed.repeated and rows >= routing.LEAST and routed.inserts * routing.SHARE >= rows:
                return rows
            if routed.inserts:
                routed.compare(self._fill(cursor, routed.lines()))
        self._forget()
        self._repeats = routed.repeated
        return rows

    def stage_isolating(self, reader: BinaryIO) -> int:
        self._prepare_texts()
        self._forget()
        self._isolating = True
        with self._open(begins=True) as cursor:
            return pg.copy_in(cursor, text_staging.fill(self.target), Readable(reader, pg.codec(cursor.connection)))

    def top(self, up_to: Position) -> Top:
        """Return the highest staged point and sequence; raises Defect if a staged event cannot be applied by a step."""
        if self._small is not None:
            return self._small.top(up_to.pair[0])
        with self._open() as cursor:
            staged = self._staged_top(cursor, up_to.pair[0])
        routed = self._routed
        if routed is None:
            return staged
        apart = routed.second if routed.first == up_to.pair[0] else None
        firsts = [point for point in (staged.first, routed.first) if point is not None]
        seconds = [sequence for sequence in (staged.second, apart) if sequence is not None]
        return Top(max(firsts, default=None), max(seconds, default=None))

    def _staged_top(self, cursor: pg.Cursor, up_to: int) -> Top:
        staging = self.target.texts if self._isolating else self.target.staging
        cursor.execute(session_tables.staged_top(self.target, staging, up_to))
        point, sequence, odd = cursor.fetchone() or (None, None, None)
        if odd is not None:
            what = f"{self.target.name}: the source sent {ODD[odd]}; nothing applied"
            raise Defect(what, _REPORT, where="source")
        return Top(point, sequence)

    def commit(self, key: LaneKey, epoch: int, after: Position, new: Position, rows: int) -> bool:
        fence = {**key_of(key), "new": new.text, "after": after.text, "epoch": epoch, "rows": rows}
        if self._small is not None:
            done = self._commit_small(self._small, fence)
            if done is not None:
                return done
        if self._passed:
            self._lane(key).may_try()
        if self._repeats and self._lane(key).may_try():
            self._missed(key)
        if self._routed is not None:
            done = self._try(self._routed, key, fence)
            self._forget()
            if done is not None:
                return done
        with self._open() as cursor:
            if not self._fenced(cursor, fence):
                return False
            self._take_effect(cursor, key, new, rows)
            self._end(cursor)
        self.taken.general += bool(rows)
        return True

    def read_rows(self, keys: Sequence[LaneKey]) -> Mapping[LaneKey, ProgressRow] | None:
        return None if self.options.quarantines else small_step.read_rows(self.session, self._positions, keys)

    def detach(self) -> Buffered | None:
        self._rests -= self._rests > 0
        if self._small is None or self._alone or self._rests:
            return None
        buffered, self._small = BufferedSmall(self, self._small), None
        return buffered

    def put_back(self, buffered: Buffered) -> None:
        self._forget()
        self._small = cast("BufferedSmall", buffered).step
        self._alone, self._put_back_at = True, self.session.seconds()

    def sweep(self, steps: Sequence[BufferedStep]) -> Set[LaneKey] | None:
        buffered = {step.key: cast("BufferedSmall", step.buffered) for step in steps}
        if not all(owner.prepare_small() for owner in {one.owner for one in buffered.values()}):
            return None
        with self._open(begins=True) as cursor:
            try:
                passed = small_step.take_fences(self.session, cursor, steps)
                matched = [buffered[key] for key in buffered if key in passed]
                small_step.apply(cursor, [(one.owner, one.step) for one in matched])
                self._end(cursor)
            except pg.DriverError as error:
                if cursor.connection.closed or pg.failure(error)[0][:2] in ("", "08"):  # lost, or not answered
                    raise
                self.abandon()  # the server rejected something: a row, a statement, a wait for a lock, a COMMIT
                return None
        for one in matched:
            one.owner.count_small(one.step)
        return passed

    def _commit_small(self, step: SmallStep, fence: dict[str, object]) -> bool | None:
        """Apply a small step under its fence; return None if the server rejected it: the events are then staged.

        The recheck against the source has already covered the events, so staging them now does not invalidate it.
        """
        if not self.prepare_small():
            self._stage(step.lines, io.BytesIO())
            return None
        with self._open(begins=True) as cursor:
            try:
                if not self._fenced(cursor, fence):
                    return False
                small_step.apply(cursor, [(self, step)])
                self._end(cursor)
            except pg.DriverError as error:
                if pg.failure(error)[0][:2] not in small_step.REJECTED:
                    raise
                self.abandon()
            else:
                self._small = None
                self.count_small(step, swept=False)
                return True
        self._stage(step.lines, io.BytesIO())
        return None

    def _try(self, routed: Routed, key: LaneKey, fence: dict[str, object]) -> bool | None:
        """Run the optimistic step; return None if it was not tried or missed; all events are then staged instead.

        The recheck against the source has already covered the inserts, so staging them now does not invalidate it.
        """
        with self._open() as cursor:
            if self._lane(key).may_try():
                cursor.execute("SAVEPOINT slotkeeper_try")
                if not self._fenced(cursor, fence):
                    return False
                ((writer,),) = self.session.run(cursor, "fenced_by", fence).fetchall()
                if optimistic.apply(cursor, self._written, self.options, routed, writer):
                    self._end(cursor)
                    self._lane(key).hit()
                    self.taken.optimistic += 1
                    return True
                cursor.execute("ROLLBACK TO SAVEPOINT slotkeeper_try; RELEASE SAVEPOINT slotkeeper_try")
                self._missed(key)
            routed.compare(self._fill(cursor, routed.lines()))
            self._staged_top(cursor, 0)
        return None

    @property
    def _written(self) -> TargetTable:
        """The target as the open step, which is not isolating, writes it."""
        return replace(self.target, kept=self._long if self._wide else ())

    def _lane(self, key: LaneKey) -> optimistic.Lane:
        return self._lanes.setdefault(key, optimistic.Lane())

    def _missed(self, key: LaneKey) -> None:
        self._lane(key).missed()
        self.taken.missed += 1

    def _fill(self, cursor: pg.Cursor, reader: BinaryIO) -> int:
        rows = pg.copy_in(cursor, session_tables.fill_staging(self.target), reader)
        events = rows + (self._routed.left_out if self._routed is not None else 0)
        self._wide |= bool(self._long) and compose.is_wide(reader.tell(), events)
        return rows

    def _fenced(self, cursor: pg.Cursor, fence: dict[str, object]) -> bool:
        if self.session.run(cursor, "fence", fence).rowcount == 1:
            return True
        self.abandon()
        return False

    def _end(self, cursor: pg.Cursor) -> None:
        cursor.connection.commit()
        if self._alone and self.session.seconds() - self._put_back_at >= small_step.LOCK_MS / 1000:
            # probably, this target made the sweep fail: the more often, the more of its steps are committed alone
            self._rejections = min(self._rejections + 1, MOST_REJECTIONS)
            self._rests = 2**self._rejections
        self._begun, self._alone = None, False

    def _take_effect(self, cursor: pg.Cursor, key: LaneKey, new: Position, rows: int) -> None:
        if rows and self._isolating:
            RowIsolation(self.session, cursor, self.target, self.options, key).step(new.text)
            self._quarantines = self.options.quarantines
        elif rows:
            if self._quarantines:
                # supersede the quarantine entries of the staged keys; old halves that take effect now are staged before
                # all events
                kept = Quarantine(self.session, cursor, self.target, self.options, key)
                for entry in kept.supersede(text_staging.touched(self.target, self.options), new.text):
                    move(
                        cursor,
                        text_staging.entries(self.target, kept.one(entry)),
                        session_tables.fill_staging(self.target),
                    )
            self._apply(cursor, compose.plan(self._written, self.options, rows), compose.size_of(rows))

    def _forget(self) -> None:
        if self._routed is not None:
            self._routed.close()
        self._routed, self._small, self._isolating, self._passed, self._repeats = None, None, False, False, False

    def finish(self, key: LaneKey, epoch: int, row: ProgressRow, read_again: Callable[[], int]) -> None:
        # the sink of that kind may have received that range
        what = f"{self.target.name}: the progress row of {key.shard} has a pending range of another sink kind"
        raise Refused(what, "start the job with that sink once, or take a new snapshot", where="sink")

    def copy_chunk(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        merging = self._merges
        if merging:
            self._prepare()

        def fill(cursor: pg.Cursor) -> int:
            statement = session_tables.fill_chunk_staging(self.target) if merging else self._fill_target()
            rows = pg.copy_in(cursor, statement, reader)
            if merging:
                self._apply(cursor, compose.chunk(self.target, self.options), 0)
            return rows

        return self._chunk(key, epoch, number, fill)

    def copy_chunk_isolating(self, key: LaneKey, epoch: int, number: int, reader: BinaryIO) -> int | None:
        self._prepare_texts()
        into = Into(self._fill_target(), None)
        if self._merges:
            plan = compose.chunk(self.target, self.options)
            into = Into(session_tables.fill_chunk_staging(self.target), lambda rows: plan)

        def fill(cursor: pg.Cursor) -> int:
            lines = Readable(reader, pg.codec(cursor.connection), kinds=False)
            rows = pg.copy_in(cursor, text_staging.fill(self.target, chunk=True), lines)
            RowIsolation(self.session, cursor, self.target, self.options, key).chunk(into)
            return rows

        return self._chunk(key, epoch, number, fill)

    def _chunk(self, key: LaneKey, epoch: int, number: int, fill: Callable[[pg.Cursor], int]) -> int | None:
        place = {**key_of(key), "number": number, "epoch": epoch}
        with self._open(begins=True) as cursor:
            lengthen(cursor, self._read_timeout)
            if self.session.run(cursor, "take_chunk", place).rowcount != 1:
                self.abandon()
                return None
            rows = fill(cursor)
            self.session.run(cursor, "chunk_rows", {**place, "rows": rows})
        return rows

    def finish_chunk(self) -> None:
        with self._open() as cursor:
            self._end(cursor)

    def next_chunk(self, key: LaneKey, epoch: int) -> Chunk | None:
        with self.session.transaction() as cursor:
            found = self.session.run(cursor, "next_chunk", {**key_of(key), "epoch": epoch}).fetchone()
        return Chunk(found[0], tuple(found[1]), tuple(found[2])) if found else None

    def stage_with_chunk(self, reader: BinaryIO) -> int:
        self._forget()
        self._wide = False
        self._prepare()
        with self._open(begins=True) as cursor:
            lengthen(cursor, self._read_timeout)
            return self._fill(cursor, routing.whole(reader.read(routing.BLOCK), reader))

    def stage_gone(self, chunk: Chunk) -> int:
        with self._open() as cursor:
            cursor.execute(again.stage_gone(self.target, chunk))
            return int(cursor.rowcount)

    def commit_chunk(self, step: AgainStep) -> bool | None:
        key, place = step.key, {**key_of(step.key), "number": step.chunk.number, "epoch": step.epoch}
        with self._open() as cursor:
            moved = {"new": step.new.text, "after": step.after.text, "rows": step.rows}
            if not self._fenced(cursor, {**place, **moved}):
                return False
            if self.session.run(cursor, "take_chunk", place).rowcount != 1:
                self.abandon()
                return None
            self._take_effect(cursor, key, step.new, step.rows + step.written)
            self.session.run(cursor, "chunk_rows", {**place, "rows": step.copied})
            self.session.run(cursor, "written_again", {**place, "written": step.written})
            self._end(cursor)
        return True

    def abandon(self) -> None:
        self._begun = None
        self._forget()
        self.session.rollback()

    def rest(self, session: str = "") -> None:
        self.session.rollback()
        self.session.retire(self.options.connection_max_use_time)
        self.session.go_by(session)

    def close(self) -> None:
        self._forget()
        self.session.close()

    @property
    def _merges(self) -> bool:
        return self._copying == "merge" or (self._copying in ("direct", "refill") and self._nulls)

    def _prepare_texts(self) -> None:
        """Create the tables for isolating steps once per connection, as the target's types may have been corrected."""
        self.target = targets.seen(self.session, self.target)
        self._prepare()
        if self._texts_in != self.session.generation:
            with self.session.transaction() as cursor:
                for statement in text_staging.create(self.target):
                    cursor.execute(statement)
            self._texts_in = self.session.generation

    def _fill_target(self) -> pg.sql.Composable:
        into = compose.shadow(self.target) if self._copying == "shadow" else None
        return session_tables.fill_target(self.target, into)

    def _prepare(self) -> None:
        """Create the session's staging table once per connection."""
        self._begin_connection()
        if self._prepared_in != self.session.generation:
            with self.session.transaction() as cursor:
                for statement in session_tables.temporary(self.target, self.options):
                    cursor.execute(statement)
                self._long = session_tables.store_whole(cursor, self.target, self.options)
            self._prepared_in = self.session.generation

    def prepare_small(self) -> bool:
        """Create the row type of small steps once per connection; return False if the server refuses it.

        A login that may use a column can lack a privilege on the column's type or on the schema of the type.
        """
        self._begin_connection()
        if self._typed_in != self.session.generation:
            try:
                with self.session.transaction() as cursor:
                    cursor.execute(small_step.create_type(self.target))
            except Refused:
                self._small_form = None
                return False
            self._typed_in = self.session.generation
        return True

    def _begin_connection(self) -> None:
        """Open the connection if needed; a new one has no prepared statements."""
        self.session.ready()
        if self._kept_in != self.session.generation:
            self._kept_in, self._kept = self.session.generation, {}

    def _apply(self, cursor: pg.Cursor, plan: Plan, size: int) -> None:
        """Run the statements of a step; prepared statements are executed by name and planned again at intervals."""
        if not plan.kept:
            compose.execute(cursor, plan)
            return
        for n, statement in enumerate(plan.statements):
            name = f"{self.target.staging}_{size}_{n}{'_wide' * self._wide}"
            prepare = partial(pg.sql.SQL("PREPARE {} AS {}").format, pg.sql.Identifier(name), statement)
            self._keep(cursor, name, prepare)
            cursor.execute(pg.sql.SQL("EXECUTE {}").format(pg.sql.Identifier(name)))

    def execute_small(self, cursor: pg.Cursor, step: SmallStep) -> pg.sql.Composable:
        self._keep(cursor, self._row_type, lambda: small_step.prepare(self.target, self.options))
        return pg.sql.SQL("EXECUTE {}({})").format(pg.sql.Identifier(self._row_type), pg.sql.Literal(step.array))

    def count_small(self, step: SmallStep, swept: bool = True) -> None:
        self.taken.general += bool(step.rows)
        self.taken.small += bool(step.rows)
        self.taken.swept += bool(step.rows and swept)

    def _keep(self, cursor: pg.Cursor, name: str, prepare: Callable[[], pg.sql.Composable]) -> None:
        """Prepare a statement under a name for one execution, unless it is still prepared."""
        used = self._kept.get(name, 0)
        if used and used % compose.RARELY == 0:
            self._kept[name] = 0
            cursor.execute(pg.sql.SQL("DEALLOCATE {}").format(pg.sql.Identifier(name)))
            used = 0
        if not used:
            cursor.execute(prepare())
        self._kept[name] = used + 1

    @contextmanager
    def _open(self, begins: bool = False) -> Iterator[pg.Cursor]:
        """Yield a cursor in the open transaction or a new one; after any error, the connection is dropped.

        Raises Unreachable if the connection of an open transaction is lost: a new connection has neither the rows nor
        the tables of that transaction.
        """
        try:
            with self.session.translated():
                if begins:
                    self._begun = self.session.ready()
                elif self._begun is None or self._begun.closed:
                    what = f"sink {self.session.place}: the session ended during a transaction"
                    raise Unreachable(what, code="08003", where="sink")
                with self._begun.cursor() as cursor:
                    yield cursor
        except BaseException as error:
            self._begun = None
            self._forget()
            self.session.close()
            if self._wide and isinstance(error, Refused) and error.code in session_tables.MISMATCHES:
                what = f"{self.target.name}: a column's type changed during the step, which is repeated"
                raise Busy(what, "", error.code, "sink") from error
            if isinstance(error, Refused) and error.code == UNDEFINED_COLUMN:  # only the sink knows the column's type
                types = dict(zip(self.target.columns, self.target.types, strict=False))
                if type_ := types.get(column_of(error.message)):
                    raise Refused(f"{error.message} (type {type_})", error.hint, error.code, "sink") from error
            raise


class PostgresBatches:
    """The target of a job's channel, created on request and checked; implements `ports.sink.BatchWriter`."""

    def __init__(self, session: SinkSession, job: JobSpec, identity: TableIdentity) -> None:
        self._session, self._options = session, job.sink_options
        refuse_job(session, job.channel.target)
        target, image = targets.target_of(job.channel, identity), image_of(job.channel, identity)
        if job.channel.create_target:
            targets.create(session, job.channel.target, image)
        targets.check(session, target, image, self._options)
        self._target = targets.seen(session, target)

    def write(self, text: bytes, rows: int) -> None:
        target = self._target
        with self._session.transaction() as cursor:
            take_target(self._session, cursor, target.name)
            for made in session_tables.temporary(target, self._options):
                cursor.execute(made)
            if compose.is_wide(len(text), rows):
                target = replace(target, kept=session_tables.store_whole(cursor, target, self._options))
            cursor.copy_expert(session_tables.fill_staging(target).as_string(cursor), io.BytesIO(text))
            compose.execute(cursor, compose.plan(target, self._options, rows))
