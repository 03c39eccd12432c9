"""The entry point: run the command line, and turn every error into a message and an exit code."""

from __future__ import annotations

import gc
import io
import os
import sys
from collections.abc import Sequence

INTERRUPTED = 130

try:
    from slotkeeper.console.cli import context, diagnostics
    from slotkeeper.console.cli.context import COMPLETING, UNJUDGED, VALUED, asks_version, bare, judges, status_asked
except KeyboardInterrupt:  # Ctrl-C before `main` runs would make the interpreter print a traceback
    sys.exit(INTERRUPTED)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line (default: `sys.argv`) and return its exit code. Raises nothing."""
    if argv is None:
        gc.disable()  # importing modules creates no garbage; the command or the console enables it again
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a locale that lacks a character must not abort the command
    args = sys.argv[1:] if argv is None else argv
    try:
        code = _run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _let_go_of_stdout()
        code = int(diagnostics.ExitCode.FAILED)
    except KeyboardInterrupt:
        diagnostics.note("interrupted")
        return INTERRUPTED
    except Exception as error:  # top level of a front end: every error is reported
        from slotkeeper.core.config.load import default_state_dir

        code = int(_unwritten(error) or diagnostics.report(error, default_state_dir(os.environ) / "console.log"))
    finally:
        context.config_given("")
    return UNJUDGED if judges(args) else code


def _open_what_is_closed() -> None:
    """Open `/dev/null` for each standard stream that the parent process closed (`>&-`).

    Otherwise the first file opened would get that stream's descriptor number.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # open() uses the lowest free descriptor
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


def _run(args: Sequence[str]) -> int:
    if os.environ.get(COMPLETING):
        from slotkeeper.console.commands import main as main_cli

        return main_cli.complete(args)
    if asks_version(args):
        from slotkeeper.console.cli import output

        output.version()
        return int(diagnostics.ExitCode.FINE)
    shared = bare(args)
    if shared is not None:
        from slotkeeper.console.tui import startup

        if startup.on_a_terminal():
            return startup.open_console(shared)
    from slotkeeper.console.commands import configured
    from slotkeeper.core.drivers.deadline import interrupts_heard

    context.config_given(context.option(args, VALUED))
    with interrupts_heard():
        configured.warn_of_resets(args)
        asked = status_asked(args)
        if asked is not None:
            from slotkeeper.console.cli import rights
            from slotkeeper.console.commands.overall import overall

            rights.check("status", asked[0], {})
            context.modules_loaded()
            return overall(*asked)
        from slotkeeper.console.commands import main as main_cli  # Typer is loaded only for other commands

        return main_cli.run(args)


def _unwritten(error: Exception) -> int:
    """Return the exit code if the output cannot be written, for example on a full disk; 0 if it can be written."""
    from slotkeeper.console.cli.output import Unwritten

    try:
        sys.stdout.flush()
    except OSError as failed:
        error = Unwritten(failed.errno, failed.strerror)
    if not isinstance(error, Unwritten):
        return 0
    _let_go_of_stdout()
    diagnostics.warn(f"cannot write to standard output: {error.strerror or error}")
    return int(diagnostics.ExitCode.FAILED)


def _let_go_of_stdout() -> None:
    """Redirect stdout to `/dev/null`, so that buffered output raises nothing when the interpreter exits.

    This is called when the reader has closed the pipe or the disk is full.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main())
