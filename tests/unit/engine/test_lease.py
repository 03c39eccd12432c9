"""A running job that has lost its lock on a target checks the holder twice before it ends."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.locks import LockOwner
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.engine.driver.lease import Leases, take_lease
from slotkeeper.core.errors import Busy, Refused, Superseded, Unclassified

EPOCH = 7


class Lost:
    """A store with a new session: it gets the lease again, but not yet the target's lock."""

    def __init__(self, *writers: str) -> None:
        self._writers: Iterator[str] = iter(writers)

    def leased(self, asks: bool = True) -> bool:
        return False

    def take_lease(self) -> bool:
        return True

    def take_target(self, target: str) -> bool:
        return False

    def writer(self, target: str) -> str:
        return next(self._writers)

    def target_owners(self, target: str) -> list[LockOwner]:
        return [LockOwner(7, "etl", "slotkeeper/b/lease", None, None, None)]

    def rows(self) -> list[Any]:
        return [SimpleNamespace(epoch=EPOCH), SimpleNamespace(epoch=EPOCH)]


class TakenOver(Lost):
    """A later start of the job has raised the epoch of the first row and holds the lease."""

    def take_lease(self) -> bool:
        return False

    passes = False

    def holder(self) -> str:
        return "started on etl2 by etl"

    def rows(self) -> list[Any]:
        return [SimpleNamespace(epoch=EPOCH + 1), SimpleNamespace(epoch=EPOCH)]


def leases(store: Lost) -> Leases:
    job = SimpleNamespace(
        locked_target="mart.t",
        sink=SimpleNamespace(database="mart"),
        channel=SimpleNamespace(source_table="ods.t"),
        channels=("ods.t",),
        several=False,
    )
    sessions = SimpleNamespace(store=lambda: store)
    ctx: Any = SimpleNamespace(
        job=job, whole=None, desk=None, sessions=sessions, clock=SimpleNamespace(monotonic=lambda: 0.0)
    )
    ctx.parts = (ctx,)
    return Leases(cast(JobContext, ctx), EPOCH)


def test_a_later_start_that_has_taken_over_is_not_waited_for() -> None:
    with pytest.raises(Superseded, match=r"taken over \(epoch 8; this run has epoch 7\): started on etl2 by etl"):
        leases(TakenOver()).keep()


def test_another_job_that_holds_the_target_ends_this_one() -> None:
    with pytest.raises(Refused, match="belongs to job b"):
        leases(Lost("job b", "job b")).keep()


@pytest.mark.parametrize("then", ["", "job c"])
def test_a_session_that_is_just_ending_does_not_end_the_job(then: str) -> None:
    """Its locks are released one by one, so that for a moment it looks like the session of another job."""
    with pytest.raises(Busy, match="has not released the lease yet"):
        leases(Lost("job b", then)).keep()


class Foreign:
    """A store whose lease belongs to another session for the first `tries` tries."""

    passes = False

    def __init__(self, tries: int) -> None:
        self.tries = tries

    def take_lease(self) -> bool:
        self.tries -= 1
        return self.tries < 0

    def writer(self, target: str) -> str:
        return ""

    def lease_owners(self) -> list[LockOwner]:
        return [LockOwner(7, "eve", "psql", None, None, None)]

    def holder(self) -> str:
        return ""


def told_while_it_waits(tries: int) -> list[str]:
    """The messages of a start that gets the lease after `tries` tries, half a second apart."""
    told: list[str] = []
    now = [0.0]

    def pause(seconds: float) -> None:
        now[0] += seconds

    store = Foreign(tries)
    ctx: Any = SimpleNamespace(
        whole=None,
        desk=None,
        job=SimpleNamespace(locked_target="mart.t", slot="s", channel=SimpleNamespace(source_table="ods.t")),
        sessions=SimpleNamespace(store=lambda: store),
        clock=SimpleNamespace(monotonic=lambda: now[0]),
        narrator=SimpleNamespace(retrying=lambda text, *_: told.append(text)),
        take_over=False,
        wanted=lambda: WantedState.RUN,
        pause=pause,
    )
    take_lease(cast(JobContext, ctx), cast(JobContext, ctx), end=30.0)
    return told


def test_a_start_that_waits_for_the_lease_says_once_who_has_it_and_that_it_is_over() -> None:
    first, last = told_while_it_waits(tries=20)
    holder = "a session that belongs to no job: session psql, user eve, pid 7"
    assert first.startswith(f"the lease of ods.t slot s is held by {holder}")
    assert last == ""


def test_a_start_that_waits_for_the_session_of_the_one_before_says_nothing() -> None:
    assert told_while_it_waits(tries=2) == []


def test_a_table_whose_lease_cannot_be_given_back_is_handed_in_all_the_same() -> None:
    left: list[str] = []

    def refuses(target: str) -> None:
        raise Unclassified("odd")

    store = SimpleNamespace(give_back=refuses)
    job = SimpleNamespace(locked_target="mart.t")
    part: Any = SimpleNamespace(job=job, sessions=SimpleNamespace(store=lambda: store))
    desk = SimpleNamespace(receive_table=lambda table, error, lanes, again: left.append(table))
    ctx: Any = SimpleNamespace(desk=desk, parts=(), of=lambda table: part)
    leases = Leases(cast(JobContext, ctx), EPOCH)
    leases.release_table("ods.t", None, {})
    with pytest.raises(Unclassified):
        leases.keep()
    assert left == ["ods.t"] and not leases.leaving
