"""One DWS binlog table and slot: identity, status, ranges of changes, chunks of the table, registration of points."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, BinaryIO, Protocol, cast

from slotkeeper.core.domain.finding import refuse
from slotkeeper.core.domain.locks import Sight
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.shape import Mapped
from slotkeeper.core.domain.slot import Shard, SlotStatus, TableIdentity
from slotkeeper.core.domain.spec import BinlogOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.watch import exactly, judge
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.pg_table import Operators, operators_of
from slotkeeper.core.drivers.pipe import put, texts
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.ports.sink import Top
from slotkeeper.core.ports.source import Chunk, Confirmation, FindNews, OpenTransactions, ReadBeside, Source, Waiter
from slotkeeper.core.sources.dws import chunks, eligibility, sight
from slotkeeper.core.sources.dws.position import NOTHING, DwsPosition, SyncPoints, ours, points_of, statuses_of
from slotkeeper.core.sources.dws.session import REGISTER_LIMIT_MS, DwsSession
from slotkeeper.core.sources.dws.sight import DwsOpenTransactions
from slotkeeper.core.sources.dws.viewer import NO_RELATION, DwsViewer, identity_of, user_types
from slotkeeper.core.sqltext import dotted, statements

NO_COPY = frozenset({"0A000", "42601", "42809"})
"""SQLSTATEs with which a server rejects COPY from a binlog function; the source then uses a cursor."""

CLOSED = frozenset({"42501", "42703"})
"""SQLSTATEs for a missing privilege on pgxc_class, or for a catalog without one of the columns."""

READ_ONLY = "25006"
"""read_only_sql_transaction: the server treated a read with a row filter as a write and rejected it."""

_NOTHING = pg.sql.SQL("")
ALL = 2**62
"""A sequence higher than any event's: the range then includes all events of its last point."""


class Selection(Mapped):
    """A channel's columns and its row filter, which is a condition on the row's columns."""

    __slots__ = ()

    @property
    def condition(self) -> pg.sql.Composable | None:
        """The row filter as a WHERE condition on the table's rows; None without a filter."""
        return pg.sql.SQL("({})").format(pg.sql.SQL(self.where)) if self.where else None

    def kind(self, kind: pg.sql.Composable) -> pg.sql.Composable:
        """Return SQL for the staged type of an event; an image that the filter rejects becomes x and deletes its row.

        DWS, "Subscribing to Hybrid Data Warehouse Binlog": the types are I, d, B and U. Any other type becomes ?, which
        stops the step: the effect of the type is unknown, and it could equal Slotkeeper's own type x.
        """
        known = pg.sql.SQL("WHEN {0} IN ('I', 'd', 'B', 'U') THEN {0} ELSE '?' END").format(kind)
        if self.condition is None:
            return pg.sql.SQL("CASE {}").format(known)
        refused = pg.sql.SQL("{} IN ('I', 'U') AND {} IS NOT TRUE").format(kind, self.condition)
        return pg.sql.SQL("CASE WHEN {} THEN 'x' {}").format(refused, known)


