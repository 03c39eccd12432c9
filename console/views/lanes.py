"""The lanes of a job: their rows, and the lines above and below them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import JobDetail, JobFacts, LanePace, Level
from slotkeeper.console.views.rows import (
    TYPED,
    UNKNOWN,
    WIDE,
    WIDEST,
    Column,
    Later,
    Row,
    age,
    bar,
    bars,
    clock,
    count,
    named_by,
    rank,
    seconds,
)
from slotkeeper.console.views.signs import LATE, NONE, dn_sign, lag_role, sign, span, unrecorded
from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.domain.job import RESETTABLE, JobState
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import in_words

if TYPE_CHECKING:
    from slotkeeper.console.monitor.rates import Busy
    from slotkeeper.console.views.how_far import HowFar
    from slotkeeper.core.domain.report import LaneReport

LANE_COLUMNS = (
    Column("mark", "", 1),
    Column("table", "TABLE", 16, name=True),
    Column("dn", "DN", 9, name=True),
    Column("dot", "", 1),
    Column("doing", "DOING", 11),
    Column("bar", "PROGRESS", 8),
    Column("lag", "LAG", 8, right=True),
    Column("rate", "RATE/S", 6, right=True),
    Column("spark", "10 MIN", 8, least=WIDE),
    Column("position", "POSITION", 0, right=True),
    Column("latest", "LATEST", 10, right=True, least=WIDE),
    Column("behind", "BEHIND", 7, right=True),
    Column("eta", "ETA", 6, right=True),
    Column("registered", "CONFIRMED", 10, right=True, least=WIDEST),
    Column("state", "STATE", 11, least=WIDEST),
    Column("commit", "COMMIT", 6, right=True, least=WIDEST),
)
_WORDS = re.compile(r"\b(CRITICAL|FATAL|ERROR|WARN(?:ING)?)\b")


def lane_columns(job: JobFacts | None) -> Sequence[Column]:
    """Return the columns of a job's lanes; the table column is included only if there are several tables."""
    several = job is not None and job.report is not None and any(lane.label for lane in job.report.lanes)
    shown = LANE_COLUMNS if several else [column for column in LANE_COLUMNS if column.key != "table"]
    report = job.report if job else None
    return named_by(shown, *(({report.unit}, {report.place}, {report.part}) if report else ((), (), ("lane",))))


def lane_rows(job: JobFacts, ascii_only: bool = False) -> list[Row]:
    """Return the DNs of a job as rows: faulty ones first, then those that lag most, then the furthest behind."""
    lanes = job.report.lanes if job.report else ()
    found = [(lane, job.throughput.get(lane.name, LanePace())) for lane in lanes]
    found.sort(key=lambda each: (*_badness(*each), each[0].name))
    return [
        Row(
            lane.name,
            lane_level(lane),
            Later(partial(_cells, lane, pace, ascii_only, not job.last_known)),
            Later(partial(_order, lane, pace)),
            Later(partial(_tints, lane, pace, not job.last_known)),
        )
        for lane, pace in found
    ]


def worst_lane(job: JobFacts) -> str | None:
    """Return the DN with the worst fault or the highest lag; None if no DN is reported."""
    lanes = job.report.lanes if job.report else ()
    worst = min(
        lanes, key=lambda lane: (*_badness(lane, job.throughput.get(lane.name, LanePace())), lane.name), default=None
    )
    return None if worst is None else worst.name


def _badness(lane: LaneReport, pace: LanePace) -> tuple[int, float, int]:
    return rank(lane_level(lane)), -(pace.lag or 0.0), -(lane.known_behind or 0)


def lane_level(lane: LaneReport) -> Level:
    """Return the level of a DN."""
    if lane.error and not lane.retry:
        return Level.CRITICAL
    if lane.retry or is_stopped(lane):
        return Level.WARNING
    return Level.UNKNOWN if lane.known_behind is None else Level.FINE


def is_stopped(lane: LaneReport) -> bool:
    """Return whether the lane's table was stopped separately. It is then not in sync, even at the latest position."""
    return lane.activity == _stopped()


@cache
def _stopped() -> str:
    from slotkeeper.core.domain.progress import Activity  # not needed for the first frame

    return Activity.STOPPED.value


