"""The floor: a Textual app that shows one word and answers a key, with the settings that the console runs with.

Next door: `bench.console_measure` runs it beside the console.
"""

from __future__ import annotations

from textual.app import App, ComposeResult
from textual.widgets import Static

WORD = "Overview"


class EmptyApp(App[None]):
    """One word, and how many keys came."""

    keys = 0

    def compose(self) -> ComposeResult:
        yield Static(WORD)

    def on_key(self) -> None:
        """Something small changes on the screen."""
        self.keys += 1
        self.query_one(Static).update(f"{WORD} {self.keys}")


if __name__ == "__main__":
    EmptyApp().run(mouse=False)
