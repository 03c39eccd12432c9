"""Views in the sink stay equal to a fresh SELECT over tiny random rounds; every deliberate mistake is detected."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import Literal

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.spec import ChannelSpec, ViewSpec
from slotkeeper.core.domain.views import ViewState
from slotkeeper.core.drivers import pg
from slotkeeper.core.engine.tasks import ViewsTask
from slotkeeper.core.engine.worker.rounds import build, work
from slotkeeper.core.errors import SlotkeeperError, Superseded
from slotkeeper.core.sinks.postgres.session import SinkSession
from slotkeeper.core.sinks.postgres.views import rounds as driven
from slotkeeper.core.sinks.postgres.views.compare import PostgresViews
from slotkeeper.core.sinks.postgres.views.rounds import Mutant
from slotkeeper.core.views.plan import View
from slotkeeper.core.views.statements import Names, insert_keys
from tests.support.views import SOME, Layers, beside_writers, transaction
from tests.support.waiting import until

ROUNDS = 80


def test_every_view_equals_its_select_after_each_of_many_tiny_rounds(layers: Layers, seed: int) -> None:
    print(f"seed {seed}")
    draw = random.Random(seed)
    for _ in range(8):
        layers.run(*transaction(draw))
    views, epoch = layers.built()
    assert layers.wrong() == {}
    for number in range(ROUNDS):
        changes = transaction(draw)
        layers.run(*changes)
        found = views.round(epoch)
        assert found.stale == {}, (number, changes)
        assert layers.wrong() == {}, (number, changes)
    assert {row.state for row in views.rows()} == {ViewState.RUNNING}


def first_wrong(layers: Layers, mutant: Mutant, seed: int, most: int = ROUNDS) -> int:
    """Return the number of the first random round after which a mutant's views are wrong; 0 if there is none."""
    draw = random.Random(seed)
    views, epoch = layers.built(mutant)
    for number in range(1, most + 1):
        layers.run(*transaction(draw))
        views.round(epoch)
        if layers.wrong():
            return number
    return 0


@pytest.mark.parametrize("mutant", [Mutant(extends=False), Mutant(clears=False)], ids=["no extension", "kept deltas"])
def test_a_round_that_leaves_null_extended_keys_out_or_keeps_deltas_is_found(
    layers: Layers, mutant: Mutant, seed: int
) -> None:
    print(f"seed {seed}")
    assert first_wrong(layers, mutant, seed) > 0


@pytest.mark.parametrize("mutant", [Mutant(), Mutant(snapshot=False)], ids=["snapshot", "no snapshot"])
def test_a_change_between_two_statements_of_a_round_is_lost_only_without_one_snapshot(
    layers: Layers, mutant: Mutant
) -> None:
    layers.views = layers.views[:2]
    views, epoch = layers.built(mutant)

    def commit_meanwhile(point: str) -> None:
        if point == "keys_found":
            views.probe = lambda _: None
            layers.run("INSERT INTO ods.orders VALUES (2, NULL, 'b')")

    views.probe = commit_meanwhile
    layers.run("INSERT INTO ods.orders VALUES (1, NULL, 'a')")
    views.round(epoch)
    views.round(epoch)
    assert bool(layers.wrong()) is not mutant.snapshot


@pytest.mark.parametrize("early", [False, True], ids=["in the round", "at capture"])
def test_keys_of_two_concurrent_changes_are_lost_only_if_they_are_found_at_capture(layers: Layers, early: bool) -> None:
    layers.views = layers.views[1:2]
    found: list[tuple[str, str]] = []

    def captured_early(view: View, names: Names, changed: Sequence[str]) -> str:
        rows = [f"('{region}', '{status}')" for region, status in found] or ["(NULL, NULL)"]
        return insert_keys(view, names, f"SELECT * FROM (VALUES {', '.join(rows)}) k WHERE column1 IS NOT NULL")

    views, epoch = layers.built(Mutant(keys=captured_early) if early else None)
    joined = "SELECT c.region, o.status FROM ods.orders o JOIN ods.customers c ON c.id = o.cust"
    one, other = layers.server.connect(layers.database), layers.server.connect(layers.database)
    try:
        with one.cursor() as first, other.cursor() as second:
            for cursor, change in (
                (first, "INSERT INTO ods.orders VALUES (1, 1, 'a')"),
                (second, "INSERT INTO ods.customers VALUES (1, 'r0', 1)"),
            ):
                cursor.execute("BEGIN")
                cursor.execute(change)
                cursor.execute(joined)
                found += cursor.fetchall()  # what a trigger of this transaction can see
            first.execute("COMMIT")
            second.execute("COMMIT")
    finally:
        one.close()
        other.close()
    views.round(epoch)
    assert bool(layers.wrong()) is early


