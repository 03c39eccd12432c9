"""Who steered a job, in the audit: a line before and one after.

Unlike a change of a slot, a job is started and stopped even where the audit cannot be written: a full disk must not
keep it running.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from slotkeeper.console.cli import diagnostics
from slotkeeper.core.domain.audit import AuditLine
from slotkeeper.core.domain.job import TableReport
from slotkeeper.core.domain.report import JobView
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.tries import TryAnswer, in_words
from slotkeeper.core.state.audit import Audit, intent, outcome
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.sqlite import Store

_Seen = TypeVar("_Seen", JobView, TableReport, tuple[TryAnswer, ...])


def noted(store: Store, action: str, job: str, reason: str, act: Callable[[], JobView]) -> JobView:
    """Write what is meant, do it, write what was seen; an error is written and goes on its way."""
    row = store.job(job)
    line = intent(action, f"job {job}", reason, {"state": row.state.value if row else "never started"})
    return _noted(store, line, act, lambda view: view.state.value)


def noted_table(
    store: Store, action: str, job: str, table: str, reason: str, act: Callable[[], TableReport]
) -> TableReport:
    """The same of one table of a job."""
    row = store.job(job)
    known = row.report.tables if row and row.report else ()
    state = next((one.state for one in known if one.source_table == table), "unknown")
    line = intent(action, f"job {job} table {table}", reason, {"state": state})
    return _noted(store, line, act, lambda found: found.state)


def noted_try(
    store: Store, job: str, table: str, reason: str, act: Callable[[], tuple[TryAnswer, ...]]
) -> tuple[TryAnswer, ...]:
    """The same of a try before its time."""
    row, what = store.job(job), f"job {job} table {table}" if table else f"job {job}"
    line = intent("jobs retry", what, reason, {"state": row.state.value if row else "never started"})
    return _noted(store, line, act, lambda found: in_words(found) if found else "asked for")


def _noted(store: Store, line: AuditLine, act: Callable[[], _Seen], state_of: Callable[[_Seen], str]) -> _Seen:
    audit = Audit(store.folder)
    _write(audit, line)
    try:
        seen = act()
    except BaseException as error:
        _write(audit, outcome(line, f"failed: {safe(error, 300) or type(error).__name__}", {}))
        raise
    _write(audit, outcome(line, state_of(seen), {"state": state_of(seen)}))
    return seen


def _write(audit: Audit, line: AuditLine) -> None:
    try:
        audit.append(line)
    except StateError as error:
        diagnostics.warn(f"not in the audit: {error.message}")
