"""A session that belongs to no Slotkeeper job holds the product's lock: the session is reported, and `--take-over`
passes the lease, never a target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.position import Position
from slotkeeper.core.engine.driver import lease, start
from slotkeeper.core.engine.worker import entries
from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.sinks.postgres.progress import locks
from slotkeeper.demo.orders import TABLE
from slotkeeper.demo.warehouse import Warehouse
from tests.fault.test_fence import Running, task_of
from tests.fault.test_reset import followed
from tests.support.mirror import At, MakeMirror, Mirror, orders, written
from tests.support.polling import config, job
from tests.support.resetting import EARLIEST
from tests.support.waiting import until

Plant = Callable[..., None]


@pytest.fixture
def mirror(warehouse: Warehouse, make_mirror: MakeMirror, seed: int, monkeypatch: pytest.MonkeyPatch) -> Mirror:
    monkeypatch.setattr(lease, "TARGET_WAIT", 1.0)
    monkeypatch.setattr(start, "LEASE_WAIT", 0.5)
    return orders(make_mirror, warehouse, seed)


@pytest.fixture
def plant(mirror: Mirror) -> Iterator[Plant]:
    """Takes locks in its own session, which lasts as long as the test."""
    with ExitStack() as stack:

        def make(*numbers: int, name: str = "psql", how: str = "pg_advisory_lock") -> None:
            connection = stack.enter_context(closing(mirror.sink()))
            with connection.cursor() as cursor:
                cursor.execute("SELECT set_config('application_name', %s, false)", (name,))
                for number in numbers:
                    cursor.execute(f"SELECT {how}(%s) /* the secret is 'hunter2' */", (number,))

        yield make


def lease_lock(mirror: Mirror) -> int:
    return locks.lease_lock(mirror.job.lane_key())


def target_lock(mirror: Mirror) -> int:
    return locks.target_lock(mirror.job.locked_target)


def has_lock(mirror: Mirror, number: int) -> set[str]:
    found = mirror.query(
        mirror.sink,
        "SELECT a.application_name FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.locktype = 'advisory'"
        f" AND granted AND ((l.classid::bigint << 32) | l.objid::bigint) = {number}",
    )
    return {name for (name,) in found}


def twin(mirror: Mirror) -> Mirror:
    """The same job, as another host would start it."""
    again = Mirror.__new__(Mirror)
    again.__dict__.update(mirror.__dict__)
    return again


def refusal(mirror: Mirror) -> Refused:
    error = mirror.start().wait_error()
    assert isinstance(error, Refused), error
    return error


def test_a_strangers_lease_lock_is_reported_as_far_as_the_server_shows_it(mirror: Mirror, plant: Plant) -> None:
    login = mirror.warehouse.endpoint()
    ordinary = login.user
    mirror.at_sink(
        f"GRANT CREATE, TEMPORARY ON DATABASE {mirror.sink_database} TO {ordinary}",
        f"GRANT USAGE, CREATE ON SCHEMA public TO {ordinary}",
    )
    mirror.job = replace(mirror.job, sink=replace(mirror.job.sink, user=ordinary, password=login.password))
    plant(lease_lock(mirror), name="report")
    error = refusal(mirror)
    assert "is held by a session that belongs to no job: session report, user postgres, pid " in error.message
    assert "connected since hidden, last statement hidden" in error.message
    assert (
        "pg_terminate_backend(" in error.hint
        and f"`slotkeeper jobs start {mirror.job.name} --take-over` continues without the lease" in error.hint
    )


def test_the_statement_of_a_visible_session_is_reported_without_its_quoted_texts(mirror: Mirror, plant: Plant) -> None:
    plant(lease_lock(mirror), name="ad hoc")
    message = refusal(mirror).message
    assert f"session ad hoc, user {mirror.job.sink.user}, pid " in message
    assert "s ago by the server's clock), last statement SELECT pg_advisory_lock(" in message
    assert "hunter2" not in message


def test_a_shared_lock_and_a_prepared_transaction_are_named_too(mirror: Mirror, plant: Plant) -> None:
    plant(lease_lock(mirror), name="one", how="pg_advisory_lock_shared")
    plant(lease_lock(mirror), name="two", how="pg_advisory_lock_shared")
    assert "session one, user " in (message := refusal(mirror).message) and " and 1 more" in message


def test_a_prepared_transaction_has_no_session(mirror: Mirror) -> None:
    with closing(mirror.sink()) as connection, connection.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (lease_lock(mirror),))
        cursor.execute("PREPARE TRANSACTION 'left'")
        try:
            error = refusal(mirror)
        finally:
            cursor.execute("ROLLBACK PREPARED 'left'")
    assert "a session that belongs to no job: a prepared transaction (see pg_prepared_xacts)" in error.message


def test_a_session_of_another_coordinator_is_said_to_be_not_shown_and_passed(
    mirror: Mirror, plant: Plant, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DWS: PG_LOCKS shows the sessions of one coordinator."""
    plant(lease_lock(mirror))
    monkeypatch.setattr(locks, "owners", lambda *_: [])
    assert "is held by a session that this login cannot see: it has just ended, or it is on" in refusal(mirror).message
    mirror.take_over = True
    mirror.start().wait_running()
    mirror.stop()