@pytest.mark.parametrize("mutant", [Mutant(), Mutant(fence=False)], ids=["fence", "no fence"])
def test_a_round_of_an_earlier_driver_ends_at_the_fence(layers: Layers, mutant: Mutant) -> None:
    layers.views = layers.views[:2]
    old, epoch = layers.built(mutant)
    layers.maintained().enter()
    layers.run("INSERT INTO ods.orders VALUES (1, NULL, 'a')")
    if mutant.fence:
        with pytest.raises(Superseded):
            old.round(epoch)
    else:
        assert old.round(epoch).applied  # the mistake: it wrote


def stale(layers: Layers, views: PostgresViews, epoch: int, cause: str) -> None:
    """Check that the next round marks a view because of `cause`, and that a build makes all equal again."""
    found = views.round(epoch)
    assert found.stale and all(cause in one for one in found.stale.values()), found
    rows = {row.target: row for row in views.rows()}
    assert all(rows[target].state is ViewState.STALE for target in found.stale)
    views.round(epoch)  # deletes the rows captured for them
    for view in views.views:
        if view.target in found.stale:
            views.build(view.target, epoch)
    assert layers.wrong() == {}
    assert {row.state for row in views.rows()} == {ViewState.RUNNING}


CAUSES = {
    "TRUNCATE ods.orders": "ods.orders was truncated",
    f"TRUNCATE ods.orders; {SOME}": "ods.orders was truncated",
    "ALTER TABLE ods.orders DISABLE TRIGGER USER; DELETE FROM ods.orders WHERE id < 5": "is disabled",
    "ALTER TABLE ods.orders DISABLE TRIGGER USER; DELETE FROM ods.orders; ALTER TABLE ods.orders ENABLE TRIGGER USER": (
        "was altered"
    ),
    "ALTER TABLE ods.orders ALTER amount TYPE numeric(14,4) USING amount / 2": "was altered",
    "ALTER TABLE ods.orders RENAME TO old; CREATE TABLE ods.orders (LIKE ods.old); INSERT INTO ods.orders SELECT * FROM"
    " ods.old LIMIT 3": "is missing",
}


@pytest.mark.parametrize("change", CAUSES)
def test_a_change_that_no_round_can_follow_makes_views_stale_until_they_are_built_again(
    layers: Layers, change: str
) -> None:
    layers.views = layers.views[3:7]
    layers.run(SOME)
    views, epoch = layers.built()
    layers.run(change)
    stale(layers, views, epoch, CAUSES[change])
    layers.run("DELETE FROM ods.orders WHERE id = 2", "UPDATE ods.orders SET status = 'z' WHERE id = 3")
    assert views.round(epoch).stale == {}
    assert layers.wrong() == {}


def test_a_changed_row_of_a_view_itself_is_found_and_repaired(layers: Layers) -> None:
    layers.views = layers.views[3:5]
    layers.run(SOME)
    views, epoch = layers.built()
    layers.run("UPDATE dws.by_status SET n = n + 1")
    stale(layers, views, epoch, "dws.by_status was changed by the session of")


def test_more_changes_than_delta_rows_max_make_a_view_stale(layers: Layers) -> None:
    layers.views, layers.most = layers.views[4:5], 5
    views, epoch = layers.built()
    layers.run(SOME)
    stale(layers, views, epoch, "more than 5 changes waited")


