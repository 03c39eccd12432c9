"""The result of an action: requested and observed state per DN, and the next step; never just "success". Pure.

All command output is passed through `safe()` here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from slotkeeper.console.actions.preview import parsed
from slotkeeper.console.actions.record import Action, Said, Stage
from slotkeeper.console.actions.verbs import JobVerb
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.views.detail import catching_up, labelled, long_work
from slotkeeper.console.views.how_far import is_progress, newest, steps
from slotkeeper.console.views.lanes import copy_of
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.reset import DONE, ResetStep
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import in_words

REFUSED, CANCELLED = 3, 130
_OURS = "slotkeeper: "
_STILL, _NOTHING = "quarantined", "nothing was done"
_KINDS, _NAMED = ("missing", "extra", "different", "unsettled", "quarantined"), 20
_EXITS = {1: "failed", 2: "wrong command or configuration", 3: "refused", 4: "different", 5: "unreachable"}
Lines = list[tuple[Level, str]]


def took(action: Action, now: datetime) -> float:
    """Return the seconds since the action was requested, or its duration if it has ended."""
    return max(0.0, ((action.record.ended_at or now) - action.record.started_at).total_seconds())


def verdict(action: Action, said: Said, now: datetime) -> tuple[Level, str]:
    """Summarize the state of an action in one line."""
    if action.stage in (Stage.BEGINNING, Stage.RUNNING):
        return Level.BUSY, f"{action.stage.value}, {in_words(took(action, now))}"
    if action.stage is Stage.GONE:
        return Level.UNKNOWN, "the process exited without a result (killed?); see the observed state"
    code, found = action.record.code or 0, parsed(said.out)
    if code == CANCELLED:
        return Level.WARNING, "cancelled"
    if code == 0:
        return Level.FINE, observed(found) or "done"
    why = complaint(said.err)[0] or observed(found)
    if still_starting(found):
        return Level.BUSY, why
    word = _EXITS.get(code, "killed" if code < 0 else "failed")
    return (Level.WARNING if code == REFUSED else Level.CRITICAL), f"{word}: {why}" if why else word


def still_starting(found: Mapping[str, Any] | None) -> bool:
    """Return whether a failed command reported a job that is still starting: its start was accepted and continues."""
    return found is not None and found.get("state") == JobState.PENDING.value


def observed(found: Mapping[str, Any] | None) -> str:
    """Return the final state that the command reported, as text; "" if it reported none."""
    if found is None:
        return ""
    if "entries" in found:
        return _summed(_entries(found))
    if "verdict" in found:
        return safe(found["verdict"], 40)
    if "polled" in found:
        return safe(found.get("said", ""), 300)
    if "outcome" in found:
        return safe(": ".join(str(found[key]) for key in ("outcome", "sentence") if found.get(key)), 300)
    done = found.get("done")
    if isinstance(done, dict):
        return safe(done.get("outcome", ""), 300)
    if "drained" in found:
        return "drained" if found["drained"] else "not drained"
    if "clear" in found:
        return "clear" if found["clear"] else "binlog is still retained"
    return f"observed {safe(found['state'], 20)}" if found.get("state") else ""


def complaint(err: str) -> tuple[str, str]:
    """Return the last error message of a command, and its hint."""
    lines = [line for line in err.splitlines() if not is_progress(line)]
    starts = [number for number, line in enumerate(lines) if line.startswith(_OURS)]
    if not starts:
        return safe(lines[-1], 400) if lines else "", ""
    first = starts[-1]
    hint = lines[first + 1].strip() if first + 1 < len(lines) and lines[first + 1].startswith("  ") else ""
    return safe(lines[first].removeprefix(_OURS), 400), safe(hint, 300)


def how_far(key: str, said: Said, job: JobFacts | None, ascii_only: bool) -> Lines:
    """Return the progress bar of a long action: as the command reports it, otherwise that of its job's copy."""
    found = newest(said.err) or (copy_of(job) or catching_up(job) if job is not None else None)
    if found is None:
        return []
    following = long_work(job, ascii_only)[-1:] if job is not None else []
    named = [(Level.REST, safe(found.what, 120))] if found.what != safe(key, 200) else []
    return [*named, (Level.BUSY, found.drawn(ascii_only)), *following]


