"""The one judgement: from everything that is known to everything that is wrong. Pure.

Screens, commands, exit codes and alerts show what comes out of here and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator

from slotkeeper.core.domain.fault import Fault, ranked
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.judgement.facts import Facts, SlotSeen
from slotkeeper.core.judgement.of_job import of_job
from slotkeeper.core.judgement.of_machine import of_machine
from slotkeeper.core.judgement.of_slot import of_slot


def judge(facts: Facts) -> tuple[Fault, ...]:
    """All faults, the worst first, of equal ones those first that last longest."""
    return ranked(_all(facts))


def _all(facts: Facts) -> Iterator[Fault]:
    yield from of_machine(facts)
    for job in facts.jobs:
        yield from of_job(job, facts)
    states = {one.view.name: one.view.state for one in facts.jobs}
    for slot in facts.slots:
        if not slot.job or counts(slot, states.get(slot.job)):
            yield from of_slot(slot, facts)


def counts(slot: SlotSeen, state: JobState | None) -> bool:
    """Whether how a configured job's slot stands is anybody's concern: not once the job is over for good.

    Before its first start (no `state`) the slot need not be there.
    """
    if state is None:
        return slot.exists is not False
    return state not in (JobState.CANCELLED, JobState.FINISHED)
