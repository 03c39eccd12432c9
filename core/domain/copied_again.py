"""A table that is copied again while its stream continues: who requested it, and which jobs can do so (ADR 98). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from slotkeeper.core.domain.spec import JobSpec


@dataclass(frozen=True, slots=True)
class AgainRequest:
    """A user's request to copy a table of a job again."""

    job: str
    table: str
    planned: bool = False
    """Whether the chunks are stored in the sink."""


def objection(job: JobSpec) -> str:
    """Return why the job's options do not allow a table to be copied again while it streams; "" if they do.

    With these options, a step does not make the target equal to the source.
    """
    options = job.sink_options
    if options.updates_only:
        return f"write_mode = {options.write_mode} never inserts the rows that the target lacks"
    if options.ignore_delete:
        return "ignore_delete = true retains the rows that the source does not have"
    if options.conflict_strategy == "ignore":
        return "conflict_strategy = ignore does not change existing rows"
    if options.ignore_null_when_update:
        return "ignore_null_when_update = true retains values that are NULL in the source"
    return ""
