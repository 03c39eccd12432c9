"""Finds the demos of this user that have not ended, with their folders and processes, and ends them.

A demo writes a note into the default state folder; the note remains if the demo is killed
or kept. Processes are identified by the recorded identity, or by a server's own pid file, never by name.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slotkeeper.core.config.load import default_state_dir
from slotkeeper.core.domain.report import Identity
from slotkeeper.core.errors import Refused, SlotkeeperError
from slotkeeper.core.launch import control, identity
from slotkeeper.core.launch.control import Patience
from slotkeeper.core.state.faults import cannot_read
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store
from slotkeeper.demo import mariadb, postgres
from slotkeeper.demo.incidents import small_disk

NOTES = "demos"
PREFIX = "slotkeeper-demo-"
"""Prefix of every demo's folder."""
CONFIG, STATE, DISK = "config.toml", "state", "disk"
SERVERS = ("warehouse", "sink")
MARIA = "maria"
"""The folder of a demo's MariaDB, if it has one."""
GRACE_SECONDS = 180.0
"""Maximum seconds that a demo needs to end its job and servers itself."""


@dataclass(frozen=True, slots=True)
class Note:
    """One demo: its folder, the process that runs it, and the file that contains this record."""

    file: Path
    folder: Path
    process: Identity

    @property
    def lives(self) -> bool:
        """Whether the process that started the demo is still running."""
        return identity.alive(self.process)


@contextmanager
def noted(folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Write the note of a demo and create its folder, for the block; the note remains as long as the folder exists.

    Raises StateError if the note cannot be stored.
    """
    kept = StateFolder.open(default_state_dir(env))
    file = kept.path / NOTES / f"{folder.name}.json"
    values = {"folder": str(folder), "process": dataclasses.asdict(identity.of(os.getpid()))}
    kept.replace(file, json.dumps(values).encode())
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        yield
    finally:
        if not folder.exists():
            kept.remove(file)


def notes(env: Mapping[str, str]) -> list[Callable[[], Note]]:
    """Return a reader for the note of each demo that has not been ended; raises StateError for an unsafe state
    folder.
    """
    kept = StateFolder.existing(default_state_dir(env))
    if kept is None:
        return []
    try:
        files = sorted(file for file in (kept.path / NOTES).iterdir() if file.suffix == ".json")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise cannot_read(kept.path / NOTES, error) from error
    return [partial(_read, kept, file) for file in files]


def _read(kept: StateFolder, file: Path) -> Note:
    try:
        values = json.loads(kept.read(file))
        return Note(file, Path(values["folder"]), Identity(**values["process"]))
    except (ValueError, KeyError, TypeError) as error:
        raise Refused(f"{file} is not a valid demo record: {type(error).__name__}", f"rm {file}") from error


def end(note: Note) -> None:
    """End a demo with its job and its servers, and delete its folder.

    Raises Refused if its process does not end, or the folder is not a demo's.
    """
    if identity.elsewhere(note.process):
        raise Refused(
            f"the demo in {note.folder} was started on {note.process.host}", "run `slotkeeper demo stop` on that host"
        )
    if note.lives:
        identity.terminate(note.process)
        if not identity.wait_gone(lambda: note.lives, GRACE_SECONDS):
            raise Refused(
                f"the demo's process {note.process.pid} did not exit within {GRACE_SECONDS:.0f} s",
                "retry later; the demo may still be stopping its job",
            )
    if note.folder.exists():
        _refuse_foreign(note.folder)
        _end_job(note.folder)
        for name in SERVERS:
            postgres.discard(note.folder / name)
        mariadb.discard(note.folder / MARIA)
        small_disk.unmount(note.folder / DISK)
        shutil.rmtree(note.folder, ignore_errors=True)
    note.file.unlink(missing_ok=True)


def _refuse_foreign(folder: Path) -> None:
    """Raise Refused unless the folder looks like a demo's, because another program may have written the note."""
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and folder.name.startswith(PREFIX):
        return
    raise Refused(
        f"{folder} is not a demo folder of this user",
        f"the folder was not changed; check which program wrote its record in {NOTES}",
    )


def _end_job(folder: Path) -> None:
    for state in (folder / DISK / STATE, *folder.glob(f"{STATE}*")):  # `second-job` has a state folder of its own
        with suppress(SlotkeeperError), Store.existing(state) as store:
            for job in store.jobs():
                control.stop(store, job.name, Patience(seconds=120))
