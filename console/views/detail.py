"""What the row under the cursor means: problem, impact, action, then bars of its DNs. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views.jobs import acts, copied, lags_of, part_in, what_is_wrong
from slotkeeper.console.views.lanes import copy_of, is_stopped, lane_level, progress, proof, speed
from slotkeeper.console.views.rows import FAULTS, bar, both_ends, count
from slotkeeper.console.views.signs import MANY, Parts, coloured, dn_sign, heat, lag_role, span
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.text import safe

Lines = list[tuple[Level, str]]
_OF_PLANS = ("Slot", "Effect", "Undo", "Safer", "Backup", "Next", "FAIL", "pass", "unknown", "sql")
LABELS = ("Problem", "Status", "Impact", "Action", "Target", "Copy", *_OF_PLANS)
WIDTH = 9
"""The cells of a label, and of what stands below it."""
_LABEL = re.compile(rf"(?:{'|'.join(LABELS)}) +| {{{WIDTH}}}(?=\S)")
_OF_COMMANDS = {
    "jobs start": "a g",
    "jobs resume": "a p",
    "jobs stop": "a s",
    "jobs restart": "a r",
    "slots reset": "3 a",
    "slots undo": "3 a u",
    "errors list": "E",
    "errors replay": "E",
    "jobs show": "Enter",
    "jobs logs": "Enter l",
    "locks": "L",
}
"""The keys that do what a command does, from a list of jobs."""
_COMMAND = re.compile(r"`slotkeeper (?:--config \S+ )?(\w+(?: \w+)?)")


def split(words: str) -> tuple[str, str]:
    """The label of a line, as wide as all are, and the rest; "" where it has none.

    >>> split("Action   wait"), split("         2 start it"), split("Actions are many")
    (('Action   ', 'wait'), ('         ', '2 start it'), ('', 'Actions are many'))
    """
    found = _LABEL.match(words)
    if found is None or found.end() != WIDTH:
        return "", words
    return words[:WIDTH], words[WIDTH:]


def labelled(label: str, words: str) -> str:
    """A line with its label."""
    return f"{label:<{WIDTH}}{words}"


def keys_of(act: str) -> str:
    """The keys that do what the first command of an act does; "" where there are none.

    >>> keys_of("end it, then `slotkeeper jobs start a` (SK-2304)"), keys_of("wait"), keys_of("`slotkeeper doctor`")
    ('a g', '', '')
    """
    found = _COMMAND.search(act)
    if found is None:
        return ""
    words = found[1]
    return _OF_COMMANDS.get(words, _OF_COMMANDS.get(words.split()[0], ""))


def lines_of(job: JobFacts, now: datetime, short: bool = False) -> Lines:
    """Problem, impact and action of a job; of one without a problem what it does. Where they are cut `short`, the
    action comes before the impact.
    """
    found: Lines = []
    actions = action_lines(job)
    if job.level in FAULTS:
        found.append((job.level, labelled("Problem", what_is_wrong(job))))
        effect = impact(job)
        impacts: Lines = [(Level.FINE, labelled("Impact", effect))] if effect else []
        found += [*actions, *impacts] if short else [*impacts, *actions]
    else:
        found += [(Level.FINE, labelled("Status", status(job))), *actions]
    different = job.verified is not None and job.verified.verdict == "different"
    more = f" and {len(job.others)} more" if job.others else ""
    said = f"{safe(job.tables[1], 60)}{more}, {proof(job, now)}" if job.tables[1] else proof(job, now)
    found.append((Level.CRITICAL if different else Level.FINE, labelled("Target", said)))
    copy = copy_of(job)
    if copy is not None and job.report is not None:
        share = bar(copy.share, 20, up=False)
        rate = "" if job.rate is None else f", {speed(job.rate)} rows/s"
        left = f", {copy.left} left" if copy.left else ""
        rows = f"{count(job.report.snapshot_rows)} rows, chunks {copy.done:,}/{copy.total:,}"
        found.append((Level.FINE, labelled("Copy", f"{share} {int(copy.share * 100)} %  {rows}{rate}{left}")))
    return found


def action_lines(job: JobFacts) -> Lines:
    """What to do, numbered where there are several, each with its keys; nothing for a job without a problem."""
    every = acts(job)
    if job.level not in FAULTS and every == ["nothing"]:
        return []
    found: Lines = []
    for number, act in enumerate(every, 1):
        key, first = keys_of(act), f"{number} " if every[1:] else ""
        hint = f" [{key}]" if key else ""
        found.append((Level.FINE, labelled("Action" if number == 1 else "", f"{first}{act}{hint}")))
    return found


def status(job: JobFacts) -> str:
    """What a job without a problem does."""
    if job.state is JobState.RUNNING:
        lag = "" if job.lag_seconds is None else f", every change applied within {span(job.lag_seconds)}"
        return f"Streaming{lag}."
    return what_is_wrong(job)


def in_a_sentence(words: str) -> str:
    """A clause of the judgement as a sentence of its own.

    >>> in_a_sentence("the job waits"), in_a_sentence("dn_3 is not read; 2 of 3 continue")
    ('The job waits.', 'dn_3 is not read; 2 of 3 continue.')
    """
    shown = safe(words, 400)
    first = shown.split(" ", 1)[0]
    return (shown[:1].upper() + shown[1:] if first.isalpha() else shown) + "."


def impact(job: JobFacts) -> str:
    """What still works and what does not: by DN where some wait, else by the judgement; "" where neither knows."""
    lanes = job.report.lanes if job.report is not None else ()
    judged = next((in_a_sentence(one.effect) for one in job.faults[:1] if one.effect), "")
    if job.state is None or not job.state.has_process or job.last_known or job.alive is False:
        return judged or (f"No row is applied; {job.unread}." if job.state is not None else "")
    if job.state is JobState.PAUSED or not job.current or not lanes:
        return judged
    part = part_in(job)
    waiting = [lane for lane in lanes if lane.retry or lane.error or is_stopped(lane)]
    if judged and not waiting:
        return judged
    if not waiting:
        lag = max((one for one in lags_of(job) if one is not None), default=None)
        return "" if lag is None else f"All {len(lanes)} {part}s are read; the target is {span(lag)} behind."
    names = ", ".join(both_ends(safe(lane.name), 24) for lane in waiting[:3])
    more = f" and {len(waiting) - 3} more" if waiting[3:] else ""
    others = len(lanes) - len(waiting)
    rest = f" {others} of {len(lanes)} {part}s continue." if others else f" None of {len(lanes)} {part}s is read."
    return f"{names}{more} {'wait' if waiting[1:] else 'waits'}; {job.unread}.{rest}"


def dn_bars(job: JobFacts, width: int, most: int, ascii_only: bool) -> list[Parts]:
    """Its DNs: of many one heat strip, else a bar each with the lag, in columns; at most so many lines.

    A bar is what is applied of what has waited since the DN was level with its source; one that has no backlog, or
    whose last such moment is not known, has its lag alone.
    """
    if job.report is None or not job.report.lanes or most < 1 or not job.current or job.last_known:
        return []
    lanes = sorted(job.report.lanes, key=lambda lane: lane.name)
    lags = lags_of(job)
    if copied(job) is not None:
        return []
    if len(lanes) >= MANY:
        strip = heat(lags, width - 12, ascii_only)
        return [[(f"{part_in(job) + 's':<8}", "dim"), *coloured(strip)]]
    found: list[Parts] = []
    name = min(16, max(len(safe(lane.name, 16)) for lane in lanes))
    cells = max(4, min(30, width // (2 if len(lanes) > 2 and width < 140 else 1) - name - 16))
    per_row = max(1, width // (name + cells + 15))
    rows = -(-len(lanes) // per_row)
    for place in range(min(rows, most)):
        line: Parts = []
        for lane, lag in list(zip(lanes, lags, strict=True))[place::rows]:
            level, pace = lane_level(lane), job.throughput.get(lane.name)
            shown, role = dn_sign(level, ascii_only)
            role = lag_role(lag) or role
            drawn = progress(lane, pace, cells, ascii_only) if pace is not None else ""
            line += [(f"{shown} ", role), (f"{safe(lane.name, name):<{name}} ", "dim")]
            line += [(f"{drawn:<{cells}}", role), (f" {span(lag, ascii_only):>9}   ", lag_role(lag))]
        found.append(line)
    return found
