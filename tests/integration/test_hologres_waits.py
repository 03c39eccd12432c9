"""A DDL that waits at a Hologres stand-in for a table lock of a job's session: found, cleared, hidden from a user."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, suppress

from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.source_waits import DDL, to_do
from slotkeeper.core.drivers import pg
from slotkeeper.core.sources import registry
from slotkeeper.demo.hologres.instance import Hologres
from tests.support.hologres import TABLE
from tests.support.waiting import until


def _session(hologres: Hologres, stack: ExitStack, name: str) -> pg.Connection:
    connection = hologres.connect(autocommit=False)
    stack.callback(connection.close)
    _run(connection, f"SET application_name = '{name}'")
    connection.commit()
    return connection


def _run(connection: pg.Connection, statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_ddl_that_waits_for_a_job_s_session_is_reported_until_that_ends(hologres: Hologres) -> None:
    hologres.create_table(TABLE, "id bigint, v bigint", ("id",))
    with ExitStack() as stack:
        ours, eve = (_session(hologres, stack, name) for name in ("slotkeeper/orders/1/copy", "psql"))
        _run(ours, f"SELECT count(*) FROM {TABLE}")

        def alter() -> None:
            with suppress(pg.DriverError):
                _run(eve, f"ALTER TABLE {TABLE} ADD COLUMN c int")
            eve.rollback()

        session = registry.open("hologres").connect(login(hologres.endpoint(), "slotkeeper-locks/orders"))
        stack.callback(session.close)
        reader = session.doctor.waits({TABLE: {"orders_slot": "orders"}})
        assert reader is not None and not reader.read(time.time())
        assert reader.hidden.startswith("hidden: this login cannot see other users' queries")
        thread = threading.Thread(target=alter)
        thread.start()
        try:
            (wait,) = until(lambda: reader.read(time.time()), 20, "it to be told")
            assert (wait.table, wait.jobs, wait.behind) == (TABLE, ("orders",), 0)
            assert wait.what == DDL or wait.waiter.statement is None, "an ordinary user is not shown the statement"
            assert f"pg_terminate_backend({ours.info.backend_pid})" in to_do(wait)
        finally:
            ours.rollback()
            thread.join()
        until(lambda: not reader.read(time.time()), 20, "it to be cleared")
