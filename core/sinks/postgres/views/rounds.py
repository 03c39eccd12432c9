"""Maintains a job's views in the sink: builds them, and applies captured changes in rounds (ADR 94).

A round is one REPEATABLE READ transaction. Its fence locks the rows of the views in slotkeeper_views; then it finds the
affected keys of all deltas that its snapshot sees, recomputes these keys or adds up weights, deletes the deltas, and
commits. PostgreSQL, "Transaction Isolation": all statements of such a transaction see the same snapshot, so mirror,
deltas and view belong together, and a second round that runs at the same time fails with a serialization error.

A build is one such transaction, too: it computes the complete result while the table remains readable, writes the
differences to the view's table, and deletes the deltas that its snapshot sees. Later changes are in the deltas of the
next round, because the triggers were created earlier, which waits for all open writers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial

from slotkeeper.core.clock import Clock, SystemClock
from slotkeeper.core.domain.spec import JobSpec, ViewSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.views import Round, ViewRow, ViewState
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Refused, SlotkeeperError, Superseded
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.session import SinkSession, lengthen, set_locally
from slotkeeper.core.sinks.postgres.views import fitness
from slotkeeper.core.sqltext import dotted, quoted
from slotkeeper.core.views import capture, sums
from slotkeeper.core.views import statements as compose
from slotkeeper.core.views.parse import parse, parse_all
from slotkeeper.core.views.plan import View
from slotkeeper.core.views.statements import Names

_SQL: Book = ("slotkeeper.core.sinks.postgres.views", "views.sql")
LOCK_WAIT = "200ms"
"""Wait for a mirrored table's open writers when triggers are created or dropped: later writers queue for this lock."""
OLDEST = 150_000
"""PostgreSQL 15, CREATE INDEX: NULLS NOT DISTINCT, which the key of a view needs."""
_OF_ALL = ("08", "40", "53", "57P")
"""Classes of errors of the session, the transaction or the server. Every other error is that of one view."""
_OF_SELECT = ("0A", "21", "22", "42")
QUERY_CANCELED, TOO_LARGE = "57014", "53400"
"""Errors of these classes that one view causes: a limit of time, or of temporary files."""
SAME_KEY = "21000"
"""cardinality_violation: an INSERT ... ON CONFLICT DO UPDATE would change a row twice."""
FEW_ROWS = 200
"""Applied deltas of a table, about two pages, whose space need not be reusable at once."""
MOST_DISCARDED = 200_000
"""Deltas of a table that are deleted at once, because the question whether changes wait has a time limit."""
Probe = Callable[[str], object]


def _same_key(view: View) -> Refused:
    what = f"view {view.target}: its SELECT has several rows with the same key ({', '.join(view.key)})"
    return Refused(what, "name more columns in `key`", SAME_KEY, "sink")


@dataclass(frozen=True, slots=True)
class Mutant:
    """Deliberate mistakes, which only tests set: each must be found."""

    extends: bool = True
    snapshot: bool = True
    fence: bool = True
    clears: bool = True
    keys: Callable[[View, Names, Sequence[str]], str] | None = None