def reset_steps(said: Said, ascii_only: bool) -> Lines:
    """Return the bar and the steps of a reset that is being executed, as reported by the command."""
    found = newest(said.err)
    names = [one.value for one in ResetStep]
    step = found.what.rpartition(", ")[2] if found is not None else ""
    if found is None or step not in names:
        return []
    return [
        (Level.BUSY, labelled("Lanes", found.drawn(ascii_only))),
        (Level.FINE, labelled("Steps", steps(names, names.index(step), ascii_only))),
    ]


def job_lines(
    verb: JobVerb, action: Action, said: Said, job: JobFacts | None, now: datetime, seen_at: datetime | None = None
) -> Lines:
    """Compare the requested state of a job with its observed state.

    The observed state comes from the store until the command has ended, then from the command. `job` was read from the
    store at `seen_at`; read before the command ended, it does not show the current state.
    """
    name, wanted = safe(action.record.key, 60), verb.does.requested
    found = parsed(said.out)
    shown = "?" if job is None else job.state.value if job.state else "never started"
    if not action.over:
        return [(Level.BUSY, f"{name}: requested {wanted}, now {shown}, {in_words(took(action, now))}")]
    if action.stage is Stage.GONE:
        level, text = verdict(action, said, now)
        return [(level, f"{name}: requested {wanted}, observed {shown}; {text}")]
    if action.record.code == CANCELLED:
        return [(Level.WARNING, f"{name}: cancelled after {took(action, now):.1f} s; nothing was changed")]
    state = safe(found["state"], 20) if found and found.get("state") else ""
    if verb.does.copies and action.record.code and still_starting(found):
        begun = f"{name}: the start was accepted and continues; {state} when the command ended"
        lines = [(Level.BUSY, f"{begun} {_ended(action, now)}")]
        if shown in (state, "?"):
            lines += [(Level.BUSY, complaint(said.err)[0]), *_next(action, said)]
    elif action.record.code == 0:
        seen = state or observed(found) or shown
        result = seen if verb is JobVerb.DRAIN and seen == wanted else f"requested {wanted}, observed {seen}"
        lines = [(Level.FINE, f"{name}: {result} {_ended(action, now)}")]
    else:
        why, seconds = complaint(said.err)[0], took(action, now)
        level, _ = verdict(action, said, now)
        lives = job is not None and job.state is not None and verb.does.copies and job.state.has_process
        late = lives or shown == wanted or (wanted.startswith("not ") and shown not in (wanted[4:], "?"))
        applied = "refused" if action.record.code == REFUSED else "not applied in time" if late else "not applied yet"
        lines = [(level, f"{name}: requested {wanted}, observed {state or shown} after {seconds:.1f} s: {applied}")]
        lines += [(level, why), *_next(action, said)] if why else _next(action, said)
        state = state or (shown if not late else "")
    outdated = seen_at is not None and action.record.ended_at is not None and seen_at < action.record.ended_at
    if shown not in (state, "?") and not outdated:
        lines.append((Level.FINE, f"{name} is now {shown}"))
    return lines


def slot_lines(action: Action, said: Said, now: datetime) -> Lines:
    """Describe how a slot command ended, with the state of each DN as the command observed it afterwards.

    The answers of a preflight are shown as soon as they are written, because no change follows them.
    """
    level, text = verdict(action, said, now)
    found = parsed(said.out) or {}
    if "verdicts" in found and not action.over:
        clear = bool(found.get("clear"))
        return [(Level.FINE if clear else Level.WARNING, observed(found)), *_verdicts(found)]
    if not action.over or action.stage is Stage.GONE:
        return [(level, text)]
    done = found.get("done") if isinstance(found.get("done"), dict) else {}
    missed = set(done.get("missed", ()) if done else ())
    lanes = found.get("lanes") or (done or {}).get("result") or found.get("left") or {}
    lines: Lines = [(level, f"{text}   {_ended(action, now)}")]
    lines += [
        (Level.CRITICAL if dn in missed else Level.FINE, f"{safe(dn, 40)}  {safe(seen, 300)}")
        for dn, seen in sorted(lanes.items())
    ]
    lines += _verdicts(found)
    if found.get("reset"):
        lines.append((Level.FINE, labelled("Backup", safe(found["reset"], 60))))
    lines += _next(action, said)
    if action.record.code == REFUSED and "clear" not in found:
        lines.append((Level.FINE, "press n to plan again with the current state"))
    return lines


def way_back(said: Said) -> str:
    """Return the backup of a completed reset, which an undo needs; "" for any other action."""
    found = parsed(said.out) or {}
    return str(found["reset"]) if found.get("reset") and found.get("outcome") == DONE else ""


