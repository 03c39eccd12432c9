"""A new user's path: from the welcome screen to a first running mirror, against a demo's servers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.config.load import load
from slotkeeper.core.domain.endpoint import Endpoint
from tests.tui.terminal import Terminal

MOST_SECONDS = 180.0
pytestmark = [pytest.mark.chaos, pytest.mark.spark]


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Endpoint, Endpoint]]:
    """The servers of a demo that was kept; `demo stop` ends them."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "demo"))
    words = [
        sys.executable,
        "-m",
        "slotkeeper.console",
        "demo",
        "--headless",
        "--keep",
        "--duration",
        "1s",
        "--rows",
        "5000",
    ]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ))
    try:
        assert ended.returncode == 0, ended.stderr
        (file,) = [word for word in ended.stderr.split() if word.endswith("/config.toml")]
        loaded = load(Path(file), {})
        yield loaded.sources["dws1"].endpoint, loaded.sinks["mart"].endpoint
    finally:
        assert main(["demo", "stop"]) == 0
    assert not Path(file).exists()


def at(one: Endpoint) -> bytes:
    return f"{one.user}@{one.host}:{one.port}/{one.database}\n".encode()


def test_from_the_welcome_screen_to_an_own_mirror_in_three_minutes(
    demo: tuple[Endpoint, Endpoint], tmp_path: Path
) -> None:
    source, sink = demo
    home = tmp_path / "home"
    home.mkdir()
    config = str(home / "slotkeeper" / "config.toml")
    try:
        seconds = walked(home, source, sink)
        assert main(["--config", config, "verify", "orders_own"]) == 0
    finally:
        assert main(["jobs", "stop", "orders_own", "--state-dir", str(home / "slotkeeper")]) == 0
    assert seconds < MOST_SECONDS


def walked(home: Path, source: Endpoint, sink: Endpoint) -> float:
    """The walk, typed at a pseudo terminal; seconds from the prompt to RUNNING in the console."""
    began = time.monotonic()
    terminal = Terminal(home, configured=False)
    terminal.read_until(b"your first job")
    terminal.press(b"n", b"kind of source")
    terminal.press(b"dws\n", b"source (user@host:port/database)")
    terminal.press(at(source), b"file with the password")
    terminal.press(source.password.ref.encode() + b"\n", b"source table")
    terminal.press(b"ods.orders\n", b"sink (user@host:port/database)")
    terminal.press(at(sink), b"file with the password")
    terminal.press(sink.password.ref.encode() + b"\n", b"target table")
    terminal.press(b"mart.orders_own\n", b"name of the job")
    terminal.press(b"orders_own\n", b"start it now?")
    terminal.press(b"\n", b"\x1b[?1049h")
    terminal.read_until(b"RUNNING", len(terminal.seen))
    seconds = time.monotonic() - began
    print(f"from the prompt to RUNNING in the console: {seconds:.0f} s")
    terminal.write(b"q")
    terminal.read_until(b"\x1b[?1049l", len(terminal.seen))
    terminal.end()
    return seconds
