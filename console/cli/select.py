"""The parts of the configuration that a command line selects: a job, a table, the state folder.

Errors name alternatives. Arguments and options shared by several commands are defined here, with their help; others are
defined with their command. This module loads no database driver.
"""

from __future__ import annotations

from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from slotkeeper.console.cli import completion, context, diagnostics
from slotkeeper.core.config import secrets, values
from slotkeeper.core.config.model import Loaded, tables
from slotkeeper.core.config.tls import job_warnings
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.state.sqlite import Store

Job = Annotated[str, typer.Argument(metavar="JOB", help="the job's name", autocompletion=completion.jobs)]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="schema.table", autocompletion=completion.tables_read)]
Slot = Annotated[str, typer.Argument(metavar="SLOT", help="the slot's name", autocompletion=completion.slots)]
OneJob = Annotated[
    str, typer.Argument(metavar="[JOB]", help="only this job; default: all jobs", autocompletion=completion.jobs)
]
Source = Annotated[
    str,
    typer.Option(
        "--source", metavar="NAME", help="the table's source, if not unique", autocompletion=completion.sources
    ),
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text")]
OneJson = Annotated[bool, typer.Option("--json", help="one JSON object")]
StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir",
        metavar="DIR",
        help="state folder; the configuration is not read",
        autocompletion=completion.files,
    ),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="reason, for the audit")]


def _named(ctx: typer.Context, param: typer.CallbackParam, value: str) -> str:
    """Return the table. Raises ConfigError if an empty name was given, for example from an unset variable."""
    source = ctx.get_parameter_source(param.name or "")
    if source is not None and source.name == "COMMANDLINE" and not value.strip():
        raise ConfigError(
            "--table is empty", "give a table as schema.table; without --table the command applies to the whole job"
        )
    return value


OneTable = Annotated[
    str,
    typer.Option(
        "--table",
        metavar="TABLE",
        callback=_named,
        help="only this source table; the job's other tables continue",
        autocompletion=completion.tables_read,
    ),
]
ConfirmJob = Annotated[str, typer.Option("--confirm", metavar="JOB", help="the job's name, typed again")]
ConfirmSlot = Annotated[str, typer.Option("--confirm", metavar="SLOT", help="the slot's name, typed again")]


def job_of(ctx: typer.Context, name: str) -> tuple[Loaded, JobSpec]:
    """Return the configuration and one of its jobs. Raises the job's own ConfigError, or one naming a known job."""
    loaded = context.of(ctx).load()
    if name in loaded.jobs:
        return loaded, loaded.jobs[name]
    if name in loaded.refused:
        raise loaded.refused[name]
    near = get_close_matches(name, loaded.jobs, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known jobs: {', '.join(sorted(loaded.jobs)) or 'none'}"
    raise ConfigError(f"{loaded.path}: unknown job {name!r}", hint)


def starting(ctx: typer.Context, name: str) -> tuple[Loaded, JobSpec]:
    """Do the same as `job_of` for a job that will be started, and write warnings about its connections to stderr.

    Also raises ConfigError if a password's file or variable cannot be read, which the driver would detect only later.
    """
    loaded, job = job_of(ctx, name)
    for warning in job_warnings(job):
        diagnostics.warn(warning)
    for endpoint in filter(None, (job.source, job.sink, job.store)):
        for ref in (endpoint.password, endpoint.sslpassword):
            if ref.how != "command":  # a command can prompt the user, and the driver runs it
                secrets.resolve(ref)
    return loaded, job


def refuse_refused(loaded: Loaded | None, store: Store, job: str) -> None:
    """Raise the error of a rejected job that never ran on this host, instead of reporting it as unknown."""
    if loaded is not None and job in loaded.refused and store.job(job) is None:
        raise loaded.refused[job]


def state_of(ctx: typer.Context, given: Path | None) -> tuple[Loaded | None, Path]:
    """Return the configuration, if one is read, and the state folder: `given`, the configured one, or the default."""
    return context.of(ctx).state(given)


def places(loaded: Loaded, source: str, table: str) -> list[tuple[str, str]]:
    """Return the selected (source, table) pairs. For a table that no job reads, exactly one source must be selected."""
    if source and source not in loaded.sources:
        raise ConfigError(f"unknown source {source!r}", f"known sources: {', '.join(sorted(loaded.sources)) or 'none'}")
    found = tables(loaded, source, table)
    if found or not table:
        return found
    names = [source] if source else sorted(loaded.sources)
    if len(names) != 1:
        raise ConfigError(f"no job reads {table}, so its source is unknown", "specify it with --source")
    return [(names[0], table)]


def place(loaded: Loaded, source: str, table: str) -> tuple[str, str]:
    """Return the selected (source, table) pair. Raises ConfigError if several sources have the table."""
    found = places(loaded, source, table)
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise ConfigError(f"{table} is read from several sources: {names}", "specify one with --source")
    return found[0]


def milliseconds(text: str, low: int = 0, high: int = values.DAY) -> int:
    """Parse a typed duration ("500ms", "10m") and return it in milliseconds. A number without a unit is rejected,
    except 0.

    A configuration documents the unit of each key, but on a command line, users would mean seconds.
    """
    bare = text.strip()
    if bare.replace(".", "", 1).isdecimal() and float(bare):
        raise typer.BadParameter(f"{bare} has no unit; write {bare}s for seconds, or use ms, m, h or d")
    try:
        return int(str(values.duration(low, high)(text)))
    except values.BadValue as error:
        raise typer.BadParameter(str(error)) from None


def seconds(text: str, low: int = 0, high: int = values.DAY) -> float:
    """Parse a typed duration and return it in seconds."""
    return milliseconds(text, low, high) / 1000


def moment(text: str) -> datetime:
    """Parse a typed time, which must include its offset from UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(f"{text!r} is not a time: {error}", "for example 2026-01-31T08:30:00+01:00") from None
    if found.tzinfo is None:
        raise ConfigError(f"{text} has no offset from UTC", "for example 2026-01-31T08:30:00+01:00, or with Z")
    return found


def ascii_only(ctx: typer.Context) -> bool:
    """Return whether plain ASCII output is selected."""
    return context.of(ctx).ascii_only
