"""Additional facts about a slot: its job's state, an unfinished reset, its changes, and raw SQL. Pure.

All facts come from this host's own records and the last poll; no server is queried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local
from slotkeeper.console.views.rows import UNKNOWN, Column, Row, age, clock
from slotkeeper.core.domain.job import JobState, slot_lost
from slotkeeper.core.domain.text import safe, typed

if TYPE_CHECKING:
    from slotkeeper.core.domain.audit import AuditLine
    from slotkeeper.core.domain.remedy import ManualSql
    from slotkeeper.core.domain.reset import Backup, OpenReset
    from slotkeeper.core.slots.status import SlotView

_SHORT = {
    JobState.PENDING: "NEW",
    JobState.SNAPSHOT: "COPY",
    JobState.CATCHING_UP: "CATCH",
    JobState.RUNNING: "RUN",
    JobState.PAUSED: "PAUSED",
    JobState.STOPPED: "STOP",
    JobState.FAILED: "ERR",
    JobState.FINISHED: "END",
    JobState.CANCELLED: "CANCEL",
    JobState.AWAITS_COPY: "AWAITS",
    JobState.DEAD: "DEAD",
    JobState.ELSEWHERE: "AWAY",
    JobState.UNKNOWN: "UNKN",
}
ONLY_READS = "SQL, read-only:"
_REMARK = "--"
GUARDLESS = "SQL, as a last resort; it bypasses every guard: no lease, no plan, no backup, no audit line."


def holder(job: str | None, jobs: Mapping[str, JobFacts]) -> str:
    """Return the job that owns a slot, and the job's state.

    >>> holder(None, {}), holder("orders_rt", {})
    ('external', 'job ?')
    """
    if job is None:
        return "external"
    facts = jobs.get(job)
    if facts is None:
        return f"job {UNKNOWN}"
    return "job never" if facts.state is None else f"job {_SHORT[facts.state]}"


def holder_line(slot: SlotView, jobs: Mapping[str, JobFacts]) -> tuple[Level, str]:
    """Return the slot's owner and its state as a sentence, with its level."""
    if slot.job is None:
        return Level.FINE, "no job of this configuration reads this slot: its reader is unknown here"
    facts, name = jobs.get(slot.job), safe(slot.job, 60)
    if facts is None:
        return Level.UNKNOWN, f"read by job {name}, whose state is unknown on this host"
    state = facts.state_text if facts.state else "never started"
    read = "of" if facts.last_known or facts.state is None else "read by"
    return facts.level, f"{read} job {name}: {state}" + (f"; {safe(facts.wrong, 200)}" if facts.wrong else "")


def jobs_of(local: Local) -> dict[str, JobFacts]:
    """Return the jobs by name."""
    return {one.name: one for one in local.jobs}


def is_lost(table: str, slot: SlotView, jobs: Mapping[str, JobFacts]) -> bool:
    """Return whether the slot's job has ended because the server dropped changes that the slot had not read."""
    job = jobs.get(slot.job or "")
    if job is None:
        return False
    tables = job.report.tables if job.report else ()
    others = slot_lost(job.state, job.trouble, job.wrong, tables, table)
    return others and (job.state is not JobState.FAILED or job.table_in(job.wrong) in ("", table))


def open_reset_of(local: Local, table: str, slot: str) -> OpenReset | None:
    """Return a reset of this slot that a crash left unfinished; a damaged marker may belong to any slot."""
    for one in local.open_resets:
        if (one.table, one.slot) in ((table, slot), (UNKNOWN, UNKNOWN)):
            return one
    return None


def open_reset_line(one: OpenReset, table: str, slot: str) -> str:
    """Return the next action for an unfinished reset."""
    place = typed(table, slot)
    which = "a reset with a damaged marker, possibly of this slot," if one.slot == UNKNOWN else "a reset of this slot"
    return f"{which} is unfinished ({safe(one.id, 60)}): `slotkeeper slots reset --resume {place}`"


def done_to(lines: Iterable[AuditLine], table: str, slot: str) -> list[AuditLine]:
    """Return the audit lines about a slot, in the given order."""
    return [one for one in lines if {table, slot} <= set(one.what.split())]


def last_line(lines: Iterable[AuditLine], table: str, slot: str, now: datetime) -> str:
    """Return the last change made to a slot from this host."""
    from slotkeeper.core.domain.audit import Phase  # not needed for the first frame

    found = done_to(lines, table, slot)
    if not found:
        return "last operation: none from this host"
    last = found[0]
    reason = next((one.reason for one in found if one.action_id == last.action_id and one.reason), "")
    said = last.outcome if last.phase is Phase.OUTCOME else "started, no outcome recorded"
    why = f' "{safe(reason, 80)}"' if reason else ""
    who = f"{age(last.at, now)} ago  {safe(last.actor.who, 40)}"
    return f"last operation  {who}  {safe(last.action, 40)}{why}  {safe(said, 120)}"


def manual_sql_lines(manual: ManualSql, table: str, slot: SlotView, shard: str | None) -> list[str]:
    """Return raw SQL that lists a slot's points, and raw SQL that registers one DN's current positions again."""
    one = next((each for each in slot.shards if each.shard == shard), slot.shards[0] if slot.shards else None)
    register: list[str] = []
    if one is not None:
        register = manual.register(table, slot.name, one.shard, one.live, one.durable, one.xmin).splitlines()
    if all(each.startswith(_REMARK) for each in register):  # no SQL to type: the lines explain why
        said = (each.removeprefix(_REMARK).strip() for each in register)
        return [safe(line, 400) for line in (ONLY_READS, f"  {manual.status(table)}", *(f"  {one}" for one in said))]
    lines = [
        GUARDLESS,
        f"  {manual.status(table)}",
        "  confirms the same position again, which restarts its TTL:",
    ]
    return [safe(line, 400) for line in (*lines, *(f"  {each}" for each in register))]


# -- history ---------------------------------------------------------------------------------------------------------

HISTORY_COLUMNS = (
    Column("mark", "", 1),
    Column("at", "WHEN UTC", 14),
    Column("who", "WHO", 15),
    Column("action", "WHAT", 20),
    Column("said", "SAID", 0),
)


def history_rows(lines: Iterable[AuditLine], backups: Iterable[Backup], table: str, slot: str) -> list[Row]:
    """Return the changes of a slot from this host, newest first, and the backups stored on it."""
    keyed: list[tuple[str, Row]] = []
    for one in done_to(lines, table, slot):
        level = Level.WARNING if one.failed else Level.FINE
        cells = _cells(level, clock(one.at), one.actor.who, one.action, one.said)
        keyed.append((one.at.isoformat(), Row(f"{one.action_id}/{one.phase.value}", level, cells)))
    for each in backups:
        if (each.table, each.slot) == (table, slot):
            when = each.when[5:19].replace("T", " ")
            cells = _cells(Level.REST, when, each.who, "backup", f"{each.id}  {each.why}")
            keyed.append((each.when, Row(f"backup {each.id}", Level.REST, cells)))
    return [row for _, row in sorted(keyed, key=lambda item: item[0], reverse=True)]


def _cells(level: Level, at: str, who: str, action: str, said: str) -> dict[str, str]:
    return {
        "mark": level.value,
        "at": safe(at, 20),
        "who": safe(who, 60),
        "action": safe(action, 40),
        "said": safe(said, 300),
    }
