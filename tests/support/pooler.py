"""A real PgBouncer in front of the run's PostgreSQL, if the host has one: loopback only, ended by its process ID.

PgBouncer refuses to run as root, so it runs as the embedded server does (`slotkeeper.demo.unprivileged`).
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.demo.placement import give
from slotkeeper.demo.postgres import free_port
from slotkeeper.demo.unprivileged import must_drop, rights, unused_id
from tests.support.waiting import until

NO_PROGRAM = "pgbouncer is absent (Debian, Ubuntu: apt-get install pgbouncer)"


@dataclass(frozen=True, slots=True)
class Pooler:
    """A running PgBouncer; every database of its server has a pool for each user."""

    port: int
    folder: Path
    running: subprocess.Popen[bytes]

    def before(self, endpoint: Endpoint) -> Endpoint:
        return replace(endpoint, port=self.port)

    def answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def end(self) -> None:
        self.running.kill()
        self.running.wait(20)
        shutil.rmtree(self.folder, ignore_errors=True)


MakePooler = Callable[..., Pooler]


def _settings(port: int, folder: Path, mode: str) -> dict[str, str]:
    return {
        "listen_addr": "127.0.0.1",
        "listen_port": str(port),
        "unix_socket_dir": "",
        "auth_type": "scram-sha-256",
        "auth_file": str(folder / "users.txt"),
        "default_pool_size": "20",
        "max_client_conn": "500",
        "query_wait_timeout": "20",
        "pool_mode": mode,
    }


def _start(users: Sequence[Endpoint], mode: str, more: Mapping[str, str]) -> Pooler:
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
    if program is None:
        pytest.skip(NO_PROGRAM)
    folder, port = Path(tempfile.mkdtemp(prefix="slotkeeper-pooler-")), free_port()
    secrets = {one.user: resolve(one.password) for one in users}
    (folder / "users.txt").write_text("".join(f'"{name}" "{secret}"\n' for name, secret in secrets.items()))
    lines = [f"{name} = {value}" for name, value in {**_settings(port, folder, mode), **more}.items()]
    server = f"* = host={users[0].host} port={users[0].port}"
    (folder / "pgbouncer.ini").write_text("\n".join(["[databases]", server, "[pgbouncer]", *lines]) + "\n")
    if must_drop():
        give(folder, unused_id())
    with (folder / "log").open("wb") as log:
        running = subprocess.Popen(
            [program, str(folder / "pgbouncer.ini")],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder, **rights(folder.stat().st_uid),
        )  # fmt: skip
    pooler = Pooler(port, folder, running)
    until(lambda: pooler.answers() or running.poll() is not None, 20, "pgbouncer to listen")
    assert running.poll() is None, (folder / "log").read_text()
    return pooler


@pytest.fixture
def make_pooler() -> Iterator[MakePooler]:
    """Starts poolers: for the server and users of some endpoints, in a mode, with further settings of PgBouncer."""
    made: list[Pooler] = []

    def make(users: Sequence[Endpoint], mode: str, **more: str) -> Pooler:
        made.append(_start(users, mode, more))
        return made[-1]

    yield make
    for one in made:
        one.end()
