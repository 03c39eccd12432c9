"""A configuration whose source and sink are bad servers, and the commands that a user types there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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


TABLE, SLOT, JOB = "ods.orders", "orders_slot", "orders_rt"
COMMANDS: dict[str, tuple[str, ...]] = {
    "doctor": ("doctor",),
    "doctor --probe": ("doctor", "--probe", "dws1"),
    "locks": ("locks",),
    "slots list": ("slots", "list"),
    "slots show": ("slots", "show", TABLE, SLOT),
    "slots peek": ("slots", "peek", TABLE),
    "slots preflight": ("slots", "preflight", TABLE),
    "slots create": ("slots", "create", TABLE, "another"),
    "slots register": ("slots", "register", TABLE, SLOT),
    "slots drop": ("slots", "drop", TABLE, SLOT),
    "slots reset": ("slots", "reset", TABLE, SLOT, "--to", "earliest"),
    "errors list": ("errors", "list", JOB),
    "errors show": ("errors", "show", JOB, "1"),
    "errors replay": ("errors", "replay", JOB, "1", "--reason", "why"),
    "verify": ("verify", JOB),
}
"""Every command that queries a server, as a user types it for the configuration's job."""
WAITING = "import slotkeeper.console.commands.main, psycopg2, threading; print(flush=True); threading.Event().wait()"


@dataclass
class Place:
    """A configuration whose two servers are in one mode, and its folder."""

    source: FakeServer
    sink: FakeServer
    folder: Path

    def begin(self, words: tuple[str, ...]) -> subprocess.Popen[str]:
        """A command, started as by a user at a prompt."""
        return begun(self.folder / "slotkeeper.toml", words)

    def files(self) -> str:
        """All files that were written, except the secret's own file."""
        found = [path for path in self.folder.rglob("*") if path.is_file() and path.name != "password"]
        return "".join(path.read_text("utf-8", "replace") for path in found)


def begun(config: Path, words: tuple[str, ...]) -> subprocess.Popen[str]:
    """Return a command with a configuration, whose home is the configuration's folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "slotkeeper.console", *words, "--config", str(config)],
        cwd=ROOT,
        env={**os.environ, "HOME": str(config.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


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
    """The exit code and output of a command; a hanging command is killed."""
    try:
        out, err = command.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        command.kill()
        out, err = command.communicate()
    return command.returncode, out, err


def bare_interrupt() -> float:
    """Return the seconds that a waiting interpreter with the same modules takes to end after Ctrl-C."""
    words = [sys.executable, "-c", WAITING]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=ROOT) as bare:
        assert bare.stdout is not None and bare.stdout.readline()
        began = time.monotonic()
        bare.send_signal(signal.SIGINT)
        bare.wait(60)
        return time.monotonic() - began
