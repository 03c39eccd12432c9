"""What Textual does more often than this console needs, done once: styles parsed again, switches held back, garbage.

Private parts of App are used, which is why textual is pinned.
"""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import Sequence

from textual.app import App, ScreenError
from textual.theme import Theme

_SWITCH_SECONDS = 0.005
_LOAD_EVERY = 0.3
_NEW_OBJECTS = 10_000
"""Garbage is looked for after so many: a picture of two thousand rows is as many, and none of it is garbage yet."""


class PatchedApp(App[int]):
    """The app below all of ours."""

    _parsed_for = 0
    """The number of the theme that all styles were last parsed for."""

    def __init__(self) -> None:
        super().__init__()
        self._ending = threading.Event()

    def wear_first(self, theme: Theme) -> None:
        """The theme to begin with; set as others are, it would make Textual parse all styles once more."""
        self.set_reactive(App.theme, theme.name)
        self.stylesheet.set_variables(self.get_css_variables())

    def refresh_css(self, animate: bool = True) -> None:
        """Parse styles where the theme is another one; Textual does so for each screen that is first seen."""
        if self._parsed_for != self._css_update_count:
            self._parsed_for = self._css_update_count
            super().refresh_css(animate)
            return
        try:
            screen = self.screen
        except ScreenError:  # before the first one
            return
        is_new = screen._css_update_count < 0  # its widgets get their styles when they are mounted
        if not is_new and screen._css_update_count != self._css_update_count:
            self.stylesheet.update(screen, animate=animate)
        screen._css_update_count = self._css_update_count

    def on_mount(self) -> None:
        """Once the first frame is seen, garbage is collected again, and what is there by then stays."""
        self.call_after_refresh(_collect_garbage)

    def load_later(self, modules: Sequence[str]) -> None:
        """Load modules one by one while nobody waits for them: their screens are there at the first key then."""

        def load() -> None:
            for module in modules:
                self._ending.wait(_LOAD_EVERY)
                if self._ending.is_set():
                    return
                importlib.import_module(module)

        threading.Thread(target=load, name="slotkeeper-load", daemon=True).start()

    def on_unmount(self) -> None:
        """Load no more."""
        self._ending.set()

    def delay_update(self, delay: float = _SWITCH_SECONDS) -> None:
        """Hide another screen only until it has been asked to draw itself, not for 50 ms."""
        super().delay_update(delay)


def _collect_garbage() -> None:
    if not gc.isenabled():
        gc.freeze()
        gc.set_threshold(_NEW_OBJECTS, 5, 2)
        gc.enable()