def test_the_space_of_applied_changes_is_used_again(layers: Layers) -> None:
    layers.views = layers.views[3:5]
    views, epoch = layers.built()
    layers.run(SOME.replace("(1, 20)", "(1, 2000)"))
    size = "SELECT sum(pg_relation_size(oid)) FROM pg_class WHERE relname LIKE 'slotkeeper_delta%'"
    sizes = []
    for _ in range(10):
        layers.run("UPDATE ods.orders SET qty = qty + 1")
        sizes += [int(str(value)) for (value,) in layers.rows(size)]
        assert views.round(epoch).applied
    assert sizes[-1] <= 2 * sizes[0], sizes


def test_a_capture_that_fails_never_stops_the_writer_but_its_view(layers: Layers) -> None:
    layers.views = layers.views[3:5]
    views, epoch = layers.built()
    deltas = layers.rows("SELECT relname FROM pg_class WHERE relname LIKE 'slotkeeper_delta%'")
    layers.run(*(f"ALTER TABLE {name} RENAME TO {name}_gone" for (name,) in deltas))
    layers.run(SOME)
    assert layers.rows("SELECT count(*) FROM ods.orders") == [(20,)]
    layers.run(*(f"ALTER TABLE {name}_gone RENAME TO {name}" for (name,) in deltas))
    stale(layers, views, epoch, "changes of ods.orders could not be captured")


def test_a_table_cannot_be_truncated_between_the_snapshot_of_a_round_and_its_reads(layers: Layers) -> None:
    layers.views = layers.views[:1]
    views, epoch = layers.built()
    refused: list[str] = []

    def truncate(point: str) -> None:
        if point == "keys_found":
            with pytest.raises(pg.DriverError) as error:
                layers.run("SET LOCAL lock_timeout = '50ms'", "TRUNCATE ods.customers")
            layers.rows("ROLLBACK; SELECT 1")
            refused.append(pg.failure(error.value)[0])

    views.probe = truncate
    layers.run("INSERT INTO ods.orders VALUES (1, NULL, 'a')")
    views.round(epoch)
    assert refused == ["55P03"]


def test_a_view_whose_key_is_none_fails_and_the_others_continue(layers: Layers) -> None:
    wrong = ViewSpec("dwd.wrong", "SELECT status, qty FROM ods.orders", ("status",))
    layers.views = (layers.views[3], wrong)
    layers.run(SOME)
    views = layers.maintained()
    epoch = views.enter()
    for target in ("dws.by_status", "dwd.wrong"):
        build(views, target, epoch)
    rows = {row.target: row for row in views.rows()}
    assert rows["dwd.wrong"].state is ViewState.FAILED
    assert "several rows with the same key (status)" in rows["dwd.wrong"].cause
    layers.run("DELETE FROM ods.orders WHERE id = 2")
    views.round(epoch)
    layers.views = layers.views[:1]
    assert layers.wrong() == {}


def test_verify_finds_a_wrong_row_and_explain_names_missing_indexes(layers: Layers) -> None:
    layers.views = layers.views[:2]
    layers.run(SOME, "INSERT INTO ods.customers VALUES (1, 'r0', 1)")
    views, _ = layers.built()
    layers.run("UPDATE ods.orders SET amount = 3 WHERE id = 2")  # waits: verify applies it first
    assert [views.verify(view.target) for view in views.views] == [[], []]
    layers.run("ALTER TABLE dwd.wide DISABLE TRIGGER USER", "UPDATE dwd.wide SET qty = 99 WHERE id = 3")
    assert [(one.key, one.what) for one in views.verify("dwd.wide")] == [("3", "different")]
    assert "CREATE INDEX ON ods.orders (cust)" in views.explain("dwd.wide").missing


def test_rows_of_a_lookup_table_are_read_when_the_mirrored_row_changes(layers: Layers) -> None:
    layers.views = tuple(view for view in layers.views if view.lookup)
    layers.run("INSERT INTO ods.lines VALUES (1, 1, 's0', 1), (1, 2, 's0', 1)")
    views, epoch = layers.built()
    layers.run("UPDATE dim.skus SET kind = 'new'")
    views.round(epoch)
    kinds = "SELECT n, kind FROM dwd.with_kind ORDER BY n"
    assert layers.rows(kinds) == [(1, "k0"), (2, "k0")]
    layers.run("UPDATE ods.lines SET price = 2 WHERE n = 1")
    views.round(epoch)
    assert layers.rows(kinds) == [(1, "new"), (2, "k0")]


