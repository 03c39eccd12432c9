"""The audit of a command that changes something: one line before, one after, and a copy of both in the job's sink.

The local file comes first and decides: where the line before cannot be written, nothing is done. A copy that fails
holds nothing up; it is told, tried again with the next line, and written into the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace

from slotkeeper.core.domain.audit import AuditLine, Phase
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.kinds import AuditCopy, StoreSession
from slotkeeper.core.slots.change import Done
from slotkeeper.core.state.audit import Audit, intent, outcome
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder

Tell = Callable[[str], None]


def silent(sentence: str) -> None:
    """Nobody is told."""


class CopiedAudit(Audit):
    """The audit file, and its copy over a sink session; None for a slot whose sink is not known.

    `tell` is given the sentence where a copy fails, once for each failure that is another one.
    """

    def __init__(self, folder: StateFolder, session: StoreSession | None, tell: Tell = silent) -> None:
        super().__init__(folder)
        self._copy = session.audit() if session else None
        self._tell = tell
        self._waiting: list[tuple[AuditLine, str]] = []
        self._fault = ""

    def append(self, line: AuditLine) -> str:
        """Write one line and return its hash; raises StateError where the file cannot be written.

        A sink that cannot take the copy holds nothing up: what was done has to be written down here in any case.
        """
        if self._fault and line.phase is Phase.OUTCOME:
            line = replace(line, outcome=f"{line.outcome} (the sink has no copy of the line before: {self._fault})")
        head = super().append(line)
        self._waiting.append((line, head))
        if self._copy is not None:
            self._copy_waiting(self._copy)
        return head

    def _copy_waiting(self, copy: AuditCopy) -> None:
        try:
            while self._waiting:
                copy.append(self._waiting[0][0], self.place, self._waiting[0][1])
                del self._waiting[0]
        except SlotkeeperError as error:
            fault = safe(error, 200)
            if fault != self._fault:
                self._tell(f"the sink has no copy of the audit's newest lines: {fault}")
            self._fault = fault


class DriverAudit:
    """What a job does by itself; implements `slotkeeper.core.engine.driver.context.JobAudit`.

    `connect` opens a session at the job's store for each line: years may lie between two of them.
    """

    def __init__(self, folder: StateFolder, connect: Callable[[], StoreSession], tell: Tell = silent) -> None:
        self._folder = folder
        self._connect = connect
        self._tell = tell

    def intent(self, action: str, what: str, reason: str, result: Mapping[str, str]) -> AuditLine:
        """The line before an action; raises StateError where it cannot be written."""
        line = intent(action, what, reason, result)
        self._append(line)
        return line

    def outcome(self, line: AuditLine, said: str, result: Mapping[str, str]) -> None:
        """The line after it; raises StateError where it cannot be written."""
        self._append(outcome(line, said, result))

    def _append(self, line: AuditLine) -> None:
        with closing(self._connect()) as session:
            CopiedAudit(self._folder, session, self._tell).append(line)


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
