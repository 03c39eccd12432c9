"""Every command that queries a server, with every bad server: it ends within its limit, and immediately at Ctrl-C."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support.fake_server import Mode
from tests.support.report import Page
from tests.support.silent_place import COMMANDS, SECRET, Place, bare_interrupt, ended, opened

pytestmark = pytest.mark.chaos
AT_ONCE = 3
ENDS_WITHIN = 60.0
"""Seconds for the slowest command, which asks two servers one after the other, on a busy host."""
INTERRUPTED = 130
CTRL_C_WITHIN = 1.0
"""Seconds, plus twice the time of an interpreter that only waits: on a busy host that alone is longer."""
SILENT = [Mode.MUTE, Mode.HANG_AT_LOGIN, Mode.TLS_HANG, Mode.HANG, Mode.TRICKLE, Mode.FLOOD]
FALSE = [Mode.GARBAGE, Mode.CLEARTEXT, Mode.ECHO, Mode.NO_TLS]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    about = (
        "Source and sink are one bad server each; a login has 2 s, a status 2 s, a question to a sink 5 or 30 s, and"
        " 2 s more on our side. Seconds include the start of an interpreter; three commands run at once. After Ctrl-C:"
        " from the signal to the end of the process."
    )
    columns = ["server", "command", "exit", "seconds", "said", "a traceback, or the password", "seconds after Ctrl-C"]
    yield Page("silence", "Every command before servers that hang or lie", about, columns)


def in_its_time(mode: Mode, name: str, folder: Path) -> tuple[int, float, str, bool]:
    """Return a command's exit code, its seconds, its first line about a server, and whether it printed a secret."""
    folder.mkdir()
    with opened(mode, folder) as place:
        began = time.monotonic()
        code, out, err = ended(place.begin(COMMANDS[name]), ENDS_WITHIN)
        took = time.monotonic() - began
        told = out + err
        lines = [line.strip() for line in told.splitlines() if "dws1 (" in line or "mart (" in line or "sink" in line]
        said = lines[0].replace(str(place.source.port), "PORT").replace(str(place.sink.port), "PORT") if lines else ""
        return code, took, said, "Traceback" in told or "defect" in told or SECRET in told + place.files()


def after_ctrl_c(mode: Mode, name: str, folder: Path) -> float | None:
    """Return the seconds that a command took to end after Ctrl-C; None if it ended before it queried a server."""
    folder.mkdir()
    with opened(mode, folder) as place:
        command = place.begin(COMMANDS[name])
        if not asked(place, command.poll):
            ended(command, ENDS_WITHIN)
            return None
        began = time.monotonic()
        command.send_signal(signal.SIGINT)
        code, _, err = ended(command, ENDS_WITHIN)
        assert code == INTERRUPTED and "Traceback" not in err, (name, code, err)
        return time.monotonic() - began


def asked(place: Place, over: object) -> bool:
    """Wait until either server is queried; return False if the command ends first."""
    assert callable(over)
    while not (place.source.asked.wait(0.05) or place.sink.asked.is_set()):
        if over() is not None:
            return False
    return True


@pytest.mark.parametrize("mode", [*SILENT, *FALSE])
def test_every_command_ends_in_its_time_and_in_words(mode: Mode, page: Page, tmp_path: Path) -> None:
    wrong = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ran = {name: pool.submit(in_its_time, mode, name, tmp_path / str(n)) for n, name in enumerate(COMMANDS)}
        found = {name: one.result() for name, one in ran.items()}
        interrupts = COMMANDS if mode in SILENT else {}
        ending = {name: pool.submit(after_ctrl_c, mode, name, tmp_path / f"c{n}") for n, name in enumerate(interrupts)}
        beside = [pool.submit(bare_interrupt) for _ in range(AT_ONCE if interrupts else 0)]
        slow = {name: one.result() for name, one in ending.items()}
        bare = max((one.result() for one in beside), default=0.0)
    if interrupts:
        page.add(mode.name, "(an interpreter that only waits)", "", "", "", "", f"{bare:.2f}")
    for name, (code, took, said, bad) in found.items():
        late = slow.get(name)
        page.add(mode.name, name, code, took, said, "NO" if bad else "no", "" if late is None else f"{late:.2f}")
        if (
            not code
            or bad
            or took >= ENDS_WITHIN
            or not said
            or (late is not None and late >= CTRL_C_WITHIN + 2 * bare)
        ):
            wrong.append((name, code, took, said, bad, late))
    assert not wrong
