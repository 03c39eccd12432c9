"""A table that is copied again while its stream continues: who requested it, and which jobs can do so (ADR 98). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.traits import SinkTraits, SourceTraits


@dataclass(frozen=True, slots=True)
class AgainRequest:
    """A user's request to copy a table of a job again."""

    job: str
    table: str
    planned: bool = False
    """Whether the chunks are stored in the sink."""


def objection(job: JobSpec, source: SourceTraits, sink: SinkTraits) -> str:
    """Return why a job's tables cannot be copied again while they stream; "" if they can.

    With the options that are named here, a step does not make the target equal to the source.
    """
    options = job.sink_options
    if not source.copies_again or not sink.copies_again:
        return f"not possible from a source of kind {job.source_kind} into a sink of kind {job.sink_kind}"
    if not job.binlog.binlog:
        return "the job has no stream (binlog = false)"
    if options.updates_only:
        return f"write_mode = {options.write_mode} never inserts the rows that the target lacks"
    if options.ignore_delete:
        return "ignore_delete = true retains the rows that the source does not have"
    if options.conflict_strategy == "ignore":
        return "conflict_strategy = ignore does not change existing rows"
    if options.ignore_null_when_update:
        return "ignore_null_when_update = true retains values that are NULL in the source"
    if any(one.soft_delete or one.compute or one.synced_at for one in job.channels):
        return "a channel has soft_delete, synced_at or compute, whose values a copied row does not have"
    return ""
