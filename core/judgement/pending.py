"""Report a job or a table that stays PENDING, and what it waits for. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Fault, Party, Severity, in_brief
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.pending import ITS_LANES, pending_tables, since_of, waits_for, waits_for_others
from slotkeeper.core.domain.report import JobStatus
from slotkeeper.core.domain.text import many, safe, typed
from slotkeeper.core.judgement.facts import Facts

PENDING_SECONDS = 60.0
"""Seconds after which a start is late; it normally takes a few seconds, and up to 30 s on a loaded host."""
_BESIDE = ("driver_crashed", "crash_loop", "clocks_differ", "lag")
"""Faults that do not explain why a driver does not start; a crash does, until another driver starts."""


def of_pending(view: JobStatus, facts: Facts, known: Iterable[Fault]) -> Iterator[Fault]:
    """Yield a fault for a late start that no `known` fault explains, and for late tables of a started job."""
    unexplained = all(one.rule in _BESIDE and (view.driver_alive or one.rule != "driver_crashed") for one in known)
    if view.state is JobState.PENDING and unexplained and _late(view.changed_at, facts):
        yield _fault(view, "", waits_for(view), view.changed_at)
    late = [one for one in pending_tables(view) if not waits_for_others(one) and _late(since_of(one), facts)]
    if late:  # if many tables wait for one server, report only the first
        more = f"; {many(len(late) - 1, 'more table')} waiting" if late[1:] else ""
        yield _fault(view, late[0].source_table, f"{late[0].reason or ITS_LANES}{more}", since_of(late[0]))


def _late(since: datetime | None, facts: Facts) -> bool:
    past = None if since is None else elapsed(since, facts.now)
    return past is not None and past >= PENDING_SECONDS


def _fault(view: JobStatus, table: str, waits: str, since: datetime | None) -> Fault:
    name = f"table {safe(table, 80)}" if table else f"job {safe(view.name, 60)}"
    cause = safe(f"PENDING: {waits.removeprefix(f'{table}: ')}", 400)
    do = f"`slotkeeper jobs logs {typed(view.name)}` shows its last step"
    return Fault(
        "not_started", Party.TABLE if table else Party.PROCESS, name, Severity.WARNING, cause,
        "no change is applied yet; position held, nothing skipped", do, since, view.name, table, table,
        JobState.PENDING.value, in_brief(PENDING_SECONDS),
    )  # fmt: skip
