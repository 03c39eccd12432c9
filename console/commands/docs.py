"""`slotkeeper docs`: list the pages of the documentation, and open one.

On a terminal a page is rendered and shown in the pager; anywhere else its Markdown is printed as it is.
"""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from typing import Annotated

import typer

from slotkeeper.console.cli import context, diagnostics, output, pages, select
from slotkeeper.console.cli.pages import Page
from slotkeeper.core.config import handover
from slotkeeper.core.errors import ConfigError

app = typer.Typer(help="Read the documentation.", add_completion=False)

_PAGER = "less"
_WIDEST = 100
"""Columns of text at most, however wide the terminal is."""


@app.command()
def docs(
    ctx: typer.Context,
    page: Annotated[
        str,
        typer.Argument(metavar="[PAGE]", help="a page, or PAGE#SECTION to start there", autocompletion=pages.names),
    ] = "",
    as_json: select.Json = False,
) -> None:
    """List the pages of the documentation; open PAGE, at a section with PAGE#SECTION."""
    if not page:
        _list(as_json, select.ascii_only(ctx))
        return
    found = pages.page(page)
    if as_json:
        output.as_json({"page": found.name, "title": found.title, "section": found.section or None, "text": found.text})
    elif sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _open(found, context.of(ctx))
    else:
        output.block(found.text)


def _list(as_json: bool, ascii_only: bool) -> None:
    found = pages.titles()
    if as_json:
        output.as_json([{"page": name, "title": title} for name, title in found])
        return
    output.table(["page", "title"], found, ascii_only)
    diagnostics.note("open a page: `slotkeeper docs runbook`")


def _open(page: Page, invocation: context.Invocation) -> None:
    """Show a page in $PAGER, or in less where there is one; print it otherwise."""
    words = _pager(invocation.env.get("PAGER", ""))
    if shutil.which(words[0]) is None:
        output.block(_rendered(page, colour=False, ascii_only=invocation.ascii_only))
        return
    text = _rendered(page, colour=not invocation.mono, ascii_only=invocation.ascii_only)
    env = handover.environment()
    env.setdefault("LESS", "FRX")  # a page of one screen is only printed; colours are shown as such
    try:
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, env=env)
    except OSError as error:
        what = f"the pager {words[0]} does not start: {error.strerror or error}"
        raise ConfigError(what, "name another one: PAGER=less slotkeeper docs PAGE") from error
    with pager:
        rest: bytes | None = text.encode()
        while pager.poll() is None:
            with suppress(KeyboardInterrupt):  # Ctrl-C is the pager's
                pager.communicate(rest)
            rest = None


def _pager(said: str) -> list[str]:
    """The words of $PAGER; raises ConfigError for a quote without its end."""
    try:
        return shlex.split(said) or [_PAGER]
    except ValueError as error:
        raise ConfigError(f"PAGER cannot be read: {error}", "correct it, or: PAGER=less slotkeeper docs PAGE") from None


def _rendered(page: Page, colour: bool, ascii_only: bool) -> str:
    if not page.markdown:
        return page.text
    if ascii_only:
        return page.text.encode("ascii", "backslashreplace").decode()
    from rich.console import Console  # for a terminal only
    from rich.markdown import Markdown

    width = min(_WIDEST, shutil.get_terminal_size().columns)
    made = io.StringIO()
    console = Console(file=made, width=width, force_terminal=colour, color_system="standard" if colour else None)
    console.print(Markdown(page.text, hyperlinks=False))
    return made.getvalue()
