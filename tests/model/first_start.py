"""The model of a first start: do a slot's points belong to the job, or to a life with lost progress rows (section 4.5)?

Contents: the rows of one job from nothing to streaming, a start that may be broken off between any two of its
moves (a kill, a DN that does not answer, a pause), starts again, resets to a snapshot, and a slot that may stem from an
earlier life. Not included: everything else; several DNs (each is compared by itself).

Rows: `none`; `made` (state creating, nothing registered, by the first transaction of a first start); `meant` (state
creating, the coming registration is written); `streaming`; `reset` (creating, by a reset to a snapshot).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from .space import Space, explore, trace

Move = tuple[str, "First"]
FirstSpace = Space["First"]
Rows = Literal["none", "made", "meant", "streaming", "reset"]

TAKEN = "a slot of a life whose progress is lost is registered as if it were new"
ALARM = "PROGRESS LOST is named of a slot that this job made itself"


@dataclass(frozen=True, slots=True)
class FirstRules:
    """The rules that recognize a first start; each switched off is one seeded fault."""

    # "First" is defined by the rows: creating, and nothing registered. Else: this very start wrote the rows.
    first_by_the_rows: bool = True
    # The coming registration is written before the first call that registers it.
    meant_before_registered: bool = True
    # A reset to a snapshot keeps the registered points.
    reset_keeps_registered: bool = True

    def without(self, rule: str) -> FirstRules:
        return replace(self, **{rule: False})


ALL_FIRST_RULES = FirstRules()


class First(NamedTuple):
    """The whole state; the slot's points are 0 or not, and `ours` says whether this job registered them."""

    rows: Rows = "none"
    false: bool = False
    true: bool = False
    # Ground truth: existing points were registered by this job.
    ours: bool = True
    # rest, begun (rows are written), compared, meaning, registering, streaming
    at: str = "rest"
    # This very start wrote the rows.
    wrote: bool = False
    lost: bool = False
    starts: int = 0
    trouble: bool = False
    wrong: str = ""


STARTS = 4


def first_states() -> tuple[First, ...]:
    """A slot unknown to any job; one of an earlier life with both points; one with a half-made point."""
    return First(), First(false=True, true=True, ours=False), First(false=True, ours=False)


def is_first(rules: FirstRules, state: First) -> bool:
    """Whether the comparison takes this for a first start."""
    if not rules.first_by_the_rows:
        return state.wrote
    unregistered = state.rows == "made" or (state.rows == "reset" and not rules.reset_keeps_registered)
    return unregistered or (state.rows == "meant" and not rules.meant_before_registered)


def compared(rules: FirstRules, state: First) -> First:
    """PROGRESS LOST if a first start meets points: the rows that it wrote are removed."""
    if not is_first(rules, state) or not (state.false or state.true):
        return state._replace(at="compared")
    wrong = ALARM if state.ours else state.wrong
    rows: Rows = "none" if state.rows in ("made", "meant") else state.rows
    return state._replace(at="rest", rows=rows, wrote=False, trouble=True, wrong=wrong)


def registered(state: First, checkpoint: bool) -> First:
    there = state.false or state.true
    wrong = TAKEN if there and not state.ours and not state.lost else state.wrong
    after = state._replace(true=True) if checkpoint else state._replace(false=True)
    return after._replace(ours=True, wrong=wrong, at="streaming" if checkpoint else "registering")


def start_moves(rules: FirstRules, state: First) -> Iterator[Move]:
    if state.at == "rest" and state.starts < STARTS and not state.trouble:
        wrote = state.rows == "none"
        begun = state._replace(at="begun", starts=state.starts + 1, wrote=wrote)
        yield "starts: the rows are written", begun._replace(rows="made") if wrote else begun
    elif state.at == "begun" and state.rows == "streaming":
        yield "continues", state._replace(at="streaming")
    elif state.at == "begun":
        yield "compares rows and slot", compared(rules, state)
    elif state.at == "compared":
        yield "writes what it will register", state._replace(at="meaning", rows="meant")
    elif state.at == "meaning":
        yield "registers false", registered(state, False)
    elif state.at == "registering":
        yield "registers true", registered(state, True)._replace(rows="streaming")
    if state.at not in ("rest", "streaming"):
        yield "is broken off", state._replace(at="rest", wrote=False)


def person_moves(state: First) -> Iterator[Move]:
    if state.at == "streaming":
        yield "is stopped", state._replace(at="rest", wrote=False)
        yield "is stopped and reset to a snapshot", state._replace(at="rest", wrote=False, rows="reset")
    if state.at == "rest" and state.rows in ("streaming", "reset"):
        yield "the progress rows are lost", state._replace(rows="none", ours=False)


def successors(rules: FirstRules) -> Callable[[First], list[Move]]:
    def moves(state: First) -> list[Move]:
        return [*start_moves(rules, state), *person_moves(state)]

    return moves


def run(rules: FirstRules, start: First) -> FirstSpace:
    return explore(f"first start, slot {start.false:d}/{start.true:d}", start, successors(rules), lambda s: s.wrong)


def story(space: FirstSpace, rules: FirstRules, number: int) -> str:
    return "\n".join(trace(space, number, successors(rules), show))


def show(state: First) -> str:
    whose = "ours" if state.ours else "another life's"
    trouble = " PROGRESS LOST" if state.trouble else ""
    return f"{state.at}, rows {state.rows}, slot {state.false:d}/{state.true:d} {whose}{trouble}"
