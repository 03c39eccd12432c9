"""The server or DN that all lanes of a job name as the cause, and since when; a new attempt does not end it."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.domain.report import Condition, merged
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.domain.tries import History
from slotkeeper.core.engine.driver.failure import of_lanes
from tests.unit.engine.test_lane_io import LANE

SINK = 'sink mart (h:5432/m as etl): connection to server at "h", port 5432 failed: Connection refused'
SOURCE = SINK.replace("sink mart", "source dws1")
DN = "source dws1 (h:8000/g as etl): pooler: failed to create 1 connections, remote node dn_2"


NAMES = {"source": "source dws1", "sink": "sink mart"}


def lane(number: int, **more: object) -> Lane:
    shard = Shard(f"dn_{number}", number)
    return replace(LANE, shard=shard, key=replace(LANE.key, shard=shard.name), **more)  # type: ignore[arg-type]


def failing(number: int, error: str, side: str, since: float = 60.0, code: str = "08006", **more: object) -> Lane:
    found = {"activity": Activity.WAITING, "history": History(3), "failing_since": since} | more
    return lane(number, error=error, side=side, code=code, **found)


def test_a_sink_that_refuses_is_one_condition_of_all_lanes_since_the_first() -> None:
    lanes = [failing(1, SINK, "sink", 62.0), failing(2, SINK, "sink", 60.0), lane(3), lane(4)]
    (one,) = of_lanes(lanes, 100.0, 1_000.0, NAMES)
    assert one == Condition("sink", "sink mart", "Connection refused", 960.0, ("dn_1", "dn_2"), 4, 3, "08006")
    assert one.said == "sink mart: Connection refused, 2 of 4 DNs wait"


def test_the_code_of_a_condition_is_that_of_the_reported_cause() -> None:
    refused = failing(1, "sink mart (h:1): permission denied for table a", "sink", 60.0, "42501")
    passing = failing(2, "sink mart (h:1): deadlock detected", "sink", 62.0, "40P01")
    for lanes in ([refused, passing], [passing, refused]):
        (one,) = of_lanes(lanes, 100.0, 1_000.0, NAMES)
        assert {"42501": "permission", "40P01": "deadlock"}[one.code] in one.cause


def test_a_new_attempt_ends_nothing() -> None:
    trying = failing(1, SINK, "sink", activity=Activity.APPLYING)
    assert of_lanes([trying], 100.0, 1_000.0, NAMES) == of_lanes([failing(1, SINK, "sink")], 100.0, 1_000.0, NAMES)
    assert trying.retry and not trying.answered.retry
    assert of_lanes([trying.answered], 100.0, 1_000.0, NAMES) == ()


def test_what_names_a_dn_is_the_dns_and_a_line_that_breaks_the_sources() -> None:
    (dn,) = of_lanes([failing(2, DN, "source"), lane(1)], 100.0, 1_000.0, NAMES)
    assert (dn.party, dn.name, dn.lanes) == ("dn", "dn_2", ("dn_2",))
    (source,) = of_lanes([failing(2, SOURCE, "source"), lane(1)], 100.0, 1_000.0, NAMES)
    assert (source.party, source.name) == ("source", "source dws1")


def test_no_dn_is_blamed_where_all_lanes_read_one_stream() -> None:
    shard = Shard("binlog", 1)
    key = replace(LANE.key, shard=shard.name)
    lanes = [replace(one, shard=shard, key=key) for one in (failing(1, "binlog: error 1236", "source"), lane(2))]
    (one,) = of_lanes(lanes, 100.0, 1_000.0, NAMES)
    assert (one.party, one.name) == ("source", "source dws1")


def test_a_line_that_is_cut_while_its_dn_alone_is_silent_is_that_dns() -> None:
    hangs = replace(failing(2, SOURCE, "source"), silent_since=97.0, silent="does not answer within 2 s")
    (one,) = of_lanes([lane(1), hangs], 100.0, 1_000.0, NAMES)
    assert (one.party, one.name) == ("dn", "dn_2")


def test_a_step_abandoned_because_its_dn_is_silent_is_attributed_to_that_dn() -> None:
    given_up = failing(2, "dn_2: a step did not end in time and was cancelled", "", code="")
    hangs = replace(given_up, silent_since=97.0, silent="does not answer within 2 s")
    (one,) = of_lanes([lane(1), hangs], 100.0, 1_000.0, NAMES)
    assert (one.party, one.name, one.cause) == ("dn", "dn_2", "does not answer within 2 s")
    (own,) = of_lanes([lane(1), given_up], 100.0, 1_000.0, NAMES)
    assert (own.party, own.name) == ("process", "this job's driver")


def test_a_dn_that_does_not_answer_is_reported_before_any_limit_of_its_task() -> None:
    hangs = lane(2, activity=Activity.APPLYING, silent_since=97.0, silent="does not answer within 2 s")
    (one,) = of_lanes([lane(1), hangs], 100.0, 1_000.0, NAMES)
    assert (one.party, one.name, one.since, one.cause) == ("dn", "dn_2", 997.0, "does not answer within 2 s")


def test_dns_behind_a_silent_source_are_the_sources() -> None:
    silent = Condition("source", "source dws1", "does not answer", 990.0)
    dn = Condition("dn", "dn_2", "no answer", 995.0, ("dn_2",), 4)
    (one,) = merged((silent, dn))
    assert (one.name, one.cause, one.since, one.lanes, one.of) == (
        "source dws1",
        "does not answer",
        990.0,
        ("dn_2",),
        4,
    )


def test_of_two_conditions_of_a_server_the_code_belongs_to_the_sentence() -> None:
    refused = Condition("source", "source shop", "Connection refused", 990.0)
    lost = Condition("source", "source shop", "Lost connection", 991.0, code="2013")
    (one,) = merged((refused, lost))
    assert (one.cause, one.code) == ("Connection refused", "")


def test_of_a_source_without_dns_it_is_the_source_and_a_server_that_no_error_names_is_named() -> None:
    (one,) = of_lanes([failing(1, "unable to open database file", "source", code="")], 100.0, 1_000.0, NAMES)
    assert (one.party, one.name, one.cause) == ("source", "source dws1", "unable to open database file")


def test_a_stopped_table_blames_no_party() -> None:
    assert of_lanes([failing(1, SINK, "sink", activity=Activity.STOPPED)], 100.0, 1_000.0, NAMES) == ()
