"""Who steered a job, in the audit: a line before and one after.

Unlike a change of a slot, a job is started and stopped even where the audit cannot be written: a full disk must not
keep it running. Next door: `core.state.audit` keeps the lines.
"""

from __future__ import annotations

from collections.abc import Callable

from console.cli import diagnostics
from core.domain.audit import AuditLine
from core.domain.job_view import JobView
from core.domain.text import safe
from core.state.audit import Audit, intent, outcome
from core.state.faults import StateError
from core.state.sqlite import Store


def noted(store: Store, action: str, job: str, reason: str, act: Callable[[], JobView]) -> JobView:
    """Write what is meant, do it, write what was seen; an error is written and goes on its way."""
    audit = Audit(store.folder)
    row = store.job(job)
    line = intent(action, f"job {job}", reason, {"state": row.state.value if row else "never started"})
    _write(audit, line)
    try:
        view = act()
    except BaseException as error:
        _write(audit, outcome(line, f"failed: {safe(error, 300) or type(error).__name__}", {}))
        raise
    _write(audit, outcome(line, view.state.value, {"state": view.state.value}))
    return view


def _write(audit: Audit, line: AuditLine) -> None:
    try:
        audit.append(line)
    except StateError as error:
        diagnostics.warn(f"not in the audit: {error.message}")
