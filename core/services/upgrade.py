"""What this version would migrate or reject: the state file, the sinks' own tables, the configuration, Spark.

Nothing is written: the state file is opened read-only, and a sink is asked for its recorded versions.
"""

from __future__ import annotations

import importlib.metadata
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path

from slotkeeper.core.config.model import Loaded, SinkEntry
from slotkeeper.core.config.secrets import login
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.ports.kinds import TablesVersion
from slotkeeper.core.services.looking import asked, passwords, poll_name
from slotkeeper.core.sinks import registry as sinks
from slotkeeper.core.state import schema
from slotkeeper.core.state.faults import StateError, translated
from slotkeeper.core.state.sqlite import FILE_NAME


class Verdict(Enum):
    """What happens to one part."""

    CURRENT = "current"
    MIGRATES = "migrates"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Part:
    """One part, and what this version would do with it."""

    what: str
    """The part's name, such as "state file" or "sink mart: progress tables"."""
    verdict: Verdict
    """What happens to it."""
    why: str
    """Its version and this version's, or the error, with the next action."""


def check(loaded: Loaded | None, folder: Path) -> list[Part]:
    """Return all parts: the state file first, then Spark, the configuration and each sink that is a store."""
    found = [_state(folder / FILE_NAME), _spark()]
    if loaded is None:
        return found
    for name, error in loaded.refused.items():
        found.append(Part(f"job {name}", Verdict.REFUSED, " ".join(filter(None, (error.message, error.hint)))))
    if not loaded.refused:
        found.append(Part(f"configuration {loaded.path}", Verdict.CURRENT, "all keys are known"))
    entries = [one for one in loaded.sinks.values() if sinks.open(one.kind).traits.is_store]
    passwords(one.endpoint for one in entries)
    answers = asked({f"sink {one.name}": [(one.name, partial(_versions, one))] for one in entries})
    for name, answer in answers.items():
        if isinstance(answer, SlotkeeperError):
            found.append(Part(f"sink {name}", Verdict.UNKNOWN, " ".join(filter(None, (answer.message, answer.hint)))))
            continue
        found += [_tables(name, one) for one in answer]
        if not answer:
            found.append(Part(f"sink {name}", Verdict.CURRENT, "no tables yet; a first start creates them"))
    return found


def _state(file: Path) -> Part:
    what = f"state file {file}"
    if not file.exists():
        return Part(what, Verdict.CURRENT, "none yet; a first start creates it")
    try:
        with translated(file), closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            older = schema.older(connection, file)
    except StateError as error:
        return Part(what, Verdict.REFUSED, " ".join(filter(None, (error.message, error.hint))))
    known = len(schema.migrations())
    if not older:
        return Part(what, Verdict.CURRENT, f"schema {version}")
    does = f"`slotkeeper jobs start JOB` stores a copy as {FILE_NAME}.version-{version} and migrates it"
    return Part(what, Verdict.MIGRATES, f"schema {version}, this version has {known}; {does}; stop the jobs first")


def _versions(entry: SinkEntry) -> list[TablesVersion]:
    named = login(entry.endpoint, poll_name("upgrade"))
    with closing(sinks.open(entry.kind).connect(named, entry.progress_schema)) as session:
        return session.own_tables()


_MIGRATED_BY = {
    "progress": "`slotkeeper jobs start JOB`",
    "resets": "the next reset",
    "audit": "the next audited command",
    "queries": "the next start of a query",
    "streams": "the next start of a query",
    "quarantine": "`slotkeeper jobs start JOB`",
    "views": "`slotkeeper jobs start JOB`",
}
"""The operation that migrates each group of tables (ADR 66)."""


def _tables(sink: str, one: TablesVersion) -> Part:
    what = f"sink {sink}: {one.group} tables"
    if one.version > one.known:
        why = f"version {one.version}, this version supports {one.known}; use the newer slotkeeper"
        return Part(what, Verdict.REFUSED, why)
    if one.version == one.known:
        return Part(what, Verdict.CURRENT, f"version {one.version}")
    was = f"version {one.version}" if one.version else "no recorded version"
    return Part(what, Verdict.MIGRATES, f"{was}, this version has {one.known}; {_MIGRATED_BY[one.group]} migrates them")


def _spark() -> Part:
    """Compare the installed pyspark with the range that this package requires."""
    needed = next(
        (one for one in importlib.metadata.requires("slotkeeper") or () if re.match(r"pyspark\b", one)), "pyspark"
    )
    found = importlib.metadata.version("pyspark")
    number = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    limits = [(sign, tuple(map(int, text.split(".")[:2]))) for sign, text in re.findall(r"([<>]=?)\s*([\d.]+)", needed)]
    fits = all(number >= limit if sign == ">=" else number < limit for sign, limit in limits)
    return Part("Spark", Verdict.CURRENT if fits else Verdict.REFUSED, f"pyspark {found}; needed: {needed}")
