"""`slotkeeper status`: print one line per job, from the state store only, for users and for monitoring.

Queries no server, except with --exit-code and only for a configured job that was never started here: its store shows
whether a DataFrame query reads it, and whether that query is running. With --exit-code the exit codes are those of
monitoring plugins: 0 ok, 1 warning, 2 critical, 3 for anything that prevents a verdict. If this command is not reached
or fails, `slotkeeper.console.__main__` returns 3.

Monitoring runs the command every minute, so it runs without Typer, which takes a third of its time;
`slotkeeper.console.commands.status` declares it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from slotkeeper.console.cli import output
from slotkeeper.console.cli.context import UNJUDGED, Invocation
from slotkeeper.console.commands import configured
from slotkeeper.console.monitor.health import LEVELS, complete, facts
from slotkeeper.console.monitor.snapshot import UNSEEN, JobFacts, Level
from slotkeeper.console.views.rows import age, rank
from slotkeeper.core.alerts.rules import fault_values
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.domain.row_counts import in_a_phrase
from slotkeeper.core.judgement.facts import Facts
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.state.observed import last
from slotkeeper.core.state.sqlite import Store

EXIT_CODES = {Level.WARNING: 1, Level.CRITICAL: 2, Level.UNKNOWN: UNJUDGED}
_REFUSED = "rejected by the configuration"


def overall(shared: Invocation, as_json: bool, by_code: bool, state_dir: Path | None = None) -> int:
    """Print the state of all jobs, and return the exit code: 0 without `by_code`. Raises SlotkeeperError."""
    loaded, folder = shared.state(state_dir)
    now = SystemClock().utc()
    _, found, faults = judged(loaded, folder, now)
    configured.tell_unreadable(loaded)
    configured.tell_refused(loaded)
    if by_code:
        found = _with_queries(found, loaded)
    whole = _worst_of(found, faults)
    if as_json:
        output.as_json(as_values(found, faults))
    else:
        for fault in faults:
            if not fault.job:
                output.line(f"{fault.severity.value.upper():<8}  {fault.said(now)}", shared.ascii_only)
        for one in found:
            output.line(_line(one, now), shared.ascii_only)
        if not found:
            output.line("no jobs are known here")
    return EXIT_CODES.get(whole, 0) if by_code else 0


def _with_queries(jobs: Sequence[JobFacts], loaded: Loaded | None) -> list[JobFacts]:
    """Return the jobs; those that were never started here get the state of the DataFrame queries that read their slots.

    Queries their stores, for at most 3 s.
    """
    unseen = [one.name for one in jobs if one.unseen and loaded is not None and one.name in loaded.jobs]
    if loaded is None or not unseen:
        return list(jobs)
    from slotkeeper.console.commands import job_queries  # loads Typer and drivers, which no other path here needs

    read = job_queries.of(loaded, unseen)

    def known(one: JobFacts) -> JobFacts:
        its = read.get(one.name)
        if not its:
            return one
        level = Level.WARNING if job_queries.any_dead(its) else Level.FINE
        return replace(one, state=job_queries.state(its), level=level, queries=its, wrong=job_queries.reason(its))

    return list(map(known, jobs))


def judged(loaded: Loaded | None, folder: Path, now: datetime) -> tuple[Facts, list[JobFacts], list[Fault]]:
    """Return the facts, all jobs by name, and the faults, from the state store only. Raises SlotkeeperError."""
    with Store.existing(folder) as store:
        seen, verified = gather(store, loaded, now), last(store)
    faults = judge(seen)
    mine = [replace(facts(one.view, faults, now), host=one.host) for one in seen.jobs]
    jobs = complete(mine, loaded, verified, faults)
    found = sorted(jobs, key=lambda one: one.name)
    found = [replace(one, wrong=_REFUSED) if one.refused else one for one in found]
    return seen, [replace(one, wrong=UNSEEN) if one.unseen else one for one in found], list(faults)


def as_values(found: Sequence[JobFacts], faults: Sequence[Fault]) -> dict[str, object]:
    """Return the state of all jobs as JSON values."""
    values = [fault_values(one) for one in faults]
    return {"severity": _word(_worst_of(found, faults)), "jobs": list(map(_values, found)), "faults": values}


def _worst_of(found: Sequence[JobFacts], faults: Sequence[Fault]) -> Level:
    return worst([*(one.judged for one in found), *(LEVELS[one.severity] for one in faults)])


def worst(levels: Iterable[Level]) -> Level:
    """Return the worst level; FINE if there are no jobs.

    >>> worst([Level.FINE, Level.UNKNOWN, Level.WARNING])
    <Level.WARNING: '!'>
    """
    return min((level for level in levels if level in EXIT_CODES), key=rank, default=Level.FINE)


def _word(level: Level) -> str:
    """Return the level's name in monitoring plugins."""
    return level.name.lower() if level in EXIT_CODES else "ok"


def _values(one: JobFacts) -> dict[str, object]:
    return {
        "job": one.name,
        "severity": _word(one.judged),
        "state": one.state,
        "alive": bool(one.alive),
        "text": one.wrong,
        "behind": one.behind,
        "reported_at": one.reported_at,
        "last_known": one.last_known,
        "verified": one.verified,
        "quarantined": one.quarantined,
        "only_quarantined": one.only_quarantined,
        "host": one.host,
    }


def _line(one: JobFacts, now: datetime) -> str:
    state = one.state_text
    alive = "" if one.alive or one.state is None or not one.state.has_process else " (no process here)"
    unit = f"{one.report.unit} " if one.report and one.report.unit else ""
    known = f"last known {age(one.reported_at, now)} ago: " if one.last_known else ""
    behind = f"; {known}{one.behind} {unit}behind" if one.behind else ""
    text = f": {one.wrong}" if one.wrong else ""
    verified = f"; {in_a_phrase(one.verified, now)}" if one.verified else ""
    return f"{_word(one.judged).upper():<8}  {one.name}  {state}{alive}{text}{behind}{verified}"
