"""Shell completion of a partly typed command line: commands, options, and the names found on this host.

Names come from the configuration and the state folder. Completion queries no server, creates no file and imports no
database driver. Confirmations of a loss (`--confirm`, `--rows`) are never offered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
import typer.core

from slotkeeper.core.config.load import default_state_dir, load_usable
from slotkeeper.core.config.model import Loaded, NoConfig, tables
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.sqlite import Store

FILES = "a file"
"""The help text of a completion that makes the shell complete file names."""
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=|-]*")
"""Words that need no quotes in any shell. Other names are not offered, because a name could contain a command."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One possible completion, and a short description."""

    word: str
    help: str = ""


def offers(root: Any, names: Callable[[], Iterable[tuple[str, str]]], words: Sequence[str]) -> list[Offer]:
    """Return the completions for the last of `words`, which may be "", given the words before it.

    `root` is the program's top-level command. `names` returns its commands with their help, so that listing them
    imports no command. Raises the parser's errors for invalid words.
    """
    typed = [str(Path(word).expanduser()) if word.startswith("~/") else word for word in words[:-1]]
    last, before = words[-1], ""
    name, sign, value = last.partition("=")
    if sign and name.startswith("--"):
        typed, before, last = [*typed, name], f"{name}=", value
    found = _offers(root, names, typed, last)
    return [Offer(before + one.word, one.help) for one in found if _PLAIN.fullmatch(one.word)]


def _offers(root: Any, names: Callable[[], Iterable[tuple[str, str]]], typed: list[str], last: str) -> list[Offer]:
    command, context = root, None
    while isinstance(command, typer.core.TyperGroup):
        own, verb, rest = _split(command, typed)
        if not verb:
            break
        context = command.make_context(command.name or "", own, parent=context, resilient_parsing=True)
        found = command.get_command(context, verb)
        if found is None:
            return []
        command, typed = found, rest
    option = _valued(command, typed[-1]) if typed else None
    parsed = typed[:-1] if option is not None else typed  # an option without a value stops the parsing of later words
    context = command.make_context(command.name or "", list(parsed), parent=context, resilient_parsing=True)
    awaited = option or next((one for one in command.params if _open(one, context)), None)
    if awaited is not None and not (last.startswith("-") and awaited is not option):
        return _as_offers(awaited.shell_complete(context, last))
    if command is root and not last.startswith("-"):
        return [Offer(name, help) for name, help in names() if name.startswith(last)]
    return _as_offers(command.shell_complete(context, last))


def _as_offers(items: Iterable[Any]) -> list[Offer]:
    return [Offer(str(item.value), FILES if item.type in ("file", "dir") else item.help or "") for item in items]


def _split(group: Any, words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Return the group's own options, the name of the subcommand ("" if none was typed), and the words after it."""
    own: list[str] = []
    for place, word in enumerate(words):
        if not word.startswith("-") and not (own and _valued(group, own[-1])):
            return own, word, list(words[place + 1 :])
        own.append(word)
    return own, "", []


def _valued(command: Any, word: str) -> Any:
    """Return the option whose value is the next word; None if `word` needs no value."""
    return next((one for one in command.params if word in one.opts and not getattr(one, "is_flag", True)), None)


def _open(parameter: Any, context: Any) -> bool:
    if not isinstance(parameter, typer.core.TyperArgument):
        return False
    source = context.get_parameter_source(parameter.name)
    return parameter.nargs == -1 or source is None or source.name != "COMMANDLINE"


# -- names ------------------------------------------------------------------------------------------------------------


def files(incomplete: str) -> list[tuple[str, str]]:
    """Return the completion that makes the shell complete file names."""
    return [(incomplete, FILES)]


def jobs(ctx: typer.Context) -> list[str]:
    """Return the jobs of the configuration and the jobs started from this state folder."""
    loaded = _loaded(ctx)
    known = {*loaded.jobs, *loaded.refused} if loaded else set[str]()
    return sorted({*known, *_in_store(ctx, lambda store: [row.name for row in store.jobs()])})


def tables_read(ctx: typer.Context) -> list[str]:
    """Return the tables that configured jobs read, or only those of the typed job if one was typed."""
    loaded, job = _loaded(ctx), ctx.params.get("job")
    found = {table for _, table in tables(loaded)} if loaded else set[str]()
    if loaded and job:
        found = {channel.source_table for one in _jobs_of(loaded, job) for channel in one.channels}
    return sorted(found)


def slots(ctx: typer.Context) -> list[str]:
    """Return the slots of configured jobs and those seen on this host, only of the typed table if one was typed."""
    from slotkeeper.core.state import observed

    loaded, table = _loaded(ctx), ctx.params.get("table")
    found = {job.slot for job in _jobs_of(loaded) if not table or table in [one.source_table for one in job.channels]}
    seen = _in_store(ctx, lambda store: [one.slot for one in observed.all_seen(store) if table in (None, one.table)])
    return sorted(found | set(seen))


def sources(ctx: typer.Context) -> list[str]:
    """Return the sources of the configuration."""
    loaded = _loaded(ctx)
    return sorted(loaded.sources) if loaded else []


def sinks(ctx: typer.Context) -> list[str]:
    """Return the sinks of the configuration."""
    loaded = _loaded(ctx)
    return sorted(loaded.sinks) if loaded else []


def probed(ctx: typer.Context) -> list[str]:
    """Return the sources and sinks of the configuration."""
    return sorted({*sources(ctx), *sinks(ctx)})


def dns(ctx: typer.Context) -> list[str]:
    """Return the DNs in the reports of jobs."""

    def reported(store: Store) -> Iterator[str]:
        for row in store.jobs():
            yield from (lane.shard for lane in row.report.lanes) if row.report is not None else ()

    return sorted(set(_in_store(ctx, lambda store: list(reported(store)))))


def plans(ctx: typer.Context) -> list[str]:
    """Return the reset plans stored in the state folder."""
    from slotkeeper.core.domain.reset_files import PLANS
    from slotkeeper.core.state.files import names

    return names(_folder(ctx), PLANS)


def backups(ctx: typer.Context) -> list[str]:
    """Return the reset backups in the state folder."""
    from slotkeeper.core.domain.reset_files import BACKUPS
    from slotkeeper.core.state.files import names

    return names(_folder(ctx), BACKUPS)


def _jobs_of(loaded: Loaded | None, name: str = "") -> list[JobSpec]:
    return [job for job in loaded.jobs.values() if name in ("", job.name)] if loaded else []


def _loaded(ctx: typer.Context) -> Loaded | None:
    """Return the configuration selected by the words typed so far; None if it is unusable or not read."""
    if ctx.params.get("state_dir"):
        return None
    try:
        return load_usable(ctx.find_root().params.get("config"), dict(os.environ))
    except NoConfig:
        return None


def _folder(ctx: typer.Context) -> Path:
    loaded, given = _loaded(ctx), ctx.params.get("state_dir")
    return Path(given) if given else loaded.state_dir if loaded else default_state_dir(os.environ)


def _in_store(ctx: typer.Context, ask: Callable[[Store], list[str]]) -> list[str]:
    """Return the result of a query to the state store; empty if the store does not exist."""
    try:
        with Store.existing(_folder(ctx)) as store:
            return ask(store)
    except SlotkeeperError:
        return []
