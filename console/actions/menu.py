"""What can be done to jobs and to a slot now, each with its letter, and why not where it cannot. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from slotkeeper.console.actions.commands import EntryVerb, JobVerb, SlotVerb
from slotkeeper.console.monitor.snapshot import JobFacts
from slotkeeper.console.views.quarantine import Choice
from slotkeeper.console.views.queries import refusal
from slotkeeper.console.views.slots import SlotFacts
from slotkeeper.core.domain.job import JobEvent, JobState, TableReport, transition
from slotkeeper.core.domain.query_report import WHERE_TO_ACT
from slotkeeper.core.domain.reset import OpenReset
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import Refused

ELSEWHERE = "it may run on another machine: ask there"
NOT_CONFIGURED = "this configuration has no such job"
_BY_CONFIGURATION = (JobVerb.START, JobVerb.RESTART, JobVerb.DRAIN, JobVerb.VERIFY)
_STREAMING = (JobState.RUNNING, JobState.CATCHING_UP)


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a menu: `why_not` says why it cannot be chosen now; `warns` is said although it can."""

    key: str
    what: str
    label: str
    why_not: str = ""
    warns: str = ""


MANY = (JobVerb.STOP, JobVerb.START, JobVerb.PAUSE, JobVerb.RESUME, JobVerb.RETRY)
"""What may be done to several jobs at once."""


def job_entries(jobs: Sequence[JobFacts], configured: Collection[str]) -> list[Entry]:
    """The menu of one job, or of several that are marked."""
    paused = bool(jobs) and all(job.state is JobState.PAUSED for job in jobs)
    toggle = JobVerb.RESUME if paused else JobVerb.PAUSE
    letters = (
        ("s", JobVerb.STOP, "stop: goes on later where it was, as long as its binlog is there"),
        ("g", JobVerb.START, "start"),
        ("r", JobVerb.RESTART, "restart with the configuration as it is now"),
        ("p", toggle, "resume" if paused else "pause: its process lives and applies nothing"),
        ("t", JobVerb.RETRY, "try now: what waits for its next try, or its next poll"),
        ("d", JobVerb.DRAIN, "drain: wait until nothing is unread; changes nothing"),
        ("v", JobVerb.VERIFY, "verify: compare source and target, all rows of both; changes nothing"),
        ("c", JobVerb.CANCEL, "cancel for good: can never be started again"),
    )
    found = []
    for key, verb, label in letters:
        why = "" if len(jobs) == 1 or verb in MANY else "one job at a time: u unmarks"
        reasons = [f"{job_why(verb, job, configured)}" for job in jobs]
        ready = [not reason for reason in reasons]
        if not why and not any(ready):
            why = reasons[0] if reasons else "no row is chosen"
        some = f"{ready.count(False)} of {len(jobs)} cannot" if any(ready) and not all(ready) else ""
        found.append(Entry(key, verb.value, label, why, some))
    return found


def job_why(verb: JobVerb, job: JobFacts, configured: Collection[str]) -> str:
    """Why a verb cannot be had of a job now; nothing where it can."""
    state, lives = job.state, bool(job.alive)
    if job.queries:
        return refusal(job)
    if verb in _BY_CONFIGURATION and job.name not in configured:
        return NOT_CONFIGURED
    if verb is JobVerb.VERIFY:
        return "" if state is not None else "it was never started: there is nothing to compare"
    if state is None:
        return "" if verb is JobVerb.START else "it was never started"
    if job.alive is None:
        return ELSEWHERE
    word = state.value
    if verb is JobVerb.START:
        return f"it is {word}" if lives else _refused(state if not state.has_process else JobState.STOPPED, verb)
    if verb is JobVerb.STOP:
        return "" if lives or state.is_open else f"it is {word}"
    if verb is JobVerb.RESTART:
        return "CANCELLED is final" if state is JobState.CANCELLED else ""
    if verb is JobVerb.DRAIN:
        return "" if lives and state in _STREAMING else f"it is {word}: only a job that follows can drain"
    if verb is JobVerb.RETRY:
        return "" if lives and state is not JobState.PAUSED else f"it is {word}: it tries nothing"
    if verb is JobVerb.CANCEL:
        return "a process of it lives: stop it first" if lives else _refused(state, verb)
    if not lives:
        return f"it is {word}: no process"
    return "" if (verb is JobVerb.PAUSE) is (state is not JobState.PAUSED) else f"it is {word}"


