"""The root of the command line: shared options, and command groups that are imported only when used.

To add a command: write `console/commands/<name>.py` with `app: typer.Typer`, and add it to COMMANDS. Commands raise
SlotkeeperError, write through `slotkeeper.console.cli.output`, and use `raise typer.Exit(code)` for other exit codes.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
import typer.main

from slotkeeper.console.cli import context, diagnostics, output, rights
from slotkeeper.console.cli.context import FLAGS, UNJUDGED, VALUED, VERSION, Invocation, judges, no_colour
from slotkeeper.console.tui import startup
from slotkeeper.core.config.load import find
from slotkeeper.core.config.model import NoConfig
from slotkeeper.core.errors import ConfigError

PROGRAM = "slotkeeper"


class Part(Enum):
    """The sections of the list of commands."""

    READ = "Look"
    ACT = "Act"
    SET_UP = "Set up"


@dataclass(frozen=True, slots=True)
class Entry:
    """A command and its module. `group` is false for a single command without verbs."""

    module: str
    help: str
    group: bool = True
    part: Part = Part.READ
    beside: str = ""
    """The command in whose line of the help this command is listed; "" for a line of its own."""


COMMANDS: dict[str, Entry] = {
    "status": Entry("slotkeeper.console.commands.status", "overall state for monitoring", group=False),
    "probe": Entry("slotkeeper.console.commands.probe", "checks for Kubernetes", False, beside="status"),
    "watch": Entry("slotkeeper.console.commands.watch", "follow one job in six lines below the prompt", group=False),
    "verify": Entry("slotkeeper.console.commands.verify", "compare source and target of a job", group=False),
    "audit": Entry("slotkeeper.console.commands.audit", "who changed what, when and why"),
    "sync": Entry("slotkeeper.console.commands.sync", "jobs in the columns of SHOW SYNC JOB (Binlog Load)"),
    "jobs": Entry("slotkeeper.console.commands.jobs", "list, start, pause, stop, drain and cancel jobs", part=Part.ACT),
    "slots": Entry(
        "slotkeeper.console.commands.slots", "show slots and what they retain, and change them", part=Part.ACT
    ),
    "errors": Entry(
        "slotkeeper.console.commands.errors", "rows that a target rejected: list, replay, discard", part=Part.ACT
    ),
    "alerts": Entry(
        "slotkeeper.console.commands.alerts", "current alerts: list, acknowledge, silence, test", part=Part.ACT
    ),
    "locks": Entry("slotkeeper.console.commands.locks", "lock waits and their blockers; end a blocker", part=Part.ACT),
    "views": Entry("slotkeeper.console.commands.views", "SQL views: list, verify, explain, rebuild", part=Part.ACT),
    "run": Entry("slotkeeper.console.commands.run", "run one job in the foreground", group=False, part=Part.ACT),
    "agent": Entry("slotkeeper.console.commands.agent", "serve shared jobs", False, Part.ACT, beside="run"),
    "demo": Entry("slotkeeper.demo.command", "try Slotkeeper on this host, without a warehouse", False, Part.SET_UP),
    "init": Entry(
        "slotkeeper.console.commands.init", "write a first configuration after a few questions", False, Part.SET_UP
    ),
    "import": Entry(
        "slotkeeper.console.commands.importing", "configuration of a Flink, canal or other pipeline", False, Part.SET_UP
    ),
    "doctor": Entry(
        "slotkeeper.console.commands.doctor", "check what jobs need on this host and the servers", False, Part.SET_UP
    ),
    "config": Entry("slotkeeper.console.commands.config", "check and show the configuration", part=Part.SET_UP),
    "completion": Entry(
        "slotkeeper.console.commands.completion",
        "print the completion script for bash, zsh or fish",
        False,
        Part.SET_UP,
    ),
    "docs": Entry(
        "slotkeeper.console.commands.docs", "list the pages of the documentation, or open one", False, Part.SET_UP
    ),
    "man": Entry("slotkeeper.console.commands.man", "the manual page", group=False, part=Part.SET_UP),
    "upgrade": Entry(
        "slotkeeper.console.commands.upgrade", "what this version would migrate", False, Part.SET_UP, beside="man"
    ),
}

_OPTIONS = """\
Options: --config FILE: the configuration  --read-only: change nothing
         --ascii: plain ASCII  --mono: no colors  --version  --help
