"""Actions are literal: commands are in backquotes with all names, and in the order in which they are typed."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import pytest

from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.remedy import until_started
from slotkeeper.core.domain.report import Condition
from slotkeeper.core.domain.row_counts import Verified
from slotkeeper.core.domain.start import SAFE, SNAPSHOT
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.judgement.facts import Facts, JobSeen, Machine
from slotkeeper.core.judgement.judge import judge
from tests.support.printed import parts
from tests.unit.judgement.test_judge import NOW, VIEW, ago, by, slot, told

_STANDS_FOR = re.compile(r"\b(?:JOB|TABLE|SLOT|ID|SOURCE)\b|\.\.\.")
DIFFERENT = Verified("orders", NOW, "different", 3, 0, 0, 9, 6, 1.0, "eve")
GONE = replace(VIEW, supervisor_alive=False, driver_alive=False)
FAULTS: list[tuple[str, tuple[Fault, ...]]] = [
    *(
        (f"{party} fails", told(by(Condition(party, f"{party} mart", "refused", ago(9).timestamp(), ("dn_1",), 4))))
        for party in ("source", "dn", "sink", "lock", "process")
    ),
    *(
        (name.value, told(replace(GONE, state=JobState.FAILED, trouble=name.value, safe=SAFE[name], reason="why")))
        for name in TroubleName
    ),
    (
        "failed",
        told(replace(GONE, state=JobState.FAILED, reason="why", safe="check the user and the password reference")),
    ),
    ("dead", told(replace(GONE, state=JobState.DEAD))),
    ("stopped", told(replace(GONE, state=JobState.STOPPED, run="r1"))),
    ("paused", told(replace(VIEW, state=JobState.PAUSED))),
    ("crashed", told(replace(VIEW, driver_alive=False), crashes=(ago(8),), crash="killed by SIGKILL")),
    ("crashes again and again", told(crashes=(ago(8), ago(90)), crash="killed by SIGKILL")),
    ("silent", told(replace(VIEW, reported_at=ago(60)))),
    ("lag", told(lags={"dn_1": 60.0})),
    ("differs", told(verified=DIFFERENT, new_snapshot="`slotkeeper slots reset t s`")),
    ("disk", judge(Facts(NOW, machine=Machine("/s", full="the disk at / is full", free=0)))),
    ("audit", judge(Facts(NOW, machine=Machine("/s", damaged=2)))),
    ("refused", judge(Facts(NOW, refused={"b": "unknown key"}))),
    ("slot", judge(Facts(NOW, slots=(slot(100),)))),
    ("somebody's slot", judge(Facts(NOW, slots=(slot(100, job=""),)))),
]


@pytest.mark.parametrize(("name", "faults"), FAULTS, ids=[name for name, _ in FAULTS])
def test_a_remedy_can_be_done_word_for_word(name: str, faults: tuple[Fault, ...]) -> None:
    assert faults, name
    for fault in faults:
        found = parts(fault.do)
        assert found, fault
        for command in (one for part in found for one in part.commands):
            assert not _STANDS_FOR.search(command), (fault.rule, command)
            assert shlex.split(command)[0] in ("slotkeeper", "SELECT", "ALTER"), command
        first = found[0]
        assert first.manual or first.commands or fault.do.startswith("nothing") or SNAPSHOT in fault.do, fault.do


@pytest.mark.parametrize("name", list(TroubleName))
def test_a_start_is_never_the_first_thing_where_it_would_end_alike(name: TroubleName) -> None:
    found = parts(until_started(SAFE[name], "orders"))
    starts = [place for place, part in enumerate(found) if any("jobs start" in one for one in part.commands)]
    assert starts and starts[0] > 0, found


def test_a_paused_jobs_slot_is_renewed_by_resuming_it() -> None:
    paused = replace(VIEW, state=JobState.PAUSED)
    found = judge(Facts(NOW, (JobSeen(paused),), (slot(100),)))
    assert [one.do.partition(":")[0] for one in found if one.rule == "slot_ttl"] == ["`slotkeeper jobs resume orders`"]


def test_a_difference_is_compared_again_before_a_new_copy() -> None:
    (one,) = told(verified=DIFFERENT, new_snapshot="`slotkeeper slots reset t s`")
    typed = [command for part in parts(one.do) for command in part.commands]
    assert typed == [
        "slotkeeper verify orders", "slotkeeper jobs stop orders", "slotkeeper slots reset t s",
        "slotkeeper verify orders",
    ]  # fmt: skip