def speed(rate: float | None) -> str:
    """Return a rate as text, with one decimal if it is small.

    >>> [speed(rate) for rate in (None, 0.0, 0.44, 9.96, 88.2, 48_200.0)]
    ['?', '0', '0.4', '10', '88', '48.2k']
    """
    if rate is None:
        return UNKNOWN
    return f"{rate:.1f}" if 0 < rate < 9.95 else count(round(rate))


def _order(lane: LaneReport, pace: LanePace) -> dict[str, float | None]:
    known = [each for each in pace.spark if each is not None]
    return {
        "lag": pace.lag,
        "rate": pace.rate,
        "spark": sum(known) if known else None,
        "position": lane.at,
        "latest": lane.latest_at,
        "behind": lane.known_behind,
        "registered": lane.registered_to,
        "eta": pace.eta,
        "commit": lane.last_commit_age,
    }


def _tints(lane: LaneReport, pace: LanePace, moves: bool) -> dict[str, str]:
    """Return the colors of a DN's cells; all are dim if no process of its job is known to be running."""
    if not moves:
        return dict.fromkeys(("dot", "doing", "bar", "lag", "rate", "spark"), "dim")
    role = dn_sign(lane_level(lane), True)[1]
    late = lag_role(pace.lag)
    return {"dn": "strong", "dot": role, "doing": role, "bar": late or role, "lag": late, "spark": "busy"}


def progress(lane: LaneReport, pace: LanePace, cells: int, ascii_only: bool) -> str:
    """Return a bar that shows how much of the changes since the DN was last caught up has been applied.

    "" if it has no backlog, or if that time is unknown.
    """
    waits = pace.lag is None or pace.lag >= LATE or lane_level(lane) is not Level.FINE
    return bar(pace.applied if waits else None, cells, ascii_only, up=False)


def _place(lane: LaneReport) -> str:
    return UNKNOWN if lane.shown is None else safe(lane.shown, 20)


def _cells(lane: LaneReport, pace: LanePace, ascii_only: bool, moves: bool) -> dict[str, str]:
    return {
        "mark": lane_level(lane).value,
        "dot": dn_sign(lane_level(lane), ascii_only)[0] if moves else sign(NONE, ascii_only),
        "bar": progress(lane, pace, 8, ascii_only) if moves else "",
        "table": safe(lane.source_table, 60),
        "dn": safe(lane.shard, 40),
        "doing": safe(lane.activity, 20),
        "lag": span(pace.lag, ascii_only),
        "rate": speed(pace.rate) if moves and pace.rate is not None else sign(NONE, ascii_only),
        "spark": unrecorded(bars(pace.spark, ascii_only), ascii_only) or sign(NONE, ascii_only),
        "position": _place(lane),
        "latest": lane.latest or UNKNOWN,
        "behind": count(lane.known_behind),
        "registered": lane.registered or UNKNOWN,
        "eta": "-" if pace.eta is None or not moves else seconds(pace.eta),
        "state": safe(lane.state, 20),
        "commit": seconds(lane.last_commit_age),
    }


# -- sentences -------------------------------------------------------------------------------------------------------


def since(job: JobFacts, now: datetime) -> str:
    """Return the job's state, its start time, and its duration."""
    if job.state is None:
        return "never started"
    at = "" if job.since is None else f" since {clock(job.since)} ({age(job.since, now)})"
    return f"{job.state_text}{at}"


def figures(job: JobFacts, now: datetime, ascii_only: bool = False) -> str:
    """Return lag, rate, applied events and copy progress; without a process, the last known figures and their age."""
    from statistics import median

    report = job.report
    if report is None:
        return "no report yet"
    parts = [f"last known {age(job.reported_at, now)} ago"] if job.last_known else []
    copied = copy_of(job)
    if copied is not None:
        from slotkeeper.console.views.how_far import bar

        parts.append(f"{bar(copied.share, ascii_only, 12)} {int(copied.share * 100)} %")
        parts.append(f"chunks {copied.done:,}/{copied.total:,}")
        parts.append(f"{count(report.snapshot_rows)} rows" + (f", {copied.left} left" if copied.left else ""))
    if report.lanes:
        lags = [pace.lag for pace in job.throughput.values() if pace.lag is not None]
        middle = f", median {seconds(median(lags))}" if lags and job.lag_seconds is not None else ""
        lag = "unknown" if job.lag_seconds is None else seconds(job.lag_seconds)
        parts.append(f"lag {lag} {safe(worst_lane(job) or '', 20)}{middle}")
        repeats = f", {count(report.repeats)} repeats" if report.repeats else ""
        parts.append(f"events {count(report.changes)}{repeats}")
    word = "rows/s" if not report.lanes else "events/s"
    if job.last_known:
        return "   ".join(parts)
    spark = unrecorded(bars(job.spark, ascii_only), ascii_only)
    rate = "unknown" if job.rate is None else speed(job.rate)
    parts.append(f"{word} {rate} {spark}".rstrip())
    return "   ".join(parts)


