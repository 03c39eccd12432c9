"""The folders in which the state folder stores the files of resets; a separate module, because every command
checks for an open reset.
"""

from __future__ import annotations

PLANS, BACKUPS, MARKS = "plans", "backups", "resets"
"""The folders for plans, backups, and markers of unfinished resets."""
