"""Keys that were typed before a line was there to take them: they must neither be lost nor mean anything else.

A screen gets them itself until its line has the focus. Next door: `console.tui.screens.command_line` and `help` have
such lines.
"""

from __future__ import annotations

from textual import events
from textual.widgets import Input


def catch(line: Input, event: events.Key) -> None:
    """Give the line a letter that came to its screen; other keys find their way by themselves."""
    if event.is_printable and event.character:
        event.stop()
        line.insert_text_at_cursor(event.character)
