"""The end of a demo: stops its job and servers, reports a failure in one sentence, and with --json prints one object.

`slotkeeper.demo.command` uses it to end a `demo.run`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import typer

from slotkeeper.console.cli import diagnostics, output
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import KINDS, ErrorKind, Refused, SlotkeeperError
from slotkeeper.demo import running
from slotkeeper.demo.run import Demo

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_STATES = ("53100", "58030")
"""PostgreSQL, "PostgreSQL Error Codes": disk_full and io_error (a write beyond the limit of a file's size, EFBIG)."""
INTERRUPTED = "interrupted"


@dataclass(slots=True)
class End:
    """The running demo, if there is one, and its most informative log."""

    demo: Demo | None = None
    log: Path | None = None

    def carry_out(
        self, make: Callable[[], Demo], act: Callable[[Demo], dict[str, object]], keep: bool
    ) -> dict[str, object]:
        """Create a demo, run `act`, and end the demo unless it is kept. Its folder remains if `act` fails or its result
        is not `ok`.
        """
        demo = self.demo = make()
        with running.noted(demo.folder, os.environ):
            try:
                found = act(demo)
            except KeyboardInterrupt:
                diagnostics.note("stopping")
                demo.close()
                self.demo = None
                raise
            except BaseException:
                self._close()
                raise
            if keep:
                demo.detach()
            elif found["ok"]:
                demo.close()
            else:
                self._close()
                diagnostics.note(self.stays)
        return {**found, "log": self.log}

    def _close(self) -> None:
        """Stop everything but keep the folder; an error here must not hide why the demo ended."""
        assert self.demo is not None
        try:
            self.demo.close(keeps=True)
        except (SlotkeeperError, OSError) as error:
            diagnostics.warn(f"stopping the demo: {error}")
        self.log = self.demo.log_file()

    @property
    def stays(self) -> str:
        """The folder of a failed demo, and the command that deletes it; empty if there is no folder."""
        if self.demo is None or not self.demo.folder.exists():
            return ""
        log = f"; log: {self.log}" if self.log is not None else ""
        return f"the demo's files remain in {self.demo.folder}{log}; to delete them, run `slotkeeper demo stop`"

    def failure(self, error: Exception) -> Exception:
        """Return the error as one sentence that names the remaining files; a defect is returned unchanged.

        The error's own hint is dropped if a job was started, because that job is no longer running.
        """
        if isinstance(error, SlotkeeperError) and error.kind is not ErrorKind.DEFECT:
            hint = "" if self.demo is not None and self.demo.store is not None else error.hint
            return KINDS[error.kind](str(error), "; ".join(filter(None, (hint, self.stays))))
        if isinstance(error, OSError | pg.DriverError):
            return Refused(self._sentence(error), self.stays)
        if self.demo is not None:
            diagnostics.note(self.stays)
        return error

    def _sentence(self, error: OSError | pg.DriverError) -> str:
        if isinstance(error, OSError):
            full, place, said = error.errno in _FULL, error.filename, error.strerror or type(error).__name__
        else:
            full, place, said = error.pgcode in _FULL_STATES, None, str(error).strip() or type(error).__name__
            said = " ".join(said.partition("\nHINT:")[0].partition("\nCONTEXT:")[0].split())
        if full:
            return f"no space left for the demo's files{f' ({place})' if place else ''}: {said}"
        return f"the demo cannot access {place or 'its servers'}: {said}"


@contextmanager
def ending(as_json: bool) -> Iterator[End]:
    """Raise any failure of the block as one sentence, and with --json print it as one object on stdout."""
    end = End()
    try:
        yield end
    except (typer.Exit, KeyboardInterrupt) as error:
        if as_json and isinstance(error, KeyboardInterrupt):
            _print(INTERRUPTED, None)
        raise
    except Exception as error:
        failed = end.failure(error)
        if as_json:
            _print(_why(failed), end.log)
        raise failed from error


def _why(failed: Exception) -> str:
    if isinstance(failed, typer.TyperException):
        return str(failed.format_message())
    return str(failed) if isinstance(failed, SlotkeeperError) else f"unexpected {type(failed).__name__}"


def _print(why: str, log: Path | None) -> None:
    output.as_json({"ok": False, "why": why, "log": log})