def copy_of(job: JobFacts) -> HowFar | None:
    """Return the progress of a job's copy in chunks, with the remaining time; None if there is no copy."""
    report = job.report
    if report is None or report.lanes or not report.chunks_total:
        return None
    done, total = report.chunks_done or 0, report.chunks_total
    left = ""
    limit, measured = CopyLimit(report.copy_rows_limit, report.copy_bytes_limit), job.rate
    if limit.rows and (measured is None or measured > limit.rows / 2):
        measured = float(limit.rows)  # the measured rate follows a changed limit slowly
    if measured and done and done < total:
        left = in_words(max(1.0, report.snapshot_rows / done * (total - done) / measured))
    from slotkeeper.console.views.how_far import HowFar  # not needed for the first frame

    rate = "" if job.rate is None else f"{speed(job.rate)} rows/s"
    return HowFar("copy", done, total, "chunks copied", left, limit.text or rate)


def work(job: JobFacts) -> str:
    """Return how the job's lanes spend their time, and the bottleneck."""
    if job.busy is None:
        return "busy with: unknown" if job.alive and job.report and job.report.lanes else "busy with: -"
    if job.last_known:
        return f"was busy with: {shares(job.busy)}"
    return f"busy with: {shares(job.busy)}" + (f"   bottleneck: {job.side}" if job.side else "")


def shares(busy: Busy) -> str:
    """Return shares of working time as text.

    >>> from slotkeeper.console.monitor.rates import Busy
    >>> shares(Busy(0.714, 0.238, 0.048))
    'source 71 % / sink 24 % / registration 5 %'
    """
    return f"source {busy.read:.0%} / sink {busy.write:.0%} / registration {busy.register:.0%}".replace("%", " %")


def process(job: JobFacts, detail: JobDetail | None, now: datetime) -> str:
    """Describe the job's process and its history."""
    where = "no process" if job.alive is False else "elsewhere" if job.alive is None else safe(job.holder, 30)
    parts = [where, f"desired: {safe(job.wanted or '-', 10)}"]
    if job.alive and job.started_at is not None:
        parts.append(f"up {age(job.started_at, now)}")
    if not job.alive and job.ended_at is not None:
        code = UNKNOWN if job.exit_code is None else str(job.exit_code)
        parts.append(f"exit {code} at {clock(job.ended_at)}")
    if detail is not None and detail.job == job.name:
        memory = "-" if detail.rss is None else f"{detail.rss / 2**20:.0f}M"
        parts += [f"driver rss {memory}", f"driver starts 24h: {count(detail.driver_starts)}"]
    return "   ".join(parts)


def host_line(job: JobFacts) -> str:
    """Return this host's load and the job's resources in the last 10 s; "" if its supervisor has measured nothing.

    >>> from slotkeeper.core.domain.host import HostReport, HostShare
    >>> job = JobFacts("a", Level.FINE, JobState.RUNNING, alive=True)
    >>> share = HostShare(10.0, driver_cpu=0.11, ran=0.1, waited=0.9)
    >>> host_line(replace(job, host=HostReport(0.0, 2, 80.2, short=share)))
    'host: load 80.2 on 2 CPUs   got 10 % of the CPU time that it needed   driver 0.11 CPU -   java - CPU -'
    """
    host = job.host if job.alive else None
    if host is None:
        return ""
    share = host.short
    got = None if share is None else share.got
    load = "-" if host.load is None else f"{host.load:.1f}"
    parts = [f"host: load {load} on {host.cpus or '-'} CPUs"]
    parts.append(f"got {'-' if got is None else f'{got:.0%}'.replace('%', ' %')} of the CPU time that it needed")
    for name in ("driver", "java"):
        cpu, memory = getattr(share, f"{name}_cpu", None), getattr(host, f"{name}_memory")
        size = "-" if memory is None else f"{memory / 2**20:.0f}M"
        parts.append(f"{name} {'-' if cpu is None else f'{cpu:.2f}'} CPU {size}")
    return "   ".join(parts)


