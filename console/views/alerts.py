"""Convert faults to alerts: problem, meaning, deadline, and options, least loss first. Pure.

All faults come from `slotkeeper.core.judgement`; this module adds no rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from slotkeeper.console.monitor.health import LEVELS, sights
from slotkeeper.console.monitor.snapshot import JobFacts, Level, MonitorState, TableSeen
from slotkeeper.console.views.detail import labelled, listed
from slotkeeper.console.views.errors import open_count
from slotkeeper.console.views.quarantine import number_of, quarantine_of
from slotkeeper.console.views.remedies import (
    QUARANTINED_ROWS,
    SNAPSHOT,
    Loss,
    Option,
    named,
    ranked,
    remedy_for,
    with_act,
)
from slotkeeper.console.views.rows import NARROW, TYPED, WIDE, Column, Row, age, clock, rank
from slotkeeper.console.views.slots import all_slots
from slotkeeper.core.domain.fault import Ack, Fault, ack_in, is_quiet
from slotkeeper.core.domain.job import slot_lost, started_alone
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.judgement.judge import counts, of_slot
from slotkeeper.core.sqltext import dotted

ALERT_COLUMNS = (
    Column("mark", "", 1),
    Column("level", "SEV", 4),
    Column("rule", "RULE", 16),
    Column("object", "OBJECT", 0, name=True),
    Column("value", "VALUE", 9, right=True),
    Column("limit", "LIMIT", 8, right=True, least=NARROW),
    Column("since", "SINCE UTC", 14, least=WIDE),
    Column("lasts", "FOR", 6, right=True),
    Column("ack", "ACK", 12),
)
_WORDS = {Level.CRITICAL: "crit", Level.WARNING: "warn", Level.UNKNOWN: "?"}


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that is currently active.

    `goes_to` identifies the screen and key of its object: ("job", name), ("quarantined", job) or ("slot", key). `key`
    identifies the alert; `ack_keys` are the keys by which it can be acknowledged (`Fault.ack_keys`).
    """

    key: str
    ack_keys: tuple[str, ...]
    rule: str
    code: str
    thing: str
    level: Level
    value: str
    limit: str
    since: datetime | None
    means: str
    ignored: str
    options: tuple[Option, ...]
    goes_to: tuple[str, str]

    def ack(self, acks: Mapping[str, Ack]) -> Ack | None:
        """Return the alert's acknowledgement or silence; None if there is none."""
        return ack_in(acks, self.ack_keys)

    def is_quiet(self, acks: Mapping[str, Ack], now: datetime) -> bool:
        """Return whether the alert is currently acknowledged or silenced."""
        return is_quiet(self.ack(acks), now, self.since)


def alerts(monitor: MonitorState, now: datetime) -> list[Alert]:
    """Return all current alerts, worst first."""
    known = {one.key: one for one in monitor.local.faults}
    known |= {one.key: one for one in _of_slots(monitor, now)}
    found = [_alert(one, monitor) for one in known.values()]
    found += [_unseen(table) for table in monitor.tables.values() if table.fault]
    return sorted(found, key=lambda one: (rank(one.level), one.rule, one.thing))


def alert_rows(found: Iterable[Alert], acks: Mapping[str, Ack], now: datetime) -> list[Row]:
    """Return the alerts as rows, acknowledged and silenced ones last."""
    keyed = [(one.is_quiet(acks, now), one) for one in found]
    return [_row(one, acks, now) for _, one in sorted(keyed, key=lambda item: item[0])]


def firing(found: Iterable[Alert], acks: Mapping[str, Ack], now: datetime) -> list[Alert]:
    """Return the alerts that are neither acknowledged nor silenced."""
    return [one for one in found if not one.is_quiet(acks, now)]


def figures(found: Iterable[Alert], acks: Mapping[str, Ack], now: datetime) -> str:
    """Return the title's figures: the numbers of firing, acknowledged and silenced alerts."""
    every = list(found)
    quiet = [one.ack(acks) for one in every if one.is_quiet(acks, now)]
    silent = sum(ack is not None and ack.until is not None for ack in quiet)
    return f"{len(every) - len(quiet)} firing, {len(quiet) - silent} acknowledged, {silent} silenced"


def counts_of(monitor: MonitorState, jobs: Mapping[str, JobSpec], now: datetime) -> tuple[dict[str, int], set[str]]:
    """Return the numbers of open errors and alerts by the key of their screen, and the keys of all critical alerts."""
    acks = monitor.local.acks
    found = firing(alerts(monitor, now), acks, now)
    errors = open_count(monitor.local, acks, now) + number_of(quarantine_of(monitor, jobs), acks, now)
    return {"4": errors, "6": len(found)}, {one.key for one in found if one.level is Level.CRITICAL}


