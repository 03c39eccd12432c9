"""`slotkeeper docs`: list the installed documentation pages, and open one.

The pages are `docs/*.md` of the checkout and the example units. `console/docs` is a link to the checkout's folder, so
that a wheel includes the pages as package data. On a terminal, a page is rendered and shown in the pager; otherwise its
Markdown is printed unchanged.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Annotated

import typer

from slotkeeper.console.cli import context, diagnostics, output, select
from slotkeeper.core.config import handover
from slotkeeper.core.domain.text import anchor, see
from slotkeeper.core.errors import ConfigError

_HEADING = re.compile(r"^#{1,6} (.+)$")
_FENCE = re.compile(r"^\s*(```|~~~)")


@dataclass(frozen=True, slots=True)
class Page:
    """A page. `name` is the name to type; `text` starts at the anchor `section`, or is the whole page without one."""

    name: str
    title: str
    text: str
    section: str = ""

    @property
    def markdown(self) -> bool:
        """Whether the page is Markdown. The other pages are files to copy."""
        return "/" not in self.name


def names() -> list[str]:
    """Return the names that `slotkeeper docs` can open, in the order in which it lists them."""
    return list(_files())


def titles() -> list[tuple[str, str]]:
    """Return each page's name and title."""
    return [(name, _title(name, file.read_text("utf-8"))) for name, file in _files().items()]


def page_named(typed: str) -> Page:
    """Return the page for PAGE or PAGE#SECTION. Raises ConfigError with the nearest name, or how to list pages."""
    asked, _, section = typed.partition("#")
    files = _files()
    name = asked if asked in files else asked.removeprefix("docs/").removesuffix(".md").lower()
    if name not in files:
        near = get_close_matches(name, files, n=1)
        meant = f"did you mean {see(near[0])}? " if near else ""
        raise ConfigError(f"unknown page {asked!r}", f"{meant}`slotkeeper docs` lists all pages")
    text = files[name].read_text("utf-8")
    title = _title(name, text)
    if not section:
        return Page(name, title, text)
    found = _section(text, section.lower())
    if found is None:
        raise ConfigError(f"page {name} has no section {section!r}", f"open the whole page: {see(name)}")
    at, whole = found
    return Page(name, title, "".join(text.splitlines(keepends=True)[at:]), whole)


def _files() -> dict[str, Traversable]:
    folder = resources.files("slotkeeper.console").joinpath("docs")
    found = {file.name.removesuffix(".md"): file for file in folder.iterdir() if file.name.endswith(".md")}
    units = {f"systemd/{file.name}": file for file in folder.joinpath("systemd").iterdir()}
    return dict(sorted(found.items()) + sorted(units.items()))


def _title(name: str, text: str) -> str:
    """Return the first heading of a page, or the description of a unit."""
    found = re.search(r"^Description=(.+)$" if "/" in name else r"^# (.+)$", text, re.MULTILINE)
    return found[1] if found else ""


def _headings(text: str) -> list[tuple[int, str]]:
    """Return the line number and the anchor of each heading outside code blocks."""
    found, fenced = [], False
    for at, line in enumerate(text.splitlines()):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and (heading := _HEADING.match(line)):
            found.append((at, anchor(heading[1])))
    return found


def _section(text: str, section: str) -> tuple[int, str] | None:
    """Return the position of a section and its anchor: an exact match, otherwise the first anchor with that prefix."""
    headings = _headings(text)
    for fits in (str.__eq__, str.startswith):
        for at, name in headings:
            if fits(name, section):
                return at, name
    return None


app = typer.Typer(help="Read the documentation.", add_completion=False)

_PAGER = "less"
_WIDEST = 100
"""The maximum number of columns for text, regardless of the terminal's width."""


@app.command()
def docs(
    ctx: typer.Context,
    page: Annotated[
        str,
        typer.Argument(metavar="[PAGE]", help="a page, or PAGE#SECTION for one of its sections", autocompletion=names),
    ] = "",
    as_json: select.Json = False,
) -> None:
    """List the documentation pages, or open PAGE; PAGE#SECTION opens it at that section."""
    if not page:
        listed = titles()
        if as_json:
            output.as_json([{"page": name, "title": title} for name, title in listed])
        else:
            output.table(["page", "title"], listed, select.ascii_only(ctx))
            diagnostics.note("open a page: `slotkeeper docs runbook`")
        return
    found = page_named(page)
    if as_json:
        output.as_json({"page": found.name, "title": found.title, "section": found.section or None, "text": found.text})
    elif sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        _open(found, context.of(ctx))
    else:
        output.block(found.text)


def _open(page: Page, invocation: context.Invocation) -> None:
    """Show a page in $PAGER, or in less if $PAGER is not set; print it if that program is not installed."""
    words = _pager(invocation.env.get("PAGER", ""))
    if shutil.which(words[0]) is None:
        output.block(_rendered(page, colour=False, ascii_only=invocation.ascii_only))
        return
    text = _rendered(page, colour=not invocation.mono, ascii_only=invocation.ascii_only)
    env = handover.environment()
    env.setdefault("LESS", "FRX")  # a page that fits on one screen is not paged; colors pass through
    try:
        pager = subprocess.Popen(words, stdin=subprocess.PIPE, env=env)
    except OSError as error:
        what = f"cannot start the pager {words[0]}: {error.strerror or error}"
        raise ConfigError(what, "use another pager: PAGER=less slotkeeper docs PAGE") from error
    with pager:
        rest: bytes | None = text.encode()
        while pager.poll() is None:
            with suppress(KeyboardInterrupt):  # Ctrl-C is for the pager
                pager.communicate(rest)
            rest = None


def _pager(said: str) -> list[str]:
    """Split $PAGER into words. Raises ConfigError for an unclosed quote."""
    try:
        return shlex.split(said) or [_PAGER]
    except ValueError as error:
        raise ConfigError(
            f"PAGER cannot be parsed: {error}", "correct it, or: PAGER=less slotkeeper docs PAGE"
        ) from None


def _rendered(page: Page, colour: bool, ascii_only: bool) -> str:
    if not page.markdown:
        return page.text
    if ascii_only:
        return page.text.encode("ascii", "backslashreplace").decode()
    from rich.console import Console  # loaded only for a terminal
    from rich.markdown import Markdown

    width = min(_WIDEST, shutil.get_terminal_size().columns)
    made = io.StringIO()
    console = Console(file=made, width=width, force_terminal=colour, color_system="standard" if colour else None)
    console.print(Markdown(page.text, hyperlinks=False))
    return made.getvalue()
