"""Code that runs on a worker: calls a function that the driver has packed, and always returns plain values.

A task never raises: Spark would return kilobytes of text and, in a cluster, retry. This module imports no pyspark.
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
"""Environment variable of the workers with the source and sink kinds whose modules are imported before the fork."""
_FOREIGN = frozenset({"psycopg2", "tomli", "platformdirs", "psutil"})
"""Third-party packages that may be missing on workers; any other missing module is a defect of Slotkeeper."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a function call, or its failure."""

    result: object = None
    failure: ErrorValues | None = None


@dataclass(frozen=True, slots=True)
class Packed:
    """A function with its name. It is unpickled only on the worker, so that a missing package is reported with
    Slotkeeper's own error.
    """

    name: str
    entry: bytes


def pack(entry: Callable[[Any], object]) -> Packed:
    """Pack a module-level function, or a partial of such a function, for a worker."""
    function = entry.func if isinstance(entry, partial) else entry
    return Packed(f"{function.__module__}.{function.__qualname__}", pickle.dumps(entry))


def call(packed: Packed, spec: object) -> Answer:
    """Unpack the function and call it with `spec`; a failure is returned as values."""
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
    # the exception's text may contain a value of a row, so only its type is shown
    message = f"{name} failed with {type(error).__name__}"
    return replace(ErrorValues.of(error), message=message, where="spark")


def in_partition(packed: Packed, spec: object, rows: Iterable[object]) -> Iterator[Answer]:
    """Run `call` in the form that Spark requires: for the only partition, yield one answer.

    The rows are read although they are not used: Spark does not reuse a worker with unread input, so otherwise every
    call would take 200 ms more and lose the worker's connections.
    """
    for _ in rows:
        pass
    yield call(packed, spec)


def nothing(_spec: object) -> None:
    """Do nothing; the call keeps a worker running, or starts the first worker."""


def whereabouts(_spec: object) -> str:
    """Return a description of this worker for the driver's log: host, Python, and the path of Slotkeeper's package."""
    importlib.import_module("slotkeeper.core.wiring.worker")
    python = f"Python {platform.python_version()} in {sys.executable}"
    return f"the worker {socket.gethostname()} has {python} and runs {Path(slotkeeper.__file__).parent}"


def opened(answer: Answer) -> object:
    """Return the function's result, or raise its error in the driver."""
    if answer.failure is None:
        return answer.result
    raise answer.failure.error()
