"""Find a job's faults: its state, processes, tables, lag and conditions, and the rows missing in its target. Pure.

If a job waits for a server, the fault is the server's, not the job's: a condition that the driver reports names the
server, DN or lock that delays its lanes, and when the delay started.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime, timezone

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import NAMED, Fault, Party, Severity, in_brief
from slotkeeper.core.domain.finding import CLOCK_SECONDS
from slotkeeper.core.domain.job import JobState, TableReport, amiss, said_of, to_do
from slotkeeper.core.domain.locks import Locked, locked
from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.domain.remedy import NOTHING, OR, THEN, for_job, until_started
from slotkeeper.core.domain.report import GIVEN_UP, Condition, JobReport, JobStatus, LaneReport, server_of
from slotkeeper.core.domain.row_counts import in_a_phrase, rows_quarantined
from slotkeeper.core.domain.text import many, safe, typed
from slotkeeper.core.domain.views import ViewState
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.judgement.blocked import blocked
from slotkeeper.core.judgement.facts import Facts, JobSeen
from slotkeeper.core.judgement.pending import of_pending

_PARTIES = {
    TroubleName.SLOT_LOST: Party.SLOT,
    TroubleName.SLOT_MOVED: Party.SLOT,
    TroubleName.PROGRESS_LOST: Party.SINK,
    TroubleName.SOURCE_OLDER: Party.SOURCE,
    TroubleName.SINK_OLDER: Party.SINK,
    TroubleName.TARGET_CHANGED: Party.SINK,
    TroubleName.SCHEMA_CHANGED: Party.TABLE,
    TroubleName.TOPOLOGY_CHANGED: Party.SOURCE,
    TroubleName.POSITIONS_DIFFER: Party.SOURCE,
    TroubleName.QUARANTINE_FULL: Party.TABLE,
}
"""The party responsible for the end of a job, by the name of the error that ended it."""
_SIDES = {"source": Party.SOURCE, "sink": Party.SINK}
"""The party responsible for the end of a job that a server's rejection ended, by side."""
_SERVERS = (Party.SOURCE.value, Party.SINK.value)
LOOP = 2
"""Number of crashes within the window `crashes` that count as a crash loop: a restarted driver can crash again."""
OLD_ROWS = "nothing is applied; the target shows the old rows until the copy is complete"
_SEVERITY_OF_TABLE = {JobState.FAILED.value: Severity.CRITICAL}


