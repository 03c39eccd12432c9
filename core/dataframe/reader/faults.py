"""Errors on their way into Spark: one sentence that says what, where, and the cure.

Spark hands on an exception of a Python source as text, below a traceback of its own; what the text does not say is
lost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName

P = ParamSpec("P")
T = TypeVar("T")
_ANEW = 'begin again with a slot and a checkpoint of their own, and start = "initial"'
CURES = {
    TroubleName.SLOT_LOST: f"what is missing is in no binlog any more: {_ANEW}",
    TroubleName.SLOT_MOVED: f"find who else moves this slot, and stop that; then {_ANEW}",
    TroubleName.SCHEMA_CHANGED: f"the columns of a running query cannot change: {_ANEW}",
    TroubleName.TOPOLOGY_CHANGED: f"the table lies on other DNs than the checkpoint says: {_ANEW}",
    TroubleName.PROGRESS_LOST: f"the store has lost what this query registered: {_ANEW}",
    TroubleName.SOURCE_OLDER: f"the source was set back, as by a restore: find out which state is meant; then {_ANEW}",
    TroubleName.SINK_OLDER: f"the store was set back, as by a restore: {_ANEW}",
}
"""What a person does about a query; a job's cures (`slotkeeper.core.domain.start.SAFE`) speak of its target."""


class ReadFailed(Exception):
    """Why a read ended, with the cure; what is raised to Spark."""


def for_spark(error: SlotkeeperError) -> ReadFailed:
    """The error as Spark is to show it.

    >>> for_spark(Trouble("dn_1: the slot holds 0/0", name=TroubleName.SLOT_MOVED)).args[0][:64]
    'SLOT MOVED: dn_1: the slot holds 0/0; to do: find who else moves'
    """
    cure = CURES.get(error.name, error.hint) if isinstance(error, Trouble) else error.hint
    return ReadFailed(f"{error}; to do: {cure}" if cure else str(error))


@contextmanager
def named() -> Iterator[None]:
    """Errors of ours leave the block as `ReadFailed`, without a traceback of ours."""
    try:
        yield
    except SlotkeeperError as error:
        raise for_spark(error) from None


def naming(call: Callable[P, T]) -> Callable[P, T]:
    """The same around a whole call, which is no generator."""

    @functools.wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        with named():
            return call(*args, **kwargs)

    return called
