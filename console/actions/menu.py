"""The menus for jobs, slots and quarantined rows: actions with their keys, or why they are unavailable. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from slotkeeper.console.actions.verbs import NOT_CONFIGURED, Barred, EntryVerb, JobVerb, SlotVerb, unbarred, why_not
from slotkeeper.console.monitor.snapshot import JobFacts
from slotkeeper.console.views.quarantine import Choice
from slotkeeper.console.views.slots import SlotFacts
from slotkeeper.core.domain.access import EVERY_JOB, Right
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.query_report import WHERE_TO_ACT
from slotkeeper.core.domain.reset import OpenReset
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import TroubleName


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a menu. `why_not` is the reason if it is unavailable; `warns` is a warning if it is available."""

    key: str
    what: str
    label: str
    why_not: str = ""
    warns: str = ""
    best: bool = False
    """Whether Enter chooses this line."""


def job_entries(jobs: Sequence[JobFacts], configured: Collection[str], barred: Barred = unbarred) -> list[Entry]:
    """Return the menu of one job, or of several marked jobs."""
    paused = bool(jobs) and all(job.state is JobState.PAUSED for job in jobs)
    toggle = JobVerb.RESUME if paused else JobVerb.PAUSE
    found = []
    for verb in JobVerb:
        does = verb.does
        if verb is (JobVerb.PAUSE if toggle is JobVerb.RESUME else JobVerb.RESUME):
            continue
        why = "" if len(jobs) == 1 or does.many else "one job at a time; press u to unmark"
        reasons = [why_not(verb, job, configured, barred) for job in jobs]
        ready = [not reason for reason in reasons]
        if not why and not any(ready):
            why = reasons[0] if reasons else "no row is selected"
        some = f"not possible for {ready.count(False)} of {len(jobs)} jobs" if any(ready) and not all(ready) else ""
        found.append(Entry(does.key, does.name, does.label, why, some))
    return found


def _lives(name: str, holder: JobFacts) -> str:
    if holder.queries:
        return "a DataFrame query reads this slot"
    if holder.state is not None and holder.state.is_open:
        return f"job {name} is {holder.state.value}"
    return f"a process of job {name} is still running"


def _line(verb: SlotVerb, why: str = "", warns: str = "") -> Entry:
    return Entry(verb.does.key, verb.value, verb.does.label, why, warns)


def slot_entries(
    one: SlotFacts,
    holder: JobFacts | None,
    open_resets: Sequence[OpenReset],
    no_undo: str = "",
    barred: Barred = unbarred,
) -> list[Entry]:
    """Return the menu of one slot, without the actions that do not apply to its kind of source.

    `no_undo` is the reason why the last reset cannot be undone; "" if nothing known prevents it.
    """
    there, name = one.slot.exists, safe(one.slot.job, 40) if one.slot.job else ""
    open_ = next((each for each in open_resets if (each.table, each.slot) == (one.seen.table, one.slot.name)), None)
    bar = barred(Right.RESET, one.slot.job or EVERY_JOB)
    external = bar if bar else "" if name else "no configured job owns this slot, and a reset needs its job"
    lives = holder is not None and holder.state is not None and (holder.state.is_open or bool(holder.alive))
    query = bool(holder and holder.queries)
    stops = f": {WHERE_TO_ACT}" if query else "; press s to stop it first"
    busy = f"{_lives(name, holder)}{stops}" if lives and holder else ""
    # the tables' states, as reported by a running driver
    tables = holder.report.tables if holder and holder.report and holder.current and holder.alive else ()
    rests = any(each.source_table == one.seen.table and each.rests for each in tables)
    resets = "" if rests else busy
    half = "a reset of this slot is unfinished; press e to end it" if open_ else ""
    absent = bar or ("the slot does not exist" if there is False else "")
    words = one.seen.retained.words if one.seen.retained else None
    found = [
        _line(SlotVerb.RESET, external or half, resets),
        Entry("t", "time", "reset to a time or a point", external or half, resets),
        _line(SlotVerb.UNDO, external or half or no_undo, resets),
    ]
    if words is None or words.marks:
        found += [
            _line(SlotVerb.REGISTER, absent or half or busy),
            _line(SlotVerb.DROP, absent or half or busy),
            _line(SlotVerb.CREATE, bar or ("" if there is False else "the slot exists"), busy),
        ]
    if words is None or words.ddl:
        found.append(_line(SlotVerb.PREFLIGHT))
    if busy and not rests and not query:
        cannot = barred(JobVerb.STOP.does.right, one.slot.job or EVERY_JOB)
        found.insert(0, Entry("s", JobVerb.STOP.value, f"stop job {name} first", cannot))
    if open_:
        found.insert(0, Entry("e", "end", f"end reset {safe(open_.id, 40)}: finish it or roll it back", bar, resets))
    return found


