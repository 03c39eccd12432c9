"""Summaries of all jobs: states, trusted targets, bottlenecks, and users at work. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local
from slotkeeper.console.views.detail import labelled
from slotkeeper.console.views.rows import age, both_ends, fit
from slotkeeper.core.domain.job import JobState, event_text
from slotkeeper.core.domain.text import safe

LATELY = timedelta(minutes=10)
_RUN = re.compile(r"\b([0-9a-f]{8})[0-9a-f]{24}\b")
"""A run's ID and its first part, by which users distinguish runs."""


NO_JOB = [
    (Level.REST, labelled("Status", "No job is configured, and none was started on this host.")),
    (Level.FINE, labelled("Action", "1 `slotkeeper init` asks for source and sink, and starts a first job")),
    (Level.FINE, labelled("", "2 `slotkeeper demo` shows everything on this host, without a warehouse")),
]


def without_jobs(local: Local) -> list[tuple[Level, str]]:
    """Return why no job is shown: the state store is not read yet, cannot be read, or contains none."""
    if local.fault:
        return [(Level.UNKNOWN, labelled("Status", "The jobs are unknown: the state store cannot be read."))]
    return NO_JOB if local.at is not None else [(Level.REST, labelled("Status", "Reading the state store ..."))]


def at_work(local: Local, now: datetime) -> list[tuple[Level, str]]:
    """Return lines about users at work and bottlenecks; empty if there are neither."""
    said = [*who_is_on_it(local, now), *sides(local.jobs)]
    level = Level.WARNING if local.armed or local.locked or local.open_resets else Level.REST
    return [(level, "   ".join(said))] if said else []


def trust(jobs: Sequence[JobFacts], now: datetime) -> tuple[Level, str]:
    """Summarize which targets can currently be trusted, and the age of the oldest valid comparison."""
    from slotkeeper.core.domain.row_counts import in_a_phrase

    started = [job for job in jobs if job.state not in (None, JobState.CANCELLED) and not job.queries]
    unseen = [job for job in jobs if job.unseen]
    different = [job for job in started if job.verified and job.verified.verdict == "different"]
    untrusted = [job for job in started if job not in different and not follows(job)]
    if different:
        first = f"{both_ends(safe(different[0].name), 30)} {in_a_phrase(different[0].verified, now)}"
        also = f"; {_named('also different', different[1:])}" if different[1:] else ""
        return Level.CRITICAL, f"targets: {first}{also}"
    apart = _apart(started)
    if untrusted:
        also = f"; {apart}" if apart else ""
        return Level.WARNING, f"{_named('not verified', untrusted)}{also}; {_proof(started, now)}"
    if apart:
        return Level.WARNING, f"all targets current except for {apart}; {_proof(started, now)}"
    if unseen:
        return Level.UNKNOWN, f"{_named('not seen from this host', unseen)}; {_proof(started, now)}"
    return Level.FINE, f"all targets current; {_proof(started, now)}"


def follows(job: JobFacts) -> bool:
    """Return whether the target equals its source except for lag and quarantined rows."""
    if job.state is JobState.FINISHED:
        return True
    return job.state is JobState.RUNNING and (job.level is Level.FINE or job.follows_on or job.only_quarantined)


def _apart(jobs: Sequence[JobFacts]) -> str:
    """Return the number of quarantined rows that targets lack, and their jobs."""
    from slotkeeper.core.domain.row_counts import rows_quarantined

    some = [job for job in jobs if job.quarantined]
    if not some:
        return ""
    return f"{rows_quarantined(sum(job.quarantined or 0 for job in some))} ({_some(some)})"


def _proof(jobs: Sequence[JobFacts], now: datetime) -> str:
    equal = [job.verified.at for job in jobs if job.verified and job.verified.verdict == "equal"]
    if not equal:
        return "no valid comparison" if any(job.verified for job in jobs) else "no comparison yet"
    most = "at most " if equal[1:] else ""
    return f"{len(equal)} of {len(jobs)} verified equal, {most}{age(min(equal), now)} ago"


def sides(jobs: Iterable[JobFacts]) -> list[str]:
    """Return the bottlenecks, each with its jobs."""
    found: dict[str, list[JobFacts]] = {}
    for job in jobs:
        if job.alive and job.side and job.state is not JobState.PAUSED:
            found.setdefault(job.side, []).append(job)
    return [f"bottleneck: {side} ({_some(its)})" for side, its in sorted(found.items())]


def who_is_on_it(local: Local, now: datetime) -> list[str]:
    """Return armed consoles, a running command, an unfinished reset, and the last change if under ten minutes old."""
    said = [
        f"ARMED: {safe(one.who, 40)} at another console until {one.until:%H:%M}Z, reason: {safe(one.reason, 40)}"
        for one in local.armed[:1]
    ]
    said += [f"a command is starting {both_ends(safe(name), 30)} now" for name in local.locked[:1]]
    if local.open_resets:
        one = local.open_resets[0]
        more = f" and {len(local.open_resets) - 1} more" if local.open_resets[1:] else ""
        said.append(f"unfinished reset {safe(one.id, 20)} of slot {safe(one.slot, 30)}{more}")
    last = next((line for line in local.audit if now - line.at <= LATELY), None)
    if last is not None:
        said.append(f"{age(last.at, now)} ago {safe(last.actor.who, 40)}: {safe(last.action, 30)}")
    return said


def _named(words: str, jobs: Sequence[JobFacts]) -> str:
    return f"{words}: {_some(jobs)}"


def _some(jobs: Sequence[JobFacts]) -> str:
    return ", ".join(both_ends(safe(job.name), 24) for job in jobs[:2]) + (f" +{len(jobs) - 2}" if jobs[2:] else "")


def event_lines(local: Local, most: int) -> list[str]:
    """Return the latest events, newest first."""
    said = [(one, _RUN.sub(r"\1", event_text(one.event, one.text))) for one in local.events[:most]]
    return [f"{one.at:%H:%M:%S}  {fit(safe(one.job, 24), 16)}  {safe(text, 140)}" for one, text in said]
