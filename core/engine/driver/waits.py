"""The driver's waits: for open transactions, for the next try, and what ends them early.

A try is counted like any other, however early it comes: every limit of `slotkeeper.core.retry` stays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from slotkeeper.core import retry
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.job import JobEvent, WantedState
from slotkeeper.core.domain.lane import Activity, Lane
from slotkeeper.core.domain.report import GIVEN_UP
from slotkeeper.core.domain.tries import History, TryAnswer
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import Source

READ_EVERY = 0.25
"""Seconds between two checks whether a wait should end."""
PAUSED = "the job is paused: resume it"


def brought_forward(
    lanes: Mapping[str, Lane], names: Mapping[str, Collection[str]], table: str, now: float, paused: bool
) -> tuple[dict[str, Lane], list[TryAnswer]]:
    """The lanes that are tried at once, and the answer for each table of `names` that was meant; "" means all.

    Where a login was refused nothing is tried early: all lanes of a job log in by the same account. A lane whose
    registration may still be on its way is tried once none can be (`Lane.not_before`).
    """
    refused = next((why for lane in lanes.values() if (why := retry.why_not_now(lane.history))), "")
    why_none = PAUSED if paused else refused
    changed: dict[str, Lane] = {}
    answers = []
    for one, of_table in names.items():
        if table not in ("", one):
            continue
        if why_none:
            answers.append(TryAnswer(one, refused=dict.fromkeys(_waiting(lanes, of_table), why_none)))
            continue
        mine = {name: lanes[name] for name in of_table}
        forward = {name: lane for name, lane in mine.items() if lane.activity is Activity.WAITING}
        early = {name: lane for name, lane in forward.items() if lane.not_before <= now}
        changed |= {name: replace(lane, ready_at=max(now, lane.not_before)) for name, lane in forward.items()}
        polled = tuple(name for name, lane in mine.items() if lane.activity is Activity.IDLE)
        busy = tuple(name for name in mine if name not in forward and name not in polled)
        late = {
            name: f"an answer was lost, and the call may still take effect: retrying in {lane.not_before - now:.0f} s"
            for name, lane in forward.items()
            if name not in early
        }
        answers.append(TryAnswer(one, tuple(early), polled, busy, late))
    return changed, answers


def freed(lanes: Mapping[str, Lane], now: float) -> dict[str, Lane]:
    """The lanes that are tried at once when a sink answers again which did not: those that failed by it.

    So do steps that were cancelled meanwhile, which hung there. What a refused login waits for is another thing.
    """
    return {
        name: replace(lane, ready_at=max(now, lane.not_before))
        for name, lane in lanes.items()
        if lane.activity is Activity.WAITING
        and (lane.side == "sink" or GIVEN_UP in lane.error)
        and not retry.why_not_now(lane.history)
    }


def admitted(lanes: Mapping[str, Lane], now: float) -> dict[str, Lane]:
    """The lanes that a refused password has kept waiting, tried at once; refusals stay counted until a success."""
    return {
        name: replace(lane, ready_at=max(now, lane.not_before)) for name, lane in lanes.items() if lane.history.login
    }


def _waiting(lanes: Mapping[str, Lane], names: Collection[str]) -> list[str]:
    """The lanes of a table that wait for a try; all of them where none does."""
    return [name for name in names if lanes[name].activity is Activity.WAITING] or list(names)


def wait_to_try(ctx: JobContext, what: str, seconds: float, history: History) -> None:
    """Wait so long before `what` is tried again, less where something else is wanted or the try is asked for.

    Who asked while it was being tried hears that, and cuts nothing short.
    """
    if not ctx.requests.possible:
        ctx.pause(seconds)
        return
    _answered(ctx, TryAnswer(busy=(what,)))
    why, end = retry.why_not_now(history), ctx.clock.monotonic() + seconds
    answer = TryAnswer(refused={what: why}) if why else TryAnswer(tried=(what,))
    while (left := end - ctx.clock.monotonic()) > 0 and ctx.wanted() is WantedState.RUN:
        ctx.pause(min(left, READ_EVERY))
        if _answered(ctx, answer) and not why:
            return


def _answered(ctx: JobContext, answer: TryAnswer) -> bool:
    """Answer the requests that came since the last time, table by table; whether one was of a table of these."""
    tables, found = [channel.source_table for channel in ctx.job.channels], False
    for asked in ctx.requests.new():
        mine = [replace(answer, table=table) for table in tables if asked.table in ("", table)]
        ctx.requests.answer(asked, mine)
        found = found or bool(mine)
    return found


SHORTEST, LONGEST = 0.02, 0.2
"""Seconds between two queries, growing: on a quiet source only the next answer brings the wait forward."""


class Interrupted(Exception):
    """The job is to pause or stop, while a start is under way."""


def nothing() -> None:
    """What is done between two questions where no slot has to be kept alive."""


def wait_for_open_transactions(ctx: JobContext, source: Source, between: Callable[[], None] = nothing) -> None:
    """Return when none of the transactions open now is left (design 4.4 step 3); raises Refused at the job's `wait`.

    Rows that such a transaction wrote earlier are not in the binlog and not yet visible to a copy. Which they are, and
    whether they have ended for certain, is the source's to say (`Source.open_now`). `between` is done before each pause
    of the wait.
    """
    were_open, seconds = source.open_now(), SHORTEST
    end = ctx.clock.monotonic() + ctx.job.wait_ms / 1000
    while True:
        still = were_open.left()
        if not still:
            ctx.narrator.retrying("")
            return
        if ctx.clock.monotonic() >= end:
            raise Refused(still, were_open.advice(ctx.job.name), where="source")
        ctx.narrator.retrying(still, Party.SOURCE)
        between()
        pause(ctx, seconds)
        seconds = min(LONGEST, 2 * seconds)


def stay_paused(ctx: JobContext, between: Callable[[], None] = nothing) -> bool:
    """Stay in a pause as long as it is wanted, `between` done twice a second; returns whether there was one."""
    paused = False
    while ctx.wanted() is WantedState.PAUSE:
        if not paused:
            ctx.narrator.event(JobEvent.PAUSED)
            paused = True
        between()
        ctx.pause(0.5)
    if paused and ctx.wanted() is WantedState.RUN:
        ctx.narrator.event(JobEvent.RESUMED)
    return paused


def pause(ctx: JobContext, seconds: float) -> None:
    """Wait a little; raises Interrupted where the job is wished to pause or stop."""
    if ctx.wanted() is not WantedState.RUN:
        raise Interrupted
    ctx.pause(seconds)