def test_a_changed_definition_replaces_a_view_and_a_removed_one_leaves_no_trigger(layers: Layers) -> None:
    layers.views = layers.views[3:6]
    layers.run(SOME)
    layers.built()
    other = replace(layers.views[0], sql="SELECT qty, count(*) AS n FROM ods.orders GROUP BY qty", method="auto")
    layers.views = (other,)
    views = layers.maintained()
    epoch = views.enter()
    assert [(row.target, row.state) for row in views.rows()] == [("dws.by_status", ViewState.STALE)]
    views.build("dws.by_status", epoch)
    assert layers.wrong() == {}
    assert layers.rows("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'slotkeeper_view%_u'") == [(1,)]
    views.drop("dws.by_status")
    left = "SELECT relname FROM pg_class WHERE relname LIKE 'slotkeeper_%' AND relkind = 'r' AND relpersistence = 'p'"
    assert {name for (name,) in layers.rows(left)} == {
        "slotkeeper_versions",
        "slotkeeper_view_marks",
        "slotkeeper_views",
    }
    assert layers.rows("SELECT proname FROM pg_proc WHERE proname LIKE 'slotkeeper_%'") == []
    assert layers.rows("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'slotkeeper%'") == [(0,)]


def test_sums_of_nan_and_infinity_become_finite_again(layers: Layers) -> None:
    layers.run("ALTER TABLE ods.orders ALTER amount TYPE numeric")
    sql = "SELECT status, sum(amount) AS amount FROM ods.orders GROUP BY status"
    layers.views = (ViewSpec("dws.sums", sql, method="delta"),)
    layers.run(SOME, "UPDATE ods.orders SET amount = 'NaN' WHERE id = 2")
    views, epoch = layers.built()
    assert layers.wrong() == {}
    for change in ("UPDATE ods.orders SET amount = 1 WHERE id = 2", "UPDATE ods.orders SET amount = 'Infinity'"):
        layers.run(change)
        views.round(epoch)
        assert layers.wrong() == {}
    layers.run("UPDATE ods.orders SET amount = id")
    views.round(epoch)
    assert layers.wrong() == {}


def test_each_round_is_right_in_its_own_snapshot_beside_writers(layers: Layers, seed: int) -> None:
    print(f"seed {seed}")
    applied, found = beside_writers(layers, seed, rounds=6)
    assert applied
    assert found == [{}] * len(found)


POINTS = ("keys_found", "before_round_commit", "after_round_commit")


@pytest.mark.parametrize("point", [*POINTS, "view_made", "before_build_commit", "after_build_commit"])
def test_a_session_that_ends_at_any_point_of_a_round_or_build_leaves_nothing_wrong(layers: Layers, point: str) -> None:
    layers.views = layers.views[1:4]
    layers.run(SOME)
    views, epoch = layers.built()
    ended: list[str] = []

    def end(there: str) -> None:
        if there == point and not ended:
            ended.append(there)
            killed = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = "
            layers.rows(f"{killed}'slotkeeper/layers/views'")
            until(lambda: layers.rows(f"{ALIVE}") == [(0,)], 10, "the session to end")

    views.probe = end
    layers.run("UPDATE ods.orders SET status = 'q', qty = 7 WHERE id < 9")
    act = partial(views.round, epoch) if point in POINTS else partial(views.build, "dws.by_status", epoch)
    with suppress(SlotkeeperError):
        act()
    assert ended == [point]
    again = layers.maintained()  # the next driver, or the next task
    epoch = again.enter()
    for row in again.rows():
        if row.state is not ViewState.RUNNING:
            again.build(row.target, epoch)
    again.round(epoch)
    assert layers.wrong() == {}


ALIVE = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'slotkeeper/layers/views'"


