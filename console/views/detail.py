"""The detail panel of the selected row: problem, impact, action, and a bar for each DN. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from slotkeeper.console.monitor.snapshot import JobFacts, LanePace, Level
from slotkeeper.console.views.jobs import acts, copied, lags_of, part_in, what_is_wrong
from slotkeeper.console.views.lanes import copy_of, is_stopped, lane_level, progress, proof, speed
from slotkeeper.console.views.rows import FAULTS, TYPED, bars, both_ends, fit, plain, width_of
from slotkeeper.console.views.signs import (
    LATE,
    MANY,
    Parts,
    coloured,
    dn_sign,
    heat,
    lag_role,
    signed,
    span,
    unrecorded,
)
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import in_words

if TYPE_CHECKING:
    from slotkeeper.console.views.how_far import HowFar
    from slotkeeper.console.views.rows import Verdict
    from slotkeeper.core.domain.fault import Fault

Lines = list[tuple[Level, str]]
_MOST_BAR, _APART = 30, 3
"""The maximum width of a DN's bar, and the blank cells between two DNs in a line."""
_OF_PLANS = ("Slot", "Effect", "Undo", "Safer", "Backup", "Next", "FAIL", "pass", "unknown", "sql")
LABELS = (
    "Problem", "Status", "Impact", "Action", "Target", "Progress", "Steps", "Detail", "Means", "Copy", "Demo",
    *_OF_PLANS,
)  # fmt: skip
WIDTH = 9
"""The width of a label in cells, and the indent of the lines below it."""
_LABEL = re.compile(rf"(?:{'|'.join(LABELS)}) +| {{{WIDTH}}}(?=\S)")
_OF_COMMANDS = {
    "jobs start": "start [a g]",
    "jobs resume": "resume [a p]",
    "jobs stop": "stop [a s]",
    "jobs restart": "restart [a r]",
    "slots reset": "reset slot [3 a]",
    "slots undo": "undo [3 a u]",
    "slots drop": "drop slot [3 a d]",
    "errors list": "quarantine [4 Enter]",
    "jobs show": "open [Enter]",
    "jobs logs": "log [Enter l]",
    "locks": "locks [L]",
    "views list": "views [V]",
    "views rebuild": "rebuild [V b]",
    "verify": "verify [a v]",
}
"""The label and the equivalent keys in a job list, by command."""
_STEPS = {
    JobState.PENDING: "start",
    JobState.SNAPSHOT: "copy",
    JobState.CATCHING_UP: "catch up",
    JobState.RUNNING: "stream",
}
"""The steps of a job before it streams; a streaming job has completed all of them."""
_COMMAND = re.compile(r"`slotkeeper (?:--config \S+ )?(\w+(?: \w+)?)[^`]*`")
_ONLY_TYPED = re.compile(r" --(?:table|take-over|resume)\b")
"""Options of a command for which its keys would do something else."""


def split(words: str) -> tuple[str, str]:
    """Return the label of a line, padded to the common width, and the remaining text; the label is "" if there is none.

    >>> split("Action   wait"), split("         2 start it"), split("Actions are many")
    (('Action   ', 'wait'), ('         ', '2 start it'), ('', 'Actions are many'))
    """
    found = _LABEL.match(words)
    if found is None or found.end() != WIDTH:
        return "", words
    return words[:WIDTH], words[WIDTH:]


def labelled(label: str, words: str) -> str:
    """Return a line with its label."""
    return f"{label:<{WIDTH}}{words}"


def listed(label: str, texts: Iterable[str]) -> Lines:
    """Return lines; the first line has the label, and the others are indented below it.

    >>> [words for _, words in listed("Action", ["1 wait", "2 start it"])]
    ['Action   1 wait', '         2 start it']
    """
    return [(Level.FINE, labelled("" if place else label, text)) for place, text in enumerate(texts)]


def with_keys(act: str) -> str:
    """Return an action in which label and keys replace each command that has equivalent keys in a job list.

    >>> with_keys("`slotkeeper slots reset t s --to latest` plans it; then `slotkeeper jobs start a` (SK-2304)")
    'reset slot [3 a] plans it; then start [a g] (SK-2304)'
    >>> with_keys("wait"), with_keys("see `slotkeeper doctor`")
    ('wait', 'see `slotkeeper doctor`')
    >>> with_keys("`slotkeeper jobs start a --table t`: the keys start the whole job")
    '`slotkeeper jobs start a --table t`: the keys start the whole job'
    """

    def key(found: re.Match[str]) -> str:
        words = found[1]
        if _ONLY_TYPED.search(found[0]):
            return found[0]
        return _OF_COMMANDS.get(words) or _OF_COMMANDS.get(words.split()[0], found[0])

    return _COMMAND.sub(key, act)


def command_of(job: JobFacts | None) -> str:
    """Return the first command of a job's actions, or "" if they contain none."""
    return command_in(acts(job) if job is not None else ())