class DwsSource:
    """One table and slot of DWS; implements `slotkeeper.core.ports.source.Source`. Not shared between threads.

    Several sources can use one session, one at a time.
    """

    joint_status = True

    def __init__(
        self, session: DwsSession, table: str, slot: str, options: BinlogOptions, selection: Selection | None = None
    ) -> None:
        self.session = session
        self.table = table
        self.slot = slot
        self.options = options
        self.selection = selection or Selection()
        self.read_beside: ReadBeside = self.read_several
        self.find_news: FindNews = DwsViewer(session).find_news
        self.copy_allowed = True
        self.reads_only = True
        """Whether a read-only transaction can read the binlog, as far as known; DWS does not document this."""
        self.points_proven = False
        """Whether a probe has recorded that each transaction has one point on this server; GTM-Lite requires this."""
        self._identity: TableIdentity | None = None
        self._operators: Operators = {}
        """The operators that compare the key if a key column has a user-defined type."""
        self._homes: frozenset[int] = frozenset()
        self._elsewhere: frozenset[int] = frozenset()
        """Ids of the DNs that hold the table and of the DNs that do not, as last read."""
        self._xmins: dict[Shard, tuple[int, int]] = {}
        """For each DN, the point of the record whose xmin was last read, and that xmin."""

    def admit(self) -> None:
        viewer = DwsViewer(self.session)
        binlog = self.options.binlog
        server = viewer.server_facts() if binlog else None
        source, proven = self.session.source, self.points_proven
        found = list(eligibility.server_objections(server, source, proven)) if server else []
        settings = server.settings if server else {}
        facts = viewer.table_facts(self.table)
        found += eligibility.table_objections(self.table, facts, binlog, settings)
        if binlog:
            found += eligibility.column_objections(
                self.table, facts, self.options.new_system_value, self.selection.names
            )
        refuse(found, "source")
        if self.selection.where:
            self._selects(self._seen())
        if binlog and facts and facts.virtual:
            self._filter_readable([name for name in facts.columns if name not in facts.virtual])

    def identify(self, filters: bool = False) -> TableIdentity:
        identity = self._seen()
        if filters:
            self._selects(identity)
        else:
            self._serves(identity)
        self._identity = identity
        return identity

    def _seen(self) -> TableIdentity:
        rows = self.session.rows("identity", {"table": self.table})
        if all(row[4] < 0 for row in rows):
            # if the table is recreated meanwhile, its name is resolved now, but its key as of the statement: read again
            rows = self.session.rows("identity", {"table": self.table})
        if all(row[4] < 0 for row in rows):
            refuse([eligibility.no_key(self.table)], "source")
        if self.session.rows("deferrable_key", {"table": self.table})[0][0]:
            refuse([eligibility.deferrable(self.table)], "source")
        identity = identity_of(rows, user_types(self.session, self.table))
        if any(column.name in identity.key and identity.user_type(column.type) for column in identity.columns):
            casts = self.session.rows("implicit_casts", {"table": self.table})
            refuse([eligibility.cast_key(self.table, *cast) for cast in casts], "source")
            self._operators = operators_of(self.session.rows("key_operators", {"table": self.table}))
        return identity

    def _selects(self, identity: TableIdentity) -> None:
        """Raise Refused if the mapping or the row filter is not supported; only a driver parses the filter."""
        if self.selection.where:
            casts = self.session.rows("made_casts", {"table": self.table})
            refuse(list(eligibility.filter_objections(self.selection.where, identity, casts)), "source")
        self._serves(identity)

    def _serves(self, identity: TableIdentity) -> None:
        self.selection.columns(identity)
        self._filter_readable([column.name for column in identity.columns])

    def _filter_readable(self, columns: list[str]) -> None:
        condition = self.selection.condition
        if condition is None:
            return
        try:
            self.session.composed_rows(chunks.filter_statement(self.table, condition, columns), None)
        except SlotkeeperError as error:
            if error.code[:2] != "42" or error.code == "42501":
                raise
            raise Refused(f"cannot parse where: {error.message}", "correct the channel's row filter") from error

    @property
    def identity(self) -> TableIdentity:
        """The identity of the table as last read; the first use reads it."""
        return self._identity or self.identify()

    def nodes(self) -> list[Shard]:
        """Return the DNs that hold the table, from `pgxc_class` and `pgxc_node`; no slot is touched.

        If the DNs of the table are unknown, the table counts as present on all DNs.
        """
        try:
            rows = self.session.rows("nodes", {"table": self.table})
        except SlotkeeperError as error:
            if error.code not in CLOSED and not (error.code == NO_RELATION and "pgxc_class" in error.message):
                raise
            rows = [(name, node, True) for name, node in self.session.rows("all_nodes")]
        self._homes = frozenset(node for _, node, here in rows if here)
        self._elsewhere = frozenset(node for _, node, here in rows if not here)
        return [Shard(str(name), int(node)) for name, node, here in rows if here]

    def read_status(self, shard: Shard | None) -> list[SlotStatus]:
        """Return the status of one DN, or of all DNs if `shard` is None; the timeout is 2 s.

        DWS: "obtains the sync point information of a slot"; the call creates the slot if it does not exist.
        """
        parameters = {"table": self.table, "slot": self.slot, "node": shard.node_id if shard else 0}
        rows = self.session.rows("status", parameters)
        self.session.oriented = self.table
        found = statuses_of(rows, self.identity.server)
        if shard is not None and not found:
            # a server that does not create the slot returns no row if the slot is missing
            raise Trouble(f"{shard.name} returned no point for slot {self.slot}", name=TroubleName.SLOT_LOST)
        return found if shard is not None else self._at_home(found)

    def read_several(self, others: Sequence[Source]) -> list[list[SlotStatus]]:
        """Return the statuses of all DNs for each of these sources of this kind, with one message.

        The time limit is that of a single status, so a hanging DN does not delay the others any longer.
        """
        sources, book = [cast("DwsSource", one) for one in others], statements("slotkeeper.core.sources.dws")
        names = [pg.sql.Literal(dotted(one.table)) for one in sources]
        each = [
            pg.sql.SQL(book["status_of"]).format(
                number=pg.sql.Literal(at), table=names[at], slot=pg.sql.Literal(one.slot)
            )
            for at, one in enumerate(sources)
        ]
        rels = pg.sql.SQL(", ").join([pg.sql.SQL("{}::regclass").format(name) for name in names])
        statement = pg.sql.SQL(book["statuses"]).format(each=pg.sql.SQL(" UNION ALL ").join(each), tables=rels)
        rows: list[list[tuple[Any, ...]]] = [[] for _ in sources]
        for number, *row in self.session.composed_rows(statement, None):
            rows[int(number)].append(tuple(row))
        self.session.oriented = ""
        found = zip(sources, rows, strict=True)
        return [one._at_home(statuses_of(own, one.identity.server)) for one, own in found]

    def _at_home(self, found: list[SlotStatus]) -> list[SlotStatus]:
        """Return the statuses of the DNs that hold the table: DWS does not document the answers of other DNs.

        A DN that is not in the catalog is included, because it may be joining the cluster. Tables and DNs can move, so
        the catalog is read again if a DN answers that is not known to hold the table.
        """
        if any(status.shard.node_id not in self._homes for status in found):
            self.nodes()
        return [status for status in found if status.shard.node_id not in self._elsewhere]

    def has_changes(self, shard: Shard, after: Position, up_to: Position) -> bool:
        """Return whether the DN has a row after `after` and up to `up_to`; no read covers more than the range width.

        The changes function can materialize the whole requested range, despite a LIMIT. An idle table's range grows
        with every transaction of the cluster, so the cursor function searches between the first and the last width of
        the range. DWS, "Subscribing to Hybrid Data Warehouse Binlog": this function finds the first record from a point
        on, and "empty values" mean that there is no such record. The search starts at a point that was already read, so
        it does not matter whether that point is included; both ends of the range are read directly, so no record there
        can be missed.
        """
        width, begin, end = max(1, self.options.binlog_sync_point_size), ours(after), ours(up_to).point
        read = min(end, begin.point + width)
        if self._any(shard, begin, read):
            return True
        if read == end:
            return False
        rows = self.session.rows("xmin_at", {"table": self.table, "point": read, "node": shard.node_id})
        self.session.oriented = self.table
        if any(found is not None and found <= end for found, _ in rows):
            return True
        return self._any(shard, DwsPosition(max(read, end - width)), end)

    def _any(self, shard: Shard, after: DwsPosition, up_to: int) -> bool:
        self._orient(shard)
        statement = self._range_statement("has_changes", shard, after, up_to, as_text=False)
        return bool(self.session.composed_rows(statement, None))

    def next_range(self, after: Position, status: SlotStatus, width: int, begins: bool = False) -> DwsPosition:
        return DwsPosition(min(ours(status.latest).point, ours(after).point + max(1, width)), None)

    def reached(self, after: Position, up_to: Position | None, top: Top | None, status: SlotStatus) -> DwsPosition:
        """Return the position after everything up to `up_to` is applied.

        The xmin in the status belongs to the newest point; for a lower position, the xmin of the record at the highest
        read point is queried. Without `up_to`, the result is the newest point with none of its events applied, or
        `after` with the new xmin if at that point. Without `top`, it is the last visible event at the range's last
        point: DWS does not document whether the transaction of `latest` is visible everywhere ("Subscribing to Hybrid
        Data Warehouse Binlog"), and a reader that treated the whole transaction as read would silently lose later
        events.
        """
        begin, newest = ours(after), ours(status.latest)
        if up_to is None:
            return replace(begin, xmin=newest.xmin) if begin.point == newest.point else newest.from_here
        end = ours(up_to)
        if top is None:
            last = self._last_event(status.shard, end.point)
            top = Top(None if last is None else end.point, last)
        kept = begin.sequence if end.point == begin.point else NOTHING
        return DwsPosition(
            end.point,
            kept if top.second is None else top.second,
            newest.xmin if end.point == newest.point else None,
            begin.top if top.first is None else top.first,
        )

    def _last_event(self, shard: Shard, point: int) -> int | None:
        """Return the sequence of the last visible event at a point; None if the point has no event."""
        self._orient(shard)
        parts = range_parts(
            self.table, shard, DwsPosition(max(0, point - 1), None), point, self.options.new_system_value
        )
        statement = pg.sql.SQL(statements("slotkeeper.core.sources.dws", "changelog.sql")["last_event"])
        return pg.number(self.session.composed_rows(statement.format(**parts), None)[0][0])

    def copy_changes(self, shard: Shard, after: Position, up_to: Position, out: BinaryIO) -> int:
        def statement(as_text: bool) -> pg.sql.Composable:
            self._orient(shard)
            return self._range_statement("changes", shard, ours(after), ours(up_to).point, as_text)

        limit_ms, batch = self.options.binlog_read_timeout, self.options.binlog_batch_read_size
        if not self.selection.where or not self.reads_only:
            return self._out(statement, out, limit_ms, batch)
        self._orient(shard)
        try:
            with self.session.read_only():
                return self._out(statement, out, limit_ms, batch)
        except SlotkeeperError as error:
            if error.code != READ_ONLY:
                raise
            self.reads_only = False
            return self._out(statement, out, limit_ms, batch)

    def xmin_at(self, shard: Shard, point: int) -> int | None:
        """Return the xmin of the record at exactly `point`, or None without a record (a later xmin would be too new).

        The xmin of a record never changes, so it is read only once for an idle lane that stays at one point.
        """
        last = self._xmins.get(shard)
        if last is not None and last[0] == point:
            return last[1]
        rows = self.session.rows("xmin_at", {"table": self.table, "point": point, "node": shard.node_id})
        self.session.oriented = self.table
        its = next((int(xmin) for found, xmin in rows if found == point and xmin), None)
        if its is not None:
            self._xmins[shard] = point, its
        return its

    def open_now(self) -> OpenTransactions:
        found = DwsOpenTransactions(self)
        return OpenTransactions(found.left, found.advice)

    def sight(self) -> Sight:
        return sight.read(self.session)

    def open_transactions(self, across: bool = False) -> list[Waiter]:
        return sight.open_transactions(self.session, across)

    def shown_in_full(self, pids: Set[int]) -> set[int]:
        return sight.shown_in_full(self.session, pids)

    def snapshot_xmin(self) -> int:
        return sight.snapshot_xmin(self.session)

    def transaction_id(self) -> int:
        return int(self.session.rows("transaction_id", {})[0][0])

    def plan_chunks(self, rows: int) -> list[Chunk]:
        statement = chunks.plan_statement(self.table, self.identity, rows)
        found = self.session.composed_rows(statement, None, self.options.full_sync_binlog_read_timeout)
        return chunks.from_bounds([tuple(str(value) for value in row) for row in found])

    def copy_chunk(self, chunk: Chunk, out: BinaryIO) -> int:
        def statement(as_text: bool) -> pg.sql.Composable:
            columns = chunks.column_list(self.identity, self.selection.columns(self.identity), as_text)
            condition = self.selection.condition
            return chunks.read_statement(self.table, self.identity, chunk, columns, condition, self._operators)

        options = self.options
        limit_ms, batch = options.full_sync_binlog_read_timeout, options.full_sync_binlog_batch_read_size
        with self.session.read_only() if self.selection.where else nullcontext():
            return self._out(statement, out, limit_ms, batch)

    def _out(self, statement: Callable[[bool], pg.sql.Composable], out: BinaryIO, limit_ms: int, batch: int) -> int:
        if self.copy_allowed:
            copied = statement(False)
            try:
                return self.session.copy_out(copied, out, limit_ms)
            except SlotkeeperError as error:
                if error.code not in NO_COPY or pg.rows_came(error):  # a cursor would repeat the rows
                    raise
                self.copy_allowed = False
        return self.session.cursor_out(statement(True), lambda row: put(out, texts(row)), limit_ms, batch)

    def _orient(self, shard: Shard) -> None:
        # The stand-in returns the documented text of pgxc_get_binlog_changes only after a sync-point call in the same
        # session named the table; on DWS this costs one status query per new session, and more if channels share a
        # session.
        if self.session.oriented != self.table or self.session.fresh:
            self.read_status(shard)

    def _range_statement(
        self, name: str, shard: Shard, after: DwsPosition, up_to: int, as_text: bool
    ) -> pg.sql.Composable:
        parts = range_parts(self.table, shard, after, up_to, self.options.new_system_value)
        kind = parts["type"]
        columns = _column_images(self.identity, self.selection, kind, as_text)
        if self.selection.timed:
            columns = pg.sql.SQL("{}, {}").format(columns, pg.text_form("bigint", pg.sql.Identifier(eligibility.TIME)))
        return pg.sql.SQL(statements("slotkeeper.core.sources.dws")[name]).format(
            **{**parts, "type": self.selection.kind(kind)},
            columns=columns,
            only=pg.sql.SQL(" AND {} <> 'B'").format(kind) if self.options.binlog_ignore_update_before else _NOTHING,
        )