def test_no_other_login_or_table_can_use_the_functions_that_write_deltas(layers: Layers) -> None:
    layers.views = layers.views[3:5]
    layers.run(SOME)
    views, epoch = layers.built()
    public = "SELECT count(*) FROM pg_proc WHERE proname ~ '^slotkeeper_(capture|guard)_' AND "
    assert layers.rows(public + "has_function_privilege('pg_monitor', oid, 'EXECUTE')") == [(0,)]
    ((function,),) = layers.rows(
        "SELECT DISTINCT tgfoid::regproc::text FROM pg_trigger WHERE tgrelid = 'ods.orders'::regclass"
        " AND tgname LIKE 'slotkeeper_view_%' ORDER BY 1 LIMIT 1"
    )
    layers.run(
        "CREATE TABLE ods.other (LIKE ods.orders)",
        "CREATE TRIGGER slotkeeper_view_x AFTER INSERT ON ods.other REFERENCING NEW TABLE AS slotkeeper_new"
        f" FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
        "INSERT INTO ods.other SELECT * FROM ods.orders",
    )
    assert set(views.waiting().values()) == {0}
    found = views.round(epoch)
    assert list(found.stale.values()) == ["another trigger calls a capture function"]
    for target in found.stale:
        build(views, target, epoch)
    assert layers.wrong() == {}


def test_no_setting_switches_capture_or_guard_off(layers: Layers) -> None:
    layers.views = layers.views[3:4]
    layers.run(
        SOME, "CREATE ROLE stranger_of_views", "CREATE SCHEMA dws", "GRANT USAGE ON SCHEMA dws TO stranger_of_views"
    )
    views, epoch = layers.built()
    try:
        layers.run("GRANT SELECT, UPDATE ON dws.by_status TO stranger_of_views")
        layers.rows(
            "SET SESSION AUTHORIZATION stranger_of_views; SET slotkeeper_views.round = '1';"
            " UPDATE dws.by_status SET n = n + 1 RETURNING 1"
        )
        layers.rows("RESET SESSION AUTHORIZATION; RESET slotkeeper_views.round; SELECT 1")
        stale(layers, views, epoch, "was changed by the session of stranger_of_views")
    finally:
        layers.run("RESET SESSION AUTHORIZATION", "DROP OWNED BY stranger_of_views", "DROP ROLE stranger_of_views")


def test_a_table_that_no_view_made_is_neither_replaced_nor_dropped(layers: Layers) -> None:
    layers.views = layers.views[3:4]
    layers.run("CREATE SCHEMA dws", "CREATE TABLE dws.by_status (mine int)", "INSERT INTO dws.by_status VALUES (7)")
    views = layers.maintained()
    epoch = views.enter()
    build(views, "dws.by_status", epoch)
    (row,) = views.rows()
    assert row.state is ViewState.FAILED and "no view of this job created it" in row.cause
    assert views.drop("dws.by_status") is False
    assert layers.rows("SELECT * FROM dws.by_status") == [(7,)]
    layers.run("DROP TABLE dws.by_status")
    views, _ = layers.built()
    layers.run("DROP TABLE dws.by_status", "CREATE TABLE dws.by_status (mine int)")
    assert views.drop("dws.by_status") is False
    assert layers.rows("SELECT count(*) FROM dws.by_status") == [(0,)]


TREES = {
    "CREATE TABLE ods.parts (id int, status text) PARTITION BY LIST (id)": "ods.parts",
    "CREATE TABLE ods.parts (id int, status text); CREATE TABLE ods.child () INHERITS (ods.parts)": "ods.parts",
    "CREATE TABLE ods.top (id int, status text); CREATE TABLE ods.parts () INHERITS (ods.top)": "ods.parts",
}


@pytest.mark.parametrize("create", TREES)
def test_a_table_of_a_partition_or_inheritance_tree_is_refused_by_name(layers: Layers, create: str) -> None:
    layers.run(create)
    sql = "SELECT o.id, p.status FROM ods.orders o JOIN ods.parts p ON p.id = o.id"
    layers.views = (ViewSpec("dwd.of_parts", sql, ("id",)),)
    job = replace(layers.job, channels=(*layers.job.channels, ChannelSpec("src.parts", "ods.parts")))
    views = PostgresViews(layers.session(), job)
    build(views, "dwd.of_parts", views.enter())
    (row,) = views.rows()
    assert row.state is ViewState.FAILED and "ods.parts is a partitioned table" in row.cause


