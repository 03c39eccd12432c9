"""Where the state folder keeps what resets leave: a module of its own, because every command asks whether one is
open."""

from __future__ import annotations

PLANS, BACKUPS, MARKS = "plans", "backups", "resets"
"""The folders of plans, backups, and marks of unfinished resets."""
