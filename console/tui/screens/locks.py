"""Lock waits: sessions that wait for a lock in a sink or for a job in a source, and the actions on them.

`x` opens the confirmation for ending a session that blocks a job's session. While the screen is shown, the servers are
queried every two seconds. In history, or without a configuration, the waits come from the jobs' own reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.binding import Binding, BindingType

from slotkeeper.console.cli.diagnostics import with_hint
from slotkeeper.console.monitor.sink_pollers import LOCKS_EVERY
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.asking import AskingScreen
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.console.tui.write_mode import Instant
from slotkeeper.console.views import headlines
from slotkeeper.console.views.detail import split
from slotkeeper.console.views.locks import (
    LOCK_COLUMNS,
    NONE_WAITS,
    NOT_ASKED,
    AnyWait,
    ServerWaits,
    ends_at,
    jobs_of,
    lock_rows,
    name_of,
    none_waits,
    of_reports,
    seen_lines,
    tells,
    thing_of,
    wait_lines,
    wait_of,
    why_not,
)
from slotkeeper.console.views.rows import Row, Verdict, rank
from slotkeeper.core.domain.locks import LockWait
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.core.services.looking import LocksSeen


def of_server(one: LocksSeen, fault: str) -> ServerWaits:
    """Return the waits on one server; `fault` is its error as text."""
    waits: tuple[AnyWait, ...] = one.source_waits if one.is_source else one.waits
    return ServerWaits(one.server, waits, fault or one.untold, one.hidden, one.is_source, one.name)


class LocksScreen(AskingScreen):
    """One row per waiting session."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "end", "end session", id="end-session", tooltip="end the blocker; asks for its pid and a reason")
    ]
    its_name = "Waiting and blocking"
    its_place = "Jobs > waiting and blocking   x ends the blocker"
    number = "2"
    columns = LOCK_COLUMNS
    tells_events = True
    panel_height = 8
    usual_order = "longest first"
    keys_shown: ClassVar[tuple[str, ...]] = (
        "help", "back", "open", "end-session", "filter", "sort", "refresh", "copy", "pane",
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._seen: list[ServerWaits] | None = None
        self._begun_at: Instant | None = None
        self._chosen: object = None
        """The key of the selected wait, which stays the same when the job's session retries with another pid."""

    # Reading

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self.renewed()

    def renewed(self) -> None:
        loaded = self.console.services.loaded
        if self.console.in_history or loaded is None or self.asked_at is not None:
            self.redraw()
            return
        self._begun_at = self.console.instant()
        poller, now = self.console.services.locks, self.console.now_real().timestamp()
        self.begin(
            lambda: [of_server(one, with_hint(one.error) if one.error else "") for one in poller.ask(loaded, now)]
        )

    def taken(self, found: object) -> None:
        self._note_chosen()
        self._seen = cast("list[ServerWaits]", found)

    def tick(self) -> None:
        super().tick()
        at = self._begun_at
        old = at is None or self.console.instant().since(at) >= LOCKS_EVERY
        if self.is_current and old and not self.console.paused:
            self.renewed()

    def on_unmount(self, event: events.Unmount) -> None:
        """Close the sessions when the user leaves the screen."""
        self.console.services.locks.rest()

    # Contents

    def seen(self) -> list[ServerWaits]:
        """Return the servers' last answers; in history, the waits reported by jobs."""
        if self.console.in_history or self.console.services.loaded is None:
            return of_reports(self.console.shown.local.jobs)
        return self._seen or []

    def rows(self) -> list[Row]:
        return lock_rows(self.seen(), self.console.now)

    def draw(self) -> None:
        super().draw()
        if self.table.cursor_key is None:
            self.table.move_to(next((row.key for row in self.every_row if self._key(row.key) == self._chosen), ""))
        self._note_chosen()

    def _note_chosen(self) -> None:
        self._chosen = self._key(self.table.cursor_key) or self._chosen

    def _key(self, key: str | None) -> object:
        wait = self.wait(key)
        return wait and wait.key

    def about(self) -> str:
        return "querying the servers" if self._seen is None and self.asked_at is not None else ""

    def verdict(self) -> Verdict:
        """Return the longest wait and its blocker; if there is no wait, the servers' answers."""
        longest = self._longest()
        if self.fault or longest is None:
            worst = min((level for level, _ in seen_lines(self.seen())), key=rank, default=Level.UNKNOWN)
            return Verdict(Level.UNKNOWN, self.fault) if self.fault else Verdict(worst, self._none())
        level, said = wait_lines(longest, self.console.now)[0]
        return Verdict(level, headlines.of_place(len(self.every_row), split(said)[1], self.apart))

    def _longest(self) -> AnyWait | None:
        return self.wait(self.every_row[0].key) if self.every_row else None

    def strip(self) -> Lines:
        return seen_lines(self.seen())

    def panel(self, key: str | None) -> tuple[str, Lines]:
        one = self.wait(key) or self._longest()  # a session that retries gets a different row
        if one is None:
            return "What this means", [(Level.REST, self._none())]
        jobs = ", ".join(safe(job, 60) for job in jobs_of(one)) or "no job"
        return f"{jobs}  {safe(thing_of(one), 60)}", wait_lines(one, self.console.now)

    def _none(self) -> str:
        """Explain why the list is empty; if no server was queried, there may still be waits."""
        if self.console.in_history or self.console.services.loaded is None:
            return NONE_WAITS if any(tells(one) for one in self.console.shown.local.jobs) else NOT_ASKED
        return none_waits(self._seen)

    def opened(self, key: str) -> None:
        one = self.wait(key)
        job = next((job for job in jobs_of(one) if self.console.shown.job(job) is not None), None) if one else None
        if job is not None:
            self.console.open("job", job, self.number)

    def action_end(self) -> None:
        """Ask for the pid and a reason to end the session that was selected when the key was pressed."""
        key = self.table.cursor_key
        wait, name = self.wait(key), name_of(self.seen(), key)
        one = ends_at(wait)
        if self.console.in_history:
            self.console.say("actions are not available in history; press R to leave it", Level.WARNING)
        elif wait is None:
            self.console.say("no row is selected", Level.WARNING)
        elif one is not None and name:
            self.console.open("end-session", name, wait, one)
        else:
            if isinstance(wait, LockWait):
                why = why_not(wait.root) if wait.root and wait.waits else "no session of a job waits for it now"
            else:
                why = "no session is queued behind it" if wait.ends else "it waits for a job and blocks no session"
            self.console.say(f"cannot end it from here: {why}", Level.WARNING)

    def wait(self, key: str | None) -> AnyWait | None:
        """Return the wait of a row."""
        return wait_of(self.seen(), key)