def command_in(every: Iterable[str]) -> str:
    """Return the first command of actions, or "" if they contain none."""
    return next((found[0].strip("`") for act in every if (found := _COMMAND.search(act))), "")


def lines_of(
    job: JobFacts, now: datetime, short: bool = False, ascii_only: bool = False, verdict: Verdict | None = None
) -> Lines:
    """Return problem, impact and action of a job, or its current activity if it has no problem.

    If `short`, the action comes before the impact, because the last lines may be cut off. A problem of which the
    `verdict` above has the beginning is not repeated: only what the verdict lacks is shown.
    """
    found: Lines = []
    actions = action_lines(job)
    if job.level in FAULTS:
        found += fault_lines(problem_lines(job, verdict, now), impact(job), actions, short)
    else:
        found += [(Level.FINE, labelled("Status", status(job))), *actions]
    different = job.verified is not None and job.verified.verdict == "different"
    more = f" and {len(job.others)} more" if job.others else ""
    said = f"{safe(job.tables[1], 60)}{more}, {proof(job, now)}" if job.tables[1] else proof(job, now)
    found.append((Level.CRITICAL if different else Level.FINE, labelled("Target", said)))
    return [*found, *long_work(job, ascii_only)]


def problem_lines(job: JobFacts, verdict: Verdict | None, now: datetime) -> Lines:
    """Return the problem of a job; if the verdict is about it, only what that lacks: its end, and other faults."""
    if verdict is None or verdict.fault not in job.faults:
        return problem(job.level, what_is_wrong(job))
    from slotkeeper.console.monitor.health import said  # not needed for the first frame

    others = said([one for one in job.faults if one != verdict.fault], now)
    found = [(job.level, labelled("Detail", verdict.rest))] if verdict.rest else []
    return [*found, *(problem(job.level, safe(others, 400)) if others else ())]


def problem(level: Level, words: str) -> Lines:
    """Return the line that shows a problem."""
    return [(level, labelled("Problem", words))]


def fault_lines(problems: Lines, effect: str, actions: Lines, short: bool = False) -> Lines:
    """Return problem, impact and action; the action comes before the impact if `short`."""
    impacts: Lines = [(Level.FINE, labelled("Impact", effect))] if effect else []
    return [*problems, *(actions if short else impacts), *(impacts if short else actions)]


def apart_lines(fault: Fault, level: Level, short: bool = False) -> Lines:
    """Return problem, impact and action of a fault that belongs to no listed job, with keys for its commands."""
    effect = in_a_sentence(fault.effect) if fault.effect else ""
    acts = listed("Action", [with_keys(safe(f"{fault.do} ({fault.code})", TYPED))]) if fault.do else []
    said = problem(level, f"{safe(fault.name, 60)}: {safe(fault.cause, 400)}")
    return fault_lines(said, effect, acts, short)


def long_work(job: JobFacts, ascii_only: bool) -> Lines:
    """Return the progress bar of a copy or catch-up, and the current step of a new job; empty if neither applies."""
    if job.state not in _STEPS or job.state is JobState.RUNNING or not job.current or job.last_known:
        return []
    from slotkeeper.console.views.how_far import steps  # not needed for the first frame

    work = copy_of(job) or (catching_up(job) if job.state is JobState.CATCHING_UP else None)
    shown = [] if work is None else [(Level.FINE, labelled("Progress", work.drawn(ascii_only)))]
    return [
        *shown,
        (Level.FINE, labelled("Steps", steps(list(_STEPS.values()), list(_STEPS).index(job.state), ascii_only))),
    ]


def catching_up(job: JobFacts) -> HowFar | None:
    """Return the number of caught-up DNs, the rate of the job, and the time left until the last DN catches up."""
    lanes = job.report.lanes if job.report is not None else ()
    if not lanes:
        return None
    from slotkeeper.console.views.how_far import HowFar  # not needed for the first frame

    lags, lanes_now = lags_of(job), [job.throughput[lane.name] for lane in lanes if lane.name in job.throughput]
    level = sum(lag is not None and lag < LATE for lag in lags)
    left = max((one.eta for one in lanes_now if one.eta is not None), default=0.0)
    rate = "" if job.rate is None else f"{speed(job.rate)} events/s"
    return HowFar("catch up", level, len(lanes), "lanes current", in_words(left) if left >= 1 else "", rate)


def action_lines(job: JobFacts) -> Lines:
    """Return the actions with keys for their commands, numbered if there are several; empty if there is no problem."""
    every = acts(job)
    if job.level not in FAULTS and every == ["nothing"]:
        return []
    shown = [with_keys(act) for act in every]
    return listed("Action", [f"{number}. {act}" for number, act in enumerate(shown, 1)] if shown[1:] else shown)


def status(job: JobFacts) -> str:
    """Describe the activity of a job without a problem."""
    if job.state is JobState.RUNNING:
        lag = "" if job.lag_seconds is None else f", every change applied within {span(job.lag_seconds)}"
        return f"Streaming{lag}."
    return what_is_wrong(job)


