"""What screens, commands and replay may ask of the app that they are in; they name this and never the app itself.

Next door: `console.tui.app`, `console.tui.navigation` and `console.tui.base_app` together do it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from console.monitor.snapshot import Level, Local, Picture

if TYPE_CHECKING:
    from textual.timer import Timer

    from console.actions.commands import Doing
    from console.tui.services import Services
    from console.tui.write_mode import Arming
    from console.views.quarantine import Choice
    from console.views.slots import SlotFacts

INTERVALS = (1.0, 2.0, 5.0, 10.0, 30.0)
"""How often to look, in seconds."""
Said = tuple[Level, str]


class Host(Protocol):
    """The app as those inside see it."""

    SCREEN_KEYS: ClassVar[dict[str, tuple[str, str]]]
    """Mode and label of each screen by its key."""
    services: Services
    ascii_only: bool
    read_only: bool
    has_sources: bool
    every: float
    said: Said | None
    """What the line of messages says."""
    touched: datetime
    """When a key was pressed last."""
    shown: Picture
    counts: dict[str, int]
    """What the first rows say of screens, by their keys."""
    job_shown: str
    paused: bool

    # What is known

    @property
    def environments(self) -> list[str]:
        """What sources and jobs say of where we are."""

    @property
    def stand_in(self) -> bool:
        """Whether a source is a stand-in."""

    @property
    def armed(self) -> Arming | None:
        """Who may change something from here, until when."""

    @property
    def replaying(self) -> bool:
        """Whether the past is shown."""

    @property
    def now(self) -> datetime:
        """The time of what is shown."""

    def now_real(self) -> datetime:
        """The time of day."""

    def is_stale(self, at: datetime) -> bool:
        """Whether something seen then is older than it should be."""

    # What is said and shown

    def say(self, text: str, level: Level = Level.FINE) -> None:
        """One line where one is."""

    def arrived(self) -> None:
        """Another screen is seen."""

    def copy_to_clipboard(self, text: str) -> None:
        """Wherever this person can paste from."""

    def press(self, name: str) -> None:
        """What the key of that name does on the screen that is seen."""

    def arm(self, reason: str) -> None:
        """Allow changes."""

    def disarm(self) -> None:
        """Only read again."""

    def wear(self, name: str) -> None:
        """Put on a theme."""

    def poll_every(self, seconds: float) -> None:
        """How often the store is read."""

    # What is opened

    def open_job(self, name: str, number: str = "2") -> None:
        """One job DN by DN, as a screen of that number."""

    def open_slot(self, key: str) -> None:
        """One slot DN by DN."""

    def open_errors(self, job: str) -> None:
        """The errors of one job."""

    def open_held(self, job: str, key: str = "") -> None:
        """The rows of a job that are in quarantine."""

    def open_actions(self) -> None:
        """What was set going from here."""

    def open_job_menu(self, names: Sequence[str]) -> None:
        """What can be done to these jobs."""

    def open_slot_menu(self, slots: Sequence[SlotFacts]) -> None:
        """What can be done to this slot."""

    def open_held_menu(self, choice: Choice) -> None:
        """What can be done to these rows in quarantine."""

    def plan_again(self, doing: Doing) -> None:
        """Another plan in place of the screen that is seen."""

    def action_go(self, mode: str) -> None:
        """Another screen."""

    def action_keys(self) -> None:
        """The keys of this screen."""

    def action_palette(self, typed: str = "") -> None:
        """Type a command."""

    def action_pause(self) -> None:
        """Let what is shown stand still, or go on."""

    def action_renew(self) -> None:
        """Read everything now."""

    def action_mouse(self) -> None:
        """Mouse on or off."""

    # The past

    def action_replay(self) -> None:
        """Show the recorded past, or leave it."""

    def show_past(self, moment: str = "") -> None:
        """Show a moment of the past."""

    def replayed(self, local: Local) -> None:
        """A past moment was read: it is what is shown."""

    def leave_replay(self) -> None:
        """Show what is now."""

    # Work of its own

    def run_worker(
        self, work: Coroutine[Any, Any, None], *, group: str, exclusive: bool, exit_on_error: bool
    ) -> object:
        """Run it beside."""

    def set_interval(self, interval: float, callback: Callable[[], object]) -> Timer:
        """Call it again and again."""
