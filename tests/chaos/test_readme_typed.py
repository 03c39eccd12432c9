"""Every command in a block of the README is typed here as printed, or in the test that `ELSEWHERE` names."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.domain.endpoint import Endpoint
from tests.architecture.checkout import ROOT
from tests.tui.terminal import ALTERNATE_OFF, ALTERNATE_ON, Terminal

pytestmark = [pytest.mark.chaos, pytest.mark.spark]
HEADLESS = 'make demo ARGS="--headless --duration 60s --json"'
DEMO = "slotkeeper demo"
FIRST_JOB = ["slotkeeper init", "slotkeeper doctor", "slotkeeper jobs start orders_rt", "slotkeeper"]
ELSEWHERE = {
    'pip install "slotkeeper[demo]"': "tests/integration/test_distribution.py",  # from dist/, until it is published
    "make demo": "Makefile",  # runs DEMO
    "make test": ".ci/run",
}


def printed() -> list[str]:
    """Return the commands in the README's blocks, without their comments."""
    blocks = re.findall(r"^```\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return [re.sub(r" {3,}.*", "", line) for line in "".join(blocks).splitlines()]


def typed(command: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Return a command as typed in the checkout, with this checkout's `slotkeeper`."""
    words = shlex.split(command)
    words = [sys.executable, "-m", "slotkeeper.console", *words[1:]] if words[0] == "slotkeeper" else words
    return subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, env=env, timeout=1_200)


def test_each_command_of_the_readme_is_typed_here_or_elsewhere() -> None:
    assert set(printed()) == {HEADLESS, DEMO, *FIRST_JOB, *ELSEWHERE}
    assert all((ROOT / place).exists() for place in ELSEWHERE.values())


def test_the_headless_demo_ends_with_one_object_and_equal_tables() -> None:
    ended = typed(HEADLESS, dict(os.environ))
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["verified"] is True


def test_the_demo_opens_the_console_and_compares_both_tables_once_it_is_left(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, *DEMO.split()[1:], configured=False)
    terminal.read_until(ALTERNATE_ON)
    terminal.read_until(b"RUNNING", len(terminal.seen))
    terminal.write(b"q")
    terminal.read_until(b"Both tables are equal")
    assert terminal.end() == 0


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[tuple[Endpoint, Endpoint]]:
    """The servers of a demo that was left running."""
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "demo")}
    kept = typed("slotkeeper demo --headless --keep --duration 1s --rows 5000", env)
    try:
        assert kept.returncode == 0, kept.stderr
        (file,) = [word for word in kept.stderr.split() if word.endswith("/config.toml")]
        loaded = load(Path(file), {})
        yield loaded.sources["dws1"].endpoint, loaded.sinks["mart"].endpoint
    finally:
        assert typed("slotkeeper demo stop", env).returncode == 0


def test_the_four_commands_of_a_first_job_lead_to_a_console_that_shows_it(
    demo: tuple[Endpoint, Endpoint], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    env = {**os.environ, **{name: str(home) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}}
    init, doctor, start, _ = FIRST_JOB
    answers = ["--dialect", "dws", "--table", "ods.orders", "--into", "mart.orders_own", "--job", "orders_own"]
    for name, one in zip(("source", "sink"), demo, strict=True):
        answers += [f"--{name}", f"{one.user}@{one.host}:{one.port}/{one.database}"]
        answers += [f"--{name}-password-file", one.password.ref]
    # the demo's own job has the slot orders_rt there already
    for command in (f"{init} --no-start {shlex.join(answers)}", doctor, start.replace("orders_rt", "orders_own")):
        ended = typed(command, env)
        assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
    try:
        terminal = Terminal(home, configured=False)
        terminal.read_until(ALTERNATE_ON)
        terminal.read_until(b"orders_own", len(terminal.seen))
        terminal.write(b"q")
        terminal.read_until(ALTERNATE_OFF)
        terminal.end()
        assert typed("slotkeeper verify orders_own", env).returncode == 0
    finally:
        assert typed("slotkeeper jobs stop orders_own", env).returncode == 0