def in_a_sentence(words: str) -> str:
    """Format a clause of a fault's text as a sentence.

    >>> in_a_sentence("the job waits"), in_a_sentence("dn_3 is not read; 2 of 3 continue")
    ('The job waits.', 'dn_3 is not read; 2 of 3 continue.')
    """
    shown = safe(words, 400)
    first = shown.split(" ", 1)[0]
    return (shown[:1].upper() + shown[1:] if first.isalpha() else shown) + "."


def impact(job: JobFacts) -> str:
    """Describe what works and what does not: per DN if some DNs wait, otherwise from the worst fault; "" if unknown."""
    lanes = job.report.lanes if job.report is not None else ()
    judged = next((in_a_sentence(one.effect) for one in job.faults[:1] if one.effect), "")
    if job.state is None or not job.state.has_process or job.last_known or job.alive is False:
        return judged or (f"No row is applied; {job.unread}." if job.state is not None else "")
    if job.state is JobState.PAUSED or not job.current or not lanes:
        return judged
    part = part_in(job)
    locked = job.report.locked_lanes if job.report else ()
    waiting = [lane for lane in lanes if lane.retry or lane.error or lane.name in locked or is_stopped(lane)]
    if judged and not waiting:
        return judged
    if not waiting:
        lag = max((one for one in lags_of(job) if one is not None), default=None)
        return "" if lag is None else f"All {len(lanes)} {part}s are read; the target is {span(lag)} behind."
    names = ", ".join(both_ends(safe(lane.name), 24) for lane in waiting[:3])
    more = f" and {len(waiting) - 3} more" if waiting[3:] else ""
    others = len(lanes) - len(waiting)
    if not others:
        return (
            f"Nothing is applied: {f'all {len(lanes)} {part}s wait' if lanes[1:] else f'{names} waits'}; {job.unread}."
        )
    rest = f" {others} of {len(lanes)} {part}s continue."
    return f"{names}{more} {'wait' if waiting[1:] else 'waits'}; {job.unread}.{rest}"


def dn_bars(job: JobFacts, width: int, most: int, ascii_only: bool) -> list[Parts]:
    """Return a job's DNs as a heat strip if there are many, otherwise as bars with lags, in columns of `most` lines.

    A bar shows how much of the changes since the DN was last caught up has been applied. A DN without a backlog, or for
    which that time is unknown, has its lag, rate and sparkline alone; if no DN has one, no room is left for bars.
    """
    if job.report is None or not job.report.lanes or most < 1 or not job.current or job.last_known:
        return []
    lanes = sorted(job.report.lanes, key=lambda lane: lane.name)
    if copied(job) is not None:
        return []
    if len(lanes) >= MANY:
        strip = heat(lags_of(job), width - 12, ascii_only)
        return [[(f"{part_in(job) + 's':<8}", "dim"), *coloured(strip)]]
    speeds = [job.throughput.get(lane.name, LanePace()) for lane in lanes]
    signs = [dn_sign(lane_level(lane), ascii_only) for lane in lanes]
    late = [signed(span(pace.lag, ascii_only), lag_role(pace.lag), ascii_only) for pace in speeds]
    rates = [f"{speed(pace.rate)}/s" if pace.rate is not None else "" for pace in speeds]
    sparks = [unrecorded(bars(pace.spark, ascii_only), ascii_only) for pace in speeds]
    waits = [progress(lane, pace, 1, ascii_only) for lane, pace in zip(lanes, speeds, strict=True)]
    name, lag, rate, spark = (
        max(map(width_of, texts))
        for texts in ([plain(safe(one.name), ascii_only) for one in lanes], late, rates, sparks)
    )
    name = min(16, name)
    least = name + lag + rate + spark + 8 + 3 * any(waits)
    per_row = max(1, (width + _APART) // (least + _MOST_BAR // 3 * any(waits) + _APART))
    rows = -(-len(lanes) // per_row)
    cells = min(_MOST_BAR, (width + _APART) // per_row - _APART - least) if any(waits) else 0
    found: list[Parts] = []
    for place in range(min(rows, most)):
        line: Parts = []
        for each in range(place, len(lanes), rows):
            lane, pace, role = lanes[each], speeds[each], lag_role(speeds[each].lag)
            drawn = progress(lane, pace, cells, ascii_only)
            line += [(" " * _APART, "")] if line else []
            line += [
                (f"{signs[each][0]} ", role or signs[each][1]),
                (fit(safe(lane.name), name, ascii_only=ascii_only) + "  ", "dim"),
                (f"{drawn:<{cells}}  " if cells else "", role or signs[each][1]),
                (f"{late[each]:>{lag}}  ", role),
                (f"{rates[each]:>{rate}}  ", ""),
                (f"{sparks[each]:<{spark}}", "busy"),
            ]
        found.append(line)
    return found