def test_a_table_that_becomes_a_parent_makes_its_views_stale(layers: Layers) -> None:
    layers.views = layers.views[3:4]
    views, epoch = layers.built()
    layers.run("CREATE TABLE ods.child () INHERITS (ods.orders)")
    assert "inheritance tree" in views.round(epoch).stale["dws.by_status"]


def test_deltas_of_a_view_that_another_driver_built_meanwhile_stay(layers: Layers) -> None:
    layers.views = layers.views[4:5]
    layers.run(SOME)
    views, epoch = layers.built()
    layers.run("UPDATE ods.orders SET qty = 3 WHERE id = 2")
    view = views.views[0]
    with views._session.transaction() as cursor:  # it read the state STALE before another driver's build
        views._discard(cursor, view, epoch)
    assert views.waiting() == {view.target: 2}
    with pytest.raises(Superseded):
        views.build(view.target, epoch + 5)
    assert views.waiting() == {view.target: 2}


def test_more_deltas_of_a_failed_view_than_one_transaction_can_delete_do_not_stop_the_others(
    layers: Layers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver's questions about its views have a time limit, and the deletion is a part of one."""
    monkeypatch.setattr(driven, "MOST_DISCARDED", 5)
    layers.views = layers.views[3:5]
    layers.run(SOME)
    views, epoch = layers.built()
    failed, other = views.views
    delta = views._names[failed.target].delta("ods.orders")
    layers.run(
        "CREATE FUNCTION ods.slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_sleep(0.05); RETURN OLD; END $$",
        f"CREATE TRIGGER slow BEFORE DELETE ON {delta} FOR EACH ROW EXECUTE FUNCTION ods.slow()",
        *["UPDATE ods.orders SET qty = qty + 1"] * 20,
    )
    views.set_state(failed.target, ViewState.FAILED, "a test", epoch)
    views._session.transaction_ms = 1_000
    before = views.waiting()[failed.target]
    assert before >= 40
    assert views.waits(epoch)
    assert views.waiting() == {failed.target: before - 5, other.target: views.waiting()[other.target]}
    for _ in range(before // 5):
        assert views.waits(epoch)
    assert views.waiting()[failed.target] == 0


def test_a_view_whose_round_fails_in_any_way_does_not_stop_the_others(layers: Layers) -> None:
    layers.views = layers.views[3:5]
    layers.run(SOME)
    views, epoch = layers.built()
    layers.run(
        "CREATE FUNCTION ods.fail() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = 'P0001'; END $$",
        "CREATE TRIGGER fail AFTER INSERT OR UPDATE ON dws.by_status FOR EACH ROW EXECUTE FUNCTION ods.fail()",
    )
    layers.run("UPDATE ods.orders SET qty = qty + 1")
    found = views.round(epoch)
    assert "P0001" in found.stale["dws.by_status"] and found.applied.keys() == {"dws.by_status_again"}


def test_a_second_row_of_a_key_is_found_though_on_conflict_would_not_write_it(layers: Layers) -> None:
    layers.run(*(f"INSERT INTO ods.orders VALUES ({n}, {n}, 'a', 1, 1, 1)" for n in (1, 2)))
    twice = ViewSpec("dwd.twice", "SELECT status FROM ods.orders WHERE cust = 1", ("status",))
    layers.views = (layers.views[3], twice)
    views, epoch = layers.built()
    layers.run("UPDATE ods.orders SET cust = 1")
    assert [(one.key, one.what) for one in views.verify("dws.by_status")] == []
    found = views.round(epoch)
    assert "several rows with the same key (status)" in found.stale["dwd.twice"]
    build(views, "dwd.twice", epoch)
    rows = {row.target: row for row in views.rows()}
    assert rows["dwd.twice"].state is ViewState.FAILED
    assert "several rows with the same key (status)" in rows["dwd.twice"].cause


def test_verify_finds_a_float_that_is_not_finite_and_accepts_a_comment_at_the_end(layers: Layers) -> None:
    sql = "SELECT id, weight FROM ods.orders -- all; of them\n; -- the end"
    layers.views = (ViewSpec("dwd.weights", sql, ("id",)),)
    layers.run(SOME, "UPDATE ods.orders SET weight = 'NaN' WHERE id = 1")
    views, _ = layers.built()
    assert views.verify("dwd.weights") == []
    layers.run(
        "ALTER TABLE dwd.weights DISABLE TRIGGER USER",
        "UPDATE dwd.weights SET weight ="
        " CASE id WHEN 1 THEN 7.5 WHEN 2 THEN 'NaN' ELSE 'Infinity'::float8 END WHERE id < 4",
    )
    assert [one.key for one in views.verify("dwd.weights")] == ["1", "2", "3"]


def test_a_key_whose_type_has_an_equality_of_its_own_is_refused(layers: Layers) -> None:
    layers.run(
        "CREATE TYPE ods.kind AS ENUM ('a', 'b')",
        "CREATE FUNCTION ods.like_it(ods.kind, ods.kind) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
        "CREATE OPERATOR ods.= (FUNCTION = ods.like_it, LEFTARG = ods.kind, RIGHTARG = ods.kind)",
        "CREATE DOMAIN ods.kinds AS ods.kind",
        "ALTER TABLE ods.orders ADD kind ods.kinds",
    )
    layers.views = (ViewSpec("dws.kinds", "SELECT kind, count(*) AS n FROM ods.orders GROUP BY kind"),)
    views = layers.maintained()
    build(views, "dws.kinds", views.enter())
    (row,) = views.rows()
    assert row.state is ViewState.FAILED and "its key column kind has its own equality operator" in row.cause


def test_a_build_waits_only_briefly_for_open_writers_of_its_tables(layers: Layers) -> None:
    layers.views = layers.views[3:4]
    views = layers.maintained()
    epoch = views.enter()
    writer = layers.server.connect(layers.database)
    try:
        with writer.cursor() as cursor:
            cursor.execute("BEGIN; INSERT INTO ods.orders VALUES (1, 1, 'a', 1, 1, 1)")
            task = ViewsTask(layers.job, epoch, ("dws.by_status",), 0, "")
            assert work(views, task, SystemClock()).locked
            (row,) = views.rows()
            assert row.state is ViewState.STALE
            cursor.execute("COMMIT")
    finally:
        writer.close()
    assert not work(views, task, SystemClock()).locked
    assert layers.wrong() == {}


@pytest.mark.parametrize("method", ["delta", "recompute"])
def test_a_round_of_few_changes_reads_no_whole_table(layers: Layers, method: Literal["delta", "recompute"]) -> None:
    sql = "SELECT g, count(*) AS n, sum(v) AS v FROM ods.t GROUP BY g"
    layers.run(
        "CREATE TABLE ods.t (id int PRIMARY KEY, g int, v numeric)",
        "INSERT INTO ods.t SELECT n, n, n FROM generate_series(1, 200000) n",
        "CREATE INDEX ON ods.t (g)",
    )
    layers.vacuum()
    layers.views = (ViewSpec("dws.v", sql, method=method),)
    job = replace(layers.job, channels=(ChannelSpec("src.t", "ods.t"),))
    with closing(layers.session()) as session:
        views = PostgresViews(session, job)
        views.build("dws.v", epoch := views.enter())
        before = whole_reads(layers, session)
        layers.run("UPDATE ods.t SET v = v + 1 WHERE id = ANY (ARRAY(SELECT generate_series(7, 199007, 1000)))")
        assert views.round(epoch).applied == {"dws.v": 200}
        assert whole_reads(layers, session) == before
        assert views.verify("dws.v") == []


def whole_reads(layers: Layers, session: SinkSession) -> dict[object, object]:
    """Rows that sequential scans have read so far of tables with many rows."""
    with session.transaction() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
    session.rollback()
    layers.rows("SELECT pg_stat_force_next_flush()")
    return dict(layers.rows("SELECT relname, seq_tup_read FROM pg_stat_user_tables WHERE n_live_tup > 1000"))  # type: ignore[arg-type]