class PointCalls(Protocol):
    """The calls of a session that are needed to register a lane."""

    def read_status(self, shard: Shard | None) -> list[SlotStatus]: ...
    def xmin_at(self, shard: Shard, point: int) -> int | None: ...
    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int: ...


def confirm(calls: PointCalls, first: SlotStatus, asked: Confirmation) -> SyncPoints:
    """Register the position of a lane; `first` is a status that was already checked.

    The order is: register `false`, read the status of `true`, register `true`. If the points are wiped in between, one
    of the two is always missing afterwards, so the wipe is detected (tests/model).
    """
    shard, position = first.shard, ours(asked.position)
    xmin, before = position.xmin, points_of(asked.before).xmin
    if xmin is None and position.top is not None:
        xmin = calls.xmin_at(shard, position.top)
    # the xmin is never newer than the point, and never older than the previous xmin (design 4.2 step 6)
    goal = SyncPoints(position.point, position.point, before if xmin is None else max(xmin, before))
    asked.probe("before_false")
    asked.check()
    register_one(calls, shard, goal, False)
    asked.probe("after_false")
    second = seen(calls, shard)
    between = SyncPoints(goal.live, points_of(first.kept).durable or 0)
    wrong = judge(second, exactly(between, asked.fingerprint))
    if wrong:
        raise wrong
    asked.probe("before_true")
    asked.check()
    register_one(calls, shard, goal, True)
    asked.probe("after_true")
    return goal


