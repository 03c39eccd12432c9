"""The file of the user's settings: read once at the start, and written by a thread after each change.

The file is in the folder of the default configuration. As for configurations (`slotkeeper.core.ownership`), it is used
only if no other user could have written it; otherwise the console shows the reason in one line and uses the defaults.
To write a change, the thread reads the file, merges the change and renames the new file into place while it holds a
lock on the folder. Two consoles therefore preserve each other's changes, and neither reads a partial file. A folder
that does not respond blocks only the thread.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

from slotkeeper.console.cli.settings import MOST, Settings, plain_of, put, raw_from, settings_from, text_of
from slotkeeper.core import ownership
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError

FILE = "console.json"
FORGET = "`:settings reset`"
LOCK_SECONDS = 2.0
CLOSE_SECONDS = 1.0
_Change = tuple[tuple[str, ...], object]
"""The keys of a value, and its new value."""


class SettingsFile:
    """The settings of one user. `fault` is the reason why the file is not used; without a path, defaults apply."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.fault = ""
        self.tell: Callable[[str], object] = lambda text: None
        """Receives a sentence if a change could not be written; called from the thread."""
        self.now = Settings()
        self._changes: SimpleQueue[_Change | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        try:
            self.now = settings_from(self._raw(path)) if path is not None else Settings()
        except SlotkeeperError as error:
            self.fault = f"settings not used: {error.message}"
        except ValueError:
            self.fault = f"settings not used: {FILE} has an invalid format; {FORGET} deletes it"
        except OSError as error:
            self.fault = f"settings not used: {FILE} cannot be read: {error.strerror}"

    def change(self, value: object, *keys: str) -> None:
        """Change a value and write it to the file."""
        if len(keys) == 1:
            setattr(self.now, keys[0], value)
        else:
            getattr(self.now, keys[0])[keys[1]] = value
        self._later((keys, plain_of(value)))

    def forget(self, *keys: str) -> None:
        """Reset one entry of `columns` or `orders`, or all settings, to the default."""
        if keys:
            getattr(self.now, keys[0]).pop(keys[1], None)
        else:
            self.now, self.fault = Settings(), ""
        self._later((keys, None))

    def close(self) -> None:
        """Write pending changes, waiting only briefly."""
        if self._thread is not None:
            self._changes.put(None)
            self._thread.join(CLOSE_SECONDS)

    def _raw(self, path: Path) -> dict[str, object]:
        try:
            text = ownership.read(path, FILE, MOST + 1)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        if len(text) > MOST:
            raise ValueError("too long")
        return raw_from(text)

    def _later(self, change: _Change) -> None:
        if self.path is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="slotkeeper-settings", daemon=True)
            self._thread.start()
        self._changes.put(change)

    def _work(self) -> None:
        while (change := self._changes.get()) is not None:
            try:
                self._write(*change)
            except (SlotkeeperError, OSError, ValueError) as error:
                why = error.message if isinstance(error, SlotkeeperError) else getattr(error, "strerror", "") or error
                with suppress(Exception):  # a console that is closing has no message line
                    self.tell(f"settings not saved: {safe(why, 200)}")

    def _write(self, keys: tuple[str, ...], value: object) -> None:
        from slotkeeper.core.state.folder import replaced

        if self.path is None:
            return
        ownership.make_folder(self.path.parent)
        with suppress(FileNotFoundError):  # the user's own symbolic link is followed and preserved
            self.path = Path(ownership.follow(self.path)[-1].path)
        folder = self.path.parent
        ownership.refuse(ownership.follow(folder), f"folder {safe(folder, 120)}")
        with _locked(folder):
            if not keys:
                with suppress(FileNotFoundError):  # another user's file is never replaced, whatever its content
                    if found := ownership.check(self.path, FILE):
                        raise ownership.NotOurs(found.text, found.hint)
                replaced(folder, self.path, text_of({}), 0o600)
                return
            if self.fault:
                raise ValueError(self.fault)
            raw = self._raw(self.path)
            settings_from(raw)
            put(raw, keys, value)
            replaced(folder, self.path, text_of(raw), 0o600)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock the folder against other consoles. On a file system without locks, writes are still atomic."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
            except OSError:
                break
        yield
    finally:
        os.close(descriptor)
