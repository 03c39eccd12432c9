"""What is the matter with a job, in the words of its own store, and how its tables stand. Pure.

A module of its own: `jobs list` needs no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotkeeper.core.domain.job import TableReport, said_of
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.core.domain.report import JobView


def living_tables(view: JobView) -> tuple[TableReport, ...]:
    """How the tables of a job of several stand; none of one that does not live, whose own state says it all."""
    known = view.report if view.reported and view.lives and view.state.has_process else None
    return known.tables if known else ()


def why_of(view: JobView) -> str:
    """What is the matter with a job, as the store and its processes say; the name of its trouble once."""
    tables = said_of(living_tables(view))
    whole = why_whole(view)
    return "; ".join(part for part in (tables, whole) if part)


def why_whole(view: JobView) -> str:
    """The same of the job as a whole: without what is told of single tables anyway."""
    if view.reason and safe(said_of(living_tables(view))) == view.reason:
        return ""
    named = view.trouble if not view.reason.startswith(view.trouble) else ""
    return ": ".join(part for part in (named, view.reason) if part)
