"""How a job's driver and its supervisor are started: commands, limits and environment, and the start itself.

A launch is kept with its run in the state store, so that a supervisor that adopts a driver starts the next one alike.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

from slotkeeper.core import codec
from slotkeeper.core.config import handover
from slotkeeper.core.domain.elapsed import STALLED_SECONDS
from slotkeeper.core.errors import Refused
from slotkeeper.core.launch.identity import MARK
from slotkeeper.core.launch.log import last_lines
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.frames import KEPT_FRAMES, KEPT_SECONDS

# -P: a module search path without the current folder, so that a folder named `core` lying there starts nothing.
_PYTHON = (sys.executable, "-P", "-m")
_DRIVER, _DRIVER_BEFORE = "slotkeeper.core.spark.job", "core.spark.job"
TAKE_OVER, FOREGROUND = "--take-over", "--foreground"
"""What a driver is started with besides: end an earlier start's sessions; its supervisor is a person's command."""
START_LOCK = "start"
"""The lock of the state folder that a start of a job, or a reset of its slot, holds until it is through."""
SUPERVISOR_LOCK = "supervisor"
"""The lock of the state folder that a job's supervisor holds as long as it is running."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and counts of a supervisor; tests shorten them.

    `stop` is what a driver has for its end before it is killed, so that `jobs stop` takes ten seconds at most; `grace`
    is the time between two kills.
    """

    poll: float = 0.25
    stop: float = 8.0
    grace: float = 10.0
    leftover: float = 10.0
    backoff_first: float = 1.0
    backoff_most: float = 30.0
    crashes: int = 5
    crash_window: float = 600.0
    log_bytes: int = 10 * 1024 * 1024
    log_files: int = 3
    frame_every: float = 5.0
    alerts_every: float = 5.0
    frames_kept: float = KEPT_SECONDS
    frames_most: int = KEPT_FRAMES


@dataclass(frozen=True, slots=True)
class Launch:
    """What a caller chose for a run: another driver's command, what is appended to it, its supervisor's limits.

    Without a command the driver is the usual one, run by the interpreter of the process that starts it. That path is
    never stored: after an upgrade of Python, or of the virtual environment, it would lead to nothing.
    """

    command: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def text(self) -> str:
        """As the state store keeps it."""
        return codec.text_of(self)

    @classmethod
    def parse(cls, text: str) -> Launch:
        """From what the state store kept, by this or another version; an empty text is the plain launch."""
        if not text:
            return cls()
        found = codec.record_from(cls, text)
        # earlier versions stored the usual driver's command with their own interpreter's path
        usual = found.command[-1:] in ((_DRIVER,), (_DRIVER_BEFORE,))
        return replace(found, command=()) if usual else found

    def driver(self, job: str, config: str, folder: Path, run: str) -> list[str]:
        """The driver's full command."""
        return [*(self.command or (*_PYTHON, _DRIVER)), *_arguments(job, config, folder, run), *self.extra]


def spawn_supervisor(
    folder: StateFolder, job: str, config: str, run: str, adopt: bool = False, keeps_open: tuple[int, ...] = ()
) -> None:
    """Start a detached supervisor: in its own session, without our terminal, and not our child.

    The command that we start forks, and its first half ends at once: the caller is left with no child to wait for
    and no zombie, however long the supervisor runs. It holds the descriptors `keeps_open` until it exits.
    """
    command = [*_PYTHON, "slotkeeper.core.launch.supervisor", *_arguments(job, config, folder.path, run)]
    log = folder.append(folder.log(job))
    try:
        with handover.passed() as given:
            env = {name: value for name, value in given.environment.items() if name != MARK}
            ended = subprocess.run(
                [*command, *(["--adopt"] if adopt else [])],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, cwd=folder.path, check=False,
                timeout=STALLED_SECONDS, pass_fds=(*given.descriptors, *keeps_open),
            )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        what = f"the supervisor of job {job} did not start within {STALLED_SECONDS:.0f} s"
        raise Refused(what, f"see {folder.log(job)}") from error
    finally:
        os.close(log)
    if ended.returncode:
        said = "".join(last_lines(folder.log(job), 1)) or "it wrote nothing"
        what = f"the supervisor of job {job} did not start (exit code {ended.returncode}): {said}"
        raise Refused(what, f"see {folder.log(job)}")


def _arguments(job: str, config: str, folder: Path, run: str) -> list[str]:
    return ["--job", job, "--config", config, "--state-dir", str(folder), "--run", run]
