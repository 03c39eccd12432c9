"""The views of a job in its sink: their rounds, and the comparison of a view with its SELECT (ADR 94)."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain.views import EQUAL, Difference, Explained
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.sinks.postgres.session import lengthen
from slotkeeper.core.sinks.postgres.views.rounds import Rounds
from slotkeeper.core.sqltext import dotted, quoted
from slotkeeper.core.views import statements as compose
from slotkeeper.core.views.parse import as_typed
from slotkeeper.core.views.plan import View

TOLERANCE = 1e-9
"""Relative difference up to which floating-point sums are equal: their value depends on the order of their rows."""
VERIFY_TRIES = 20
"""A comparison starts again if a round commits between its snapshot and its fence."""
_FLOATS = ("real", "double precision")


class PostgresViews(Rounds):
    """The views of a job, over one session; implements `slotkeeper.core.ports.sink.Views`."""

    def verify(self, target: str, most: int = 20) -> list[Difference]:
        """Compare a view with its SELECT, as typed, in one snapshot after all waiting deltas; return the differences.

        Deltas that wait in that snapshot are applied first, by a round of this transaction that is rolled back.
        """
        view, _ = self._view(target)
        for left in range(VERIFY_TRIES, 0, -1):
            try:
                found = self._verify(view, most)
                break
            except SlotkeeperError as error:
                if left == 1 or error.kind is not ErrorKind.CONTENTION:
                    raise
        words = f"{len(found)} different" if found else EQUAL
        with self._session.transaction() as cursor:
            self._run(cursor, "verified", {"target": target, "verified": words})
        return found

    def _verify(self, view: View, most: int) -> list[Difference]:
        with self._session.transaction() as cursor:
            self._find_tables(cursor)
        with self._snapshot(self._lockable) as cursor:
            lengthen(cursor, 0)
            ((epoch,),) = self._run(cursor, "stored_epoch", {"job": self._job}).fetchall()
            fenced = self._run(cursor, "fence", {"job": self._job, "epoch": epoch}).fetchall()
            running = {str(target): (bool(adds), str(build)) for target, adds, build in fenced}
            if view.target not in running:
                raise Refused(f"view {view.target} is not RUNNING", "`slotkeeper views show` has its state")
            self._apply_all(cursor, running, {})
            found = self._differences(cursor, view, most)
            cursor.execute("ROLLBACK")
        return found

    def _differences(self, cursor: pg.Cursor, view: View, most: int) -> list[Difference]:
        columns = self._run(cursor, "columns", {"table": dotted(view.target)}).fetchall()
        floats = [name for name, _, type_, _ in columns if type_ in _FLOATS]
        typed = "" if view.sql.lstrip()[:6].upper() == "INSERT" else as_typed(view.sql)
        cursor.execute(f"{compose.differences(view, floats, TOLERANCE, typed)} LIMIT {most}")
        return [Difference(str(key), str(what)) for key, what in cursor.fetchall()]

    def waiting(self, most: int = 100_000) -> dict[str, int]:
        found = dict[str, int]()
        built = {row.target for row in self.rows() if row.built}
        with self._session.transaction() as cursor:
            for view in self.views:
                if view.target in built:
                    deltas = [self._names[view.target].delta(table) for table in view.tables]
                    counts = " + ".join(f"(SELECT count(*) FROM (SELECT FROM {one} LIMIT {most}) d)" for one in deltas)
                    cursor.execute(f"SELECT {counts}")
                    found[view.target] = int(cursor.fetchall()[0][0])
        return found

    def explain(self, target: str) -> Explained:
        view, names = self._view(target)
        adds = any(row.target == target and row.adds for row in self.rows())
        wanted = compose.indexed(view, adds)
        given = {"tables": [dotted(table) for table, _ in wanted], "columns": [column for _, column in wanted]}
        with self._session.transaction() as cursor:
            lacked = {int(place) for (place,) in self._run(cursor, "lacked", given).fetchall()} if wanted else set()
        missing = [
            f"CREATE INDEX ON {dotted(table)} ({quoted(column)})"
            for place, (table, column) in enumerate(wanted, 1)
            if place in lacked
        ]
        return replace(compose.explain(view, names, adds), missing=tuple(missing))
