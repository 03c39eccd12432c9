"""The promise of a configured job, from its options and from what its kind of sink can do."""

from __future__ import annotations

from slotkeeper.core.domain import traits
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.sinks import registry


def promise_of(job: JobSpec) -> str:
    """What a job promises about its target, in words."""
    return traits.promise(registry.open(job.sink_kind).traits, job)