def register_one(calls: PointCalls, shard: Shard, goal: SyncPoints, checkpoint: bool) -> None:
    """Register one of the two points; raises Busy for a partial registration: any number of nodes except one."""
    nodes = calls.register(shard, (goal.durable if checkpoint else goal.live) or 0, checkpoint, goal.xmin)
    if nodes != 1:
        flag = "true" if checkpoint else "false"
        raise Busy(
            f"{shard.name}: registration with checkpoint {flag} reached {nodes} of 1 nodes (partial registration)"
        )


def seen(calls: PointCalls, shard: Shard) -> SlotStatus:
    found = next((status for status in calls.read_status(shard) if status.shard == shard), None)
    if found is None:
        raise Busy(f"no DN reports the name {shard.name}: the DN set may have changed", where="source")
    return found


class DwsSlotAdmin(DwsSource):
    """A table whose slot can be registered. Only the driver and slot commands call the methods of this class: they
    write the slot's points and end the job's own old sessions.
    """

    shown_as = ""
    cleared_for = 1
    """The last sink connection for which competing sessions were ended; for the first connection, the start does so."""

    def register(self, shard: Shard, point: int, checkpoint: bool, xmin: int) -> int:
        """Register one point on one DN; the server-side timeout keeps a killed driver's call from taking effect later.

        DWS: "returns the number of nodes registered"; for one node, any number except 1 means a partial registration.
        """
        self._show()
        parameters = {
            "table": self.table,
            "slot": self.slot,
            "node": shard.node_id,
            "point": point,
            "checkpoint": checkpoint,
            "xmin": xmin,
        }
        return int(self.session.rows("register", parameters, REGISTER_LIMIT_MS)[0][0])

    def confirm(self, first: SlotStatus, asked: Confirmation) -> SyncPoints:
        return confirm(self, first, asked)

    def open_lanes(self) -> list[SlotStatus]:
        """Create the slot if it is missing, and return the status of every DN.

        If the status query does not create the slot, registering 0 does. 0 is only a lower bound, even on DNs that an
        earlier attempt did not reach.
        """
        statuses = self.read_status(None)
        without = set(self.nodes()) - {status.shard for status in statuses}
        if not without:
            return statuses
        for shard in sorted(without):
            for checkpoint in (False, True):
                self.register(shard, 0, checkpoint, 0)
        return self.read_status(None)

    def full_sync(self) -> str:
        self._show()
        rows = self.session.rows("full_sync", {"table": self.table, "slot": self.slot}, REGISTER_LIMIT_MS)
        return "; ".join(safe(", ".join(map(str, row)), 80) for row in rows) or "nothing"

    def pinned(self) -> AbstractContextManager[None]:
        self._show()
        return self.session.pinned()

    def _show(self) -> None:
        if self.shown_as:
            self.session.show(self.shown_as)

    def end_sessions(self, pattern: str = "", own: str | None = None) -> bool:
        """End the job's sessions whose name matches `pattern` and is not `own`; return False if some may remain.

        Without a pattern, end the rivals. This coordinator cannot end sessions of another coordinator, and without a
        list of those sessions it is unknown whether there are any.
        """
        if not pattern:
            return self._end_rivals()
        names = {"pattern": pattern, "own": self.session.application_name if own is None else own}
        try:
            self.session.rows("end_sessions", names)
            seen = self.sight()
            # each round is one statement; a terminated backend disappears from the view within a few rounds
            all_gone = any(not self._left(names, seen.across) for _ in range(200))
            return all_gone and seen.all_coordinators
        except SlotkeeperError:
            return False

    def _end_rivals(self) -> bool:
        """End other sessions, of any epoch, that register the same lane; return False if some may remain.

        The names of these sessions differ from this session's name only in the epoch. A call of a killed or stalled
        session must not take effect later.
        """
        parts = (self.shown_as or self.session.application_name).replace("_", r"\_").split("/")
        channel, mark, _ = parts[2].partition(".")
        parts[2] = f"{channel}.%" if mark else "%"
        named = "/".join(
            parts
        )  # retried: an administrator who ended a job's session has often ended this session as well
        return self.end_sessions(named, "") or self.end_sessions(named, "")

    def _left(self, names: dict[str, str], across: bool) -> int:
        here = int(self.session.rows("sessions_left", names)[0][0])
        return here or (sight.left_across(self.session, names) if across else 0)


