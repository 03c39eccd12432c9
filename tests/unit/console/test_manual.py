"""The manual page matches the current commands, and the programs that show it report no warning."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.console.cli.diagnostics import ExitCode
from slotkeeper.console.commands.man import escaped
from tests.architecture.checkout import ROOT
from tests.unit.console.test_schemas import commands

PAGE = ROOT / "docs" / "man" / "slotkeeper.1"


def test_the_page_is_what_the_commands_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["man"]) == 0
    assert PAGE.read_text("utf-8") == capsys.readouterr().out, "make docs"


def test_every_command_and_every_option_is_there() -> None:
    text = PAGE.read_text("utf-8")
    parts = {_name(part).replace("locks list", "locks"): part for part in text.split("\n.SS ")[1:]}
    assert set(parts) == {name for name, _ in commands()}
    for name, options in commands():
        assert not [one for one in options if one.startswith("--") and escaped(one) not in parts[name]], name
    assert all(f".B {int(code)}\n" in text for code in ExitCode)


def _name(part: str) -> str:
    """Return the command in a section's heading, without its arguments, which are in capitals or brackets."""
    words = part.split('"')[1].replace("\\-", "-").split()[1:]
    return " ".join(word for word in words if word.islower() and "|" not in word)


@pytest.mark.skipif(shutil.which("groff") is None, reason="needs groff")
def test_groff_has_nothing_to_warn_of() -> None:
    ended = subprocess.run(["groff", "-man", "-ww", "-z", "-Tutf8", PAGE], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


@pytest.mark.skipif(shutil.which("man") is None, reason="needs man")
def test_man_shows_it_without_a_warning() -> None:
    words = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-P", "cat", str(PAGE)]
    ended = subprocess.run(
        words,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "User Commands" in ended.stdout


@pytest.mark.skipif(shutil.which("lexgrog") is None, reason="needs lexgrog of man-db")
def test_apropos_finds_it() -> None:
    ended = subprocess.run(["lexgrog", str(PAGE)], capture_output=True, text=True, check=False)
    assert (ended.returncode, "slotkeeper - mirror warehouse binlogs" in ended.stdout) == (0, True)