def test_a_take_over_runs_beside_a_stranger_for_a_whole_job_and_loses_and_doubles_nothing(
    mirror: Mirror, plant: Plant, seed: int
) -> None:
    plant(lease_lock(mirror))
    mirror.take_over = True
    mirror.start().wait_running()
    with written(mirror, seed):
        pass
    mirror.wait_applied(mirror.booked())
    mirror.pause()
    with written(mirror, seed + 1):
        pass
    mirror.wanted = mirror.wanted.RUN
    mirror.wait_applied(mirror.booked())
    assert has_lock(mirror, lease_lock(mirror)) == {"psql"}
    assert has_lock(mirror, target_lock(mirror)) == {f"slotkeeper/{mirror.job.name}/lease"}
    assert any(
        "by a session that belongs to no job" in text and text.endswith("continuing without the lease")
        for text in mirror.heard.retries
    )
    mirror.stop()


def test_the_lease_is_taken_as_soon_as_the_stranger_gives_it_up(mirror: Mirror) -> None:
    with closing(mirror.sink()) as stranger:
        with stranger.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", (lease_lock(mirror),))
        mirror.take_over = True
        mirror.start().wait_running()
    name = f"slotkeeper/{mirror.job.name}/lease"
    until(lambda: has_lock(mirror, lease_lock(mirror)) == {name}, 20, "the lease to be taken")
    again = refusal(twin_without_take_over(mirror))
    assert f"is held by job {mirror.job.name} run run-1 by" in again.message
    mirror.stop()


def twin_without_take_over(mirror: Mirror) -> Mirror:
    again = twin(mirror)
    again.take_over = False
    return again


@pytest.mark.chaos  # half a minute: the test waits for a lease to expire
def test_a_second_take_over_by_another_host_fences_the_first(mirror: Mirror, plant: Plant, seed: int) -> None:
    plant(lease_lock(mirror))
    mirror.take_over = True
    mirror.start().wait_running()
    with written(mirror, seed):
        second = twin(mirror).start()
        second.wait_running()
        first = mirror.wait_error()
    assert isinstance(first, SlotkeeperError) and first.kind is ErrorKind.SUPERSEDED, first
    second.wait_applied(second.booked())
    second.stop()


def test_a_step_of_the_first_that_wakes_after_the_second_commits_nothing(
    mirror: Mirror, plant: Plant, seed: int
) -> None:
    plant(lease_lock(mirror))
    mirror.take_over = True
    mirror.start().wait_running()
    mirror.stop()
    with written(mirror, seed):
        pass
    spec, places = task_of(mirror), list[dict[str, Position | None]]()

    def overtaken() -> None:
        second = twin(mirror).start()
        second.wait_running()
        second.wait_applied(second.booked())
        places.append({row.key.shard: row.position for row in mirror.rows()})
        second.stop()

    probe = At("after_recheck", overtaken)
    entries.probe = probe
    outcome = Running(spec).finish()
    assert probe.done.is_set() and any(one.error for one in outcome.lanes)
    assert {row.key.shard: row.position for row in mirror.rows()} == places[0]
    mirror.wait_applied(mirror.booked())


def test_a_take_over_never_passes_a_strangers_lock_on_the_target(mirror: Mirror, plant: Plant) -> None:
    plant(lease_lock(mirror), target_lock(mirror))
    mirror.take_over = True
    error = refusal(mirror)
    assert (
        "is held by a session that belongs to no job: session psql" in error.message
        or "belongs to no job: " in error.message
    )
    assert not mirror.rows(), "nothing was begun"


def test_a_target_whose_lock_a_stranger_has_says_who_it_is_and_what_to_do(mirror: Mirror, plant: Plant) -> None:
    plant(target_lock(mirror))
    mirror.take_over = True
    error = refusal(mirror)
    assert "mart.orders belongs to no job: its lock is held by session psql, user postgres, pid " in error.message
    assert "--take-over does not bypass this lock" in error.hint


def test_a_reset_names_the_stranger_and_does_not_wait(
    warehouse: Warehouse, make_mirror: MakeMirror, seed: int, tmp_path: Path
) -> None:
    resetting = followed(make_mirror, warehouse, seed, tmp_path)
    plan = resetting.plan(EARLIEST)
    with closing(resetting.mirror.sink()) as stranger, stranger.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(%s)", (lease_lock(resetting.mirror),))
        with pytest.raises(
            Refused, match=r"the lease of .* is held by a session that belongs to no job: session .* user postgres"
        ):
            resetting.execute(plan)
    resetting.execute(plan)


def test_doctor_and_a_slot_command_say_the_same_sentence(
    mirror: Mirror, plant: Plant, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mirror.start().wait_running()
    mirror.stop()
    text = job(mirror.job.name, mirror.job.slot, TABLE, "mart.orders")
    path = config(tmp_path, mirror.job.source, mirror.job.sink, text)
    plant(lease_lock(mirror), name="report")
    who = "is held by a session that belongs to no job: session report, user postgres, pid "
    main(["doctor", "--config", str(path)])
    assert who in " ".join(capsys.readouterr().out.split())
    place = (TABLE, mirror.job.slot)
    consent = ("--execute", "--reason", "a test", "--confirm", mirror.job.slot, "--config", str(path))
    assert main(["slots", "register", *place, *consent]) == 3
    assert who in " ".join(capsys.readouterr().err.split())
