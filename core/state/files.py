"""Named files in the state folder: files of resets, the configuration of a run, records of probes, tables of patterns.

The marker of a reset is written before the reset's first change and removed after its last change, so that every
command can detect an unfinished reset without network access.

A restarted driver reads the configuration with which its run was started: a user may edit the file while the job runs,
and an unfinished edit must not end a job whose driver crashed. The text contains references to secrets instead of
secrets. The arguments of a command can still be secret, so only the file's owner can read it, even in a team's folder.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from slotkeeper.core import codec
from slotkeeper.core.bounded import text_in
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.inventory import Inventory
from slotkeeper.core.domain.reset_files import MARKS
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder, opened

if TYPE_CHECKING:  # most readers of a state folder find no reset and no consent
    from slotkeeper.core.domain.consent import Consent
    from slotkeeper.core.domain.reset import OpenReset

PROBES = "probes"
"""The folder of the probes' records, one file per source or sink."""
ProbeRecord = Mapping[str, object]
CONSENTS = "consents"
"""The folder of approvals for copies (consents), one file per plan."""
TABLES = "tables"
"""The folder of the tables that the patterns of jobs match, one file per job."""
_OWN = 0o600
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class ResetFiles:
    """The files of one state folder; implements `slotkeeper.core.slots.reset_plan.Files`."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    def save(self, kind: str, name: str, text: str) -> None:
        """Write a file under another name, flush it, rename it, and flush the folder; raises StateError on failure."""
        self._folder.replace(self._path(kind, name), text.encode("utf-8"))

    def load(self, kind: str, name: str) -> str | None:
        if not _NAME.fullmatch(name):
            return None
        path = self._path(kind, name)
        try:
            return self._folder.read(path).decode("utf-8")
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise StateError(f"{path} cannot be read: it is not UTF-8 text") from error

    def remove(self, kind: str, name: str) -> None:
        self._folder.remove(self._path(kind, name))

    def names(self, kind: str) -> list[str]:
        return names(self._folder.path, kind)

    def _path(self, kind: str, name: str) -> Path:
        if not _NAME.fullmatch(name):
            raise StateError(f"{name!r} is not the id of a plan or backup")
        return self._folder.path / kind / f"{name}.json"


def names(folder: Path, kind: str) -> list[str]:
    """Return the names of all files of a kind in a state folder, which may not exist."""
    return sorted(path.stem for path in (folder / kind).glob("*.json"))


def marks(folder: Path) -> list[OpenReset]:
    """Return the unfinished resets of a state folder; a damaged marker counts as an unfinished reset."""
    found = []
    for name in names(folder, MARKS):
        from slotkeeper.core.domain.reset import OpenReset

        text = ""
        file = folder / MARKS / f"{name}.json"
        with suppress(OSError, ValueError, StateError), os.fdopen(opened(folder, file, os.O_RDONLY), "rb") as stream:
            text = text_in(stream)
        found.append(OpenReset.parse(name, text))
    return found


class StoredConsents:
    """The approvals of copies for one job; implements `slotkeeper.core.domain.consent.Consents`.

    Each call reads the files, because users, including other members who share a team's folder, can approve a copy
    while a driver is running.
    """

    def __init__(self, folder: StateFolder, job: str) -> None:
        self._files, self._job = ResetFiles(folder), job

    def known(self) -> list[Consent]:
        from slotkeeper.core.domain.consent import Consent

        found = (Consent.parse(self._files.load(CONSENTS, name) or "") for name in self._files.names(CONSENTS))
        return [one for one in found if one is not None and one.job == self._job]

    def given(self, plan: str) -> bool:
        """Return whether a valid approval exists; False if unreadable: rows are never deleted without certainty."""
        try:
            return any(one.plan == plan and one.valid(SystemClock().utc().timestamp()) for one in self.known())
        except StateError:
            return False

    def keep(self, one: Consent) -> None:
        self._files.save(CONSENTS, one.plan, one.text)

    def drop(self, table: str, but: str = "") -> None:
        for one in self.known():
            if one.table == table and one.plan != but:
                self._files.remove(CONSENTS, one.plan)


def known_tables(state_dir: Path, job: str) -> Inventory:
    """Return the stored tables of a job with patterns; empty if there are none, or if they cannot be read.

    Only the job's driver stores them; commands and screens read them, so that they need no connection to the source.
    """
    with suppress(SlotkeeperError):
        return stored_tables(state_dir, job) or Inventory()
    return Inventory()


def stored_tables(state_dir: Path, job: str) -> Inventory | None:
    """Return the stored tables of a job with patterns; None if none are stored. Raises StateError if unreadable."""
    text = ResetFiles(StateFolder.looked_at(state_dir)).load(TABLES, job)
    try:
        return codec.record_from(Inventory, text) if text else None
    except ValueError as error:
        raise StateError(f"the stored tables of job {job} cannot be read", "restore the state folder") from error


def keep_tables(folder: StateFolder, job: str, found: Inventory) -> None:
    """Store the tables of a job; raises StateError."""
    ResetFiles(folder).save(TABLES, job, codec.text_of(found))


def keep_config(folder: StateFolder, run: str, text: str) -> None:
    """Store the text of a run's configuration. Raises OSError."""
    path = _config_path(folder, run)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    new = path.with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _OWN), "wb") as writing:
        writing.write(text.encode("utf-8"))
    new.replace(path)


def kept_config(folder: StateFolder, run: str) -> str | None:
    """Return the stored configuration of a run; None if it does not exist or cannot be read."""
    try:
        return _config_path(folder, run).read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def drop_config(folder: StateFolder, run: str) -> None:
    _config_path(folder, run).unlink(missing_ok=True)


def _config_path(folder: StateFolder, run: str) -> Path:
    return folder.path / f"started.{os.geteuid()}" / f"{run}.toml"


def probe_record(state_dir: Path, source: str) -> ProbeRecord | None:
    """Return the record of the last probe of a source or sink; None if it does not exist or cannot be read."""
    try:
        text = ResetFiles(StateFolder.open(state_dir)).load(PROBES, source)
        kept = json.loads(text) if text else None
    except (SlotkeeperError, ValueError, RecursionError):
        return None
    return kept if isinstance(kept, dict) and kept.get("format") == 1 else None


def answered(found: ProbeRecord | None, place: str, name: str) -> str:
    """Return the recorded answer to a probe's question; "" if there is none, or if another server was probed."""
    answers = found.get("answers") if found and found.get("place") == place else None
    rows = [one for one in answers if isinstance(one, dict)] if isinstance(answers, list) else []
    return next((str(one.get("answer") or "") for one in rows if one.get("name") == name), "")


def points_proven(state_dir: Path, source: str, place: str) -> bool:
    """Return whether a probe found, under GTM-Lite, one sync point per transaction, in commit order."""
    found = probe_record(state_dir, source)
    lite = str(found.get("gtm_option", "")).lower() if found else ""
    return lite in ("gtm-lite", "1") and answered(found, place, "one_point") == "yes"
