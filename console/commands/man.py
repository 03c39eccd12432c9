"""`slotkeeper man`: the manual page, in the pager where there is a terminal, else as roff."""

from __future__ import annotations

import shutil
import subprocess
import sys

import typer

from slotkeeper.console.cli import context, manual, output
from slotkeeper.core.config import handover

app = typer.Typer(help="Show the manual page.", add_completion=False)


@app.command()
def man(ctx: typer.Context) -> None:
    """Show the manual page; where nobody reads a screen: print it, for `slotkeeper man | man -l -` or to install it."""
    text = manual.page(ctx.find_root().command, context.installed_version())
    if sys.stdout.isatty() and shutil.which("man"):
        subprocess.run(["man", "-l", "-"], input=text.encode(), check=False, env=handover.environment())
        return
    output.block(text)
