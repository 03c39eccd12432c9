"""`slotkeeper man`: the manual page in roff, generated from the commands, their help, exit codes and environment.

The page is shown in the pager on a terminal. It uses only man(7) macros that groff_man(7) and mandoc share.
"""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import typer

from slotkeeper import __version__
from slotkeeper.console.cli import output
from slotkeeper.console.cli.diagnostics import ExitCode
from slotkeeper.core.config import handover
from slotkeeper.core.config.load import CONFIG_VARIABLE

app = typer.Typer(help="Show the manual page.", add_completion=False)


@app.command()
def man(ctx: typer.Context) -> None:
    """Show the manual page; without a terminal, print it, for `slotkeeper man | man -l -` or to install it."""
    text = page(ctx.find_root().command, __version__)
    if sys.stdout.isatty() and shutil.which("man"):
        subprocess.run(["man", "-l", "-"], input=text.encode(), check=False, env=handover.environment())
        return
    output.block(text)


_CODES = {
    ExitCode.FINE: "fine",
    ExitCode.FAILED: "failed",
    ExitCode.USAGE: "invalid command line or configuration",
    ExitCode.REFUSED: "a precondition is not met; the message names it",
    ExitCode.DIFFERENT: "a difference was found",
    ExitCode.UNREACHABLE: "a server does not answer",
}
_ENVIRONMENT = {
    CONFIG_VARIABLE: "The configuration file, unless --config names one.",
    "XDG_CONFIG_HOME, XDG_STATE_HOME": "Default locations of the configuration and of the state folder.",
    "SLOTKEEPER__SECTION__KEY": "One value of the configuration, such as SLOTKEEPER__JOBS__ORDERS_RT__START.",
    "NO_COLOR": "Any value turns colors off.",
    "PAGER": "The pager for slotkeeper docs on a terminal; default: less.",
    "TZ": "The time zone of the local times shown next to UTC.",
}
_FILES = {
    "~/.config/slotkeeper/config.toml": "The default configuration file.",
    "~/.local/state/slotkeeper": "The default state folder, unless [state] dir is set: jobs, logs, audit, backups.",
}
_EXAMPLES = {
    "slotkeeper demo": "Try Slotkeeper on this host, without a warehouse; `slotkeeper demo stop` ends a running demo.",
    "slotkeeper init": "Write a configuration for a first job after a few questions, and start it.",
    "slotkeeper": "Open the console.",
    "slotkeeper status --exit-code": "Overall state for monitoring: 0 ok, 1 warning, 2 critical, 3 unknown.",
}


def page(root: Any, version: str) -> str:
    """Return the page of this command tree, with a final newline."""
    return "\n".join(_lines(root, version)) + "\n"


def _lines(root: Any, version: str) -> Iterator[str]:
    yield f'.TH SLOTKEEPER 1 "" "slotkeeper {escaped(version)}" "User Commands"'
    yield from (".SH NAME", r"slotkeeper \- mirror warehouse binlogs into tables, and control the jobs")
    yield from (".SH SYNOPSIS", ".B slotkeeper", r"[\fIOPTION\fR]...", ".br", ".B slotkeeper")
    yield r"\fICOMMAND\fR [\fIARGUMENT\fR]..."
    context = root.make_context("slotkeeper", [], resilient_parsing=True)
    yield from (".SH DESCRIPTION", *_paragraphs(root.help))
    yield from (".SH OPTIONS", "These can appear anywhere on the command line.", *_options(root, context))
    yield ".SH COMMANDS"
    for name in root.list_commands(context):
        yield from _command(root.get_command(context, name), name, context)
    yield from _listed("EXIT STATUS", {str(int(code)): words for code, words in _CODES.items()})
    yield from _listed("ENVIRONMENT", _ENVIRONMENT)
    yield from _listed("FILES", _FILES)
    yield from _listed("EXAMPLES", _EXAMPLES)
    yield from (".SH SEE ALSO", r"slotkeeper docs lists the pages; slotkeeper docs runbook opens one.")


def _listed(heading: str, entries: dict[str, str]) -> Iterator[str]:
    yield f".SH {heading}"
    for name, words in entries.items():
        yield from (".TP", f".B {escaped(name)}", escaped(words))


def _command(command: Any, path: str, parent: Any) -> Iterator[str]:
    context = command.make_context(path, [], parent=parent, resilient_parsing=True)
    below = getattr(command, "commands", {})
    if not below or getattr(command, "invoke_without_command", False):
        arguments = [one.metavar or one.name.upper() for one in command.params if one.param_type_name == "argument"]
        yield f'.SS "{escaped(" ".join(["slotkeeper", path, *arguments]))}"'
        yield from _paragraphs(command.help)
        yield from _options(command, context)
    for name, one in below.items():
        yield from _command(one, f"{path} {name}", context)


def _options(command: Any, context: Any) -> Iterator[str]:
    for one in command.params:
        record = one.get_help_record(context) if one.param_type_name == "option" and not one.hidden else None
        if record is not None:
            yield from (".TP", rf"\fB{escaped(record[0])}\fR", escaped(" ".join(record[1].split())) or r"\&")


def _paragraphs(text: str | None) -> Iterator[str]:
    for place, each in enumerate(inspect.cleandoc(text or "").split("\n\n")):
        if place:
            yield ".PP"
        yield escaped(" ".join(each.split()))


def escaped(text: str) -> str:
    r"""Escape text so that roff finds no escape or request in it, with hyphens that can be pasted into a shell.

    >>> escaped(".B --a\\b"), escaped("'s")
    ('\\&.B \\-\\-a\\eb', "\\&'s")
    """
    shown = text.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{shown}" if shown.startswith((".", "'")) else shown
