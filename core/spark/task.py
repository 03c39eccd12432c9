"""What runs on a worker: a function by its name, and an answer of plain values, whatever happens.

A task never raises: Spark would turn the exception into kilobytes of text and, in a cluster, try again by itself.
Next door: `core.spark.runner` sends the calls and opens the answers. No pyspark here.
"""

from __future__ import annotations

import importlib
import platform
import socket
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import core
from core.errors import (
    KINDS,
    ConfigError,
    Defect,
    ErrorKind,
    SlotkeeperError,
    TopologyTrouble,
    Trouble,
    TroubleName,
    Unclassified,
)

_CAUSE_LIMIT = 4_000
_FOREIGN = frozenset({"psycopg2", "tomli", "platformdirs", "psutil"})
"""Packages of others that workers may lack; any other missing module is a defect of ours."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A SlotkeeperError as plain values; `trouble` is the name of the trouble, if it is one."""

    kind: str
    message: str
    hint: str = ""
    code: str = ""
    where: str = ""
    cause: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the function returned, or how it failed."""

    result: object = None
    failure: Failure | None = None


def call(function_path: str, spec: object) -> Answer:
    """Import `package.module.function` and call it with `spec`; every failure becomes values."""
    try:
        return Answer(result=_function(function_path)(spec))
    except SlotkeeperError as error:
        return Answer(failure=told(error))
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _FOREIGN:
            return Answer(failure=_unknown(function_path, error))
        return Answer(failure=told(_lacking(error.name or "")))
    except Exception as error:
        return Answer(failure=_unknown(function_path, error))


def _unknown(function_path: str, error: Exception) -> Failure:
    # A value of a row may stand in the exception's text, so only its type is shown; the text stays in `cause`.
    text = "".join(traceback.format_exception(error))[-_CAUSE_LIMIT:]
    message = f"{function_path} failed with {type(error).__name__}"
    return Failure(ErrorKind.UNKNOWN.value, message, where="spark", cause=text)


def _lacking(name: str) -> ConfigError:
    return ConfigError(
        f"the worker {socket.gethostname()} lacks the Python package {name} in {sys.executable}",
        hint="install it there, or name a Python that has it: python in [jobs.X.spark]; see docs/runbook.md",
        where="spark",
    )


def in_partition(function_path: str, spec: object, rows: Iterable[object]) -> Iterator[Answer]:
    """`call` in the shape that Spark wants: one answer for the one partition.

    The rows are read although they say nothing: a worker that has unread input is not used again, which would cost
    200 ms and the worker's connections at every call.
    """
    for _ in rows:
        pass
    yield call(function_path, spec)


def nothing(_spec: object) -> None:
    """Keep a worker alive, or start the first one, without doing anything."""


def whereabouts(_spec: object) -> str:
    """Who runs tasks, as a driver's log says it: host, Python, and where our package came from."""
    importlib.import_module("core.wiring")
    python = f"Python {platform.python_version()} in {sys.executable}"
    return f"the worker {socket.gethostname()} has {python} and runs {Path(core.__file__).parent}"


def told(error: SlotkeeperError) -> Failure:
    """An error as plain values."""
    trouble = error.name.value if isinstance(error, Trouble) else ""
    cause = error.cause or (repr(error.__cause__)[:_CAUSE_LIMIT] if error.__cause__ else "")
    return Failure(error.kind.value, error.message, error.hint, error.code, error.where, cause, trouble)


def opened(answer: Answer) -> object:
    """The function's result; raises its error again on this side."""
    if answer.failure is None:
        return answer.result
    raise rebuilt(answer.failure)


def rebuilt(failure: Failure) -> SlotkeeperError:
    """The error of the plain values; a kind that this version does not know is Unclassified.

    >>> rebuilt(Failure("transient", "no answer", where="sink"))
    Unreachable('no answer', '', '', 'sink', '')
    """
    said = (failure.message, failure.hint, failure.code, failure.where, failure.cause)
    if failure.trouble:
        trouble = TopologyTrouble if failure.kind == ErrorKind.TOPOLOGY.value else Trouble
        return trouble(*said, name=TroubleName(failure.trouble))
    known = {kind.value: kind for kind in ErrorKind}
    return KINDS.get(known.get(failure.kind, ErrorKind.UNKNOWN), Unclassified)(*said)


def _function(function_path: str) -> Callable[[object], object]:
    module, dot, name = function_path.rpartition(".")
    if not dot:
        raise Defect(f"{function_path!r} is not package.module.function", where="spark")
    return cast("Callable[[object], object]", getattr(importlib.import_module(module), name))