_TARGETS = (
    ("e", "earliest", "applies all retained changes again; skips nothing"),
    ("p", "point", "a position, as shown in the binlog rows"),
    ("t", "time", "just before the first change at or after a time"),
    ("b", "backup", "the positions of a backup; `slots history` lists backups"),
    ("s", "snapshot", "the next start copies the table again"),
    ("l", "latest", "changes that are not applied yet are SKIPPED"),
)
LOST = "the slot is lost; changes may be missing"
NO_POSITION = "the copy has not started: no position to move"
_ONLY_COPY = frozenset(
    one.value for one in (TroubleName.TARGET_CHANGED, TroubleName.SCHEMA_CHANGED, TroubleName.TOPOLOGY_CHANGED)
)
"""The failures after which a snapshot is always safe, whatever has changed in the meantime."""


def reset_targets(lost: bool, job: JobFacts | None) -> list[Entry]:
    """Return the destinations of a reset, the recommended one first. `lost`: the job has ended with SLOT LOST.

    >>> [(one.what, one.why_not) for one in reset_targets(True, None) if one.best or one.what == "earliest"]
    [('snapshot', ''), ('earliest', 'the slot is lost; changes may be missing')]
    """
    emptied = job is not None and job.state is JobState.AWAITS_COPY
    trouble = job.trouble if job is not None and job.state is JobState.FAILED else ""
    none = LOST if lost else NO_POSITION if emptied else ""
    after = TroubleName.SLOT_LOST.value if lost else trouble if trouble in _ONLY_COPY else ""
    best = "snapshot" if none or after else "earliest"
    found = []
    for key, name, means in _TARGETS:
        off = none if name not in ("backup", "snapshot") else ""
        better = f"recommended after {after}: " if after and name == best else ""
        found.append(Entry(key, name, f"{name:<9} {better}{means}", off, best=name == best))
    return sorted(found, key=lambda one: not one.best)


def entry_actions(one: Choice, configured: Collection[str], barred: Barred = unbarred) -> list[Entry]:
    """Return the menu of quarantined rows: for the chosen entries, and for all entries of the job."""
    foreign = barred(Right.DISCARD, one.job) or ("" if one.job in configured else NOT_CONFIGURED)
    over = f"{one.over} of the selected entries are already resolved and stay unchanged" if one.over else ""
    found = []
    if not one.every:
        why = foreign or ("" if one.number else "already resolved: nothing to do")
        found = [
            Entry(
                verb.does.key, verb.value, f"{verb.value} {entries_in_words(one.number)}: {verb.does.label}", why, over
            )
            for verb in EntryVerb
        ]
    none = foreign or ("no rows are quarantined" if one.total == 0 else "")
    unknown = none or ("the number of quarantined rows is unknown; press r to refresh" if one.total is None else "")
    return found + [
        Entry(
            verb.does.key if one.every else verb.does.every,
            f"{verb.value} all",
            f"{verb.value} all quarantined rows, {entries_in_words(one.total)}: {verb.does.label}",
            unknown if verb.does.final else none,
        )
        for verb in EntryVerb
    ]


def entries_in_words(number: int | None) -> str:
    """Return the number of entries as text.

    >>> entries_in_words(1), entries_in_words(2), entries_in_words(None)
    ('1 entry', '2 entries', '? entries')
    """
    return "1 entry" if number == 1 else f"{'?' if number is None else number} entries"
