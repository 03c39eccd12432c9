"""Every port that a demo opens is in the table of docs/security.md, and only this host reaches it."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from slotkeeper.core.errors import ConfigError
from slotkeeper.demo import mariadb
from tests.support import listening

pytestmark = [pytest.mark.chaos, pytest.mark.spark]
LOOK_S = 0.3


def below(folder: Path) -> list[psutil.Process]:
    """The processes that were started with this temporary folder."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("TMPDIR") == str(folder):
                found.append(process)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--source", "dws", "--sink", "doris"), {"postgres", "driver JVM", "demo"}),
        (("--source", "mysql"), {"postgres", "mariadbd", "driver JVM"}),
        (("--source", "hologres", "--read-by", "stream"), {"postgres", "driver JVM", "demo"}),
        (("--source", "hologres_slot"), {"postgres", "driver JVM", "demo"}),
    ],
    ids=["dws to doris", "mysql", "hologres by stream", "hologres_slot"],
)
def test_every_port_of_a_demo_is_in_the_table(words: tuple[str, ...], expected: set[str], tmp_path: Path) -> None:
    if "mysql" in words:
        try:
            mariadb.find_programs()
        except ConfigError as error:
            pytest.skip(str(error))
    environ = {**os.environ, "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state")}
    command = [
        sys.executable,
        "-m",
        "slotkeeper.console",
        "demo",
        "--headless",
        "--duration",
        "10s",
        "--rows",
        "2000",
        *words,
    ]
    seen: dict[tuple[int, int], listening.Socket] = {}
    wrong: set[str] = set()
    with (tmp_path / "said").open("w") as said:
        demo = subprocess.Popen(command, env=environ, stdout=said, stderr=said)
        while demo.poll() is None:
            found = listening.sockets(below(tmp_path))
            wrong.update(listening.unlisted(found))
            seen.update({(one.pid, one.port): one for one in found})
            with suppress(subprocess.TimeoutExpired):
                demo.wait(LOOK_S)
    assert demo.returncode == 0, (tmp_path / "said").read_text("utf-8")
    assert wrong == set()
    assert {one.process for one in seen.values()} == expected
