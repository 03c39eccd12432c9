"""A lost slot has no time to live: no expiry is shown, and the fault of its job contains the action."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slotkeeper.core.domain.job import JobState, TableReport
from slotkeeper.core.domain.report import JobReport, JobStatus
from slotkeeper.core.judgement.facts import Facts, JobSeen, SlotSeen
from slotkeeper.core.judgement.judge import judge
from tests.unit.judgement.test_judge import NOW, VIEW

SLOT = SlotSeen(
    "dws1", "ods.b", "s1", "orders", NOW, exists=True, expires_at=NOW + timedelta(minutes=5), ttl=86_400.0, unread=7
)
ENDED = replace(VIEW, state=JobState.FAILED, trouble="SLOT LOST", reason="dn_1: gone", driver_alive=False)
TABLES = (TableReport("ods.a", "m.a", "RUNNING"), TableReport("ods.b", "m.b", "FAILED", "gone", "SLOT LOST"))
ONE_TABLE = replace(VIEW, report=JobReport("orders", "r1", "RUNNING", tables=TABLES))


@pytest.mark.parametrize(("view", "lost"), [(VIEW, False), (ENDED, True), (ONE_TABLE, True)])
def test_a_lost_slot_has_no_time_to_live(view: JobStatus, lost: bool) -> None:
    found = {one.rule for one in judge(Facts(NOW, (JobSeen(view),), (SLOT,)))}
    assert ("slot_ttl" not in found) is lost
    assert not lost or found & {"job_failed", "table_failed"}


def test_the_slot_of_another_table_of_that_job_still_expires() -> None:
    other = replace(SLOT, table="ods.a")
    assert "slot_ttl" in {one.rule for one in judge(Facts(NOW, (JobSeen(ONE_TABLE),), (other,)))}
