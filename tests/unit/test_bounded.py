"""Every read of a file or of another program's output has a limit, and exceeding it is reported at once."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from slotkeeper.core.bounded import STATE_FILE_BYTES, TooLong, end_in, output_of, text_of
from slotkeeper.core.config import secrets
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.launch.log import last_lines
from slotkeeper.core.state.alerts import ACKS_KIND, ACKS_NAME, AckFile
from slotkeeper.core.state.faults import StateError
from slotkeeper.core.state.folder import StateFolder
from tests.support.waiting import until

ENDLESS = (sys.executable, "-c", "import sys\nwhile True: sys.stdout.write('secret' * 9999)")


def test_a_program_that_writes_without_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(TooLong, match="more than 64 KiB"):
        output_of(ENDLESS, 60, 65_536)


def test_a_program_that_never_ends_is_ended_and_so_is_waiting_for_what_it_left_behind() -> None:
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        output_of(("sh", "-c", "sleep 30 & sleep 30"), 0.2, 100)
    assert time.monotonic() - began < 20


def test_what_a_program_that_is_ended_had_started_is_ended_too(tmp_path: Path) -> None:
    noted = tmp_path / "pid"
    with pytest.raises(subprocess.TimeoutExpired):
        output_of(("sh", "-c", f"sleep 600 & echo $! > {shlex.quote(str(noted))}; wait"), 1.0, 100)
    pid = int(noted.read_text("ascii"))
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE, 20, "its end")


def test_what_a_program_wrote_comes_with_its_exit_code() -> None:
    assert output_of(("sh", "-c", "printf out; printf err >&2; exit 3"), 20, 100) == (3, b"out")
    assert output_of(("sh", "-c", "printf out; printf err >&2"), 20, 100, errors_too=True) == (0, b"outerr")


def test_a_password_command_that_floods_is_refused_without_a_word_of_it() -> None:
    with pytest.raises(ConfigError, match="writes more than 64 KiB, the limit for a password") as raised:
        secrets.resolve(SecretRef("command", shlex.join(ENDLESS), "password"))
    assert "secretsecret" not in str(raised.value)


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("x" * 101, "utf-8")
    with pytest.raises(TooLong, match="more than 100 bytes"):
        text_of(path, 100)
    assert text_of(path, 101) == "x" * 101


@pytest.mark.parametrize(
    ("most", "found"),
    [
        (100, (b"one\ntwo\nthree\n", True)),
        (10, (b"two\nthree\n", False)),
        (9, (b"three\n", False)),
        (6, (b"three\n", False)),
    ],
)
def test_the_end_in_a_file_begins_where_a_line_does(tmp_path: Path, most: int, found: tuple[bytes, bool]) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\nthree\n")
    with path.open("rb") as reading:
        assert end_in(reading, most) == found


def test_a_file_of_the_state_folder_that_grew_is_refused_by_name(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path / "state")
    (folder.path / ACKS_KIND).mkdir()
    (folder.path / ACKS_KIND / f"{ACKS_NAME}.json").touch()
    os.truncate(folder.path / ACKS_KIND / f"{ACKS_NAME}.json", STATE_FILE_BYTES + 1)
    with pytest.raises(StateError, match=f"{ACKS_NAME}.json has more than 16 MiB, so Slotkeeper did not write it"):
        AckFile(folder).read()


def test_a_line_of_a_log_without_an_end_is_shown_in_part(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100_000 + b"\nlast\n")
    assert last_lines(path, 1_000_000)[-1] == "last"
    assert max(map(len, last_lines(path, 1_000_000))) <= 2_000
