"""The verdicts of all screens except the Overview: a one-line summary of each list. Pure.

Each function takes the rows as they are listed, worst first, so that the summary and the list agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from slotkeeper.console.monitor.snapshot import Level, Local
from slotkeeper.console.views import slot_history
from slotkeeper.console.views.alerts import Alert
from slotkeeper.console.views.errors import message_first
from slotkeeper.console.views.jobs import what_is_wrong
from slotkeeper.console.views.quarantine import JobQuarantine
from slotkeeper.console.views.rows import FAULTS, Row, Verdict, both_ends, count
from slotkeeper.console.views.signs import since, span
from slotkeeper.console.views.slots import SlotFacts, keeps_nothing, no_position, remaining, slot_level
from slotkeeper.core.domain.audit import AuditLine
from slotkeeper.core.domain.text import many, safe
from slotkeeper.core.state.rows import ErrorRow

DAY = timedelta(hours=24)
NO_JOB = "No jobs configured: `slotkeeper init` starts one, `slotkeeper demo` runs a trial"
NOT_ASKED = "No slot seen yet: no source has answered."
NO_SLOTS = "Each slot is listed here with its retained binlog, its reader, and the expiry of its unread changes."
NO_SLOT = "The tables of these jobs have no slot. `slotkeeper slots create TABLE SLOT` plans one."


def of_place(number: int, words: str, apart: str) -> str:
    """Return the text of the worst item, prefixed with its rank and the number of items if there are several.

    >>> of_place(1, "a is lost", ", "), of_place(3, "a is lost", ", ")
    ('a is lost', '1 of 3, a is lost')
    """
    return f"1 of {number}{apart}{words}" if number > 1 else words


def of_slots(
    rows: Sequence[Row], worst: SlotFacts | None, answered: bool, now: datetime, local: Local, apart: str
) -> Verdict:
    """Return the verdict on the slot most at risk, or the next to expire. `answered`: a source has reported slots."""
    if worst is None:
        return Verdict(Level.WARNING, NO_SLOT) if answered else Verdict(Level.UNKNOWN, NOT_ASKED)
    number = sum(row.level in FAULTS for row in rows)
    level, words = of_slot(worst, now, local)
    if level in FAULTS:
        return Verdict(level, of_place(number, words, apart))
    return Verdict(Level.FINE, f"No slot is at risk{apart}{words}")


def of_slot(one: SlotFacts, now: datetime, local: Local) -> tuple[Level, str]:
    """Return the risk to a slot, or its expiry."""
    name = f"slot {both_ends(safe(one.slot.name), 40)}"
    jobs = slot_history.jobs_of(local)
    if slot_history.is_lost(one.seen.table, one.slot, jobs):
        return Level.CRITICAL, f"{name} is LOST: its unread changes are no longer in any binlog"
    if slot_history.open_reset_of(local, one.seen.table, one.slot.name) is not None:
        return Level.CRITICAL, f"{name} has an unfinished reset"
    if empty := no_position(one, jobs):
        return Level.WARNING, f"{name}: {empty}"
    level = slot_level(one, now)
    if one.slot.exists is False:
        return level, f"{name} does not exist"
    if one.seen.fault:
        return level, f"{name}: {safe(one.seen.fault, 120)}"
    left = remaining(one.retained.left, one.seen.at, now)
    if left is None:
        return level, f"{name} does not expire" if keeps_nothing(one) else f"{name}: expiry time unknown"
    unread = f", {count(one.slot.unread)} changes unread" if one.slot.unread else ""
    return level, f"{name} expires in {span(left)} unless confirmed{'' if one.slot.job else ', no job here'}{unread}"


def of_errors(
    rows: Sequence[Row], first: ErrorRow | JobQuarantine | None, errors: Sequence[ErrorRow], now: datetime, apart: str
) -> Verdict:
    """Return the most important error; if no error is open, the time since the last one."""
    number = sum(row.level in FAULTS for row in rows)
    if number and first is not None:
        said = message_first(first.message) if isinstance(first, ErrorRow) else first.text
        words = f"{both_ends(safe(first.job), 30)}: {safe(said, 300)}"
        return Verdict(rows[0].level, of_place(number, words, apart), first.job)
    last = max((one.last_at for one in errors), default=None)
    if last is None or now - last > DAY:
        return Verdict(Level.FINE, "No errors in the last 24 h")
    return Verdict(
        Level.FINE, f"No open errors{apart}{many(len(errors), 'kind')} recorded, the last {since(last, now)}"
    )


def of_alerts(rows: Sequence[Row], found: Sequence[Alert], seen: bool, apart: str) -> Verdict:
    """Return the worst firing alert; acknowledged alerts do not fire."""
    number = sum(row.level is not Level.REST for row in rows)
    if number:
        one = next(one for one in found if one.key == rows[0].key)
        whose = one.thing.removesuffix(one.means.partition(":")[0]).rstrip(": ")
        return Verdict(rows[0].level, of_place(number, f"{whose}: {one.means}" if whose else one.means, apart))
    quiet = f"{apart}{len(rows)} acknowledged or silenced" if rows else ""
    return Verdict(Level.FINE, f"No alerts firing{quiet}" + ("" if seen else f"{apart}slots not seen yet"))


def of_audit(lines: Sequence[AuditLine], damaged: int, now: datetime) -> Verdict:
    """Return a summary of the last change."""
    if damaged:
        return Verdict(Level.WARNING, f"{many(damaged, 'audit line')} cannot be read")
    if not lines:
        return Verdict(Level.REST, "No changes from this host yet")
    last = lines[0]
    level = Level.WARNING if last.failed else Level.REST
    what = " ".join(safe(one, 60) for one in (last.actor.who, last.action, last.what) if one)
    return Verdict(level, f"Last change {since(last.at, now)}: {what}")


def of_graphs(job: str, local: Local, lags: Sequence[float | None], said: str, apart: str) -> Verdict:
    """Return a job's state and its maximum lag within the time span of its graphs."""
    found = next((one for one in local.jobs if one.name == job), None)
    if found is None:
        return Verdict(Level.UNKNOWN, f"{safe(job, 60)} is no longer known on this host")
    most = max((one for one in lags if one is not None), default=None)
    lagged = "no lag recorded" if most is None else f"lag at most {span(most)}"
    wrong = f"{apart}{what_is_wrong(found)}" if found.level in FAULTS else ""
    level = found.level if found.level in FAULTS else Level.FINE
    return Verdict(level, f"{safe(job, 60)} {found.state_text}{apart}{lagged} in the last {said}{wrong}")