def alert_lines(one: Alert) -> list[tuple[Level, str]]:
    """Return an alert's detail lines: its meaning, the impact if nothing is done, and the options."""
    said = [
        (one.level, labelled("Problem", f"{f'{one.code}: ' * bool(one.code)}{one.means}")),
        (Level.FINE, labelled("Impact", one.ignored)),
    ]
    acts = (f"{number}  {each.do} ({each.loses.words})" for number, each in enumerate(ranked(one.options), 1))
    return said + listed("Action", acts)


def _row(one: Alert, acks: Mapping[str, Ack], now: datetime) -> Row:
    ack, quiet = one.ack(acks), one.is_quiet(acks, now)
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


# -- from faults -----------------------------------------------------------------------------------------------------


def _of_slots(monitor: MonitorState, now: datetime) -> Iterator[Fault]:
    """Yield the faults of slots that this console polled itself, using the same rules as other observers."""
    if not monitor.tables:
        return
    jobs = {one.name: one for one in monitor.local.jobs}
    for seen in sights(monitor.tables.values()):
        job = jobs.get(seen.job)
        state = job.state if job is not None else None
        lost = job is not None and slot_lost(
            state, job.trouble, job.wrong, job.report.tables if job.report else (), seen.table
        )
        if not seen.job or counts(seen, state):
            yield from of_slot(seen, now, state, lost)


def _alert(one: Fault, monitor: MonitorState) -> Alert:
    job = monitor.job(one.job) if one.job else None
    more = f": {QUARANTINED_ROWS.means}" if one.rule == "rows_quarantined" else ""
    known = tuple(Option(_named(one, job, each.do), each.loses) for each in _known(one, job))
    return Alert(
        one.key, one.ack_keys, one.rule, one.code, _thing(one), LEVELS[one.severity], one.value or "-",
        one.limit or "-", one.since, safe(f"{one.name}: {one.cause}{more}", 400), one.effect,
        with_act(safe(one.do, TYPED), known), _goes_to(one, monitor),
    )  # fmt: skip


def _thing(one: Fault) -> str:
    """Return the object of a fault, at most 120 characters."""
    if one.rule.startswith("slot_"):
        return safe(f"{one.table}/{one.thing}", 120)
    parts = (one.job, one.table or one.thing)
    return safe(": ".join(part for part in parts if part) or one.name, 120)


def _goes_to(one: Fault, monitor: MonitorState) -> tuple[str, str]:
    if one.rule.startswith("slot_"):
        found = (each.key for each in all_slots(monitor.tables.values()) if each.seen.table == one.table)
        return "slot", next((key for key in found if key.endswith(f"\x1f{one.thing}")), "")
    return ("quarantined" if one.rule == "rows_quarantined" else "job"), one.job


def _known(one: Fault, job: JobFacts | None) -> tuple[Option, ...]:
    if one.rule == "rows_quarantined":
        return QUARANTINED_ROWS.options
    if one.rule == "slot_ttl":
        return _TTL
    if one.rule == "slot_absent":
        return (SNAPSHOT,)
    if one.rule in ("job_failed", "table_failed"):
        trouble = job.trouble if job is not None and one.rule == "job_failed" else ""
        known = remedy_for(trouble or one.name, one.cause)
        return () if known.code else known.options  # for a server's error code, the fault already contains the action
    return ()


_TTL = (
    Option("raise binlog_ttl in the source: ALTER TABLE @ SET (binlog_ttl = ...)"),
    Option("`slotkeeper slots register TABLE SLOT`: discards unread changes", Loss.UNREAD),
)


def _named(one: Fault, job: JobFacts | None, text: str) -> str:
    """Return an option with names filled in. If only one table has ended, a start command starts only that table."""
    slot = one.thing if one.rule.startswith("slot_") else job.slot if job is not None else ""
    table = one.table or (job.table_in(one.cause) if job is not None else "")
    if "TABLE @" in text:  # part of a statement, not a placeholder
        return text.replace("@", safe(dotted(table)))
    said = named(text, one.job, table, slot)
    return started_alone(said, one.job, one.table) if one.rule.startswith("table_") else said


def _unseen(table: TableSeen) -> Alert:
    name = f"{safe(table.source, 40)} {safe(table.table, 80)}"
    key = f"slots_unseen\x1f{name}"
    known = remedy_for("", table.fault)
    return Alert(
        key, (key,), "slots_unseen", "", name, Level.UNKNOWN, "?", "-", table.at, safe(table.fault, 300),
        "the expiry times of this table's slots are unknown", known.options, ("slot", ""),
    )  # fmt: skip
