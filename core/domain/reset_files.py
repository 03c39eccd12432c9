"""The names of the folders for the files of resets; a separate module, because every command checks for resets."""

from __future__ import annotations

PLANS, BACKUPS, MARKS = "plans", "backups", "resets"
"""The folders, below the state folder, for plans, backups, and markers of unfinished resets."""
