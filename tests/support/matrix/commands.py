"""`slotkeeper` as `storm.cli` types it, each command in a process of its own that is forked from a warm interpreter.

A matrix runs hundreds of commands, and starting an interpreter takes most of a command's time.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.support.storm import cli

_FORKS = multiprocessing.get_context("forkserver")


class Command:
    """A running command, with the methods of `subprocess.Popen` that the rig uses."""

    def __init__(self, runner: str, config: Path, *words: str) -> None:
        descriptor, name = tempfile.mkstemp(prefix="slotkeeper-command-")
        os.close(descriptor)
        self._output = Path(name)
        _FORKS.set_forkserver_preload([cli.__name__, "slotkeeper.console.__main__", __name__])
        arguments = (runner, [*words, "--config", str(config)], name)
        self._process = _FORKS.Process(target=_run, args=arguments, daemon=True)
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def kill(self) -> None:
        self._process.kill()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("slotkeeper", timeout or 0)
        said = self._output.read_text("utf-8") if self._output.exists() else ""
        self._output.unlink(missing_ok=True)
        return said, ""


def _run(runner: str, words: list[str], output: str) -> None:
    os.environ[cli.RUNNER] = runner
    nothing, written = os.open(os.devnull, os.O_RDONLY), os.open(output, os.O_WRONLY | os.O_APPEND)
    for number, descriptor in ((0, nothing), (1, written), (2, written)):
        os.dup2(descriptor, number)
    sys.argv = ["slotkeeper", *words]
    main: Callable[[], int] = cli.main
    code = 1
    try:
        code = main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    os._exit(code)
