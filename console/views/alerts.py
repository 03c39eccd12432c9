"""Pure functions from the picture to alerts: what fires, what it means, until when, and the ways out by what they lose.

The conditions are those that the state store and the slots already show. Next door: `console.views.remedies` knows the
ways out, `core.domain.ack` what a person has said, `console.tui.screens.alerts` draws.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from console.monitor.snapshot import JobFacts, Level, MonitorState, TableSeen, unread_meanwhile
from console.views.errors import open_count
from console.views.quarantine import fullness, number_of, quarantine_of
from console.views.remedies import QUARANTINED_ROWS, Loss, Option, Remedy, named, ranked, remedy_for
from console.views.rows import NARROW, TYPED, WIDE, Column, Row, age, clock, count, rank
from console.views.slots import SlotFacts, all_slots, deadline, remaining, slot_level
from core.domain.ack import Ack, is_quiet
from core.domain.job import JobState
from core.domain.report import LaneReport
from core.domain.spec import JobSpec
from core.domain.table import TableReport, amiss, started_alone, to_do
from core.domain.text import many, safe, typed
from core.domain.ttl import CRITICAL_BELOW, WARN_BELOW, in_words
from core.domain.verified import rows_quarantined
from core.sqltext import dotted

ALERT_COLUMNS = (
    Column("mark", "", 1),
    Column("level", "SEV", 4),
    Column("rule", "RULE", 16),
    Column("object", "OBJECT", 0),
    Column("value", "VALUE", 9, right=True),
    Column("limit", "LIMIT", 8, right=True, least=NARROW),
    Column("since", "SINCE UTC", 14, least=WIDE),
    Column("lasts", "FOR", 6, right=True),
    Column("ack", "ACK", 12),
)
_WORDS = {Level.CRITICAL: "crit", Level.WARNING: "warn", Level.UNKNOWN: "?"}


@dataclass(frozen=True, slots=True)
class Alert:
    """One condition that holds now; `goes_to` is the screen and key of the thing: ("job", name), ("quarantined", job)
    or ("slot", key).

    `since` is part of its identity: where the condition ends and comes back it is a new alert, which no old
    acknowledgement silences.
    """

    rule: str
    thing: str
    level: Level
    value: str
    limit: str
    since: datetime | None
    means: str
    ignored: str
    options: tuple[Option, ...]
    goes_to: tuple[str, str]

    @property
    def key(self) -> str:
        """What tells it from every other alert."""
        began = "?" if self.since is None else f"{self.since.timestamp():.0f}"
        return f"{self.rule}\x1f{self.thing}\x1f{began}"


def alerts(monitor: MonitorState, now: datetime) -> list[Alert]:
    """Everything that fires, the worst first."""
    jobs = [*_jobs(monitor), *_tables(monitor), *_quarantined(monitor)]
    found = [*_store(monitor), *_resets(monitor), *jobs, *_slots(monitor.tables.values(), now)]
    return sorted(found, key=lambda one: (rank(one.level), one.rule, one.thing))


def alert_rows(found: Iterable[Alert], acks: Mapping[str, Ack], now: datetime) -> list[Row]:
    """The alerts as rows, those that need nobody now last."""
    keyed = [(is_quiet(acks.get(one.key), now), one) for one in found]
    return [_row(one, acks.get(one.key), now) for _, one in sorted(keyed, key=lambda item: item[0])]


def firing(found: Iterable[Alert], acks: Mapping[str, Ack], now: datetime) -> list[Alert]:
    """Those that nobody has acknowledged or silenced."""
    return [one for one in found if not is_quiet(acks.get(one.key), now)]


def figures(found: Iterable[Alert], acks: Mapping[str, Ack], now: datetime) -> str:
    """The title: how many fire, are acknowledged, are silent."""
    every = list(found)
    quiet = [acks[one.key] for one in every if is_quiet(acks.get(one.key), now)]
    silent = sum(ack.until is not None for ack in quiet)
    return f"{len(every) - len(quiet)} firing, {len(quiet) - silent} acknowledged, {silent} silent"


def counts_of(monitor: MonitorState, jobs: Mapping[str, JobSpec], now: datetime) -> tuple[dict[str, int], set[str]]:
    """How many errors and alerts wait for somebody, by the keys of their screens; which alerts are critical."""
    acks = monitor.local.acks
    found = firing(alerts(monitor, now), acks, now)
    errors = open_count(monitor.local, acks, now) + number_of(quarantine_of(monitor, jobs), acks, now)
    return {"4": errors, "6": len(found)}, {one.key for one in found if one.level is Level.CRITICAL}


def alert_lines(one: Alert) -> list[tuple[Level, str]]:
    """What it means, what happens if nobody does anything, and the ways out."""
    said = [(one.level, f"Means       {one.means}"), (Level.FINE, f"If ignored  {one.ignored}")]
    return said + [
        (Level.FINE, f"{'Options' if number == 1 else '':<11} {number}  {each.do} ({each.loses.words})")
        for number, each in enumerate(ranked(one.options), 1)
    ]


def _row(one: Alert, ack: Ack | None, now: datetime) -> Row:
    quiet = is_quiet(ack, now)
    said = "-"
    if ack is not None and quiet:
        said = safe(ack.by, 40) if ack.until is None else f"silent {in_words((ack.until - now).total_seconds())}"
    level = Level.REST if quiet else one.level
    lasts = None if one.since is None else max(0.0, (now - one.since).total_seconds())
    cells = {
        "mark": level.value,
        "level": _WORDS.get(one.level, "-"),
        "rule": one.rule,
        "object": one.thing,
        "value": one.value,
        "limit": one.limit,
        "since": clock(one.since),
        "lasts": age(one.since, now),
        "ack": said,
    }
    return Row(one.key, level, cells, {"lasts": lasts, "since": one.since.timestamp() if one.since else None})


# -- the conditions --------------------------------------------------------------------------------------------------


def _store(monitor: MonitorState) -> Iterator[Alert]:
    local = monitor.local
    if local.fault:
        options = (
            Option("slotkeeper doctor checks the state folder"),
            Option("what is shown is old until it is cured"),
        )
        yield Alert(
            "store_unreadable", "state store", Level.CRITICAL, "?", "-", None, safe(local.fault, 300),
            "jobs go on, but nothing here is current", options, ("job", ""),
        )  # fmt: skip
    if local.damaged:
        copy = (Option("copy the audit file away; lines that were cut were written while a disk was full"),)
        yield Alert(
            "audit_damaged", "audit", Level.WARNING, str(local.damaged), "0", None,
            f"{many(local.damaged, 'line')} of the audit cannot be read",
            "who did these cannot be told", copy, ("job", ""),
        )  # fmt: skip


def _resets(monitor: MonitorState) -> Iterator[Alert]:
    for mark in monitor.local.open_resets:
        table, slot, job = safe(mark.table, 80), safe(mark.slot, 80), safe(mark.job, 80)
        known = monitor.job(mark.job)
        options = (
            Option(f"slotkeeper slots reset --resume {typed(mark.table, mark.slot)}: finishes it or rolls it back"),
        )
        yield Alert(
            "reset_open", f"{table}/{slot}", Level.CRITICAL, "half", "-", None,
            f"reset {safe(mark.id, 60)} of the slot of job {job} was cut off between its steps",
            f"the job cannot be started, and {known.unread if known else unread_meanwhile(None)}", options,
            ("job", mark.job),
        )  # fmt: skip


def _jobs(monitor: MonitorState) -> Iterator[Alert]:
    for job in monitor.local.jobs:
        known_apart = job.only_quarantined or job.only_tables
        if job.state is None or known_apart or job.level not in (Level.CRITICAL, Level.WARNING, Level.UNKNOWN):
            continue
        known, lane = _known(job), _lane(job)
        value = safe(lane.name, 20) if lane is not None else job.state.value
        means = f"{safe(job.wrong, 300)}: {known.title}" if lane is not None else safe(job.wrong or known.title, 300)
        yield Alert(
            _job_rule(job), safe(job.name, 80), job.level, value, "-", _job_since(job), means,
            _job_ignored(job), _job_options(job), ("job", job.name),
        )  # fmt: skip


def _lane(job: JobFacts) -> LaneReport | None:
    """The first lane that is tried again, of a job that lives."""
    lanes = job.report.lanes if job.report and job.current and job.alive else ()
    return next((one for one in lanes if one.retry), None)


def _known(job: JobFacts) -> Remedy:
    """What is known of its trouble: by the error of the lane that is tried again, else by what is told of the job."""
    lane = _lane(job)
    return remedy_for(job.trouble, lane.error if lane is not None and lane.error else job.wrong)


def _job_rule(job: JobFacts) -> str:
    if job.state is JobState.FAILED:
        return "job_failed"
    if job.state is JobState.PAUSED:
        return "job_paused"
    if job.state is JobState.DEAD:
        return "job_gone"
    if job.state is not None and not job.state.has_process:
        return "job_stopped"
    if job.alive is None:
        return "job_elsewhere"
    if not job.alive:
        return "job_gone"
    return "job_silent" if "has not reported" in job.wrong else "job_retrying"


def _job_since(job: JobFacts) -> datetime | None:
    resting = job.state is not None and (not job.state.has_process or job.state is JobState.PAUSED)
    return job.since if resting else None


def _job_ignored(job: JobFacts) -> str:
    if job.state is not None and job.state.has_process and job.alive:
        return f"nothing is skipped; while it lasts its position stands still and {job.unread}"
    if job.report is not None and not job.report.keeps_positions:
        return f"{job.unread}, and is lost to it then"
    return "its slot expires when the TTL ends (3 Slots says when), and what is unread is lost to it"


def _job_options(job: JobFacts) -> tuple[Option, ...]:
    known = _known(job)
    options = [
        Option(named(each.do, job.name, job.table_in(job.wrong), job.slot), each.loses) for each in known.options
    ]
    if job.safe:
        options.insert(0, Option(safe(job.safe, TYPED)))
    if job.state is JobState.PAUSED:
        options = [Option(f"slotkeeper jobs resume {safe(job.name, 80)}")]
    elif job.state is JobState.STOPPED:
        options.insert(0, Option(f"slotkeeper jobs start {safe(job.name, 80)} goes on where the sink stands"))
    return tuple(dict.fromkeys(options))


_TABLE_RULES = {
    JobState.FAILED.value: ("table_failed", Level.CRITICAL),
    JobState.STOPPED.value: ("table_stopped", Level.WARNING),
    JobState.PAUSED.value: ("table_paused", Level.WARNING),
}


def _tables(monitor: MonitorState) -> Iterator[Alert]:
    """The tables of living jobs that do not go on, while others of their job do."""
    for job in monitor.local.jobs:
        for table in amiss(job.report.tables) if job.report and job.current and job.alive else ():
            rule, level = _TABLE_RULES[table.state]
            name = safe(table.source_table, 80)
            known = remedy_for(table.trouble, table.reason) if table.state == JobState.FAILED.value else None
            options = [Option(safe(to_do(job.name, table), TYPED))]
            options += [
                Option(started_alone(_named_of(each.do, job, table), job.name, table.source_table), each.loses)
                for each in (known.options if known else ())
            ]
            since = None if table.since is None else datetime.fromtimestamp(table.since, timezone.utc)
            yield Alert(
                rule, f"{safe(job.name, 80)}: {name}", level, table.state, "-", since,
                safe(table.reason or f"{name} was asked to be {table.state}; the other tables of the job go on", 300),
                f"its target stands still while the others go on, and {job.unread}",
                tuple(dict.fromkeys(options)), ("job", job.name),
            )  # fmt: skip


def _named_of(text: str, job: JobFacts, table: TableReport) -> str:
    return named(text, job.name, table.source_table, job.slot)


def _quarantined(monitor: MonitorState) -> Iterator[Alert]:
    """The number is part of the thing: what was acknowledged at three rows is news at four."""
    for job in monitor.local.jobs:
        if not job.quarantined:
            continue
        name, limit, rows = safe(job.name, 80), job.quarantine_limit, rows_quarantined(job.quarantined)
        stops = "" if limit is None else f"; with more than {limit} of a table the job stops"
        options = tuple(Option(named(each.do, job.name), each.loses) for each in QUARANTINED_ROWS.options)
        yield Alert(
            "rows_quarantined", f"{name}: {rows}", fullness(job.quarantined, limit), count(job.quarantined),
            count(limit or 0), None, f"{rows}: {QUARANTINED_ROWS.means}", f"the target stays without them{stops}",
            options, ("quarantined", job.name),
        )  # fmt: skip


def _slots(tables: Iterable[TableSeen], now: datetime) -> Iterator[Alert]:
    seen = list(tables)
    for table in seen:
        if table.fault:
            yield _unseen(table)
    for one in all_slots(seen):
        level = slot_level(one, now)
        if one.slot.exists is False:
            yield _absent(one)
        elif level in (Level.CRITICAL, Level.WARNING):
            yield _ttl(one, level, now)


def _unseen(table: TableSeen) -> Alert:
    name = f"{safe(table.source, 40)} {safe(table.table, 80)}"
    known = remedy_for("", table.fault)
    return Alert(
        "slots_unseen", name, Level.UNKNOWN, "?", "-", table.at, safe(table.fault, 300),
        "when slots of this table expire is not seen here", known.options, ("slot", ""),
    )  # fmt: skip


def _absent(one: SlotFacts) -> Alert:
    thing = safe(f"{one.seen.table}/{one.slot.name}", 120)
    job = safe(one.slot.job or "JOB", 80)
    options = (
        Option(f"slotkeeper jobs start {job}: names it SLOT LOST, or makes it where the job never ran"),
        Option(f"slotkeeper slots reset {typed(one.seen.table, one.slot.name)} --to snapshot", Loss.TIME),
    )
    return Alert(
        "slot_absent", thing, Level.CRITICAL, "ABSENT", "-", None,
        "a configured job's slot does not exist at the source",
        "changes of the table are not kept for this job", options, ("slot", one.key),
    )  # fmt: skip


def _ttl(one: SlotFacts, level: Level, now: datetime) -> Alert:
    left = remaining(one.retained.left, one.seen.at, now)
    ttl = one.seen.retained.ttl.seconds if one.seen.retained else None
    back = one.retained.furthest_back
    since = back.registered_at if back else None
    part = CRITICAL_BELOW if level is Level.CRITICAL else WARN_BELOW
    limit = "?" if ttl is None else f"< {in_words(ttl * part)}"
    old = "?" if since is None else age(since, now)
    ends = deadline(one.retained.left, now)
    table, slot = safe(one.seen.table, 80), safe(one.slot.name, 80)
    register = f"slotkeeper slots register {typed(one.seen.table, one.slot.name)}"
    options = [
        Option(f"raise binlog_ttl: ALTER TABLE {safe(dotted(one.seen.table))} SET (binlog_ttl = ...)"),
        Option(f"{register}: gives up what is unread", Loss.UNREAD),
    ]
    if one.slot.job:
        options.insert(0, Option(f"slotkeeper jobs start {safe(one.slot.job, 80)}: reading and registering renews it"))
    else:
        options.insert(0, Option("find its consumer (not a job of this configuration) and start it"))
    where = f" on {safe(back.shard, 40)}" if back else ""
    return Alert(
        "slot_ttl", f"{table}/{slot}", level, "DUE" if left == 0 else "?" if left is None else in_words(left), limit,
        since, f"the registered point{where} is {old} old; the TTL is {'?' if ttl is None else in_words(ttl)}",
        f"at {ends} the point expires; {count(one.slot.unread)} unread changes are lost to it", tuple(options),
        ("slot", one.key),
    )  # fmt: skip
