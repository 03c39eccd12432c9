"""What runs on a worker: a function that the driver packed, and an answer of plain values, whatever happens.

A task never raises: Spark would turn the exception into kilobytes of text and, in a cluster, try again by itself. No
pyspark here.
"""

from __future__ import annotations

import importlib
import pickle
import platform
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import slotkeeper
from slotkeeper.core.domain.text import see
from slotkeeper.core.errors import ConfigError, ErrorValues, SlotkeeperError

KINDS = "SLOTKEEPER_KINDS"
"""The workers' variable with the source and sink kinds to import before the fork."""
_FOREIGN = frozenset({"psycopg2", "tomli", "platformdirs", "psutil"})
"""Third-party packages that workers can lack; any other missing module is a defect of Slotkeeper."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the function returned, or how it failed."""

    result: object = None
    failure: ErrorValues | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """A function with its name; unpickled on the worker only, so that a missing package gets Slotkeeper's own error."""

    name: str
    entry: bytes


def pack(entry: Callable[[Any], object]) -> Packed:
    """A function of a module, or a partial of one, to be sent to a worker."""
    function = entry.func if isinstance(entry, partial) else entry
    return Packed(f"{function.__module__}.{function.__qualname__}", pickle.dumps(entry))


def call(packed: Packed, spec: object) -> Answer:
    """Open what the driver packed and call it with `spec`; every failure becomes values."""
    try:
        return Answer(result=pickle.loads(packed.entry)(spec))  # noqa: S301 our own driver packed it
    except SlotkeeperError as error:
        return Answer(failure=ErrorValues.of(error))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _FOREIGN:
            return Answer(failure=_unknown(packed.name, error))
        what = f"the worker {socket.gethostname()} lacks the Python package {error.name} in {sys.executable}"
        page = see("runbook", "I want a job on a Spark cluster")
        hint = f"install it there, or set python in [jobs.X.spark] to a Python that has it; {page}"
        return Answer(failure=ErrorValues.of(ConfigError(what, hint=hint, where="spark")))
    except Exception as error:
        return Answer(failure=_unknown(packed.name, error))


def _unknown(name: str, error: Exception) -> ErrorValues:
    # a value of a row may stand in the exception's text, so only its type is shown
    message = f"{name} failed with {type(error).__name__}"
    return replace(ErrorValues.of(error), message=message, where="spark")


def in_partition(packed: Packed, spec: object, rows: Iterable[object]) -> Iterator[Answer]:
    """`call` in the shape that Spark wants: one answer for the one partition.

    The rows are read although they say nothing: a worker that has unread input is not used again, which would cost
    200 ms and the worker's connections at every call.
    """
    for _ in rows:
        pass
    yield call(packed, spec)


def nothing(_spec: object) -> None:
    """Keep a worker alive, or start the first one, without doing anything."""


def whereabouts(_spec: object) -> str:
    """Who runs tasks, as a driver's log says it: host, Python, and where our package came from."""
    importlib.import_module("slotkeeper.core.wiring.worker")
    python = f"Python {platform.python_version()} in {sys.executable}"
    return f"the worker {socket.gethostname()} has {python} and runs {Path(slotkeeper.__file__).parent}"


def opened(answer: Answer) -> object:
    """The function's result; raises its error again on this side."""
    if answer.failure is None:
        return answer.result
    raise answer.failure.error()
