"""The audit of a command that changes something: one line before, one after, and a copy of both in the job's sink.

The local file comes first and decides: where the line before cannot be written, nothing is done.
Next door: `core.state.audit` keeps the file; `core.services.slot_commands`, `quarantine` and `probe` act in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from core.domain.audit import AuditLine
from core.domain.text import safe
from core.errors import SlotkeeperError
from core.ports.kinds import StoreSession
from core.slots.change import Done
from core.state.audit import Audit, outcome
from core.state.faults import StateError
from core.state.folder import StateFolder


class CopiedAudit(Audit):
    """The audit file, and its copy over a sink session; None for a slot whose sink is not known."""

    def __init__(self, folder: StateFolder, session: StoreSession | None) -> None:
        super().__init__(folder)
        self._copy = session.audit() if session else None

    def append(self, line: AuditLine) -> None:
        """Write one line; raises StateError where the file cannot be written.

        A sink that cannot take the copy holds nothing up: what was done has to be written down here in any case.
        """
        super().append(line)
        if self._copy is not None:
            with suppress(SlotkeeperError):
                self._copy.append(line)


def audited(
    audit: Audit,
    line: AuditLine,
    act: Callable[[], Done],
    after: Callable[[], Mapping[str, str]] = dict,
    catches: type[BaseException] = Exception,
) -> Done:
    """Do something between its two audit lines; where it fails, what `after` can see is written."""
    audit.append(line)
    try:
        done = act()
    except catches as error:
        result: Mapping[str, str] = {}
        with suppress(SlotkeeperError):
            result = after()
        said = "interrupted" if isinstance(error, KeyboardInterrupt) else f"failed: {safe(error, 300)}"
        with suppress(StateError):
            audit.append(outcome(line, said, result))
        raise
    try:
        audit.append(outcome(line, done.outcome, done.result))
    except StateError as error:
        return replace(done, outcome=f"{done.outcome} (the outcome is missing in the audit: {error.message})")
    return done