"""
"""All options of the root command, for its help."""

if TYPE_CHECKING:
    _Command = Any  # Typer's command class is in a private module
else:
    _Command = object


class LazyGroup(typer.core.TyperGroup):
    """The root group. It knows the names of all commands, and imports a command when it is called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands whose modules exist, in the order of the registry."""
        return [name for name in COMMANDS if importlib.util.find_spec(COMMANDS[name].module)]

    def get_command(self, ctx: Any, cmd_name: str) -> _Command:
        """Import and return the command; None if there is no command with that name."""
        return load_command(cmd_name) if cmd_name in self.list_commands(ctx) else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help from the registry, short enough for a small terminal, without importing any command."""
        self.format_usage(ctx, formatter)
        formatter.write(f"  {self.help}\n")
        names = self.list_commands(ctx)
        for part in Part:
            label = f"{part.value}:"
            for name in (name for name in names if COMMANDS[name].part is part and not COMMANDS[name].beside):
                shared = (f"; {one}: {COMMANDS[one].help}" for one in names if COMMANDS[one].beside == name)
                formatter.write(f"{label:<9}{name:<12}{COMMANDS[name].help}{''.join(shared)}\n")
                label = ""
        formatter.write(_OPTIONS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command named by the arguments. The error for an unknown name suggests the nearest one."""
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            near = get_close_matches(args[0], known, n=1)
            ctx.fail(f"unknown command {args[0]!r}" + (f"; did you mean {near[0]}?" if near else ""))
        return super().resolve_command(ctx, args)


def load_command(name: str) -> _Command:
    """Import a command from the registry and return it in the form that Typer runs."""
    entry = COMMANDS[name]
    app: typer.Typer = importlib.import_module(entry.module).app
    app.rich_markup_mode = None  # brackets in help texts and in data are not markup
    command = typer.main.get_group(app) if entry.group else typer.main.get_command(app)
    command.name = name
    rights.guard(command, name)
    context.modules_loaded()
    return command


def hoisted(args: Sequence[str]) -> list[str]:
    """Return the arguments with the shared options first. They can be typed anywhere before a `--`.

    >>> hoisted(["jobs", "list", "--config", "x.toml", "--json"])
    ['--config', 'x.toml', 'jobs', 'list', '--json']
    """
    front: list[str] = []
    rest: list[str] = []
    remaining = list(args)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            rest += [word, *remaining]
            break
        if word == VALUED and not remaining:
            return [word]  # the parser reports the missing value
        if word == VALUED:
            front += [word, remaining.pop(0)]
        elif word in FLAGS or word.startswith(f"{VALUED}="):
            front.append(word)
        else:
            rest.append(word)
    return front + rest


app = typer.Typer(cls=LazyGroup, rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


def _files(incomplete: str) -> list[tuple[str, str]]:
    from slotkeeper.console.cli import completion  # imported only if a shell requests a completion

    return completion.files(incomplete)


def _version(asked: bool) -> None:
    if asked:
        output.version()
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    config: Annotated[
        Path | None, typer.Option("--config", help="configuration file", metavar="FILE", autocompletion=_files)
    ] = None,
    ascii_only: Annotated[bool, typer.Option("--ascii", help="plain ASCII only")] = False,
    mono: Annotated[bool, typer.Option("--mono", help="no colors; NO_COLOR does the same")] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="the console changes nothing")] = False,
    asked: Annotated[
        bool, typer.Option(VERSION, help="show the version and exit", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Keep tables equal to those of a warehouse; without a command: the console."""
    ctx.obj = Invocation(config, ascii_only, mono or no_colour(), read_only)
    if ctx.invoked_subcommand is None:
        if not startup.on_a_terminal():
            _print_status(ctx.obj)
            return
        raise typer.Exit(startup.open_console(ctx.obj))


def _print_status(shared: Invocation) -> None:
    """Print the output of `status`, and why no screen is drawn. Raises ConfigError if there is no configuration."""
    why = startup.no_screen()
    try:
        find(shared.config, shared.env)
    except NoConfig as error:
        hint = "`slotkeeper init` writes one, `slotkeeper demo` needs none"
        raise ConfigError(f"no configuration, and no console: {why}", hint) from error
    from slotkeeper.console.commands.overall import overall  # imported only if needed

    rights.check("status", shared, {})
    overall(shared, False, False)
    diagnostics.note(f"no console: {why}; showing `slotkeeper status`")


_CONVERTER = getattr(typer.core.TyperOption, "get_runtime_param", None)
"""None in other versions of Typer, which are not patched."""


class _Converter:
    """Creates Typer's converter only if there is a value to convert. Like Typer's, `coerce` leaves None unchanged."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if value is None and not param.multiple and param.nargs != -1:
            return None
        assert _CONVERTER is not None
        return _CONVERTER(param).coerce(value, param=param, ctx=ctx)


def _convert_what_was_typed() -> None:
    """Patch Typer so that parameters without a value need no conversion; safe to call again.

    Typer 0.29 creates a pydantic adapter for every parameter except flags, even without a value, and for each `--help`
    (`build_runtime_param` in its _coercion.py). This matters because loading pydantic takes longer than `jobs list`.
    """
    if _CONVERTER is not None:
        for kind in (typer.core.TyperOption, typer.core.TyperArgument):
            setattr(kind, "get_runtime_param", lambda parameter: _Converter())  # noqa: B010 - not part of its types


def main_command() -> _Command:
    """Return the root command in the form that Typer runs."""
    _convert_what_was_typed()
    return typer.main.get_command(app)


def complete(words: Sequence[str]) -> int:
    """Print completions for a command line that consists of these words. The last word can be empty or incomplete.

    Print one completion per line and nothing else, because any other output would appear in the user's prompt.
    """
    from slotkeeper.console.cli import completion

    found: list[completion.Offer] = []
    with suppress(Exception, SystemExit), redirect_stderr(io.StringIO()), redirect_stdout(io.StringIO()):
        found = completion.offers(
            main_command(), lambda: [(name, entry.help) for name, entry in COMMANDS.items()], completed(words)
        )
    for offer in found:
        files = offer.help == completion.FILES
        output.raw("\t" if files else f"{offer.word}\t{' '.join(offer.help.split())}" if offer.help else offer.word)
    return int(diagnostics.ExitCode.FINE)


def completed(words: Sequence[str]) -> list[str]:
    """Return the words as the parser expects them, with the last word unchanged.

    bash splits a command line at "=" (COMP_WORDBREAKS).

    >>> completed(["jobs", "list", "--config", "c", "--st"]), completed(["slots", "--source", "=", "dw"])
    (['--config', 'c', 'jobs', 'list', '--st'], ['slots', '--source', 'dw'])
    """
    whole = [word for place, word in enumerate(words) if word != "=" or not words[place - 1].startswith("--")]
    last = "" if list(words[-1:]) == ["="] else whole.pop() if whole else ""
    return [*(whole if whole[-1:] == [VALUED] else hoisted(whole)), last]


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code. A wrong command line is reported here; other errors are raised."""
    try:
        result = main_command().main(args=hoisted(args), prog_name=PROGRAM, standalone_mode=False)
    except typer.Abort:
        raise KeyboardInterrupt from None
    except typer.TyperException as error:
        code = int(diagnostics.usage(error.format_message().rstrip("."), _what_there_is(error)))
        return UNJUDGED if judges(args) else code
    return result if isinstance(result, int) else int(diagnostics.ExitCode.FINE)


def _what_there_is(error: typer.TyperException) -> str:
    """Return a hint that names the help of the misused command, if recognized, and its verbs if none was typed.

    >>> _what_there_is(typer.TyperException("no"))
    'slotkeeper --help lists the commands'
    """
    failed = getattr(error, "ctx", None)
    if failed is None:
        return f"{PROGRAM} --help lists the commands"
    verbs = getattr(failed.command, "commands", {}) if failed.invoked_subcommand is None else {}
    one = f"one of {', '.join(verbs)}; " if verbs else ""
    return f"{one}{failed.command_path} --help {'describes them' if verbs else 'lists the options'}"