def no_undo(said: Said) -> str:
    """Return why a completed reset cannot be undone; "" if nothing known prevents it."""
    return safe((parsed(said.out) or {}).get("no_undo", ""), 300)


def starts_alone(said: Said) -> bool:
    """Return whether the reset was for one table of a running job, which starts the table again automatically."""
    return bool((parsed(said.out) or {}).get("start"))


def verified_lines(action: Action, said: Said, now: datetime) -> Lines:
    """Describe a comparison, table by table: row counts in source and sink, and the first keys that differ."""
    level, text = verdict(action, said, now)
    found = parsed(said.out) or {}
    if not action.over or "verdict" not in found:
        return [(level, text), *_next(action, said)]
    lines: Lines = [(_verdict_level(found["verdict"]), f"{safe(found['verdict'], 40)}   {_ended(action, now)}")]
    for one in found.get("channels") or [found]:
        lines += _compared(one, f"{safe(one['from'], 80)}: " if "from" in one else "")
    return lines


def _verdict_level(verdict: object) -> Level:
    return {"equal": Level.FINE, "different": Level.CRITICAL}.get(str(verdict), Level.WARNING)


def _compared(one: Mapping[str, Any], table: str) -> Lines:
    rows = f"{one['rows_source']:,} rows in the source, {one['rows_sink']:,} in the sink"
    lines: Lines = [(_verdict_level(one["verdict"]), f"{table}{rows}, {one['seconds']:.1f} s")]
    for kind in _KINDS:
        keys = one[kind]["keys"][:_NAMED]
        named = ", ".join("(" + ", ".join(safe(value, 60) for value in key) + ")" for key in keys)
        more = f" and {one[kind]['count'] - len(keys):,} more" if one[kind]["count"] > len(keys) else ""
        if one[kind]["count"]:
            lines.append((Level.WARNING, f"{table}{one[kind]['count']:,} {kind}: {named}{more}"))
    return lines


def outcome_lines(action: Action, said: Said, now: datetime) -> Lines:
    """Describe how a command on quarantined rows ended: first the rows that are still rejected, then the others."""
    level, text = verdict(action, said, now)
    if not action.over or action.stage is Stage.GONE:
        return [(level, text)]
    found = parsed(said.out) or {}
    lines: Lines = [(level, f"{text}   {_ended(action, now)}")]
    for one in sorted(_entries(found), key=lambda one: one.get("state") != _STILL):
        still = Level.WARNING if one.get("state") == _STILL else Level.FINE
        lines.append((still, f"#{safe(one.get('id', '?'), 20)}  {safe(one.get('outcome', '?'), 400)}"))
    return lines + _next(action, said)


def _ended(action: Action, now: datetime) -> str:
    return f"at {action.record.ended_at or now:%H:%M:%S}Z, {took(action, now):.1f} s"


def _next(action: Action, said: Said) -> Lines:
    """Return the hint of a failed command."""
    hint = complaint(said.err)[1] if action.record.code else ""
    return [(Level.FINE, f"next: {hint}")] if hint else []


def _entries(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    given = found.get("entries")
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _summed(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return how many entries ended in each state.

    >>> left_alone = {"state": "superseded", "outcome": "nothing was done"}
    >>> _summed([{"state": "replayed"}, {"state": "quarantined"}, left_alone])
    '1 replayed, 1 still rejected, 1 unchanged'
    """
    words: dict[str, int] = {}
    for one in entries:
        still, nothing = one.get("state") == _STILL, str(one.get("outcome", "")).startswith(_NOTHING)
        word = "still rejected" if still else "unchanged" if nothing else safe(one.get("state", "?"), 20)
        words[word] = words.get(word, 0) + 1
    return ", ".join(f"{number} {word}" for word, number in words.items()) or "no rows are quarantined"


def _verdicts(found: Mapping[str, Any]) -> Lines:
    """Return the answers of a preflight, the requirements of a drain, and the notes."""
    levels = {"yes": Level.FINE, "no": Level.WARNING}
    lines: Lines = [
        (
            levels.get(one["answer"], Level.UNKNOWN),
            f"{safe(action, 20):<11} {safe(one['answer'], 10)}: {safe(one['reason'], 300)}",
        )
        for action, one in found.get("verdicts", {}).items()
    ]
    lines += [(Level.FINE, f"drain: {safe(found['drain'], 300)}")] if found.get("drain") else []
    return lines + [(Level.FINE, safe(note, 300)) for note in found.get("notes", ()) if "verdicts" in found]
