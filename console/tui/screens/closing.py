"""Going back by one screen: a key that is typed twice, faster than screens change, closes one and not two.

Next door: every screen that can be left.
"""

from __future__ import annotations

from typing import Any

from textual.screen import Screen


def close(screen: Screen[Any]) -> bool:
    """Close this screen where it is the one that is seen and one lies below it; whether it was."""
    app = screen.app
    if app.screen is not screen or len(app.screen_stack) < 2:
        return False
    app.pop_screen()
    return True
