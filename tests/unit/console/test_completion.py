"""Shells complete command lines: what they are answered is all that is written, and the root alone offers it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from console.__main__ import main
from core.domain.reset import MARKS, OpenReset
from core.state.folder import StateFolder
from core.state.resets import ResetFiles
from tests.unit.console.test_schemas import commands

PROGRAM = Path(sys.executable).with_name("slotkeeper")
INSTALLING = {"--install-completion", "--show-completion"}


def ran(words: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "XDG_STATE_HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "HOME": str(folder), **more}
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60, env=env)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("slotkeeper jo", ["jobs"]),
        ("slotkeeper jobs st", ["start", "stop"]),
        ("slotkeeper config ", ["check", "show"]),
        ("slotkeeper status --js", ["--json"]),
        ("slotkeeper jbs st", []),
        ("slotkeeper --config", ["--config"]),
    ],
)
def test_a_shell_is_answered_and_nothing_lands_in_the_prompt(tmp_path: Path, typed: str, offered: list[str]) -> None:
    folder = StateFolder.open(tmp_path / "slotkeeper")
    ResetFiles(folder).save(MARKS, "r1", OpenReset("r1", "j", "ods.t", "s").text)  # any command warns of it
    more = {"_SLOTKEEPER_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    answer = ran([sys.executable, "-m", "console"], tmp_path, **more)
    assert (answer.stdout.split(), answer.stderr) == (offered, "")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_takes_the_script_and_completes(tmp_path: Path) -> None:
    lines = (
        f'eval "$({PROGRAM} --show-completion bash)"; COMP_WORDS=(slotkeeper jobs can); COMP_CWORD=2;'
        f' _slotkeeper_completion {PROGRAM}; echo "${{COMPREPLY[@]}}"'
    )
    answer = ran(["bash", "-c", lines], tmp_path, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert (answer.stdout.split(), answer.stderr) == (["cancel"], "")


def test_only_the_root_offers_to_install_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert not [name for name, options in commands() if INSTALLING & options]
    assert main(["--help"]) == 0
    assert all(option in capsys.readouterr().out for option in sorted(INSTALLING)[:1])
