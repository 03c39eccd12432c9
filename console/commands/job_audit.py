"""Who started, stopped, paused or restarted a job, in the audit: a line before and one after.

Unlike a change of a slot, a job is stopped even where the audit cannot be written: a full disk must not keep it
running. Next door: `console.commands.jobs` has the verbs, `core.state.audit` the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from console.cli import diagnostics
from core.domain.audit import AuditLine
from core.domain.text import safe
from core.launch.view import JobView
from core.state.audit import Audit, intent, outcome
from core.state.faults import StateError
from core.state.sqlite import Store


@dataclass
class Noted:
    """What was seen after it; set by whoever did it."""

    view: JobView | None = None


@contextmanager
def noted(store: Store, verb: str, job: str, reason: str) -> Iterator[Noted]:
    """Write what is meant, let it be done, write what was seen; an error is written and goes on its way."""
    audit, seen = Audit(store.folder), Noted()
    row = store.job(job)
    line = intent(f"jobs {verb}", f"job {job}", reason, {"state": row.state.value if row else "never started"})
    _write(audit, line)
    try:
        yield seen
    except BaseException as error:
        _write(audit, outcome(line, f"failed: {safe(error, 300) or type(error).__name__}", {}))
        raise
    state = seen.view.state.value if seen.view else "?"
    _write(audit, outcome(line, state, {"state": state}))


def _write(audit: Audit, line: AuditLine) -> None:
    try:
        audit.append(line)
    except StateError as error:
        diagnostics.warn(f"not in the audit: {error.message}")
