"""The two ways of a job whose source table has other columns: a module of its own, because every configuration asks."""

from __future__ import annotations

STOP, RESNAPSHOT = "stop", "resnapshot"
"""What a job does when a source table has other columns: say what to type, or alter the target and copy again."""
ON_SCHEMA_CHANGE = (STOP, RESNAPSHOT)
