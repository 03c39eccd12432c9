"""The audit of a command that changes a slot: the local file first, which decides, then a copy in the job's sink.

Next door: `core.services.reset` and `core.services.slot_commands` write their lines through this.
"""

from __future__ import annotations

from contextlib import suppress

from core.domain.audit import AuditLine
from core.errors import SlotkeeperError
from core.sinks.postgres.progress.audit import SinkAudit
from core.sinks.postgres.session import SinkSession
from core.state.audit import Audit
from core.state.folder import StateFolder


class CopiedAudit(Audit):
    """The audit file, and its copy over a sink session; None for a slot whose sink is not known."""

    def __init__(self, folder: StateFolder, session: SinkSession | None) -> None:
        super().__init__(folder)
        self._copy = SinkAudit(session) if session else None

    def append(self, line: AuditLine) -> None:
        """Write one line; raises StateError where the file cannot be written.

        A sink that cannot take the copy holds nothing up: what was done has to be written down here in any case.
        """
        super().append(line)
        if self._copy is not None:
            with suppress(SlotkeeperError):
                self._copy.append(line)
