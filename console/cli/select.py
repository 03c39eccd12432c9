"""What a command line chose of the configuration: a job by its name, a table, the state folder, with a helpful refusal.

Next door: `console.cli.context` loads the configuration; commands ask here. Loads no database driver.
"""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import typer

from console.cli import context
from core.config import values
from core.config.load import default_state_dir
from core.config.model import Loaded, NoConfig
from core.config.places import tables
from core.domain.spec import JobSpec
from core.errors import ConfigError
from core.state.sqlite import Store


def job_of(ctx: typer.Context, name: str) -> tuple[Loaded, JobSpec]:
    """The configuration and a job of it; raises ConfigError with what refused it, or with the nearest name."""
    loaded = context.of(ctx).load()
    if name in loaded.jobs:
        return loaded, loaded.jobs[name]
    if name in loaded.refused:
        raise loaded.refused[name]
    near = get_close_matches(name, loaded.jobs, n=1)
    hint = f"did you mean {near[0]}?" if near else f"it has: {', '.join(sorted(loaded.jobs)) or 'none'}"
    raise ConfigError(f"{loaded.path}: there is no job {name!r}", hint)


def refuse_refused(loaded: Loaded | None, store: Store, job: str) -> None:
    """Raise the error of a refused job that never ran here: that nothing is known of it would not tell why."""
    if loaded is not None and job in loaded.refused and store.job(job) is None:
        raise loaded.refused[job]


def state_of(ctx: typer.Context, given: Path | None) -> tuple[Loaded | None, Path]:
    """The configuration, where one is read, and the state folder: `given`, the configured one, or the default."""
    if given is not None:
        return None, given
    shared = context.of(ctx)
    try:
        loaded = shared.load()
    except NoConfig:
        return None, default_state_dir(shared.env)
    return loaded, loaded.state_dir


def places(loaded: Loaded, source: str, table: str) -> list[tuple[str, str]]:
    """(source, table) of what was asked for; a table that no job reads needs one source to ask."""
    if source and source not in loaded.sources:
        raise ConfigError(f"there is no source {source!r}", f"it has: {', '.join(sorted(loaded.sources)) or 'none'}")
    found = tables(loaded, source, table)
    if found or not table:
        return found
    names = [source] if source else sorted(loaded.sources)
    if len(names) != 1:
        raise ConfigError(f"no job reads {table}, so its source is not known", "name it with --source")
    return [(names[0], table)]


def place(loaded: Loaded, source: str, table: str) -> tuple[str, str]:
    """The one (source, table) that was asked for; raises ConfigError where several sources have it."""
    found = places(loaded, source, table)
    if len(found) > 1:
        names = ", ".join(name for name, _ in found)
        raise ConfigError(f"{table} is read from several sources: {names}", "name one with --source")
    return found[0]


def seconds(text: str) -> float:
    """A typed duration ("500ms", "10m") in seconds."""
    try:
        return float(str(values.duration(0, values.DAY)(text))) / 1000
    except values.BadValue as error:
        raise typer.BadParameter(str(error)) from None


def ascii_only(ctx: typer.Context) -> bool:
    """Whether plain ASCII was asked for."""
    return context.of(ctx).ascii_only