def of_job(seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    view = seen.view
    silent = _silent_for(view, facts)
    if view.report is not None and silent is not None and silent > facts.limits.silent_warning:
        # a wait in the driver's last report may have ended long ago
        view = replace(view, report=replace(view.report, lock_waits=(), source_waits=()))
        seen = replace(seen, view=view)
    living = view.state.has_process and view.lives and not view.starting
    yield from _of_state(seen, facts)
    if living:
        known = list(_of_driver(seen, facts))
        yield from known
        yield from blocked(view, facts, unread_meanwhile(view.report)) if view.reported else ()
        yield from _of_tables(seen)
        yield from _of_views(view, facts) if view.reported else ()
        yield from of_pending(view, facts, known)
    yield from _quarantined(seen)
    yield from _different(seen, facts)


def _of_state(seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    view = seen.view
    if view.state in (JobState.FAILED, JobState.DEAD):
        yield _ended(seen)
    elif view.state is JobState.CANCELLED or view.state is JobState.FINISHED:
        return
    elif view.state is JobState.UNKNOWN:
        yield _of_process("job_elsewhere", seen, Severity.UNKNOWN, view.reason, "its state is unknown on this host")
    elif not view.state.has_process:
        if view.trouble or (view.state is JobState.STOPPED and view.run) or view.state is JobState.AWAITS_COPY:
            yield _at_rest(seen)
    elif view.elsewhere and not view.lives:
        yield _of_process("job_elsewhere", seen, Severity.UNKNOWN, view.reason, "its state is unknown on this host")
    elif not view.lives and not view.starting:
        yield _of_process("job_gone", seen, Severity.CRITICAL, view.reason, _stands(view))
    elif view.state is JobState.PAUSED:
        yield _paused(seen)


def _stands(view: JobStatus) -> str:
    if view.trouble == "SUPERSEDED":
        return "the later start applies the changes and confirms the slot"
    lost = view.trouble == TroubleName.SLOT_LOST.value
    gone = "the unread changes are lost: the target lacks them until a new snapshot"
    return f"nothing is applied; {gone if lost else unread_meanwhile(view.report)}"


def _of_process(rule: str, seen: JobSeen, severity: Severity, cause: str, effect: str, do: str = "") -> Fault:
    view = seen.view
    return Fault(
        rule, Party.PROCESS, f"job {safe(view.name, 60)}", severity, safe(cause, 400), effect,
        do or for_job(view.safe, view.name) or f"`slotkeeper jobs show {typed(view.name)}`", began(view), view.name,
        value=view.state.value,
    )  # fmt: skip


def began(view: JobStatus) -> datetime | None:
    """Return when the job entered its state; for a killed process, which records no time, its last report at the
    earliest.
    """
    seen = [at for at in (view.changed_at, view.reported_at if view.state is JobState.DEAD else None) if at]
    return max(seen, default=None)


def _ended(seen: JobSeen) -> Fault:
    view = seen.view
    cause = view.reason or "no reason recorded"
    if view.state is JobState.DEAD:
        return _of_process("job_dead", seen, Severity.CRITICAL, cause, _stands(view))
    name = _named(view.trouble)
    side, server, words = server_of(cause) if name is None else ("", "", cause)
    party = _PARTIES.get(name, Party.PROCESS) if name is not None else _SIDES.get(side, Party.PROCESS)
    called = view.trouble or safe(server, 80) or f"job {safe(view.name, 60)}"
    cause = words if server else cause
    do = until_started(view.safe, view.name)
    return Fault(
        "job_failed", party, called, Severity.CRITICAL, safe(_after(called, cause), 400),
        f"the job has ended; {_stands(view)}", do, began(view), view.name, value=view.state.value,
        code=_code_of(view.reason) if name is None else NAMED[name],
    )  # fmt: skip


def _named(trouble: str) -> TroubleName | None:
    return next((one for one in TroubleName if one.value == trouble), None)


def _code_of(said: str) -> str:
    """Return the code of the server's rejection that ended a job or table; "" if no server is named, or if unknown.

    The code is determined from the error text, because the store does not retain the server's own code.
    """
    side, _, words = server_of(said)
    if not side:
        return ""
    from slotkeeper.core.judgement.servers import UNKNOWN, cause_of  # only a rejection needs the messages of servers

    cause = cause_of("", words)
    return "" if cause is UNKNOWN else cause.code


def _after(called: str, cause: str) -> str:
    """Return an error text without the error's name at its start."""
    return cause.removeprefix(f"{called}: ")


def _at_rest(seen: JobSeen) -> Fault:
    view = seen.view
    cause = view.reason or view.trouble or f"{view.state.value} as requested"
    do = until_started(view.safe, view.name)
    party = Party.PERSON if not view.trouble else Party.PROCESS
    awaits = view.state is JobState.AWAITS_COPY
    called = f"job {safe(view.name, 60)}" if view.trouble or awaits else _by(seen, "stopped")
    return Fault(
        "awaits_copy" if awaits else "job_stopped", party, called, Severity.WARNING, safe(cause, 400),
        OLD_ROWS if awaits else _stands(view), do, began(view), view.name, value=view.state.value,
    )  # fmt: skip


def _paused(seen: JobSeen) -> Fault:
    view = seen.view
    cause = "; ".join(part for part in (seen.asked_why and f"reason: {seen.asked_why}", view.reason) if part)
    return Fault(
        "job_paused", Party.PERSON, _by(seen, "paused"), Severity.WARNING, safe(cause or "PAUSED as requested", 400),
        f"nothing is applied; {unread_meanwhile(view.report)}",
        f"`slotkeeper jobs resume {typed(view.name)}` continues from its position", began(view), view.name,
        value=view.state.value,
    )  # fmt: skip


def _by(seen: JobSeen, verb: str) -> str:
    return f"{verb} by {safe(seen.asked_by, 60)}" if seen.asked_by else f"job {safe(seen.view.name, 60)}"


def _of_driver(seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    view = seen.view
    crashed = list(_crashed(seen, facts))
    yield from crashed
    if view.driver is not None and not view.driver_alive and not crashed:
        restarts = "is stopped" if view.supervisor_stopped else "restarts it"
        cause = view.reason or f"its driver has exited; its supervisor {restarts}"
        gone = _of_process("driver_gone", seen, Severity.WARNING, f"RESTARTING: {cause}", _stands(view))
        # the time of its exit is not recorded, but it was running when it reported
        seen_at = [at for at in (view.changed_at, view.reported_at if view.reported else None) if at is not None]
        yield replace(gone, since=max(seen_at, default=None))
    yield from _stopped(seen, facts)
    if not view.reported:
        return
    if not view.driver_stopped and (view.driver_alive or view.driver is None):
        yield from _silent(seen, facts)
    yield from _clocks(view)
    found = list(of_conditions(view, facts))
    yield from found
    yield from _lag(seen, facts, {name for one in _conditions(view) for name in one})
    yield from _of_reader(view)
    if not found and view.trouble:
        yield _of_process("job_trouble", seen, Severity.WARNING, _after(view.trouble, view.reason), "", view.safe)


def _of_reader(view: JobStatus) -> Iterator[Fault]:
    """Yield a fault while the tables of a job read the source's log over their own connections."""
    one = view.report.shared_reader if view.report is not None else None
    if one is None:
        return
    yield Fault(
        "reader_fails", Party.SOURCE, f"shared reader of {safe(one.name, 60)}", Severity.WARNING, safe(one.cause, 400),
        "each table reads the log over its own connection; nothing is skipped", one.act,
        datetime.fromtimestamp(one.since, timezone.utc), view.name, code=one.message,
    )  # fmt: skip


def _conditions(view: JobStatus) -> list[tuple[str, ...]]:
    """Return the lanes whose lag a lock or a condition explains; a step that exceeded a time limit explains no lag."""
    if view.report is None:
        return []
    every = tuple(lane.name for lane in view.report.lanes)
    # the condition of a server that does not answer names no lanes, because all lanes wait for it
    return [
        tuple(view.report.locked_lanes),
        *(
            one.lanes or (every if one.party in _SERVERS else ())
            for one in view.report.conditions
            if GIVEN_UP not in one.cause
        ),
    ]


def _crashed(seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    """Yield a fault for a crash until another driver has reported; after that, only for a loop of crashes."""
    view, within = seen.view, facts.limits.crashes
    lately = [at for at in seen.crashes if (past := elapsed(at, facts.now)) is not None and past < within]
    of_this_run = bool(lately) and (view.started_at is None or max(lately) >= view.started_at)
    begins = of_this_run and view.state is JobState.PENDING  # the report is still from the crashed driver
    restarting = not view.driver_alive or not view.reported or begins
    if not lately or not (restarting or len(lately) >= LOOP):
        return
    times = f"{len(lately)} {'crash' if len(lately) == 1 else 'crashes'} in {in_brief(within)}"
    cause = ", the last: ".join(part for part in (times, safe(seen.crash, 200)) if part)
    logs = f"`slotkeeper jobs logs {typed(view.name)}` shows why"
    if restarting:
        yield Fault(
            "driver_crashed", Party.PROCESS, "the driver", Severity.WARNING, f"RESTARTING, {cause}", _stands(view),
            f"{NOTHING}: its supervisor restarts it; {logs}", max(lately), view.name, value=str(len(lately)), limit="0",
        )  # fmt: skip
    else:
        yield Fault(
            "crash_loop", Party.PROCESS, "the driver", Severity.WARNING, cause,
            "running again; after five crashes within ten minutes the job fails", logs, max(lately), view.name,
            value=str(len(lately)), limit=str(LOOP - 1),
        )  # fmt: skip


def _silent(seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    view, limits = seen.view, facts.limits
    if view.reported_at is None:
        return
    silent = _silent_for(view, facts)
    do = f"`slotkeeper jobs show {typed(view.name)}` shows its state; nothing is skipped"
    if silent is None:
        pid = f" (pid {view.driver.pid})" if view.driver is not None else ""
        cause = f"the driver{pid} is running but has not reported since this host's clock was set back"
        yield _of_process("clock_set_back", seen, Severity.WARNING, cause, "its state and lag are unknown", do)
    elif silent > limits.silent_warning and facts.machine.full:
        cause = "the driver is running; its reports cannot be stored while the disk of the state folder is full"
        free = "Free space on that disk"
        unknown = _of_process("driver_silent", seen, Severity.UNKNOWN, cause, "its state and lag are unknown", free)
        yield replace(unknown, since=view.reported_at)
    elif silent > limits.silent_warning:
        severity = Severity.CRITICAL if silent > limits.silent_critical else Severity.WARNING
        pid = f" (pid {view.driver.pid})" if view.driver is not None else ""
        cause = f"the driver{pid} is running but does not report"
        fault = _of_process("driver_silent", seen, severity, cause, "it hangs or gets too little CPU", do)
        yield replace(fault, since=view.reported_at, limit=in_brief(limits.silent_warning))


def _clocks(view: JobStatus) -> Iterator[Fault]:
    """Yield a fault if the clocks of the source and of this host differ; which of the two is wrong is unknown."""
    apart = view.report.clock_apart if view.report is not None else None
    if apart is None or abs(apart) <= CLOCK_SECONDS:
        return
    yield Fault(
        "clocks_differ", Party.SOURCE, "the source's clock", Severity.WARNING,
        f"{in_brief(abs(apart))} {'ahead of' if apart > 0 else 'behind'} this host's clock",
        "lags are corrected; other times from this source are shown as its clock has them",
        f"Correct the wrong clock with NTP, on the source or on this host{THEN}`slotkeeper doctor` measures it", None,
        view.name,
        value=f"{apart:+.1f} s", limit=in_brief(CLOCK_SECONDS),
    )  # fmt: skip


def _silent_for(view: JobStatus, facts: Facts) -> float | None:
    """Return the seconds since the current driver reported or started: a report of an earlier driver does not count."""
    silent = None if view.reported_at is None else elapsed(view.reported_at, facts.now)
    if silent is None or view.changed_at is None or view.state is not JobState.PENDING:
        return silent
    started = elapsed(view.changed_at, facts.now)
    return silent if started is None else min(silent, started)


def _stopped(seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    """Yield a fault for each process that a signal has stopped: the process exists but does nothing."""
    view = seen.view
    silent = _silent_for(view, facts)
    late = view.driver_stopped and silent is not None and silent > facts.limits.silent_critical
    for is_so, who, process, effect in (
        (view.driver_stopped, "driver", view.driver, _stands(view)),
        (
            view.supervisor_stopped,
            "supervisor",
            view.supervisor,
            "its driver is not restarted after a crash, and the job cannot be stopped",
        ),
    ):
        if is_so and process is not None:
            yield Fault(
                "process_stopped", Party.PROCESS, f"the {who}", Severity.CRITICAL if late and who == "driver" else
                Severity.WARNING, f"pid {process.pid} exists but is stopped by a signal (SIGSTOP) or a debugger",
                effect, f"`kill -CONT {process.pid}` lets it continue", None, view.name, thing=who,
            )  # fmt: skip


def _lag(seen: JobSeen, facts: Facts, blamed: set[str]) -> Iterator[Fault]:
    """Yield a fault for the DN with the largest lag among the lags that no other reported fault explains."""
    if seen.view.state is not JobState.RUNNING or facts.machine.full:  # a report that could not be stored proves no lag
        return
    known = {name: lag for name, lag in seen.lags.items() if lag is not None}
    late = {
        name: lag
        for name, lag in {**seen.least_lags, **known}.items()
        if lag >= facts.limits.lag_warning and name not in blamed
    }
    if not late:
        return
    name = max(late, key=lambda one: late[one])
    behind = f"{'' if name in known else 'at least '}{in_brief(late[name])}"
    severity = Severity.CRITICAL if late[name] >= facts.limits.lag_critical else Severity.WARNING
    part = seen.view.report.part if seen.view.report is not None else "DN"
    yield Fault(
        "lag", Party.DN, safe(name, 60), severity, f"{behind} behind its source",
        f"{len(late)} of {many(len(seen.lags), part)} {'lags' if len(late) == 1 else 'lag'} by more than"
        f" {in_brief(facts.limits.lag_warning)}; {unread_meanwhile(seen.view.report)}",
        f"`slotkeeper jobs logs {typed(seen.view.name)}` shows the slow side{THEN}"
        "fix the cause there: a trigger, a missing index, an index on a function, a lock, a disk"
        f"{OR}wait: nothing is skipped",
        None, seen.view.name, value=in_brief(late[name]), limit=in_brief(facts.limits.lag_warning),
    )  # fmt: skip


def _of_tables(seen: JobSeen) -> Iterator[Fault]:
    """Yield a fault for each table that has stopped while other tables of its job continue."""
    view = seen.view
    report = view.report if view.reported else None
    if report is None:
        return
    found = amiss(report.tables)
    for table in found:
        yield _of_table(table, view, said_of(report.tables) if table is found[0] else "")


def _of_table(table: TableReport, view: JobStatus, all_said: str) -> Fault:
    called, name = safe(table.source_table, 80), _named(table.trouble)
    asked = f"{table.state} as requested; the other tables of the job continue"
    rule = "awaits_copy" if table.state == JobState.AWAITS_COPY.value else f"table_{table.state.lower()}"
    since = None if table.since is None else datetime.fromtimestamp(table.since, timezone.utc)
    party = Party.TABLE if table.state == JobState.FAILED.value else Party.PERSON
    cause = safe(table.reason.removeprefix(f"{table.source_table}: ") or asked, 300)
    head = all_said.partition(":")[0] if all_said else f"table {called}"
    return Fault(
        rule, party, f"{head}: {called}" if all_said else head, _SEVERITY_OF_TABLE.get(table.state, Severity.WARNING),
        cause, f"its target does not advance; the other tables continue; {unread_meanwhile(view.report)}",
        safe(to_do(view.name, table), 4_000), since, view.name, table.source_table, table.source_table, table.state,
        code=NAMED[name] if name else _code_of(table.reason.removeprefix(f"{table.source_table}: ")),
    )  # fmt: skip


def _of_views(view: JobStatus, facts: Facts) -> Iterator[Fault]:
    """Yield a fault for each SQL view that has failed, or that has not been equal to its SELECT for too long.

    A view that is being built, or waits for the copies of its tables, has no fault: its job shows that progress.
    """
    report, limits = view.report, facts.limits
    if report is None:
        return
    job, old = typed(view.name), "readers see its last rows; the mirror continues, and no slot waits"
    if report.views_untold:
        yield Fault(
            "view_late", Party.SINK, "the job's views", Severity.WARNING, safe(report.views_untold, 300), old,
            f"`slotkeeper views list {job}` shows their states", None, view.name,
        )  # fmt: skip
    for one in report.views:
        shows = f"`slotkeeper views show {job} {typed(one.target)}`"
        named = Party.TABLE, f"view {safe(one.target, 80)}"
        since = datetime.fromtimestamp(one.since, timezone.utc)
        if one.state == ViewState.FAILED.value:
            yield Fault(
                "view_failed", *named, Severity.CRITICAL, safe(one.cause, 300), old,
                f"Fix the cause{THEN}`slotkeeper views rebuild {job} {typed(one.target)}`", since, view.name,
                thing=one.target, value=one.state,
            )  # fmt: skip
            continue
        if one.differs:
            yield Fault(
                "view_differs", *named, Severity.CRITICAL, f"its last comparison with its SELECT: {one.verified}",
                "readers see wrong rows", f"`slotkeeper views rebuild {job} {typed(one.target)}`{THEN}"
                f"`slotkeeper views verify {job} {typed(one.target)}`", None, view.name, thing=one.target,
            )  # fmt: skip
        stale = one.state == ViewState.STALE.value
        if stale:
            from_, cause, do = since, one.cause, f"{NOTHING}: the driver builds it again; {shows} has the last error"
        elif one.state == ViewState.RUNNING.value and one.waiting and one.fresh_at is not None:
            from_ = datetime.fromtimestamp(one.fresh_at, timezone.utc)
            cause = f"{many(one.waiting, 'change')} {'waits' if one.waiting == 1 else 'wait'} for a round"
            do = f"`slotkeeper views explain {job} {typed(one.target)}` names the missing indexes{THEN}create them"
        else:
            continue
        late = elapsed(from_, facts.now)
        if late is not None and late >= limits.lag_warning:
            severity = Severity.CRITICAL if late >= limits.lag_critical else Severity.WARNING
            yield Fault(
                "view_late", *named, severity, safe(cause, 300), old, do, from_, view.name, thing=one.target,
                value=in_brief(late), limit=in_brief(limits.lag_warning),
            )  # fmt: skip


def _quarantined(seen: JobSeen) -> Iterator[Fault]:
    report = seen.view.report
    number = report.quarantined if report is not None else None
    if report is None or not number:
        return
    from slotkeeper.core.domain.quarantine import nearly_full

    limit, name = seen.quarantine_limit, typed(seen.view.name)
    stops = "" if limit is None else f"; the job stops at more than {limit} such rows in a table"
    when = "" if seen.view.state.has_process else " when it ended"
    severity = Severity.CRITICAL if nearly_full(number, limit) else Severity.WARNING
    newest = f"; the newest is {safe(report.quarantined_newest, 200)}" if report.quarantined_newest else ""
    yield Fault(
        "rows_quarantined", Party.TABLE, "the target", severity,
        f"{rows_quarantined(number)}{when}{newest}", f"the target lacks {'it' if number == 1 else 'them'}{stops}",
        f"`slotkeeper errors list {name}` shows the rows{THEN}fix the cause"
        f" in the sink{THEN}`slotkeeper errors replay {name} --all --reason TEXT`",
        None, seen.view.name, value=str(number), limit="0" if limit is None else str(limit),
    )  # fmt: skip


def _different(seen: JobSeen, facts: Facts) -> Iterator[Fault]:
    """Yield a fault if the last comparison found a difference, or if it is too old."""
    last, age = seen.verified, facts.limits.verify_age
    if last is not None and last.verdict == "different":
        yield Fault(
            "target_differs", Party.TABLE, "the target", Severity.CRITICAL, in_a_phrase(last, facts.now),
            "the target differs from its source", _compare(seen), last.at, seen.view.name,
        )  # fmt: skip
    elif age is not None and seen.view.state is JobState.RUNNING:
        past = None if last is None or last.is_void else elapsed(last.at, facts.now)
        if past is None or past > age:
            yield Fault(
                "not_verified", Party.TABLE, "the target", Severity.WARNING, in_a_phrase(last, facts.now),
                "it is not verified against the source", f"`slotkeeper verify {typed(seen.view.name)}`", None,
                seen.view.name, limit=in_brief(age),
            )  # fmt: skip


def _compare(seen: JobSeen) -> str:
    """Return the actions: compare again, because changes in transit also differ; then stop the job and copy again."""
    name = typed(seen.view.name)
    do = f"`slotkeeper verify {name}` names the keys that still differ"
    if not seen.new_snapshot:
        return do
    stop = f"{THEN}`slotkeeper jobs stop {name}`" if seen.view.state.is_open else ""
    return f"{do}{stop}{THEN}{seen.new_snapshot}{THEN}`slotkeeper verify {name}`"


_RULES = {
    Party.SOURCE: "source_fails", Party.DN: "dn_fails", Party.SINK: "sink_fails", Party.LOCK: "lock_waits",
    Party.PROCESS: "driver_retries",
}  # fmt: skip
_IS_LOCK = re.compile(r"\block\b", re.IGNORECASE)
"""Matches a sink's error if Slotkeeper's limit ended a lock wait, such as "canceling statement due to lock timeout"."""
_BY_LIMIT = re.compile(r"did not end in time|canceling statement due to", re.IGNORECASE)
"""Matches the error of a step that Slotkeeper's own limit ended, in the driver's wording or the sink's."""


def of_conditions(view: JobStatus, facts: Facts) -> Iterator[Fault]:
    """Yield the conditions in the newest report, and the sessions whose locks the job's sessions wait for."""
    report = view.report
    if report is None:
        return
    for lock in locked(report.lock_waits):
        yield _of_lock(lock, view, report, facts)
    for one in report.conditions:
        left = _beside_locks(one, report)
        if left is not None:
            yield _fault(left, view, facts, unread_meanwhile(report))


def _beside_locks(one: Condition, report: JobReport) -> Condition | None:
    """Return a condition without the lanes that fail because of a reported lock; None if no lane remains.

    A server's condition covers all its lanes, and some of them can fail for another reason.
    """
    if not report.lock_waits or one.party not in (Party.SINK.value, Party.PROCESS.value):
        return one
    lanes = [lane for lane in report.lanes if lane.name in one.lanes and lane.error]
    things = {wait.thing.removeprefix("a row of ") for wait in report.lock_waits}
    if not lanes:
        return None if _is_by_lock(one, report, things) else one
    left = [lane for lane in lanes if not _by_lock(lane, things)]
    if len(left) in (0, len(lanes)):
        return one if left else None
    from slotkeeper.core.judgement.servers import RETRIES, UNKNOWN, Refusal, explain

    cause = server_of(left[0].error.removeprefix(f"{left[0].name}: "))[2]
    # the condition's own code and action are for the lock, so replace them
    said = explain(Refusal(cause, side=one.party, server=one.name, job=report.job))
    act, code = ("", "") if said.code == UNKNOWN.code else (said.action, said.code)
    act = act if not act or act.startswith(NOTHING) else f"{act.rstrip('.')}{OR}{RETRIES}"
    return replace(one, cause=cause, lanes=tuple(lane.name for lane in left), code="", message=code, act=act)


def _is_by_lock(one: Condition, report: JobReport, things: Collection[str]) -> bool:
    """Whether a reported lock explains a condition for which no lane reports an error of its own."""
    if one.party == Party.SINK.value:
        return bool(_IS_LOCK.search(one.cause))
    waiting = {lane.name for lane in report.lanes if lane.target in things}
    return GIVEN_UP in one.cause and set(one.lanes) <= waiting


def _by_lock(lane: LaneReport, things: Collection[str]) -> bool:
    """Whether a lane failed because of a lock: its error names a lock, or its target is locked and a step timed out."""
    return bool(_IS_LOCK.search(lane.error) or (lane.target in things and _BY_LIMIT.search(lane.error)))


def _of_lock(lock: Locked, view: JobStatus, report: JobReport, facts: Facts) -> Fault:
    """Return the fault for a lock; if a step exceeded a time limit because of the lock, the sink is not at fault."""
    living = [lane for lane in report.lanes if lane.activity != Activity.STOPPED.value]
    waiting = [lane for lane in living if lane.target == lock.thing]
    named = f"{len(waiting)} of {many(len(living), report.part)} {'waits' if len(waiting) == 1 else 'wait'}"
    effect = named if waiting else f"{many(lock.sessions, 'session')} of the job wait"
    since = datetime.fromtimestamp(lock.since, timezone.utc)
    return Fault(
        _RULES[Party.LOCK], Party.LOCK, "a lock in the sink", _severity(since, facts), safe(lock.cause, 600), effect,
        safe(lock.do, 600), since, view.name, thing=f"{lock.thing} {lock.pid}", value="-" if lock.pid is None else
        f"pid {lock.pid}",
    )  # fmt: skip


def _severity(since: datetime, facts: Facts) -> Severity:
    lasts = elapsed(since, facts.now)
    return Severity.CRITICAL if lasts is not None and lasts >= facts.limits.stuck_critical else Severity.WARNING


def _fault(one: Condition, view: JobStatus, facts: Facts, unread: str) -> Fault:
    from slotkeeper.core.judgement.servers import RETRIES

    party = Party(one.party)
    since = datetime.fromtimestamp(one.since, timezone.utc)
    severity = _severity(since, facts)
    do = one.act or f"{RETRIES}; `slotkeeper jobs logs {typed(view.name)}` shows the preceding messages"
    effect = one.effect_on(view.report.part if view.report else "DN") or f"the job waits; {unread}"
    return Fault(
        _RULES[party], party, safe(one.name, 80), severity, safe(one.cause, 400), effect, do, since, view.name,
        thing=one.name, value=f"try {one.tries}" if one.tries else "", limit="", code=one.message,
    )  # fmt: skip


EXPIRES = "no unread change is lost until the slot expires"


def unread_meanwhile(report: JobReport | None) -> str:
    """Describe what happens to unread changes while a job does not read; a source that stores positions has a TTL."""
    if report is not None and not report.keeps_positions:
        return "the source may purge unread changes"
    return EXPIRES
