"""The one judgement: from everything that is known to everything that is wrong. Pure.

Screens, commands, exit codes and alerts show what comes out of here and nothing else. Next door: `of_job.py`,
`of_conditions.py`, `of_slot.py` and `of_machine.py` have the rules; docs/alerts.md lists them.
"""

from __future__ import annotations

from collections.abc import Iterator

from core.domain.fault import Fault, ranked
from core.domain.job import JobState
from core.judgement.facts import Facts
from core.judgement.of_job import of_job
from core.judgement.of_machine import of_machine
from core.judgement.of_slot import of_slot


def judge(facts: Facts) -> tuple[Fault, ...]:
    """All faults, the worst first, of equal ones those first that last longest."""
    return ranked(_all(facts))


def _all(facts: Facts) -> Iterator[Fault]:
    yield from of_machine(facts)
    for job in facts.jobs:
        yield from of_job(job, facts)
    at_an_end = {one.view.name for one in facts.jobs if one.view.state in (JobState.CANCELLED, JobState.FINISHED)}
    for slot in facts.slots:
        if slot.job not in at_an_end:
            yield from of_slot(slot, facts)
