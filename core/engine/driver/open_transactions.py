"""Waits until every transaction that was open at one moment has ended (design 4.4 step 3).

Rows that such a transaction wrote earlier are not in the binlog and not yet visible to a copy. Who they are, and
whether they have ended for certain, is the source's to say (`Source.open_now`).
"""

from __future__ import annotations

from collections.abc import Callable

from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.source import Source

SHORTEST, LONGEST = 0.02, 0.2
"""Seconds between two questions, growing: on a quiet source only an answer is waited for that the next one gives."""


class Interrupted(Exception):
    """The job is to pause or stop, while a start is under way."""


def nothing() -> None:
    """What is done between two questions where no slot has to be kept alive."""


def wait_for_open_transactions(ctx: JobContext, source: Source, between: Callable[[], None] = nothing) -> None:
    """Return when none of the transactions open now is left; raises Refused at the job's `wait` limit.

    `between` is done before each pause of the wait.
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


def pause(ctx: JobContext, seconds: float) -> None:
    """Wait a little; raises Interrupted where the job is wished to pause or stop."""
    if ctx.wanted() is not WantedState.RUN:
        raise Interrupted
    ctx.pause(seconds)
