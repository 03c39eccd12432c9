"""Which sessions of the stand-in can see each other, and the probe's conclusions."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from slotkeeper.core.domain.probing import ProbeFinding, Questionnaire
from slotkeeper.core.drivers import pg
from slotkeeper.core.sources.dws.probe import slots
from slotkeeper.core.sources.dws.probe.questions import QUESTIONS
from slotkeeper.core.sources.dws.probe.scratch import ProbeContext, Scratch
from slotkeeper.core.sources.dws.session import DwsSession
from slotkeeper.demo import facts
from slotkeeper.demo.warehouse import Warehouse
from tests.support.probing import SCHEMA, SCRATCH, grant, interrogate
from tests.support.standin import Surface, run

OTHERS = "SELECT count(*) FROM {} WHERE pid = %s"


def seen(surface: Surface, other: pg.Connection, view: str = "pg_stat_activity") -> bool:
    return bool(surface.value(OTHERS.format(view), (other.info.backend_pid,)))


def named(connection: pg.Connection, name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('application_name', %s, false)", (name,))


def test_an_ordinary_login_sees_its_own_sessions_only_where_activity_is_filtered(
    warehouse: Warehouse, surface: Surface
) -> None:
    theirs, ours = warehouse.connect(), warehouse.connect_etl()
    assert seen(surface, theirs) and seen(surface, ours)
    facts.activity_by_user(warehouse)
    assert not seen(surface, theirs) and seen(surface, ours)
    facts.sees_statistics(warehouse)
    try:
        assert seen(surface, theirs) and seen(surface, theirs, "pgxc_stat_activity")
    finally:
        facts.sees_statistics(warehouse, False)
    theirs.close()
    ours.close()


def test_sessions_of_two_coordinators_do_not_see_each_other(warehouse: Warehouse, surface: Surface) -> None:
    other = warehouse.connect_etl()
    named(other, f"writer{facts.THROUGH_SECOND}")
    assert seen(surface, other), "there is one coordinator"
    facts.second_coordinator(warehouse)
    assert not seen(surface, other) and not seen(surface, other, "pg_locks")
    assert surface.rows("SELECT node_name FROM pgxc_node WHERE node_type = 'C' ORDER BY 1") == [
        ("cn_5001",),
        ("cn_5002",),
    ]
    with pytest.raises(pg.DriverError, match="permission denied") as caught:
        seen(surface, other, "pgxc_stat_activity")
    assert pg.failure(caught.value)[0] == "42501"
    other.close()


def asked(warehouse: Warehouse) -> ProbeFinding:
    """Return the probe's result about other coordinators, on its own scratch table."""
    password = warehouse.etl_password_file.read_text("utf-8").strip()

    def opened() -> DwsSession:
        return DwsSession(warehouse.endpoint(), password, "slotkeeper-test/probe")

    scratch, name = Scratch(SCHEMA, SCRATCH, stand_in=True), "cluster_wide_snapshot"
    with closing(opened()) as session:
        scratch.create(session, scratch.plain)
        ctx = ProbeContext(session, scratch, scratch.plain)
        groups = [("coordinators", (name,), slots.elsewhere)]
        answers = Questionnaire(QUESTIONS, {}, groups).run(ctx, lambda _: None, time.monotonic)
    assert not scratch.drop_all(opened)
    return next(one.finding for one in answers if one.question.name == name)


def test_the_probe_asks_through_another_coordinator(warehouse: Warehouse) -> None:
    grant(warehouse)
    assert asked(warehouse).because == "the cluster has one coordinator"
    facts.second_coordinator(warehouse)
    assert asked(warehouse).answer == "yes"
    facts.snapshots_apart(warehouse)
    assert asked(warehouse).answer == "no"
    run(warehouse, "UPDATE dws.coordinator SET port = 1 WHERE node_name = 'cn_5002'")
    assert (finding := asked(warehouse)).answer is None
    assert "rejects this login" in finding.because


def test_the_probe_tells_that_the_stand_in_does_not_record_under_an_old_snapshot(warehouse: Warehouse) -> None:
    grant(warehouse)
    assert interrogate(warehouse)["old_snapshot_recorded"].finding.answer == "no"
