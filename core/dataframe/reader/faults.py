"""Convert an error for Spark to one sentence with the problem, its location and the action.

Spark reports an exception of a Python source only as text, after its own traceback; all other information is lost.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError, Trouble, TroubleName

P = ParamSpec("P")
T = TypeVar("T")
_ANEW = 'start over with a new slot, a new checkpoint and start = "initial"'
CURES = {
    TroubleName.SLOT_LOST: f"no binlog retains the missing changes: {_ANEW}",
    TroubleName.SLOT_MOVED: f"find and stop the other program that moves this slot; then {_ANEW}",
    TroubleName.SCHEMA_CHANGED: f"a running query cannot change its columns: {_ANEW}",
    TroubleName.TOPOLOGY_CHANGED: f"the table's DNs differ from those in the checkpoint: {_ANEW}",
    TroubleName.PROGRESS_LOST: f"the store has lost this query's positions: {_ANEW}",
    TroubleName.SOURCE_OLDER: (
        f"the source has older data, as after a restore: find out which state is correct; then {_ANEW}"
    ),
    TroubleName.SINK_OLDER: f"the store has older data, as after a restore: {_ANEW}",
}
"""Actions for a query, by error name. The actions for a job are in `slotkeeper.core.domain.start.SAFE`, because they
concern the job's target."""


class ReadFailed(Exception):
    """The reason why a read ended, with the action; raised to Spark."""


def for_spark(error: SlotkeeperError) -> ReadFailed:
    """Return the error in the form in which Spark shows it.

    >>> for_spark(Trouble("dn_1: the slot holds 0/0", name=TroubleName.SLOT_MOVED)).args[0][:69]
    'SLOT MOVED: dn_1: the slot holds 0/0; action: find and stop the other'
    """
    cure = CURES.get(error.name, error.hint) if isinstance(error, Trouble) else error.hint
    return ReadFailed(f"{error}; action: {cure}" if cure else str(error))


@contextmanager
def named() -> Iterator[None]:
    """Convert SlotkeeperErrors raised in the `with` block to `ReadFailed`, without their traceback."""
    try:
        yield
    except SlotkeeperError as error:
        raise for_spark(error) from None


def naming(call: Callable[P, T]) -> Callable[P, T]:
    """Return the function with its calls wrapped in `named`; not for generators."""

    @functools.wraps(call)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        with named():
            return call(*args, **kwargs)

    return called


TRIED_FOR = 20.0
"""Seconds for which a transient error is retried; Spark's `stop` can wait that long."""


def tried(ask: Callable[[], T]) -> T:
    """Return the result of `ask`; after transient errors, retry for `TRIED_FOR` seconds."""
    end, wait = time.monotonic() + TRIED_FOR, 0.1
    while True:
        try:
            return ask()
        except SlotkeeperError as error:
            passes = error.kind in (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
            if not passes or time.monotonic() + wait >= end:
                raise
        time.sleep(wait)
        wait = min(2.0, wait * 2)


WHOLE, BATCH = ("4.2", "4.3"), ("4.0", "4.1")
"""The Spark series that run everything, and those that only run `spark.read` (ADR 106).

Spark does not document the order in which it calls a Python source, but registration relies on it: `latestOffset` must
get the end of a batch only after that batch is in the commit log. A release of a series contains only fixes (Spark,
"Versioning Policy"); `tests/chaos/test_spark_versions.py` runs the newest of each.
"""


def check(version: str, streams: bool = False) -> None:
    """Raise Refused for a Spark version that cannot run streams, or cannot run anything.

    >>> check("4.1.4")
    >>> check("4.1.4", streams=True)
    Traceback (most recent call last):
        ...
    slotkeeper.core.errors.Refused: pyspark 4.1.4 runs spark.read only, no stream of changes and no writer
    """
    release = re.fullmatch(r"(\d+\.\d+)\.\d+", version)
    series = release[1] if release else ""
    if series in WHOLE or (series in BATCH and not streams):
        return
    what = f"pyspark {version} may call a source in an untested order"
    if series in BATCH:
        what = f"pyspark {version} runs spark.read only, no stream of changes and no writer"
    raise Refused(what, f"install pyspark {' or '.join(WHOLE)}", where="spark")
