"""Every malformed configuration, through the real command line: one message, exit code 2, no secret, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core import ownership
from tests.unit.config.cases import Case
from tests.unit.config.malformed import CASES as OTHERS
from tests.unit.config.malformed_exact import EXACT
from tests.unit.config.malformed_sink import CHANNEL_CASES, SINK_CASES
from tests.unit.config.samples import SECRET, VALID

CASES = [*OTHERS, *SINK_CASES, *CHANNEL_CASES]


def _assert_one_message(err: str, case: Case) -> None:
    lines = err.splitlines()
    assert lines[0].startswith("slotkeeper: "), err
    assert len(lines) <= 2, err
    assert all(line.startswith("  ") for line in lines[1:]), err
    assert "Traceback" not in err
    assert SECRET not in err
    for part in case.says:
        assert part in err


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_is_refused_with_one_clear_message(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(case.text)
    for name, value in case.env.items():
        monkeypatch.setenv(name, value)
    assert main(["config", "check", "--config", str(file)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    _assert_one_message(err, case)


@pytest.mark.parametrize("case", CASES[::20], ids=lambda case: case.name)
def test_is_refused_by_the_real_process(case: Case, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(case.text)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "slotkeeper.console", "--config", "config.toml", "config", "check"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])} | case.env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    _assert_one_message(done.stderr, case)


@pytest.mark.parametrize("case", EXACT, ids=lambda case: case.name)
def test_says_exactly_this(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.toml"
    file.write_text(case.text)
    assert main(["config", "check", "--config", str(file)]) == 2
    assert capsys.readouterr().err.replace(f"{tmp_path}/", "").splitlines() == [*case.says]


def test_there_are_many_and_each_has_a_name_of_its_own() -> None:
    every = [*CASES, *EXACT]
    assert len(every) >= 165 and len(EXACT) >= 60
    assert len({case.name for case in every}) == len(every)


def _refused(file: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["--config", str(file), "config", "check"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("slotkeeper: ") == 1
    return err


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "does not exist" in _refused(tmp_path / "none.toml", capsys)


def test_a_folder_is_not_taken_as_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "cannot be read: Is a directory" in _refused(tmp_path, capsys)


def test_an_unreadable_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, what: str, most: int) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(ownership, "read", refuse)  # root, which may run the tests, can read everything
    assert "cannot be read: Permission denied" in _refused(tmp_path / "config.toml", capsys)


def test_a_file_of_another_encoding_is_named_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(VALID.encode() + "# größer\n".encode("latin-1"))
    assert "config.toml:38: is not UTF-8" in _refused(file, capsys)


def test_a_huge_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "config.toml"
    file.write_bytes(b"#" * 2_000_000)
    assert "larger than 1 MiB" in _refused(file, capsys)


def test_no_file_at_all_says_where_it_was_looked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLOTKEEPER_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert main(["config", "check"]) == 2
    err = capsys.readouterr().err
    assert str(tmp_path / "slotkeeper" / "config.toml") in err
    assert "slotkeeper demo" in err