def _refused(state: JobState, verb: JobVerb) -> str:
    event = JobEvent.START if verb is JobVerb.START else JobEvent.CANCELLED
    try:
        transition(state, event)
    except Refused as error:
        return error.message.rpartition(": ")[2]
    return ""


def _lives(name: str, holder: JobFacts) -> str:
    if holder.queries:
        return "a DataFrame query reads it"
    if holder.state is not None and holder.state.is_open:
        return f"job {name} is {holder.state.value}"
    return f"a process of job {name} still lives"


def _tables(holder: JobFacts | None) -> Sequence[TableReport]:
    """How the tables of a job of several stand by its living driver's word."""
    return holder.report.tables if holder and holder.report and holder.current and holder.alive else ()


def slot_entries(one: SlotFacts, holder: JobFacts | None, open_resets: Sequence[OpenReset]) -> list[Entry]:
    """The menu of one slot; what its kind of source has no sense for is not in it."""
    there, name = one.slot.exists, safe(one.slot.job, 40) if one.slot.job else ""
    open_ = next((each for each in open_resets if (each.table, each.slot) == (one.seen.table, one.slot.name)), None)
    external = "" if name else "no job of this configuration owns it: a reset moves a job's rows too"
    lives = holder is not None and holder.state is not None and (holder.state.is_open or bool(holder.alive))
    query = bool(holder and holder.queries)
    stops = f": {WHERE_TO_ACT}" if query else ": s stops it first"
    busy = f"{_lives(name, holder)}{stops}" if lives and holder else ""
    rests = bool(holder) and any(each.source_table == one.seen.table and each.rests for each in _tables(holder))
    resets = "" if rests else busy
    half = "a reset of it is unfinished: e ends it" if open_ else ""
    absent = "the slot does not exist" if there is False else ""
    words = one.seen.retained.words if one.seen.retained else None
    found = [
        Entry("r", SlotVerb.RESET.value, "reset: plan first, backed up, can be undone", external or half, resets),
        Entry("t", "time", "reset to a time or a point", external or half, resets),
        Entry("u", SlotVerb.UNDO.value, "undo its last reset", external or half, resets),
    ]
    if words is None or words.marks:
        found += [
            Entry(
                "f", SlotVerb.REGISTER.value, "register full-sync point: skips what is unread", absent or half or busy
            ),
            Entry("d", SlotVerb.DROP.value, "drop", absent or half or busy),
            Entry("c", SlotVerb.CREATE.value, "create", "" if there is False else "it exists", busy),
        ]
    if words is None or words.ddl:
        found.append(Entry("p", SlotVerb.PREFLIGHT.value, "preflight: may I VACUUM, scale out, alter? changes nothing"))
    if busy and not rests and not query:
        found.insert(0, Entry("s", JobVerb.STOP.value, f"stop job {name} first"))
    if open_:
        found.insert(0, Entry("e", "end", f"end reset {safe(open_.id, 40)}: finish it or roll it back", resets))
    return found


def entry_actions(one: Choice, configured: Collection[str]) -> list[Entry]:
    """The menu of rows in quarantine: of those that were chosen, and of all that the job holds."""
    foreign = "" if one.job in configured else NOT_CONFIGURED
    over = f"{one.over} of the chosen are over already: nothing is done to them" if one.over else ""
    letters = (
        ("r", EntryVerb.REPLAY, "write into the target; what is still refused stays here"),
        ("d", EntryVerb.DISCARD, "give up for good; the target never gets it"),
    )
    found = []
    if not one.every:
        why = foreign or ("" if one.number else "it is over already: nothing would be done")
        found = [
            Entry(key, verb.value, f"{verb.value} {entries_in_words(one.number)}: {label}", why, over)
            for key, verb, label in letters
        ]
    none = foreign or ("nothing is quarantined" if one.total == 0 else "")
    unknown = none or ("how many are quarantined is not known: r reads anew" if one.total is None else "")
    keys = {} if one.every else {"r": "R", "d": "D"}
    return found + [
        Entry(
            keys.get(key, key),
            f"{verb.value} all",
            f"{verb.value} all that is quarantined, {entries_in_words(one.total)}: {label}",
            none if verb is EntryVerb.REPLAY else unknown,
        )
        for key, verb, label in letters
    ]


def entries_in_words(number: int | None) -> str:
    """How many entries.

    >>> entries_in_words(1), entries_in_words(2), entries_in_words(None)
    ('1 entry', '2 entries', '? entries')
    """
    return "1 entry" if number == 1 else f"{'?' if number is None else number} entries"