def range_parts(
    table: str, shard: Shard, after: DwsPosition, up_to: int, new_names: bool
) -> dict[str, pg.sql.Composable]:
    """Return the SQL parts of a range of one DN's binlog: (after, up_to], with one extra point on each side."""
    names = eligibility.NEW_NAMES if new_names else eligibility.OLD_NAMES
    numbers = {
        "node": shard.node_id,
        "start": max(0, after.point - 1),
        "end": up_to + 1,
        "up_to": up_to,
        "after_point": after.point,
        "after_sequence": ALL if after.sequence is None else after.sequence,
    }
    return {
        **dict(zip(("point", "sequence", "type"), map(pg.sql.Identifier, names), strict=True)),
        "table": pg.sql.Literal(dotted(table)),
        **{name: pg.sql.Literal(number) for name, number in numbers.items()},
    }


def _column_images(
    identity: TableIdentity, selection: Selection, kind: pg.sql.Composable, as_text: bool
) -> pg.sql.Composable:
    """Return SQL for the mirrored columns in order; an old image (B, d) contains only its key, the only part used."""
    spelled = []
    for column in selection.columns(identity):
        name: pg.sql.Composable = pg.sql.Identifier(column.name)
        if column.name not in identity.key:
            name = pg.sql.SQL("CASE WHEN {} IN ('I', 'U') THEN {} END").format(kind, name)
        spelled.append(pg.text_form(identity.plain(column.type), name) if as_text else name)
    return pg.sql.SQL(", ").join(spelled)
