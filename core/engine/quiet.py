"""Waits until every transaction that was open at one moment has ended (design 4.4 step 3).

Rows that such a transaction wrote earlier are not in the binlog and not yet visible to a copy. Where other sessions
are hidden from us, every DN's xmin has to pass the transaction counter instead; it never guesses.
"""

from __future__ import annotations

from core.domain.job import Wish
from core.engine.ports import Surroundings
from core.errors import Refused
from core.ports import Source, Waiter

PAUSE = 0.2


class Interrupted(Exception):
    """A wish to pause or stop came while a start was under way."""


def wait_for_open_transactions(all_: Surroundings, source: Source) -> None:
    """Return when none of the transactions open now is left; raises Refused at the job's `wait` limit."""
    counter = source.transaction_id()
    waiting = source.open_transactions()
    hidden = any(one.hidden for one in waiting)
    end = all_.clock.monotonic() + all_.job.wait_ms / 1000
    while True:
        now_open = {(one.pid, one.started) for one in source.open_transactions()}
        waiting = [one for one in waiting if one.started and (one.pid, one.started) in now_open]
        if not waiting and (not hidden or _passed(source, counter)):
            all_.narrator.retrying("")
            return
        if all_.clock.monotonic() >= end:
            raise Refused(_sentence(waiting, hidden), "end them, or start with a longer --wait", where="source")
        all_.narrator.retrying(_sentence(waiting, hidden))
        pause(all_, PAUSE)


def pause(all_: Surroundings, seconds: float) -> None:
    """Wait a little; raises Interrupted where the job is wished to pause or stop."""
    if all_.wish() is not Wish.RUN:
        raise Interrupted
    all_.pause(seconds)


def _passed(source: Source, counter: int) -> bool:
    return all(look.xmin > counter for look in source.look(None))


def _sentence(waiting: list[Waiter], hidden: bool) -> str:
    if not waiting and hidden:
        return "other sessions are hidden and a DN's xmin stands still: whether they have ended cannot be told here"
    named = ", ".join(f"pid {one.pid} ({one.user}, {one.application or 'no name'})" for one in waiting[:5])
    more = f" and {len(waiting) - 5} more" if len(waiting) > 5 else ""
    return f"waiting for transactions that were open when recording began: {named}{more}"
