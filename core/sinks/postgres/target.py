"""The target table of a start: creation on request, objections, and the mode of the copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict

from slotkeeper.core.domain import target_seen
from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.logged_change import Loss, counting
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.row_counts import RowCount
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.target_seen import image_of
from slotkeeper.core.domain.text import few, safe, typed
from slotkeeper.core.domain.watch import Turn
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.ports.driver import NO_DEFAULTS, CopyStore, Followed, StartStore
from slotkeeper.core.ports.sink import Asked
from slotkeeper.core.ports.source import Chunk
from slotkeeper.core.sinks.postgres.check import eligibility, seen
from slotkeeper.core.sinks.postgres.check import target as reshaping
from slotkeeper.core.sinks.postgres.check import target as targets
from slotkeeper.core.sinks.postgres.check.viewer import PostgresViewer
from slotkeeper.core.sinks.postgres.progress.store import PostgresProgress
from slotkeeper.core.sinks.postgres.session import SinkSession, lengthen, set_locally
from slotkeeper.core.sinks.postgres.write.statements import TargetTable
from slotkeeper.core.sinks.seen_beside import refuse_changed
from slotkeeper.core.sqltext import dotted, quoted

_OLD_VALUES = ("22", "42846", "42804")
"""SQLSTATEs for values and types that cannot be cast (class 22: data exception)."""
LOCK_WAIT = "2s"
SIZE_MS = 2_000
"""Timeout for reading a target's size, in milliseconds; the size is only displayed."""
REFILL = "refill"
"""The mode of a copy that deletes its part of a target first: other channels' rows cannot be exchanged with it."""
NOT_FIRST = "if this job ran before, its progress rows are lost: do not empty the target"


