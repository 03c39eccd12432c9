"""A configuration whose source and sink are bad servers, and the commands that somebody at a prompt gives there.

Next door: `tests.support.fake_server` has the servers.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.fake_server import FakeServer, Mode, fake_server
from tests.unit.config.samples import VALID

ROOT = Path(__file__).parents[2]
SECRET = "canary-4711"
LOGIN_SECONDS = 2
"""The limit of a login as it is configured here."""


@dataclass
class Place:
    """Both servers of a configuration, in one mode, and where it lies."""

    source: FakeServer
    sink: FakeServer
    folder: Path

    def begin(self, words: tuple[str, ...]) -> subprocess.Popen[str]:
        """A command as somebody at a prompt starts it."""
        return subprocess.Popen(
            [sys.executable, "-m", "console", *words, "--config", str(self.folder / "slotkeeper.toml")],
            cwd=ROOT,
            env={**os.environ, "HOME": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def files(self) -> str:
        """All that was written, but the secret's own file."""
        found = [path for path in self.folder.rglob("*") if path.is_file() and path.name != "password"]
        return "".join(path.read_text("utf-8", "replace") for path in found)


@contextmanager
def opened(mode: Mode, folder: Path) -> Iterator[Place]:
    secret = folder / "password"
    secret.write_text(SECRET, "utf-8")
    secret.chmod(0o600)
    with fake_server(mode) as source, fake_server(mode) as sink:
        text = VALID.replace('password_env = "DWS1_PASSWORD"\n', "").replace('environment = "PROD"\n', "")
        for host, port, server in (("h1", 8000, source), ("h2", 5432, sink)):
            login = f'password_file = "{secret}"\nsslmode = "{server.sslmode}"\nconnect_timeout = "{LOGIN_SECONDS}s"'
            text = text.replace(f'"{host}"', '"127.0.0.1"').replace(f"port = {port}", f"port = {server.port}\n{login}")
        config = folder / "slotkeeper.toml"
        config.write_text(text.replace("[state]", f'[state]\ndir = "{folder / "state"}"'), "utf-8")
        yield Place(source, sink, folder)


def ended(command: subprocess.Popen[str], seconds: float = 40) -> tuple[int, str, str]:
    """Its exit code, and what it told; one that hangs is killed."""
    try:
        out, err = command.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        command.kill()
        out, err = command.communicate()
    return command.returncode, out, err
