"""The history mode of the screens: `R` enters it, `<` and `>` step, `f` plays, `:at` goes to a time.

In history mode, the screens show an earlier time and actions are not available. A separate thread reads the store.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from textual.timer import Timer

from slotkeeper.console.monitor.history import PLAY_SECONDS, Past, Playback
from slotkeeper.console.monitor.snapshot import Level, Local
from slotkeeper.core.errors import SlotkeeperError

if TYPE_CHECKING:
    from slotkeeper.console.tui.services import Host

NOTHING = "no history recorded yet: supervisors record it while jobs run"
T = TypeVar("T")


class HistoryMode:
    """The console's position in history; `local` is None until the first state has been read."""

    def __init__(self, app: Host) -> None:
        self._app = app
        self._past = Past(app.services.loaded, app.services.folder, app.services.clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="slotkeeper-past")
        self._replay: Playback | None = None
        self._playing: Timer | None = None
        self.local: Local | None = None

    @property
    def at(self) -> datetime:
        """The time that is shown."""
        return self._replay.at if self._replay is not None else self._app.now_real()

    def begin(self, then: str = "") -> None:
        """Show the newest recorded time, or the given time."""

        def first() -> Playback | None:
            found = self._past.begin()
            return self._past.go(found, then) if found is not None and then else found

        self._run(first)

    def step(self, direction: int) -> None:
        """Step to an earlier or later time; holding the key increases the step."""
        replay = self._replay
        if replay is not None:
            self._quiet()
            wanted = replay.toward(direction, time.monotonic())
            self._replay = wanted
            self._run(lambda: self._past.stepped(wanted))

    def go(self, text: str) -> None:
        """Go to the typed time."""
        replay = self._replay
        if replay is not None:
            self._quiet()
            self._run(lambda: self._past.go(replay, text))

    def play(self) -> None:
        """Start or stop playback."""
        if self._playing is not None:
            self._quiet()
            self._app.say("playback stopped")
        elif self._replay is not None:
            self._replay = self._replay.play()
            self._playing = self._app.set_interval(PLAY_SECONDS, self._next)
            self._app.say("playing history; f stops it")

    def renew(self) -> None:
        """Read the same point in time again, for another job."""
        replay = self._replay
        if replay is not None:
            self._run(lambda: replay)

    def close(self) -> None:
        """Close the store."""
        self._quiet()
        self._thread.submit(self._past.close)
        self._thread.shutdown(wait=False)

    def _next(self) -> None:
        replay = self._replay
        if replay is not None:
            self._run(lambda: self._past.stepped(replay))

    def _quiet(self) -> None:
        if self._playing is not None:
            self._playing.stop()
            self._playing = None

    def _run(self, make: Callable[[], Playback | None]) -> None:
        self._app.run_worker(self._show(make), group="history", exclusive=True, exit_on_error=False)

    async def _show(self, make: Callable[[], Playback | None]) -> None:
        try:
            replay = await self._in_thread(make)
            job = self._app.job_shown
            local = None if replay is None else await self._in_thread(lambda: self._past.local(replay.at, job))
            tables = {} if local is None else await self._in_thread(lambda: self._past.tables(local))
        except (SlotkeeperError, ValueError) as error:
            self._app.say(str(error), Level.WARNING)
            if self.local is None:
                self._app.leave_history()
            return
        if replay is None or local is None:
            self._app.say(NOTHING, Level.WARNING)
            self._app.leave_history()
            return
        if self._playing is not None and not replay.playing:
            self._quiet()
            self._app.say("end of the recorded history")
        self._replay, self.local = replay, local
        self._app.show_moment(local, tables)

    async def _in_thread(self, do: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, do)
