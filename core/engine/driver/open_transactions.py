"""Waits until every transaction that was open at one moment has ended (design 4.4 step 3).

Rows that such a transaction wrote earlier are not in the binlog and not yet visible to a copy. The list of sessions
names those that we see, also such as have no number yet; the snapshot's own xmin has to pass the transaction counter
whatever the list says. Where the list is not proven to be whole, every DN's xmin has to pass it as well; it never
guesses.
"""

from __future__ import annotations

from collections.abc import Callable

from core.domain.job import WantedState
from core.engine.driver.context import JobContext
from core.errors import Refused
from core.ports.source import Source, Waiter

PAUSE = 0.2


class Interrupted(Exception):
    """The job is to pause or stop, while a start is under way."""


def nothing() -> None:
    """What is done between two questions where no slot has to be kept alive."""


def wait_for_open_transactions(ctx: JobContext, source: Source, between: Callable[[], None] = nothing) -> None:
    """Return when none of the transactions open now is left; raises Refused at the job's `wait` limit.

    `between` is done before each pause of the wait.
    """
    counter, sight = source.transaction_id(), source.sight()
    waiting = source.open_transactions(sight.across)
    lacks = sight.lacks or ("other sessions are hidden" if any(one.hidden for one in waiting) else "")
    end = ctx.clock.monotonic() + ctx.job.wait_ms / 1000
    while True:
        now = source.open_transactions(sight.across)
        now_open = {(one.pid, one.started) for one in now}
        waiting = [one for one in waiting if one.started and (one.pid, one.started) in now_open]
        still = _sentence(waiting) if waiting else _retained(source, counter, now, lacks)
        if not still:
            ctx.narrator.retrying("")
            return
        if ctx.clock.monotonic() >= end:
            raise Refused(still, _hint(source.shows_open, lacks, ctx.job.name), where="source")
        ctx.narrator.retrying(still)
        between()
        pause(ctx, PAUSE)


def pause(ctx: JobContext, seconds: float) -> None:
    """Wait a little; raises Interrupted where the job is wished to pause or stop."""
    if ctx.wanted() is not WantedState.RUN:
        raise Interrupted
    ctx.pause(seconds)


def _retained(source: Source, counter: int, now: list[Waiter], lacks: str) -> str:
    """Why it is not known yet that all have ended that the list may not show; nothing where it is.

    `counter` was handed out after recording began: all older ones have a smaller number, or none so far.
    """
    if source.snapshot_xmin() <= counter:
        prepared = ", ".join(one.text for one in now if not one.pid)
        whose = f", it may be {prepared}" if prepared else " (of another database, login or coordinator)"
        return f"waiting for a transaction that was open when recording began and is in no list{whose}"
    if lacks and any(status.xmin <= counter for status in source.read_status(None)):
        return f"{lacks} and a DN's xmin stands still: whether they have ended cannot be told here"
    return ""


def _hint(where: str, lacks: str, job: str) -> str:
    more = ", or let this login see all sessions (slotkeeper doctor prints the GRANT)" if lacks else ""
    seen = f"an administrator sees it in {where}"
    return f"end it ({seen}), or raise `wait` in [jobs.{job}]{more}"


def _sentence(waiting: list[Waiter]) -> str:
    named = ", ".join(one.text for one in waiting[:5])
    more = f" and {len(waiting) - 5} more" if len(waiting) > 5 else ""
    return f"waiting for transactions that were open when recording began: {named}{more}"
