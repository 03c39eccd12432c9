"""The table of culprits: two incidents at once, and texts that are not actions."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.fault import RULES, Fault, Party, Severity
from slotkeeper.demo.incidents.registry import INCIDENTS
from tests.support.culprits import SINGLES, Scene, borrowed, drawn, pair, pairs


def test_the_table_has_the_eighteen_incidents_of_a_warehouse() -> None:
    assert list(SINGLES) == [one.name for one in INCIDENTS if one.source == "dws"]
    assert len(SINGLES) == 18


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("poison-row", "slot-expired"), ("slot-expired", "poison-row")),
        (("clock-skew", "sink-deadlock"), ("sink-deadlock", "clock-skew")),
        (("credentials-rotated", "sink-deadlock"), ("sink-deadlock", "credentials-rotated")),
        (("dead-slot", "credentials-rotated"), ("dead-slot", "credentials-rotated")),
        (("slot-expired", "disk-full"), ("slot-expired", "disk-full")),
        (("credentials-rotated", "half-open-line"), ("half-open-line", "credentials-rotated")),
    ],
)
def test_severity_decides_before_what_blocks_a_cause_before_its_consequence_and_then_the_newest(
    names: tuple[str, str], shown: tuple[str, str]
) -> None:
    assert Scene(names).expected(2) == shown
    assert Scene(names).expected(1) == names[:1]


def test_what_a_driver_sees_is_not_known_of_a_job_that_has_ended() -> None:
    assert Scene(("slot-expired", "credentials-rotated")).expected(2) == ("slot-expired",)
    assert Scene(("lag-grows", "slot-expired")).expected(2) == ("slot-expired",)


def test_behind_a_slow_sink_nothing_else_is_made_that_a_step_would_have_to_find() -> None:
    slow = [one for one in pairs() if "lag-grows" in one.names]
    first = {one.names[1] for one in slow if one.names[0] == "lag-grows"}
    hiding = {"half-open-line", "disk-full", "vacuum-blocked", "sink-deadlock", "credentials-rotated"}
    assert first == hiding and len(slow) == len(SINGLES) - 1


def test_a_pair_that_cannot_be_made_says_why_and_the_others_have_an_order_in_which_it_can() -> None:
    assert pair("slot-expired", "vacuum-blocked") == "vacuum-blocked needs a job that runs"
    assert pair("half-open-line", "poison-row") == Scene(("poison-row", "half-open-line"))
    assert len(pairs()) >= 100
    assert len({one.names for one in drawn(7, 18, 40)}) == 58
    assert drawn(7, 3, 3, cheap=True) == drawn(7, 3, 3, cheap=True)


def test_every_rule_of_the_table_is_a_rule_or_about_to_be_one() -> None:
    named = {rule for one in SINGLES.values() for rule in one.rules}
    assert named - set(RULES) <= {"source_blocked"}


@pytest.mark.parametrize(
    ("do", "why"),
    [
        ("", "no act"),
        ("Resumed by `slotkeeper jobs resume a`", "begins with a past participle"),
        ("resumed by eve", "begins with a past participle"),
        ("refused", "begins with a past participle"),
        ("the disk is full: wait", "a reason in the place of an act"),
        ("`slotkeeper jobs start a`", ""),
        ("Wait: the job retries automatically", ""),
    ],
)
def test_an_act_differs_from_its_reason_and_begins_with_no_past_participle(do: str, why: str) -> None:
    fault = Fault("disk_full", Party.MACHINE, "this host", Severity.CRITICAL, "the disk is full", do=do)
    assert borrowed(fault) == why
