"""A wait for a MariaDB that runs but never listens ends as soon as one for a MariaDB that does nothing."""

from __future__ import annotations

import subprocess
import sys
from itertools import count
from types import SimpleNamespace

import pytest

from slotkeeper.core.domain import elapsed
from slotkeeper.demo import mariadb, patient
from slotkeeper.demo.postgres import free_port


def test_the_cpu_time_of_an_idle_server_does_not_count_as_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    used = count()

    def idle(pid: int) -> float:
        looks = next(used)
        assert looks < 45, "the wait continues as long as it uses CPU time"
        return looks / 10

    monkeypatch.setattr(mariadb, "Progress", lambda now: elapsed.Progress(now, limit=0.5))
    monkeypatch.setattr(patient, "cpu_seconds", idle)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        server = SimpleNamespace(child=child, port=free_port())
        try:
            assert not mariadb.MariaServer._came_up(server)  # type: ignore[arg-type]
            assert child.poll() is None
        finally:
            child.kill()