def counters(job: JobFacts) -> str:
    """Return the counters of the driver in this run."""
    report = job.report if job.current else None
    if report is None:
        return "this run has not reported yet"
    epoch = "unknown" if report.epoch is None else str(report.epoch)
    return f"tasks {count(report.tasks_started)}  registrations {count(report.registrations)}  epoch {epoch}"


def next_risk(job: JobFacts, now: datetime) -> str:
    """Return the next limit that the job will reach, from the state store; slot expiry is on the slot's screen."""
    if job.state in (*RESETTABLE, JobState.PAUSED) or job.alive is False:
        still = "" if job.lag_seconds is None else f", unread for {seconds(job.lag_seconds)}"
        return f"next risk: no job reads its binlog{still}; {_meanwhile(job)}"
    retrying = [lane.name for lane in (job.report.lanes if job.report else ()) if lane.retry]
    if retrying:
        more = f" and {len(retrying) - 1} more" if retrying[1:] else ""
        return f"next risk: {safe(retrying[0], 40)}{more} is not read; {_meanwhile(job)}"
    return f"next risk: none known here; {proof(job, now)}"


def _meanwhile(job: JobFacts) -> str:
    expires = job.report is None or job.report.keeps_positions
    return f"{job.unread} -> [3] Slots" if expires else job.unread


def proof(job: JobFacts, now: datetime) -> str:
    """Describe whether the target can be trusted, based on its last comparison.

    Quarantined rows are reported separately.
    """
    from slotkeeper.core.domain.row_counts import in_a_phrase, rows_quarantined

    if not job.quarantined:
        return in_a_phrase(job.verified, now)
    said = in_a_phrase(replace(job.verified, quarantined=0) if job.verified else None, now)
    return f"{said}, except for {rows_quarantined(job.quarantined)}"


def lane_gtids(job: JobFacts | None, name: str | None) -> str:
    """Return the GTIDs applied up to the selected lane's position; "" if its source has none."""
    lanes = job.report.lanes if job and job.report else ()
    lane = next((one for one in lanes if one.name == name), None)
    if lane is None or not lane.gtids:
        return ""
    return f"GTIDs  {safe(lane.gtids, 300)} at {_place(lane)}"


def lane_trouble(job: JobFacts | None, dn: str | None) -> str:
    """Return the problem reported by the selected DN; "" if there is none."""
    lanes = job.report.lanes if job and job.report else ()
    lane = next((one for one in lanes if one.name == dn), None)
    if lane is None or not (lane.error or lane.retry or is_stopped(lane)):
        return ""
    if job and job.report and is_stopped(lane):
        from slotkeeper.core.domain.job import amiss, to_do

        table = next((one for one in amiss(job.report.tables) if one.source_table == lane.source_table), None)
        if table is not None:
            said = table.reason.removeprefix(f"{table.source_table}: ")
            do = to_do(job.name, table)
            parts = (f"{table.source_table} {table.state}", said, "" if do == job.safe else f"do {do}")
            return safe(": ".join(part for part in parts if part), TYPED)
    shown_above = any(one.cause and one.cause in (lane.error or "") for one in (job.faults if job else ()))
    said = ": ".join(part for part in (lane.side, lane.retry, "" if shown_above else lane.error) if part)
    return safe(f"{lane.name}: {said}", 400)


def line_level(line: str) -> Level:
    """Return the severity of a log line, from the level it contains.

    >>> [line_level(line).name for line in ("02:28 ERROR gave up", "WARN slow", "INFO fine")]
    ['CRITICAL', 'WARNING', 'REST']
    """
    found = _WORDS.search(line)
    if found is None:
        return Level.REST
    return Level.WARNING if found.group(1).startswith("WARN") else Level.CRITICAL


def log_lines(lines: Iterable[str]) -> list[tuple[Level, str]]:
    """Return log lines with their severities."""
    return [(line_level(line), safe(line, 2_000)) for line in lines]