class Rounds:
    """The rounds and builds of a job's views, over one session."""

    def __init__(
        self, session: SinkSession, job: JobSpec, clock: Clock | None = None, mutant: Mutant | None = None
    ) -> None:
        self._session, self._job = session, job.name
        self.views = parse_all(job.views, [channel.target for channel in job.channels])
        self._specs = {spec.target: spec for spec in job.views}
        self._names = {view.target: Names(view, session.schema.string) for view in self.views}
        self._texts: dict[tuple[object, ...], str] = {}
        self._kept: set[tuple[int, str]] = set()
        self._new: set[tuple[int, str]] = set()
        """The temporary tables that exist in the session, by its generation, and those of the open transaction."""
        self._lockable: list[str] = []
        """The tables of views that existed before the last round."""
        self._applied: dict[str, int] = {}
        """By delta table: its applied rows whose space is not reusable yet."""
        self._most = job.rounds.delta_rows_max
        self._clock = clock or SystemClock()
        self._mutant = mutant or Mutant()
        self.probe: Probe = lambda _: None

    # -- states -----------------------------------------------------------------------------------------------------

    def enter(self) -> int:
        """Record the configured views, and return a new epoch, which ends the rounds of other drivers.

        Views that are no longer configured lose their triggers; their tables stay. Raises Refused for a sink before
        PostgreSQL 15, and if another job has a view with the same table.
        """
        if self._session.ready().server_version < OLDEST:
            raise Refused("views need a sink with PostgreSQL 15 or later", "upgrade the sink, or remove the views")
        with self._session.transaction() as cursor:
            own_tables.prepare(self._session, cursor, "views")
        known = {row.target: row for row in self.rows("")}
        for view in self.views:
            other = known.get(view.target)
            if other is not None and other.job != self._job:
                what = f"view {view.target} belongs to job {other.job}"
                raise Refused(what, f"choose another `into`, or `slotkeeper views drop {other.job} {view.target}`")
        for row in known.values():
            if row.job == self._job and row.target not in self._names:
                self._remove(row, with_target=False)
        with self._session.transaction() as cursor:
            for view in self.views:
                spec = json.dumps(asdict(self._specs[view.target]))
                given = {"target": view.target, "job": self._job, "definition": view.definition, "spec": spec}
                self._run(cursor, "enter", given)
            found = self._run(cursor, "take", {"job": self._job}).fetchall()
        return max((int(epoch) for (epoch,) in found), default=0)

    def rows(self, job: str | None = None) -> list[ViewRow]:
        with self._session.transaction() as cursor:
            there = self._run(cursor, "is_there", {"table": f"{quoted(self._session.schema.string)}.slotkeeper_views"})
            if there.fetchone() == (False,):
                return []
            found = self._run(cursor, "rows", {"job": self._job if job is None else job}).fetchall()
        return [replace(ViewRow(*row), state=ViewState(row[5])) for row in found]

    def activity(self, session: str) -> tuple[bool, str]:
        return self._session.activity(session)

    def set_state(self, target: str, state: ViewState, cause: str, epoch: int = 0) -> None:
        given = {"target": target, "state": state.value, "cause": safe(cause, 300), "epoch": epoch}
        with self._session.transaction() as cursor:
            self._run(cursor, "set_state", given)

    def drop(self, target: str) -> bool:
        """Remove a view with its triggers, deltas and table; return whether its table is gone.

        A table that the view did not create, or that lost the view's guard, is not dropped.
        """
        found = [row for row in self.rows("") if row.target == target and row.job == self._job]
        return all(self._remove(row, with_target=True) for row in found)

    def _remove(self, row: ViewRow, with_target: bool) -> bool:
        given = json.loads(row.spec)
        lists = {name: tuple(given[name]) for name in ("key", "lookup")}
        view = parse(ViewSpec(given["target"], given["sql"], **lists, method=given["method"]), None)
        names = Names(view, self._session.schema.string)
        with self._session.transaction() as cursor:
            set_locally(cursor, "lock_timeout", LOCK_WAIT)
            triggers = capture.triggers_of(view, names, row.adds)
            there = self._is_there(cursor, view.target)
            with_target = with_target and bool(row.built) and self._guarded(cursor, view, names)
            for table, trigger, _ in triggers:
                if self._is_there(cursor, table):
                    cursor.execute(f"DROP TRIGGER IF EXISTS {quoted(trigger)} ON {dotted(table)}")
            self._drop_strays(cursor, triggers)
            for statement in capture.drop_tables(view, names, with_target):
                cursor.execute(statement)
            self._drop_functions(cursor)
            self._run(cursor, "unmark", {"target": row.target})
            self._run(cursor, "forget", {"target": row.target})
        return with_target or not there

    def _guarded(self, cursor: pg.Cursor, view: View, names: Names) -> bool:
        """Return whether the view's table has the view's guard, which shows that the view created the table."""
        given = {"table": dotted(view.target), "trigger": names.trigger(view.target, "g"), "home": names.schema}
        return self._run(cursor, "guarded", given).fetchone() == (True,)

    def _drop_strays(self, cursor: pg.Cursor, triggers: Sequence[tuple[str, str, str]]) -> None:
        """Drop the triggers on other tables that call the view's functions."""
        tables, names, functions = (list(each) for each in zip(*triggers, strict=True))
        given = {"home": self._session.schema.string, "tables": tables, "triggers": names, "functions": functions}
        for trigger, table in self._run(cursor, "strays", given).fetchall():
            cursor.execute(f"DROP TRIGGER {quoted(trigger)} ON {dotted(table)}")

    def _drop_functions(self, cursor: pg.Cursor) -> None:
        schema = self._session.schema.string
        for (function,) in self._run(cursor, "unused", {"schema": schema}).fetchall():
            cursor.execute(f"DROP FUNCTION IF EXISTS {quoted(schema)}.{quoted(function)}()")

    def due(self) -> list[str]:
        rows = {row.target: row for row in self.rows()}
        with self._session.transaction() as cursor:
            tables = sorted({table for view in self.views for table in view.tables})
            ready = {str(name) for (name,) in self._run(cursor, "ready", {"tables": tables}).fetchall()}
        found = []
        for view in self.views:
            row = rows.get(view.target)
            if row is None or row.state is ViewState.FAILED:
                continue
            waits = row.state is not ViewState.RUNNING
            if all(table in ready for table in view.tables):
                ready.add(view.target)
                found += [view.target] if waits else []
        return found

    # -- builds -----------------------------------------------------------------------------------------------------

    def build(self, target: str, epoch: int) -> None:
        """Create a view's objects, and make its table equal to the result of its SELECT; the view is then RUNNING.

        Raises Superseded if a newer driver has taken over, Busy for a lock, and Refused for a SELECT that fails.
        """
        view, names = self._view(target)
        try:
            self._build(view, names, epoch)
        except SlotkeeperError as error:
            if error.code == SAME_KEY:
                raise _same_key(view) from error
            if error.code[:2] in _OF_SELECT:
                what = f"view {target}: its SELECT fails: {error.message}"
                raise Refused(what, "correct its SELECT, or the tables; restart the job", error.code, "sink") from error
            raise

    def _build(self, view: View, names: Names, epoch: int) -> None:
        target = view.target
        self.set_state(target, ViewState.BUILDING, "", epoch)
        adds = self._make(view, names, epoch)
        self.probe("view_made")
        with self._snapshot([*view.tables, *view.lookups, view.target]) as cursor:
            if not self._run(cursor, "building", {"target": target, "epoch": epoch}).fetchall():
                raise Superseded(f"view {target}: another driver has taken over")
            lengthen(cursor, 0)
            state, why = self._capture(cursor, {target: adds})[target]
            if why:
                raise Refused(f"view {target}: {why}", "", "55000", "sink")
            names = replace(names, stamp=state[:8])
            self._temporary(cursor, view, names)
            hidden = sums.refill(view, names) if adds else []
            cursor.execute(compose.compute(view, names))
            self._check_key(cursor, view, names)
            for statement in [*compose.fill(view, names), *hidden, *compose.empty_temporary(names)]:
                cursor.execute(statement)
            cursor.execute("; ".join(f"DELETE FROM {names.delta(table)}" for table in view.tables))
            self._run(cursor, "unmark", {"target": target})
            self._run(cursor, "running", {"target": target, "capture": state})
            self.probe("before_build_commit")
        self.probe("after_build_commit")

    def _make(self, view: View, names: Names, epoch: int) -> bool:
        """Create the view's objects, and recreate its triggers; return whether the delta method applies.

        The mirrored tables are locked first, which waits for open writers, so that no change meets only a part of the
        objects.
        """
        row = next((row for row in self.rows() if row.target == view.target), None)
        with self._session.transaction() as cursor:
            set_locally(cursor, "lock_timeout", LOCK_WAIT)
            if not self._run(cursor, "building_now", {"target": view.target, "epoch": epoch}).fetchall():
                raise Superseded(f"view {view.target}: another driver has taken over")
            for table in sorted(view.tables):
                cursor.execute(f"LOCK TABLE {dotted(table)} IN SHARE ROW EXCLUSIVE MODE")
            fitness.refuse_unfit(self._run, cursor, view)
            fitness.refuse_other_types(self._run, cursor, view)
            built = row is not None and bool(row.built)
            self._make_target(cursor, view, made=built and self._guarded(cursor, view, names))
            given = {"table": dotted(view.target), "key": list(view.key)}
            for (column,) in self._run(cursor, "own_equality", given).fetchall():
                what = f"view {view.target}: the type of its key column {column} has its own equality operator"
                raise Refused(what, "cast the column in the SELECT, for example to text", where="sink")
            adds = view.may_add and view.method != "recompute" and fitness.sums_exactly(self._run, cursor, view)
            if view.method == "delta" and not adds:
                what = f'view {view.target}: method = "delta" needs sums of integers or numerics'
                raise Refused(what, 'set method = "auto"', where="sink")
            statements = [*capture.drop_tables(view, names), *capture.create_deltas(view, names, adds)]
            for table in view.tables:
                statements += capture.create_triggers(view, names, table, adds)
            for statement in [*statements, *capture.create_guard(view, names)]:
                cursor.execute(statement)
            self._drop_strays(cursor, capture.triggers_of(view, names, adds))
            self._drop_functions(cursor)
            self._run(cursor, "made", {"target": view.target, "adds": adds, "built": view.definition})
        return adds

    def _make_target(self, cursor: pg.Cursor, view: View, made: bool) -> None:
        """Create the view's table; replace it if its columns are no longer those of the SELECT.

        Raises Refused for a table that no view created.
        """
        schema = view.target.split(".", 1)[0]
        cursor.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
        if not cursor.fetchone():
            cursor.execute(f"CREATE SCHEMA {quoted(schema)}")
        if self._is_there(cursor, view.target):
            if not made:
                what = f"view {view.target}: the table exists, and no view of this job created it"
                raise Refused(what, f"DROP TABLE {dotted(view.target)}, or choose another `into`", where="sink")
            cursor.execute(f"CREATE TEMP TABLE slotkeeper_types AS {compose.answer(view)} WITH NO DATA")
            now, wanted = (
                self._run(cursor, "columns", {"table": one}).fetchall()
                for one in (dotted(view.target), "pg_temp.slotkeeper_types")
            )
            cursor.execute("DROP TABLE pg_temp.slotkeeper_types")
            cursor.execute(compose.has_key(view))
            if now == wanted and cursor.fetchone():
                return
            cursor.execute(f"DROP TABLE {dotted(view.target)}")
        for statement in compose.create_target(view):
            cursor.execute(statement)

    # -- rounds -----------------------------------------------------------------------------------------------------

    def round(self, epoch: int) -> Round:
        """Apply the captured changes to all RUNNING views, in order of dependence, in one transaction.

        A view that must be rebuilt becomes STALE, and one whose SELECT fails becomes FAILED; the others continue.
        Raises Superseded if a newer driver has taken over, and Busy if the transaction must be repeated.
        """
        if not self.waits(epoch):
            return Round()
        with self._snapshot(self._lockable) as cursor:
            running = {str(target): (bool(adds), str(build)) for target, adds, build in self._fenced(cursor, epoch)}
            applied, troubled = self._apply_all(cursor, running, self._stale(cursor, running))
            for target, cause in troubled.items():
                given = {"target": target, "state": ViewState.STALE.value, "cause": safe(cause, 300), "epoch": epoch}
                self._run(cursor, "set_state", given)
            self.probe("before_round_commit")
        self._kept |= self._new
        self.probe("after_round_commit")
        self._reuse()
        return Round(applied, troubled)

    def _reuse(self) -> None:
        """Make the space of applied deltas reusable.

        PostgreSQL, "Automatic Vacuuming": autovacuum visits a database once per `autovacuum_naptime`, a minute, until
        which each delta would take new space. "VACUUM": a truncation waits for, and blocks, the writers of the table.
        """
        for name in [name for name, count in self._applied.items() if count >= FEW_ROWS]:
            self._applied[name] = 0
            with suppress(SlotkeeperError), self._session.translated():  # the round has been committed
                connection = self._session.ready()
                with pg.autocommitted(connection), connection.cursor() as cursor:
                    cursor.execute(f"VACUUM (SKIP_LOCKED, TRUNCATE FALSE) {name}")

    def _fenced(self, cursor: pg.Cursor, epoch: int) -> list[tuple[object, ...]]:
        if not self._mutant.fence:
            cursor.execute(f"SELECT target, adds, capture FROM {quoted(self._session.schema.string)}.slotkeeper_views")
            return cursor.fetchall()
        return self._run(cursor, "fence", {"job": self._job, "epoch": epoch}).fetchall()

    def waits(self, epoch: int) -> bool:
        """Return whether there are deltas, marks or changed triggers; delete deltas of views to be built again."""
        rows = {row.target: row for row in self.rows()}
        newest = max((row.epoch for row in rows.values()), default=0)
        if newest > epoch and self._mutant.fence:
            raise Superseded(f"views of job {self._job}: another driver has taken over")
        running = {row.target: (row.adds, row.capture) for row in rows.values() if row.state is ViewState.RUNNING}
        waiting = [
            f"EXISTS (SELECT FROM {self._names[view.target].delta(table)})"
            for view in self.views
            if view.target in running
            for table in view.tables
        ]
        with self._session.transaction() as cursor:
            self._find_tables(cursor)
            for view in self.views:
                row = rows.get(view.target)
                if row is not None and row.state in (ViewState.STALE, ViewState.FAILED) and row.built:
                    self._discard(cursor, view, epoch)
            if not running:
                return False
            cursor.execute(f"SELECT {' OR '.join(waiting)}")
            return bool(cursor.fetchall()[0][0]) or bool(self._stale(cursor, running))

    def _find_tables(self, cursor: pg.Cursor) -> None:
        wanted = {table for view in self.views for table in (*view.tables, *view.lookups, view.target)}
        cursor.execute(
            "SELECT name FROM unnest(%s::text[]) w(name) WHERE to_regclass(name) IS NOT NULL",
            ([dotted(table) for table in sorted(wanted)],),
        )
        there = {str(name) for (name,) in cursor.fetchall()}
        self._lockable = [table for table in sorted(wanted) if dotted(table) in there]

    def _discard(self, cursor: pg.Cursor, view: View, epoch: int) -> None:
        """Delete deltas of a view that will be built again and therefore needs none of them, up to a number per call.

        Another driver may have built the view since its state was read, so its row is locked and read again.
        """
        if not self._run(cursor, "discarding", {"target": view.target, "epoch": epoch}).fetchall():
            return
        for table in view.tables:
            name = self._names[view.target].delta(table)
            cursor.execute("SELECT to_regclass(%s) IS NOT NULL", (name,))
            if cursor.fetchone() == (True,):
                some = f"SELECT ctid FROM {name} LIMIT {MOST_DISCARDED}"
                cursor.execute(f"DELETE FROM {name} WHERE ctid = ANY (ARRAY({some}))")

    def _stale(self, cursor: pg.Cursor, running: Mapping[str, tuple[bool, str]]) -> dict[str, str]:
        """Return the views that must be rebuilt, with their causes."""
        marks = self._run(cursor, "marks", {"targets": list(running)}).fetchall()
        found = {str(target): str(cause) for target, cause in marks}
        for target, (now, why) in self._capture(cursor, {name: adds for name, (adds, _) in running.items()}).items():
            if why or now != running[target][1]:
                found.setdefault(target, why or "a column or a capture trigger of its tables was altered")
        return found

    def _count(self, cursor: pg.Cursor, views: Sequence[View]) -> dict[str, dict[str, int]]:
        """Return the number of deltas of each table of these views, up to one more than a round applies."""
        places = [(view.target, table) for view in views for table in view.tables]
        if not places:
            return {}
        most = self._most + 1
        counts = (
            f"(SELECT count(*) FROM (SELECT FROM {self._names[target].delta(table)} LIMIT {most}) d)"
            for target, table in places
        )
        cursor.execute(f"SELECT {', '.join(counts)}")
        found = dict[str, dict[str, int]]()
        for (target, table), count in zip(places, cursor.fetchall()[0], strict=True):
            found.setdefault(target, {})[table] = int(count)
        return found

    def _apply_all(
        self, cursor: pg.Cursor, running: Mapping[str, tuple[bool, str]], stale: Mapping[str, str]
    ) -> tuple[dict[str, int], dict[str, str]]:
        """Apply the deltas of all views in order; return the changes by view, and why a view must be built again."""
        applied, troubled = dict[str, int](), dict(stale)
        views = [view for view in self.views if view.target in running and view.target not in stale]
        counts = self._count(cursor, views)
        for view in views:
            counted = counts[view.target]
            if not applied.keys().isdisjoint(view.tables):
                counted = self._count(cursor, [view])[view.target]
            waiting = sum(counted.values())
            if not waiting:
                continue
            if waiting > self._most:
                troubled[view.target] = f"more than {self._most:,} changes waited (delta_rows_max)"
                continue
            began = self._clock.monotonic()
            cursor.execute("SAVEPOINT view")
            try:
                self._apply(cursor, view, [table for table, count in counted.items() if count], *running[view.target])
            except pg.DriverError as error:
                code, text = pg.failure(error)
                if not code or (code.startswith(_OF_ALL) and code not in (QUERY_CANCELED, TOO_LARGE)):
                    raise
                cursor.execute("ROLLBACK TO SAVEPOINT view")
                troubled[view.target] = f"its round failed: {code} {safe(text, 200)}"
                continue
            except Refused as error:
                cursor.execute("ROLLBACK TO SAVEPOINT view")
                troubled[view.target] = error.message
                continue
            applied[view.target] = waiting
            for table, count in counted.items():
                name = self._names[view.target].delta(table)
                self._applied[name] = self._applied.get(name, 0) + count
            ms = round(1_000 * (self._clock.monotonic() - began))
            self._run(cursor, "applied", {"target": view.target, "applied": waiting, "ms": ms})
        return applied, troubled

    def _apply(self, cursor: pg.Cursor, view: View, changed: Sequence[str], adds: bool, build: str) -> None:
        """Apply a view's deltas, of the tables `changed`. `build` distinguishes the temporary tables of its builds."""
        names = replace(self._names[view.target], stamp=build[:8])
        self._temporary(cursor, view, names)
        keys = self._text(view, "keys", tuple(changed), adds, names)
        cursor.execute(keys)
        found, null = cursor.fetchall()[0]
        self.probe("keys_found")
        halves = (False, True) if null else (False,)
        if found:
            names = replace(names, most=1 << (found - 1).bit_length())  # few numbers, so that few texts are composed
            if adds:
                self._add(cursor, view, names, halves)
            for nulls in halves:
                cursor.execute(self._text(view, "rows", nulls, adds, names))
            self._check_key(cursor, view, names)
            gone = [compose.delete_gone(view, names, nulls) for nulls in halves]
            cursor.execute("; ".join([*gone, compose.upsert(view, names)]))
        after = compose.empty_temporary(names)
        if self._mutant.clears:
            after += [f"DELETE FROM {names.delta(table)}" for table in changed]
        cursor.execute("; ".join(after))

    def _check_key(self, cursor: pg.Cursor, view: View, names: Names) -> None:
        """Raise Refused if the computed rows have a key twice."""
        query = compose.several_rows(view, names)
        if query:
            cursor.execute(query)
            if cursor.fetchone() == (True,):
                raise _same_key(view)

    def _text(self, view: View, what: str, given: object, adds: bool, names: Names) -> str:
        """Return a statement of a round; it is composed once, because that takes milliseconds."""
        key = view.target, what, given, adds, names.stamp, names.most
        if key not in self._texts:
            if what == "rows":
                made = (sums.rows_of_sums if adds else compose.recompute)(view, names, bool(given))
            elif adds:
                made = sums.delta_keys(view, names)
            else:
                keys = self._mutant.keys or partial(compose.affected, extends=self._mutant.extends)
                made = keys(view, names, given)  # type: ignore[arg-type]
            self._texts[key] = made
        return self._texts[key] if self._mutant.keys is None else self._texts.pop(key)

    def _add(self, cursor: pg.Cursor, view: View, names: Names, halves: Sequence[bool]) -> None:
        empty = [sums.drop_empty_sums(view, names, nulls) for nulls in halves]
        cursor.execute("; ".join([sums.add_sums(view, names), *empty]))
        for odd, correct in (sums.odd_sums(view, names, nulls) for nulls in halves):
            cursor.execute(odd)
            if cursor.fetchall()[0][0]:
                cursor.execute(correct)

    def _capture(self, cursor: pg.Cursor, adds: Mapping[str, bool]) -> dict[str, tuple[str, str]]:
        return fitness.captures(self._run, cursor, self.views, self._names, adds)

    def _view(self, target: str) -> tuple[View, Names]:
        for view in self.views:
            if view.target == target:
                return view, self._names[target]
        raise Refused(f"job {self._job} has no view {target}", "`slotkeeper views list` shows them")

    @contextmanager
    def _snapshot(self, tables: Sequence[str]) -> Iterator[pg.Cursor]:
        """Yield a cursor in one REPEATABLE READ transaction that is allowed to write views.

        `tables` are locked like for reading, before the snapshot is taken. PostgreSQL, "Caveats" (of MVCC): after
        TRUNCATE or a rewriting ALTER TABLE, a table appears empty to older snapshots that have not read it yet.
        """
        self._new.clear()
        with self._session.transaction() as cursor:
            if self._mutant.snapshot:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            if tables:
                cursor.execute(f"LOCK TABLE {', '.join(map(dotted, tables))} IN ACCESS SHARE MODE")
            # PostgreSQL, "When to JIT": by estimated costs, which are far too high for tables without statistics
            cursor.execute("SELECT set_config(%s, '1', true), set_config('jit', 'off', true)", (capture.ROUND,))
            yield cursor

    def _temporary(self, cursor: pg.Cursor, view: View, names: Names) -> None:
        """Create the session's tables of a view, unless a committed transaction of the session did."""
        mine = self._session.generation, names.keys
        if mine not in self._kept:
            cursor.execute("; ".join(compose.create_temporary(view, names)))
            self._new.add(mine)

    def _is_there(self, cursor: pg.Cursor, table: str) -> bool:
        return self._run(cursor, "is_there", {"table": dotted(table)}).fetchone() == (True,)

    def _run(self, cursor: pg.Cursor, name: str, given: Mapping[str, object]) -> pg.Cursor:
        return self._session.run(cursor, name, given, _SQL)
