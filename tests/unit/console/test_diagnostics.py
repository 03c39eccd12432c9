"""The output on stderr: one message, one hint, the right code, no secret."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from slotkeeper.console.cli import diagnostics
from slotkeeper.console.cli.diagnostics import EXIT_CODES, ExitCode, report
from slotkeeper.core import redaction
from slotkeeper.core.errors import KINDS, Defect, ErrorKind, Trouble, TroubleName
from tests.unit.config.samples import SECRET


@pytest.fixture(autouse=True)
def _a_resolved_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", [redaction.Known([SECRET])])


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_an_exit_code_and_one_message(
    kind: ErrorKind, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert set(EXIT_CODES) == set(ErrorKind)
    code = report(KINDS[kind]("it failed", hint="do this"), tmp_path / "log")
    out, err = capsys.readouterr()
    assert (code, out) == (EXIT_CODES[kind], "")
    assert err.startswith("slotkeeper: it failed")
    assert len(err.splitlines()) == 2


def test_the_codes_are_those_of_the_design() -> None:
    assert [code.value for code in ExitCode] == [0, 1, 2, 3, 4, 5]
    assert EXIT_CODES[ErrorKind.CONFIG] == 2
    assert EXIT_CODES[ErrorKind.OPERATOR] == 3
    assert EXIT_CODES[ErrorKind.TRANSIENT] == 5


def test_a_named_trouble_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(Trouble("no slot s on dn_1", name=TroubleName.SLOT_LOST), tmp_path / "log") == 3
    assert capsys.readouterr().err == "slotkeeper: SLOT LOST: no slot s on dn_1\n"


def test_a_message_stays_one_line_and_without_secrets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report(KINDS[ErrorKind.OPERATOR](f"a\nb\x1b[31m {SECRET}", hint=f"c\r\n{SECRET}"), tmp_path / "log")
    assert capsys.readouterr().err == "slotkeeper: a\\nb\\x1b[31m ***\n  c\\r\\n***\n"


def test_a_defect_says_where_its_traceback_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "folder" / "console.log"
    try:
        raise KeyError(f"row {SECRET}\x1b")
    except KeyError as error:
        assert report(error, log) == 1
    assert capsys.readouterr().err == f"slotkeeper: unexpected KeyError; this is a defect\n  details: {log}\n"
    text = log.read_text()
    assert "Traceback" in text and "row ***" in text and "\x1b" not in text and SECRET not in text
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700


def test_our_own_defect_keeps_its_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(Defect("position went back"), tmp_path / "log") == 1
    assert "slotkeeper: position went back; this is a defect" in capsys.readouterr().err


def test_a_log_that_cannot_be_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    report(ValueError(), tmp_path / "link")
    assert "could not write the log" in capsys.readouterr().err
    assert not (tmp_path / "elsewhere").exists()


def test_a_fifo_in_place_of_the_log_is_said_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "fifo")
    reading = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
    report(ValueError(), tmp_path / "fifo")
    os.close(reading)
    assert "not a regular file" in capsys.readouterr().err


def test_the_log_of_defects_does_not_grow_without_a_limit(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_bytes(b"x" * (diagnostics.LOG_BYTES + 1))
    report(ValueError(), log)
    report(ValueError(), log)
    assert log.read_text().count(" defect\n") == 2
    assert log.with_name("console.log.1").stat().st_size == diagnostics.LOG_BYTES + 1


def test_warnings_and_notes_are_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    diagnostics.warn("a\nb")
    diagnostics.note("c")
    assert capsys.readouterr().err == "slotkeeper: warning: a\\nb\nslotkeeper: c\n"
