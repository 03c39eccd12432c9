"""Which way the steps of a job go, optimistic, general or missed: counted across kills, with a threshold for few rows.

Honoured only by `tests.support.local_driver`: the variables below, which a test sets before it starts a job. Each
driver appends one letter a step to one file, so that the letters of a killed one stay.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

from slotkeeper.core.sinks.postgres.write import routing
from slotkeeper.core.sinks.postgres.write.optimistic import Taken
from slotkeeper.core.sinks.postgres.write.sink import PostgresSink

LEAST, FILE = "SLOTKEEPER_TEST_LEAST_INSERTS", "SLOTKEEPER_TEST_STEPS_FILE"
_LETTERS = "ogm"
"""As `Taken` names its counts; a missed step is a general one, too."""


def obey(environ: Mapping[str, str]) -> None:
    """Lower the threshold and count, where the environment says so; for a process that is a test's own."""
    if LEAST in environ:
        vars(routing)["LEAST"], vars(routing)["SHARE"] = int(environ[LEAST]), 1_000_000
    if FILE in environ:
        _count(Path(environ[FILE]))


def _count(file: Path) -> None:
    written = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    commit = PostgresSink.commit

    def counted(sink: PostgresSink, *arguments: Any) -> bool:
        before = astuple(sink.taken)
        done = commit(sink, *arguments)
        after = astuple(sink.taken)
        letters = "".join(letter * (now - then) for letter, now, then in zip(_LETTERS, after, before, strict=True))
        if letters:
            os.write(written, letters.encode())
        return done

    PostgresSink.commit = counted  # type: ignore[method-assign, assignment]


def counts(file: Path) -> Taken:
    """How the steps went so far; those of a driver that was killed between COMMIT and its letter are not in."""
    letters = file.read_text("ascii") if file.exists() else ""
    return Taken(*(letters.count(letter) for letter in _LETTERS))
