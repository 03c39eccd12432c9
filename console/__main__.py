"""The entry point: runs the command line, and is the one place where any error becomes a message and an exit code.

Next door: `console.cli` has the commands, `console.diagnostics` the messages.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from console import cli, diagnostics, unfinished
from core.config.load import default_state_dir

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: the process's own) and return its exit code; raises nothing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a narrow locale must not end a command
    try:
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_stdout()
        return int(diagnostics.ExitCode.FAILED)
    except (KeyboardInterrupt, typer.Abort):
        diagnostics.note("interrupted")
        return INTERRUPTED
    except Exception as error:  # the top of a front end
        return int(diagnostics.report(error, _log()))
    return code


def _run(args: Sequence[str]) -> int:
    unfinished.tell(args)
    try:
        result = cli.main_command().main(args=cli.hoisted(args), prog_name="slotkeeper", standalone_mode=False)
    except typer.TyperException as error:
        asked = " ".join(_command_path(error))
        return int(diagnostics.usage(error.format_message().rstrip("."), f"{asked} --help lists what there is"))
    return result if isinstance(result, int) else int(diagnostics.ExitCode.FINE)


def _command_path(error: typer.TyperException) -> list[str]:
    """The words of the command that was misused, as far as they were understood."""
    context = getattr(error, "ctx", None)
    return [context.command_path] if context is not None else ["slotkeeper"]


def _log() -> Path:
    return default_state_dir(os.environ) / "console.log"


def _let_go_of_stdout() -> None:
    """Whoever read stdout has gone: what is still buffered must not raise again when the interpreter ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
