"""What every `--json` and the one log in JSON hold, as JSON Schema 2020-12: `docs/schemas` is made of it.

Tests hold each output against it, strictly: a key that is not named here, or one that is missing, fails them. To add a
command with `--json`: describe what it prints in the file of its group, and write the pages
(`make docs`).
"""

from __future__ import annotations

from slotkeeper.console.cli.schemas import alerts, jobs, locks, looking, resets, rows, slots
from slotkeeper.console.cli.schemas.pieces import Schema

SCHEMAS: dict[str, Schema] = {
    **jobs.SCHEMAS,
    **locks.SCHEMAS,
    **slots.SCHEMAS,
    **resets.SCHEMAS,
    **rows.SCHEMAS,
    **looking.SCHEMAS,
    **alerts.SCHEMAS,
}
"""By what is typed: "jobs list", and "slots peek --jsonl" where one command has two; the log by its file's name,
and a notification as "alert"."""
