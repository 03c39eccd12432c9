"""The driver's waits for open transactions and for the next retry, and the early end of these waits.

An early retry counts like any other retry: every limit of `slotkeeper.core.retry` still applies.
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
"""Seconds between two checks of whether a wait should end."""
PAUSED = "the job is paused: resume it"


def brought_forward(
    lanes: Mapping[str, Lane], names: Mapping[str, Collection[str]], table: str, now: float, paused: bool
) -> tuple[dict[str, Lane], list[TryAnswer]]:
    """Return the lanes to retry at once, and the answer for each requested table of `names`; `table` "" means all.

    After a rejected login, no lane is retried early, because all lanes of a job use the same account. A lane with a
    registration that can still take effect is retried once it no longer can (`Lane.not_before`).
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
            name: f"the response was lost; the call may still take effect: retrying in {lane.not_before - now:.0f} s"
            for name, lane in forward.items()
            if name not in early
        }
        answers.append(TryAnswer(one, tuple(early), polled, busy, late))
    return changed, answers


def freed(lanes: Mapping[str, Lane], now: float) -> dict[str, Lane]:
    """Return the lanes to retry at once when a silent sink answers again: the lanes that failed because of the sink.

    This includes lanes whose cancelled step hung in the sink, but not lanes that wait after a rejected login.
    """
    return {
        name: replace(lane, ready_at=max(now, lane.not_before))
        for name, lane in lanes.items()
        if lane.activity is Activity.WAITING
        and (lane.side == "sink" or GIVEN_UP in lane.error)
        and not retry.why_not_now(lane.history)
    }


def admitted(lanes: Mapping[str, Lane], now: float) -> dict[str, Lane]:
    """Return the lanes to retry at once that waited after a rejected password; only a success resets their count."""
    return {
        name: replace(lane, ready_at=max(now, lane.not_before)) for name, lane in lanes.items() if lane.history.login
    }


def _waiting(lanes: Mapping[str, Lane], names: Collection[str]) -> list[str]:
    """Return the lanes of a table that wait for a retry; all its lanes if none waits."""
    return [name for name in names if lanes[name].activity is Activity.WAITING] or list(names)


def wait_to_try(ctx: JobContext, what: str, seconds: float, history: History) -> None:
    """Wait before the retry of `what`; end the wait early if the desired state changes or a user requests the retry.

    A request made during a running attempt is answered with `busy`, and does not shorten the wait.
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
    """Answer the new requests, table by table; return whether any of them concerned a table of `ctx.job`."""
    tables, found = [channel.source_table for channel in ctx.job.channels], False
    for asked in ctx.requests.new():
        mine = [replace(answer, table=table) for table in tables if asked.table in ("", table)]
        ctx.requests.answer(asked, mine)
        found = found or bool(mine)
    return found


SHORTEST, LONGEST = 0.02, 0.2
"""Seconds between two queries, doubled after each query: on an idle source, only another query shows progress."""


class Interrupted(Exception):
    """Raised during a start if the job has to pause or stop."""


def nothing() -> None:
    """Do nothing between two queries: there is no slot to keep alive."""


def wait_for_open_transactions(ctx: JobContext, source: Source, between: Callable[[], None] = nothing) -> None:
    """Wait until all currently open transactions have ended (design 4.4 step 3); raises Refused after the job's `wait`.

    Rows that such a transaction wrote earlier are not in the binlog and not yet visible to a copy. The source decides
    which transactions count, and whether they have certainly ended (`Source.open_now`). `between` runs before each
    pause of the wait.
    """
    were_open, seconds = source.open_now(), SHORTEST
    end = ctx.clock.monotonic() + ctx.job.wait_ms / 1000
    while True:
        still = were_open.left() if were_open is not None else ""
        if were_open is None or not still:
            ctx.narrator.retrying("")
            return
        if ctx.clock.monotonic() >= end:
            raise Refused(still, were_open.advice.format(job=ctx.job.name), where="source")
        ctx.narrator.retrying(still, Party.SOURCE)
        between()
        pause(ctx, seconds)
        seconds = min(LONGEST, 2 * seconds)


def stay_paused(ctx: JobContext, between: Callable[[], None] = nothing) -> bool:
    """Stay paused while the desired state is PAUSE; call `between` twice a second. Return whether there was a pause."""
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
    """Wait briefly; raises Interrupted if the job has to pause or stop."""
    if ctx.wanted() is not WantedState.RUN:
        raise Interrupted
    ctx.pause(seconds)
