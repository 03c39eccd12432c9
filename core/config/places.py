"""Which tables of which sources a configuration's jobs read, and which slots are theirs. No server is asked.

Next door: `core.config.model` is what was loaded.
"""

from __future__ import annotations

from core.config.model import Loaded


def owners(loaded: Loaded, source: str, table: str) -> dict[str, str]:
    """The configured jobs that follow a table, by their slots."""
    mine = [job for job in loaded.jobs.values() if job.source.name == source and job.binlog.binlog]
    return {job.slot: job.name for job in mine if any(channel.source_table == table for channel in job.channels)}


def tables(loaded: Loaded, source: str = "", table: str = "") -> list[tuple[str, str]]:
    """(source, table) of every table that a configured job reads, narrowed to a source and a table where given."""
    found = {(job.source.name, channel.source_table) for job in loaded.jobs.values() for channel in job.channels}
    return sorted((one, its) for one, its in found if source in ("", one) and table in ("", its))
