"""Read-only commands create no state folder if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("status", 3),
        ("jobs list", 0),
        ("sync show", 0),
        ("jobs show x", 3),
        ("jobs logs x", 3),
        ("audit list", 0),
        ("audit export", 0),
        ("audit verify", 0),
    ],
)
def test_a_command_that_reads_makes_nothing(
    command: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("SLOTKEEPER_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)
    assert main(command.split()) == code, capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
