"""DataFrame queries in the list of jobs. They are shown as jobs that run elsewhere, and actions on them are refused.

Only a configured job that was never started on this host can be a query. Its store is queried for at most three
seconds.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import typer

from slotkeeper.console.cli import output, select
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.query_report import WHERE_TO_ACT, WHERE_TO_START, QuerySeen
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused, Unreachable

if TYPE_CHECKING:
    from slotkeeper.core.state.sqlite import Store

OfJob = Mapping[str, QuerySeen]
"""The queries that read a job's slots, by source table."""


SILENT = "never started here; its store did not answer, or was not checked for DataFrame queries"


def of(loaded: Loaded, names: Iterable[str], silent: set[str] | None = None, unasked: bool = True) -> dict[str, OfJob]:
    """Return the queries by job, for jobs with queries. `silent` collects jobs whose store did not answer in time.

    `unasked` means that the user did not request queries, so that no password command is run.
    """
    from slotkeeper.core.services import slot_commands  # its drivers are loaded only if there is a job to query

    found: dict[str, dict[str, QuerySeen]] = {}
    for (job, table), seen in sorted(
        slot_commands.queries_of((loaded.jobs[name] for name in names), silent, unasked).items()
    ):
        found.setdefault(job, {})[table] = seen
    return dict(found)


def here(loaded: Loaded | None, store: Store, job: str, silent: set[str] | None = None, unasked: bool = True) -> OfJob:
    """Return the queries of a configured job that was never started on this host; none for any other job."""
    if loaded is None or job not in loaded.jobs or store.job(job) is not None:
        return {}
    return of(loaded, [job], silent, unasked).get(job, {})


def shown(loaded: Loaded | None, store: Store, job: str) -> OfJob:
    """Return the queries of the job that the user named. Raises Unreachable if its store does not answer."""
    silent: set[str] = set()
    read = here(loaded, store, job, silent, unasked=False)
    if silent:
        what = f"job {job} was never started here, and its store does not answer"
        raise Unreachable(f"{what}: it is unknown whether a DataFrame query reads its slot", where="sink")
    return read


def refuse(loaded: Loaded | None, store: Store, job: str) -> None:
    """Raise Refused if a query reads the slots of the job. The error names the query's owner and where to act."""
    for table, seen in here(loaded, store, job).items():
        hint = f"{seen.to_do}; to run a job here, give it another slot"
        raise Refused(f"job {job} ({table}): {seen.refusal}", hint, where="spark")


def state(read: OfJob) -> JobState:
    """Return RUNNING or STOPPED: a query reports neither a copy nor catching up."""
    return JobState.RUNNING if any(one.lives for one in read.values()) else JobState.STOPPED


def any_dead(read: OfJob) -> bool:
    """Whether a query that has read a slot of the job is not running."""
    return not all(one.lives for one in read.values())


def reason(read: OfJob) -> str:
    """Summarize all queries of a job in one line."""
    return "; ".join(one.brief for one in read.values())


def row(name: str, read: OfJob) -> list[object]:
    """Return the row of `jobs list`."""
    there = state(read)
    return [name, there, "elsewhere" if there is JobState.RUNNING else "no", None, reason(read)]


def as_values(read: OfJob) -> dict[str, object]:
    """Return the JSON values that differ from those of a job that was never started."""
    each = [
        {"table": table, **{field.name: getattr(one, field.name) for field in dataclasses.fields(one)}}
        for table, one in read.items()
    ]
    safe_to_do = WHERE_TO_ACT if state(read) is JobState.RUNNING else WHERE_TO_START
    return {"state": state(read), "elsewhere": True, "reason": reason(read), "safe": safe_to_do, "queries": each}


def show(ctx: typer.Context, job: str, read: OfJob, listed: Mapping[str, object], as_json: bool) -> None:
    """Print the output of `jobs show` for a job with queries. `listed` is its entry in `jobs list`."""
    if as_json:
        output.as_json({**listed, "verified": None, "report": None, "errors": (), "events": ()})
        return
    ascii_only = select.ascii_only(ctx)
    for table, one in read.items():
        lines = [
            ("job", f"{job} reads {table} elsewhere and cannot be controlled from here"),
            ("state", state({table: one}).value),
            ("query", one.called),
            ("who", one.who),
            ("batch", one.progress.removeprefix("batch ")),
            ("behind", one.lag.removeprefix("behind ")),
            ("checkpoint", one.checkpoint or "?"),
            *([("?", one.unsaid)] if one.unsaid else []),
            ("action", one.to_do),
        ]
        for label, value in lines:
            output.paragraph(f"{label:<10}", safe(value, 400), ascii_only)
        rows: list[list[object]] = [
            [dn, place, one.newest.get(dn), one.behind.get(dn)] for dn, place in sorted(one.positions.items())
        ]
        output.table(["dn", "committed", "newest", "behind"], rows, ascii_only)
