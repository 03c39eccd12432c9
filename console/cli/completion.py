"""What a shell is offered for a command line that is being typed: commands, options, and names that are known here.

Names come from the configuration and the state folder: no server is asked, nothing is made, and nothing is loaded that
speaks to one. What a person must type because something is lost (`--confirm`, `--rows`) is never offered.
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
"""Beside an offer: the shell completes names of files here."""
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+,=|-]*")
"""What needs no quotes in any shell. The user types anything else: an object's name may hold a command."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One word that could stand here, and a few words about it."""

    word: str
    help: str = ""


def offers(root: Any, names: Callable[[], Iterable[tuple[str, str]]], words: Sequence[str]) -> list[Offer]:
    """What could stand in place of the last of `words`, which may be "", after the others.

    `root` is the command of the whole program; `names` are its commands with their help, so that none is imported
    to be listed. Raises what the parser raises for words that are wrong.
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
    parsed = typed[:-1] if option is not None else typed  # one without its value ends the parsing of all that follows
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
    """The group's own options, the name of the command below it ("" where none was typed), and what follows that."""
    own: list[str] = []
    for place, word in enumerate(words):
        if not word.startswith("-") and not (own and _valued(group, own[-1])):
            return own, word, list(words[place + 1 :])
        own.append(word)
    return own, "", []


def _valued(command: Any, word: str) -> Any:
    """The option that takes the next word as its value; None where this one is complete."""
    return next((one for one in command.params if word in one.opts and not getattr(one, "is_flag", True)), None)


def _open(parameter: Any, context: Any) -> bool:
    if not isinstance(parameter, typer.core.TyperArgument):
        return False
    source = context.get_parameter_source(parameter.name)
    return parameter.nargs == -1 or source is None or source.name != "COMMANDLINE"


# -- names ------------------------------------------------------------------------------------------------------------


def files(incomplete: str) -> list[tuple[str, str]]:
    """The offer that makes the shell complete names of files."""
    return [(incomplete, FILES)]


def jobs(ctx: typer.Context) -> list[str]:
    """Jobs of the configuration and those that were started here."""
    loaded = _loaded(ctx)
    known = {*loaded.jobs, *loaded.refused} if loaded else set[str]()
    return sorted({*known, *_in_store(ctx, lambda store: [row.name for row in store.jobs()])})


def tables_read(ctx: typer.Context) -> list[str]:
    """Tables that a configured job reads, of the job that was typed where one was."""
    loaded, job = _loaded(ctx), ctx.params.get("job")
    found = {table for _, table in tables(loaded)} if loaded else set[str]()
    if loaded and job:
        found = {channel.source_table for one in _jobs_of(loaded, job) for channel in one.channels}
    return sorted(found)


def slots(ctx: typer.Context) -> list[str]:
    """Slots of the configured jobs and those that were seen here, of the table that was typed where one was."""
    from slotkeeper.core.state import observed

    loaded, table = _loaded(ctx), ctx.params.get("table")
    found = {job.slot for job in _jobs_of(loaded) if not table or table in [one.source_table for one in job.channels]}
    seen = _in_store(ctx, lambda store: [one.slot for one in observed.all_seen(store) if table in (None, one.table)])
    return sorted(found | set(seen))


def sources(ctx: typer.Context) -> list[str]:
    """Sources of the configuration."""
    loaded = _loaded(ctx)
    return sorted(loaded.sources) if loaded else []


def sinks(ctx: typer.Context) -> list[str]:
    """Sinks of the configuration."""
    loaded = _loaded(ctx)
    return sorted(loaded.sinks) if loaded else []


def dns(ctx: typer.Context) -> list[str]:
    """DNs that jobs have reported of."""

    def reported(store: Store) -> Iterator[str]:
        for row in store.jobs():
            yield from (lane.shard for lane in row.report.lanes) if row.report is not None else ()

    return sorted(set(_in_store(ctx, lambda store: list(reported(store)))))


def plans(ctx: typer.Context) -> list[str]:
    """Plans of resets that are kept in the state folder."""
    from slotkeeper.core.domain.reset_files import PLANS
    from slotkeeper.core.state.files import names

    return names(_folder(ctx), PLANS)


def backups(ctx: typer.Context) -> list[str]:
    """Backups of resets in the state folder."""
    from slotkeeper.core.domain.reset_files import BACKUPS
    from slotkeeper.core.state.files import names

    return names(_folder(ctx), BACKUPS)


def _jobs_of(loaded: Loaded | None, name: str = "") -> list[JobSpec]:
    return [job for job in loaded.jobs.values() if name in ("", job.name)] if loaded else []


def _loaded(ctx: typer.Context) -> Loaded | None:
    """The configuration that the words typed so far mean; None where it cannot be used, or is not read."""
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
    """What the state store knows; nothing where there is none."""
    try:
        with Store.existing(_folder(ctx)) as store:
            return ask(store)
    except SlotkeeperError:
        return []