class PostgresTarget:
    """The target table, accessed through the start's sink session; implements `slotkeeper.core.ports.driver.Target`."""

    def __init__(self, job: JobSpec, session: SinkSession) -> None:
        self._job = job
        self._session = session
        self._target: TargetTable | None = None

    def admit(self, identity: TableIdentity) -> bool:
        channel = self._job.channel
        refuse(PostgresViewer(self._session).objections(), "sink")
        target, image = targets.target_of(channel, identity), image_of(channel, identity)
        if channel.create_target and not targets.exists(self._session, channel.target):
            refuse(eligibility.made_objections(channel.target, image, self._session), "sink")
            return False
        self._refuse_written_down()
        targets.check(self._session, target, image, self._job.sink_options)
        self._target = targets.seen(self._session, target)
        return True

    def _refuse_written_down(self) -> None:
        """Raise TARGET CHANGED if an earlier check recorded it.

        This check comes first, because reverting the change to the target does not restore any rows.
        """
        key = self._job.lane_key()
        with self._session.transaction() as cursor:
            if seen.written_down(self._session, cursor, asdict(key)):
                record, due = seen.recorded(self._session, cursor, key)
                if record is not None and not (due or record.copying):
                    raise target_seen.trouble(self._job.channel.target, record.why)

    def ready(self, identity: TableIdentity, makes: bool) -> bool:
        channel = self._job.channel
        target, image = targets.target_of(channel, identity), image_of(channel, identity)
        made = False
        if not makes and not targets.exists(self._session, channel.target):
            raise Refused(f"target {channel.target} does not exist: take a new snapshot", self._snapshot, where="sink")
        if makes and channel.create_target:
            made = targets.create(self._session, channel.target, image)
        targets.check(self._session, target, image, self._job.sink_options)
        self._target = targets.seen(self._session, target)
        reader, records = seen.PostgresTargets(self._session), seen.PostgresRecords(self._session)
        refuse_changed(reader, records, self._job, self._target.columns)
        return made

    def takes_copy(self, identity: TableIdentity) -> bool:
        target = targets.seen(self._session, targets.target_of(self._job.channel, identity))
        return not targets.exists(self._session, target.name) or targets.is_empty(self._session, target)

    def count_rows(self, identity: TableIdentity) -> RowCount:
        target = targets.seen(self._session, targets.target_of(self._job.channel, identity))
        return targets.count_rows(self._session, target) if targets.exists(self._session, target.name) else RowCount(0)

    def size(self, identity: TableIdentity) -> int | None:
        # PostgreSQL, "Database Object Management Functions": includes indexes and TOAST, not partitions or children
        sizes = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c WHERE c.oid = to_regclass(%s)"
        parts = " OR c.oid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = to_regclass(%s))"
        name = dotted(self._job.channel.target)
        try:
            with self._session.transaction() as cursor:
                pg.limit_transaction(cursor, SIZE_MS)
                cursor.execute(sizes + parts, (name, name))
                found = cursor.fetchone()
        except SlotkeeperError as error:
            if error.kind is ErrorKind.TRANSIENT:
                raise
            return None  # an unreadable or locked table is not a reason to reject a plan
        return None if not found or found[0] is None else int(found[0])

    def readers(self) -> str | None:
        # PostgreSQL, "pg_locks": reading a table locks it until the transaction ends, and every login sees the lock
        sessions = (
            "SELECT l.pid, coalesce(nullif(a.application_name, ''), a.usename) FROM pg_locks l"
            " LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.granted AND l.relation = to_regclass(%s)"
            " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND l.pid <> pg_backend_pid() GROUP BY 1, 2 ORDER BY 1"
        )
        published = "SELECT pubname FROM pg_publication_tables WHERE schemaname || '.' || tablename = %s ORDER BY 1"
        name = self._job.channel.target
        try:
            with self._session.transaction() as cursor:
                pg.limit_transaction(cursor, SIZE_MS)
                cursor.execute(sessions, (dotted(name),))
                using = [f"pid {pid} ({safe(who or 'name hidden', 40)})" for pid, who in cursor.fetchall()]
                cursor.execute(published, (name,))
                publications = [safe(one, 60) for (one,) in cursor.fetchall()]
        except SlotkeeperError as error:
            if error.kind is ErrorKind.TRANSIENT:
                raise
            return None
        also = f"; published by {few(publications)}" if publications else ""
        return f"{few(using) if using else 'no other session'}{also}"

    def copying(self, on_existing: str = "") -> str:
        target, wanted = self._known(), on_existing or self._job.on_existing
        if wanted == "merge":
            return "merge"
        if targets.is_empty(self._session, target):
            return "direct"
        if wanted == "replace":
            return "shadow" if target.constant is None else REFILL
        raise Refused(
            f"target {target.place} is not empty",
            f'set on_existing = "replace" or "merge", or empty it; {NOT_FIRST}',
            where="sink",
        )

    def half_done(self, way: str) -> Refused | None:
        name = self._job.channel.target
        if not way:
            what = f"unknown mode of the unfinished copy into {name}"
        elif way == "shadow" and not targets.has_shadow(self._session, self._known()):
            what = f"the shadow table of the unfinished copy into {name} does not exist: its rows are lost"
        else:
            return None
        return Refused(what, self._snapshot, where="sink")

    def begin_copy(self, store: CopyStore, turn: Turn, chunks: list[Chunk], copying: str) -> None:
        """Record the copy's plan and mode; drop the shadow of an earlier copy, and create one for a replacing copy.

        A replacing copy of a part deletes that part's rows in the same transaction.
        """

        def prepare(cursor: pg.Cursor) -> None:
            if copying == REFILL:
                lengthen(cursor, self._job.binlog.full_sync_binlog_read_timeout)
                targets.delete_part(cursor, self._known())
            elif self._known().constant is None:
                targets.drop_shadow(cursor, self._known())
            if copying == "shadow":
                targets.make_shadow(cursor, self._known(), self._job.sink_options.quarantines)
            seen.renew(self._session, cursor, self._job, self._known().columns, copying=copying)

        assert isinstance(store, PostgresProgress)
        store.begin_copy(turn, chunks, copying, prepare)

    def end_copy(self, store: CopyStore, turn: Turn, noted: Mapping[str, Position], copying: str) -> None:
        """Exchange any shadow and set the states of the lanes in one transaction; raises if a chunk is incomplete."""
        assert isinstance(store, PostgresProgress)
        session = store.session

        def finish(cursor: pg.Cursor) -> None:
            if copying == "shadow":
                lengthen(cursor, self._job.binlog.full_sync_binlog_read_timeout)
                targets.exchange_shadow(cursor, self._known(), self._job.sink_options)
            else:
                # TARGET CHANGED if the copy started with another table
                (record, _), target = seen.recorded(session, cursor, self._job.lane_key()), self._known()
                ((_, now),) = seen.read(session, cursor, [Asked(self._job, target.columns, record, 1)])
                why = target_seen.changed(record, now)
                if why:
                    raise target_seen.trouble(target.name, why)
            seen.renew(session, cursor, self._job, self._known().columns)

        store.end_copy(turn, noted, finish)

    def reshape(
        self, identity: TableIdentity, old: Sequence[Column] | None, defaults: Mapping[str, str] = NO_DEFAULTS
    ) -> Reshape:
        return reshaping.reshape(self._session, self._job.channel, identity, old, self._job.sink_options, defaults)

    def follow(self, store: StartStore, followed: Followed, probe: Callable[[str], None]) -> None:
        assert isinstance(store, PostgresProgress)
        session, job = store.session, self._job
        with session.transaction() as cursor:
            if followed.statements:
                lengthen(cursor, job.binlog.full_sync_binlog_read_timeout)
                _wait_shortly(cursor)
                cursor.execute(f"LOCK TABLE {dotted(job.channel.target)} IN ACCESS EXCLUSIVE MODE")
                self._refuse_changed(cursor)
                if followed.losses:
                    followed.refuse_moved(self._affected(cursor, followed.losses))
                for statement in followed.statements:
                    cursor.execute(statement)
                probe("after_follow_alter")
            store.follow_in(cursor, followed)
            if followed.statements:
                columns = targets.target_of(job.channel, followed.identity).columns
                seen.renew(session, cursor, job, columns)
            probe("before_follow_commit")

    def affected(self, losses: Sequence[Loss]) -> tuple[int, tuple[str, ...]]:
        with self._session.transaction() as cursor:
            lengthen(cursor, self._job.binlog.full_sync_binlog_read_timeout)
            found = self._affected(cursor, losses)
        name = dotted(self._job.channel.target)
        return found, tuple(one.update(name, quoted) for one in losses if found and one.value)

    def _affected(self, cursor: pg.Cursor, losses: Sequence[Loss]) -> int:
        cursor.execute(counting(losses, dotted(self._job.channel.target), quoted))
        ((found,),) = cursor.fetchall()
        return int(found)

    def _refuse_changed(self, cursor: pg.Cursor) -> None:
        """Raise TARGET CHANGED if another session changed the target, whose record an ALTER is about to replace."""
        record, due = seen.recorded(self._session, cursor, self._job.lane_key())
        if record is None or due:
            return
        columns = self._known().columns
        ((_, now),) = seen.read(self._session, cursor, [Asked(self._job, columns, record, target_seen.LEAST_COUNTED)])
        why = target_seen.changed(record, now)
        if why:
            raise target_seen.trouble(self._job.channel.target, why)

    def alterable(self, shape: Reshape) -> None:
        """Raise Busy if another session is locking or reading the target: an ALTER needs an exclusive lock."""
        if not shape.statements:
            return
        with self._session.transaction() as cursor:
            _wait_shortly(cursor)
            cursor.execute(f"LOCK TABLE {dotted(self._job.channel.target)} IN ACCESS EXCLUSIVE MODE")

    def alter(self, shape: Reshape, empties: bool) -> Sequence[str]:
        """Run the statements in one transaction and return the statements that were run.

        If old values make them fail, run the statements that empty the columns; without `empties`, raise the error.
        """
        try:
            self._run(shape.statements)
        except SlotkeeperError as error:
            if not error.code.startswith(_OLD_VALUES) or not empties:
                raise
            self._run(shape.blank)
            return shape.blank
        return shape.statements

    def _run(self, statements: Sequence[str]) -> None:
        with self._session.transaction() as cursor:
            # changing a column's type rewrites the table
            lengthen(cursor, self._job.binlog.full_sync_binlog_read_timeout)
            _wait_shortly(cursor)
            for statement in statements:
                cursor.execute(statement)

    @property
    def _snapshot(self) -> str:
        return f"`slotkeeper slots reset {typed(self._job.channel.source_table, self._job.slot)} --to snapshot`"

    def _known(self) -> TargetTable:
        assert self._target is not None, "ready() comes first"
        return self._target


def _wait_shortly(cursor: pg.Cursor) -> None:
    """Limit the wait for a lock: all later statements on the table, including reads, queue behind a waiting ALTER.

    PostgreSQL, "Explicit Locking", lock_timeout: after the timeout, the statement fails and is retried.
    """
    set_locally(cursor, "lock_timeout", LOCK_WAIT)
