"""Sessions of jobs that wait for a lock at a real PostgreSQL, and the sessions that block them: others, chains, other
jobs."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.secrets import login
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.locks import PREFIX, LockWait, cause, locked, to_do
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.ports.kinds import StoreSession
from slotkeeper.core.ports.sink import LockReader
from slotkeeper.core.sinks import registry
from slotkeeper.core.sinks.postgres.check import viewer
from slotkeeper.demo.postgres import Server, write_password
from tests.support.proxy import Line, proxy
from tests.support.standin import drop_database, new_database
from tests.support.waiting import until

_numbers = itertools.count(1)
TABLE = "mart.orders"
STATEMENT = f"UPDATE {TABLE} SET v = v + 1 WHERE id = 1"


def now() -> float:
    return SystemClock().utc().timestamp()


@dataclass
class Place:
    """A sink with a target, sessions that wait in threads, and the reader."""

    server: Server
    database: str
    folder: Path
    stack: ExitStack

    def session(self, name: str, user: str | None = None) -> pg.Connection:
        endpoint = self.server.endpoint(self.database)
        given = login(replace(endpoint, user=user) if user else endpoint, name)
        made = pg.connect(given.endpoint, given.password, name)
        return self.stack.enter_context(closing(made))

    def stranger(self, *statements: str, name: str = "psql") -> pg.Connection:
        """A session with an open transaction that ran these statements."""
        made = self.session(name)
        run(made, *statements)
        return made

    def waiting(self, statement: str, name: str) -> pg.Connection:
        """A session that waits in a thread until it gets its lock, or is ended."""
        made = self.session(name)
        self.waits_in_thread(made, statement)
        return made

    def waits_in_thread(self, session: pg.Connection, statement: str) -> None:

        def go() -> None:
            with suppress(pg.DriverError):
                run(session, statement)
                session.rollback()

        thread = threading.Thread(target=go)
        thread.start()
        self.stack.callback(thread.join)
        self.stack.callback(pg.cancel, session)

    def endpoint(self, user: str = "", password: SecretRef | None = None) -> Endpoint:
        found = self.server.endpoint(self.database)
        return replace(found, user=user, password=password) if password else found

    def reader(self, prefix: str = PREFIX, endpoint: Endpoint | None = None, kind: str = "postgres") -> LockReader:
        session: StoreSession = registry.open(kind).connect(login(endpoint or self.endpoint(), "asking"), "public")
        self.stack.callback(session.close)
        made = session.locks(prefix)
        assert made is not None
        return made

    def waits(self, found: LockReader, count: int = 1) -> Sequence[LockWait]:
        """Return the waits, once there is this number of them."""

        def some() -> Sequence[LockWait]:
            seen = found.read(now())
            return seen if len(seen) == count else ()

        return until(some, 20, f"{count} sessions to wait")


def run(connection: pg.Connection, *statements: str) -> None:
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture
def place(pg_server: Server, tmp_path: Path) -> Iterator[Place]:
    database = f"locks_{next(_numbers)}"
    made = ("CREATE SCHEMA mart", f"CREATE TABLE {TABLE} (id int PRIMARY KEY, v int)")
    new_database(pg_server, database, *made, f"INSERT INTO {TABLE} VALUES (1, 1), (2, 2)")
    with ExitStack() as stack:
        yield Place(pg_server, database, tmp_path, stack)
    drop_database(pg_server, database)


def test_no_session_waits_where_nothing_is_locked(place: Place) -> None:
    place.stranger(f"SELECT * FROM {TABLE}")
    assert place.reader().read(now()) == ()


def test_a_strangers_lock_table_is_named_with_who_what_and_since(place: Place) -> None:
    eve = place.stranger(f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE /* 'hunter2' */")
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader())
    pid, user = eve.info.backend_pid, eve.info.user
    assert (wait.thing, wait.mode, wait.job, wait.waits) == (TABLE, "RowExclusiveLock", "orders", True)
    assert wait.statement == STATEMENT and 0 <= now() - wait.since < 60
    assert wait.root is not None and (wait.root.pid, wait.root.state) == (pid, "idle in transaction")
    said = cause(wait, now())
    assert said.startswith(f"{TABLE} is locked by pid {pid}, user {user}, application psql, idle in transaction for ")
    assert said.endswith(f" s: LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")
    assert f"SELECT pg_terminate_backend({pid})" in to_do(wait)


def test_of_many_in_front_some_are_told_and_all_counted(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewer, "MOST", 2)
    monkeypatch.setattr(viewer, "ASKED", 3)
    for number in range(5):
        place.stranger(f"LOCK TABLE {TABLE} IN ACCESS SHARE MODE", name=f"reader {number}")
    place.waiting(f"LOCK TABLE {TABLE}", "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader())
    assert (len(wait.blockers), wait.more) == (2, 3)
    assert cause(wait, None).endswith("; 3 more sessions block it")


def test_the_printed_statement_ends_the_session_and_none_that_got_its_pid_later(place: Place) -> None:
    eve = place.stranger(f"LOCK TABLE {TABLE} IN ACCESS EXCLUSIVE MODE")
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader())
    assert wait.root is not None and wait.root.began is not None
    an_hour_before = replace(wait.root, began=wait.root.began - 3_600)
    admin = place.session("admin")
    for root, ends in ((an_hour_before, []), (wait.root, [(True,)])):
        with pg.transaction(admin) as cursor:
            cursor.execute(to_do(replace(wait, blockers=(root,))).split("`")[1])
            assert cursor.fetchall() == ends
    with pytest.raises(pg.DriverError):
        run(eve, "SELECT 1")


def test_a_row_that_somebody_changed_and_left_names_its_table(place: Place) -> None:
    eve = place.stranger(STATEMENT)
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader())
    assert wait.thing == f"a row of {TABLE}"
    assert wait.root is not None and wait.root.pid == eve.info.backend_pid


def test_an_insert_of_a_key_that_somebody_else_inserts_waits_for_a_row_without_its_table(place: Place) -> None:
    statement = f"INSERT INTO {TABLE} VALUES (3, 3) ON CONFLICT (id) DO NOTHING"
    eve = place.stranger(statement)
    place.waiting(statement, "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader())
    assert wait.thing == "a row" and wait.statement == statement
    assert wait.root is not None and wait.root.pid == eve.info.backend_pid


def test_in_a_queue_its_head_is_named_and_the_other_sessions_in_front(place: Place) -> None:
    eve = place.stranger(f"SELECT * FROM {TABLE}", name="report")
    found = place.reader(prefix="migration")
    bob = place.waiting(f"ALTER TABLE {TABLE} ADD COLUMN w int", "migration")
    place.waits(found)
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader())
    assert [one.pid for one in wait.blockers] == [eve.info.backend_pid, bob.info.backend_pid]
    assert [one.waits for one in wait.blockers] == [False, True]
    said = cause(wait, now())
    assert f"{TABLE} is locked by pid {eve.info.backend_pid}, user " in said
    assert f"; earlier in the queue: pid {bob.info.backend_pid}, user " in said
    assert str(bob.info.backend_pid) not in to_do(wait)


def test_a_login_that_may_not_see_others_says_what_is_hidden_from_it(place: Place) -> None:
    role, file = f"writer_{place.database}", place.folder / "password"
    admin = place.session("admin")
    run(admin, f"CREATE ROLE {role} LOGIN PASSWORD '{write_password(file)}'", f"GRANT USAGE ON SCHEMA mart TO {role}")
    run(admin, f"GRANT SELECT, UPDATE ON {TABLE} TO {role}")
    admin.commit()
    place.stack.callback(lambda: run(admin, f"DROP OWNED BY {role}", f"DROP ROLE {role}", "COMMIT"))
    eve = place.stranger(f"LOCK TABLE {TABLE}")
    endpoint = place.endpoint(role, SecretRef("file", str(file)))
    given = login(endpoint, "slotkeeper/orders/7")
    ours = pg.connect(given.endpoint, given.password, given.name)
    place.stack.callback(ours.close)
    place.waits_in_thread(ours, STATEMENT)
    (wait,) = place.waits(place.reader(endpoint=endpoint))
    assert wait.statement == STATEMENT and wait.root is not None
    assert (wait.root.state, wait.root.since, wait.root.statement) == (None, None, None)
    said = cause(wait, now())
    assert said.endswith(", application psql, its state and statement are hidden from this login")
    assert f"SELECT pg_terminate_backend({eve.info.backend_pid})" in to_do(wait)


def test_a_job_blocked_by_another_slotkeeper_job_names_it_and_no_remedy_ends_it(place: Place) -> None:
    place.stranger(STATEMENT, name="slotkeeper/prices/3")
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader("slotkeeper/orders/"))
    assert "job prices (slotkeeper/prices/3)" in cause(wait, now())
    assert "pg_terminate_backend" not in to_do(wait) and "`slotkeeper jobs pause prices`" in to_do(wait)
    assert place.reader("slotkeeper/prices/").read(now()) == ()


def test_a_prepared_transaction_is_named_and_how_it_is_ended(place: Place) -> None:
    gid = f"left_{place.database}"
    eve = place.stranger(f"LOCK TABLE {TABLE}", f"PREPARE TRANSACTION '{gid}'")
    eve.rollback()
    place.stack.callback(lambda: ended(place, f"ROLLBACK PREPARED '{gid}'"))
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader())
    assert f"{TABLE} is locked by prepared transaction '{gid}' of user {eve.info.user}, prepared for " in cause(
        wait, now()
    )
    assert f"ROLLBACK PREPARED '{gid}'" in to_do(wait)


def test_a_prepared_transaction_with_a_name_that_cannot_be_typed_is_ended_by_what_is_printed(place: Place) -> None:
    gid = f"{place.database}`; or type `é\n'"
    escaped = gid.replace("'", "''")
    eve = place.stranger(f"LOCK TABLE {TABLE}", f"PREPARE TRANSACTION '{escaped}'")
    eve.rollback()
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader())
    (typed,) = to_do(wait).split("`")[1::2]
    ended(place, typed)
    until(lambda: not place.reader().read(now()), 20, "no session to wait")


def ended(place: Place, *statements: str) -> None:
    with closing(place.server.connect(place.database)) as connection:
        run(connection, *statements)


def test_between_two_attempts_a_wait_lasts_as_long_as_the_lock_and_ends_with_it(place: Place) -> None:
    eve = place.stranger(f"LOCK TABLE {TABLE}")
    first = place.waiting(STATEMENT, "slotkeeper/orders/7")
    found = place.reader()
    (wait,) = place.waits(found)
    pg.cancel(first)
    (kept,) = until(
        lambda: [one for one in found.read(now()) if not one.waits], 20, "the attempt to end and the wait to be kept"
    )
    assert (kept.since, kept.thing) == (wait.since, TABLE)
    assert kept.root is not None and kept.root.pid == eve.info.backend_pid
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (again,) = until(lambda: [one for one in found.read(now()) if one.waits], 20, "the next attempt to wait")
    assert again.since == wait.since and again.pid != wait.pid
    eve.rollback()
    until(lambda: not found.read(now()), 20, "the wait to be gone with the lock")


def test_a_session_that_began_another_transaction_is_not_in_front_any_more(place: Place) -> None:
    eve = place.stranger(f"LOCK TABLE {TABLE}")
    ours = place.waiting(STATEMENT, "slotkeeper/orders/7")
    found = place.reader()
    place.waits(found)
    pg.cancel(ours)
    until(lambda: any(not one.waits for one in found.read(now())), 20, "the wait to be kept")
    eve.rollback()
    run(eve, f"SELECT * FROM {TABLE}")
    assert found.read(now()) == ()


def test_several_that_wait_for_the_same_are_one_thing_that_is_locked(place: Place) -> None:
    eve = place.stranger(f"LOCK TABLE {TABLE}")
    for number in range(3):
        place.waiting(STATEMENT, f"slotkeeper/orders/{number}")
    (one,) = locked(place.waits(place.reader(), 3), now())
    assert (one.thing, one.pid, one.sessions) == (TABLE, eve.info.backend_pid, 3)


def test_the_question_waits_for_no_lock_of_a_table_however_many_are_locked(place: Place) -> None:
    place.stranger("CREATE TABLE mart.other (id int)", f"LOCK TABLE {TABLE}", f"ALTER TABLE {TABLE} RENAME TO o")
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    (wait,) = place.waits(place.reader())
    assert wait.thing == TABLE


def test_a_server_that_hangs_ends_the_question_in_its_time_and_is_asked_again(place: Place) -> None:
    place.stranger(f"LOCK TABLE {TABLE}")
    place.waiting(STATEMENT, "slotkeeper/orders/7")
    with proxy(place.server.port) as between:
        found = place.reader(endpoint=replace(place.endpoint(), host="127.0.0.1", port=between.port))
        (wait,) = place.waits(found)
        between.set(Line.BLACK_HOLE)
        with pytest.raises(Unreachable) as refused:
            found.read(now())
        assert "does not answer within 4 s" in str(refused.value)
        between.set(Line.CUT)
        between.set(Line.THROUGH)
        (again,) = place.waits(found)
    assert (again.since, again.pid) == (wait.since, wait.pid)


CONFLICTS = """
CREATE VIEW pg_catalog.pgxc_lock_conflicts AS
SELECT l.locktype, 'cn_5001'::name AS nodename, current_database() AS dbname, n.nspname, c.relname,
       NULL::name AS partname, l.page, l.tuple, l.transactionid, a.usename AS username, a.backend_xid AS gxid,
       a.xact_start AS xactstart, a.query_id AS queryid, a.query, l.pid::bigint AS pid, l.mode, l.granted
FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid LEFT JOIN pg_class c ON c.oid = l.relation
LEFT JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE l.locktype = 'relation' AND a.datname = current_database()
  AND EXISTS (SELECT FROM pg_locks w WHERE NOT w.granted AND w.relation = l.relation)
"""
"""A stand-in for the view of DWS (dws_04_0809); it does not prove that DWS answers in this form."""


def test_of_dws_the_waiting_session_is_found_by_its_query_and_the_node_and_query_in_front_are_told(
    place: Place,
) -> None:
    admin = place.session("admin")
    run(admin, "SET allow_system_table_mods = on", CONFLICTS)
    admin.commit()
    eve = place.stranger("SET compute_query_id = on", f"LOCK TABLE {TABLE}")
    ours = place.session("slotkeeper/orders/7")
    run(ours, "SET compute_query_id = on")
    ours.commit()
    wanted = f"LOCK TABLE {TABLE} IN ROW EXCLUSIVE MODE"  # PostgreSQL numbers no other statement before it waits
    place.waits_in_thread(ours, wanted)
    found = place.reader(kind="dws")
    (wait,) = place.waits(found)
    assert (wait.thing, wait.job, wait.statement) == (TABLE, "orders", wanted)
    assert wait.root is not None and wait.root.query
    assert cause(wait, now()).startswith(f"{TABLE} is locked by pid {eve.info.backend_pid} on cn_5001, user ")
    assert f"SELECT coorname, pid FROM pgxc_stat_activity WHERE query_id = {wait.root.query}` and " in to_do(wait)
    eve.rollback()
    until(lambda: not found.read(now()), 20, "the wait to be gone")


def test_a_wait_for_a_tables_extension_names_no_session_to_end(place: Place) -> None:
    admin = place.session("admin")
    run(admin, "SET allow_system_table_mods = on", CONFLICTS)
    admin.commit()
    place.stranger("SET compute_query_id = on", f"LOCK TABLE {TABLE}")
    ours = place.session("slotkeeper/orders/7")
    run(ours, "SET compute_query_id = on")
    ours.commit()
    place.waits_in_thread(ours, f"LOCK TABLE {TABLE} IN ROW EXCLUSIVE MODE")
    found = place.reader(kind="dws")
    place.waits(found)
    extension = CONFLICTS.replace("SELECT l.locktype,", "SELECT 'extend'::text AS locktype,")
    run(admin, "DROP VIEW pg_catalog.pgxc_lock_conflicts", extension)
    admin.commit()
    assert not found.read(now())
