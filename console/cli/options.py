"""Arguments and options that several commands share, each with its words for the help.

Next door: `console.cli.select` finds what they name; an option of one command stands with that command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Job = Annotated[str, typer.Argument(metavar="JOB", help="the job's name")]
Table = Annotated[str, typer.Argument(metavar="TABLE", help="schema.table")]
Slot = Annotated[str, typer.Argument(metavar="SLOT", help="the slot's name")]
Source = Annotated[str, typer.Option("--source", metavar="NAME", help="the table's source, where several have it")]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of text")]
OneJson = Annotated[bool, typer.Option("--json", help="one JSON object")]
StateDir = Annotated[
    Path | None, typer.Option("--state-dir", metavar="DIR", help="state folder; no configuration is read then")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="why, for the audit")]
ConfirmJob = Annotated[str, typer.Option("--confirm", metavar="JOB", help="the job's name, typed again")]
ConfirmSlot = Annotated[str, typer.Option("--confirm", metavar="SLOT", help="the slot's name, typed again")]
