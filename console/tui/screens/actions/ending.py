"""Confirmations: a session is ended (type its pid and a reason), and a SQL view is built again (press a key)."""

from __future__ import annotations

from slotkeeper.console.actions import outcome
from slotkeeper.console.actions.commands import Part, session_wants, session_words, view_words
from slotkeeper.console.actions.runner import Order
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.actions.confirm import Confirm
from slotkeeper.console.tui.screens.actions.progress import Progress
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.views.locks import AnyWait
from slotkeeper.core.domain import source_waits
from slotkeeper.core.domain.locks import Blocker, LockWait, cause
from slotkeeper.core.domain.text import safe


class SessionProgress(Progress):
    """The progress of ending a session."""

    def lines(self) -> outcome.Lines:
        return self.gathered(outcome.outcome_lines)


class SessionConfirm(Confirm):
    """The confirmation for one session, selected when the key was pressed and identified by its pid and start time."""

    def __init__(self, name: str, wait: AnyWait, one: Blocker) -> None:
        self._server = ("sink" if isinstance(wait, LockWait) else "source", name)
        self._pid, self._began, self._wait = one.pid or 0, one.began or 0.0, wait
        what = f"{self._pid} of {self._server[0]} {safe(name, 60)}"
        super().__init__(session_wants(self._pid), "end session", what, "End session")

    def lines(self) -> Lines:
        now, wait = self.console.now_real().timestamp(), self._wait
        said = cause(wait, now) if isinstance(wait, LockWait) else source_waits.cause(wait, now)
        yield Level.WARNING, f"Problem  {said}"
        yield Level.WARNING, "Impact   the server rolls back its transaction; uncommitted changes are lost"
        yield Level.FINE, "Action   type the reason and the pid; the session is checked again just before it is ended"
        yield Level.FINE, "a session that reuses this pid, or no longer blocks a job, is not ended"

    def begin(self, typed: dict[Part, str]) -> None:
        what = f"end session {self._pid} of {' '.join(self._server)}"
        id = self.set_going(Order(self.command(typed), what, self._server[1]))
        if id is not None:
            self.app.switch_screen(SessionProgress([id]))

    def command(self, typed: dict[Part, str]) -> tuple[str, ...]:
        reason = typed.get(Part.REASON) or Part.REASON.placeholder
        return session_words(self.origin, self._server, self._pid, self._began, reason)


class ViewConfirm(Confirm):
    """The confirmation for building one view again, which destroys nothing: one key."""

    def __init__(self, job: str, view: str) -> None:
        super().__init__((), "rebuild view", f"{safe(view, 80)} of job {safe(job, 60)}", "Rebuild view")
        self._job, self._view = job, view

    def lines(self) -> Lines:
        yield Level.FINE, "Effect   the job's driver computes the whole SELECT, and writes the rows that differ"
        yield Level.FINE, "Impact   readers see the current rows until the build commits; no slot or lane waits"
        yield Level.FINE, "Detail   reads its tables completely, in one transaction; TRUNCATE and ALTER wait for it"

    def begin(self, typed: dict[Part, str]) -> None:
        id = self.set_going(Order(self.command(typed), f"rebuild view {self._view}", self._job))
        if id is not None:
            self.app.switch_screen(SessionProgress([id]))

    def command(self, typed: dict[Part, str]) -> tuple[str, ...]:
        return view_words(self.origin, self._job, self._view, typed.get(Part.REASON) or Part.REASON.placeholder)
