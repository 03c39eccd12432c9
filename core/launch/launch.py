"""Start a job's driver and its supervisor: their commands, limits and environment.

A launch is stored with its run in the state store, so that a supervisor that adopts a driver restarts it likewise.
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

# -P excludes the current folder from the module search path, so that a folder named `core` there is not imported.
PYTHON = (sys.executable, "-P", "-m")
_DRIVER, _DRIVER_BEFORE = "slotkeeper.core.spark.job", "core.spark.job"
TAKE_OVER, FOREGROUND = "--take-over", "--foreground"
"""Driver options: the first ends an earlier start's sessions, the second marks a supervisor that a user runs."""
OWNER = "--owner"
"""The driver's option with the id of the state folder that must own the job, if several hosts share it."""
START_LOCK = "start"
"""The lock of the state folder that a start of a job, or a reset of its slot, holds until it ends."""
SUPERVISOR_LOCK = "supervisor"
"""The lock of the state folder that a job's supervisor holds as long as it is running."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a supervisor, in seconds or as counts; tests shorten them.

    `stop` is the time within which a driver must end before it is killed, so that `jobs stop` takes at most ten
    seconds; `grace` is the time between two kills.
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
    """A caller's choices for a run: another driver command, arguments appended to it, and the supervisor's limits.

    Without a command, the usual driver runs, with the interpreter of the process that starts it. The interpreter's path
    is never stored, because it would become invalid after an upgrade of Python or of the virtual environment.
    """

    command: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)

    @property
    def text(self) -> str:
        """The launch in the format of the state store."""
        return codec.text_of(self)

    @classmethod
    def parse(cls, text: str) -> Launch:
        """Parse a stored launch, of this or another version; an empty string is the default launch."""
        if not text:
            return cls()
        found = codec.record_from(cls, text)
        # earlier versions stored the usual driver's command with the path of their own interpreter
        usual = found.command[-1:] in ((_DRIVER,), (_DRIVER_BEFORE,))
        return replace(found, command=()) if usual else found

    def driver(self, job: str, config: str, folder: Path, run: str) -> list[str]:
        return [*(self.command or (*PYTHON, _DRIVER)), *_arguments(job, config, folder, run), *self.extra]


def spawn_supervisor(
    folder: StateFolder, job: str, config: str, run: str, adopt: bool = False, keeps_open: tuple[int, ...] = ()
) -> None:
    """Start a detached supervisor: in its own session, without this terminal, and not as a child of this process.

    The started command forks, and its parent process exits immediately; thus the caller has no child to wait for and no
    zombie, however long the supervisor runs. The supervisor holds the descriptors `keeps_open` until it exits.
    """
    command = [*PYTHON, "slotkeeper.core.launch.supervisor", *_arguments(job, config, folder.path, run)]
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
        said = "".join(last_lines(folder.log(job), 1)) or "no output"
        what = f"the supervisor of job {job} did not start (exit code {ended.returncode}): {said}"
        raise Refused(what, f"see {folder.log(job)}")


def _arguments(job: str, config: str, folder: Path, run: str) -> list[str]:
    return ["--job", job, "--config", config, "--state-dir", str(folder), "--run", run]
