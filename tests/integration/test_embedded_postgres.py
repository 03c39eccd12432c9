"""Embedded servers: start, restart, crash, stop, attach; and the cases without root."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ConfigError
from slotkeeper.demo import placement, postgres
from slotkeeper.demo.binaries import BIN_VARIABLE, find_binaries
from slotkeeper.demo.warehouse import Warehouse
from tests.support.standin import Surface, run
from tests.support.waiting import until

IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose name is too long for a socket; the server in it is gone after the test."""
    place = tmp_path / ("long" * 30) / "server"
    yield place
    postgres.discard(place)


def alive(process: psutil.Process) -> bool:
    """Whether the process is running: another process with the same number does not count."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def family(pid: int) -> list[psutil.Process]:
    own = psutil.Process(pid)
    return [own, *own.children(recursive=True)]


def ask(server: postgres.Server, statement: str) -> list[tuple[object, ...]]:
    with closing(server.connect("postgres")) as connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else []


def test_a_crash_keeps_what_was_committed_and_the_port(folder: Path) -> None:
    server = postgres.start(folder, "one", {"work_mem": "7MB"})
    assert ask(server, "SELECT current_setting('work_mem'), current_setting('fsync')") == [("7MB", "on")]
    ask(server, "CREATE TABLE kept AS SELECT 1 AS a")
    before = psutil.Process(server.pid)
    server.restart("immediate")
    assert server.running() and server.pid != before.pid and not alive(before)
    assert ask(server, "SELECT a FROM kept") == [(1,)]


def test_stop_leaves_no_process_and_start_resumes(folder: Path) -> None:
    server = postgres.start(folder, "one")
    assert postgres.start(folder, "one") == server, "a running server is not started twice"
    assert postgres.attach(folder) == server
    processes = family(server.pid)
    assert len(processes) > 3
    server.stop()
    assert not server.running() and postgres.attach(folder) is None
    until(lambda: not [one for one in processes if alive(one)], 10, "the server's last process to end")
    server.stop()
    assert postgres.start(folder, "one").port == server.port


def test_passwords_are_asked_for_and_private(folder: Path) -> None:
    server = postgres.start(folder, "one")
    assert stat.S_IMODE(server.password_file.stat().st_mode) == 0o600
    with pytest.raises(pg.DriverError, match="password authentication failed"):
        pg.connect(Endpoint("x", server.host, server.port, "postgres", server.superuser), "wrong", "test")
    listening = {at.laddr.ip for at in psutil.Process(server.pid).net_connections("inet") if at.status == "LISTEN"}
    assert listening == {"127.0.0.1"}
    assert not psutil.Process(server.pid).net_connections("unix")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder in which every user can create files; pytest's is closed to other users."""
    place = Path(tempfile.mkdtemp(prefix="slotkeeper-test-"))
    place.chmod(0o1777)
    if not placement.everybody_may_enter(place):
        place.rmdir()
        pytest.skip("the system's temporary folder is closed to other users")
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield place
    shutil.rmtree(place)


@pytest.mark.skipif(not IS_ROOT, reason="only root has to drop rights")
def test_as_root_with_binaries_that_no_other_user_can_reach(
    opened: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = find_binaries().folder.parents[1]
    libraries = package.with_name(package.name + ".libs")
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(package / "pginstall", closed / package.name / "pginstall", symlinks=True)
    shutil.copytree(libraries, closed / libraries.name)
    monkeypatch.setenv(BIN_VARIABLE, str(closed / package.name / "pginstall" / "bin"))
    usual = os.umask(0o077)  # as the console's and the supervisor's is
    try:
        folder = opened / "server"
        server = postgres.start(folder, "one")
    finally:
        os.umask(usual)
    assert server.data_dir.is_relative_to(opened)
    assert Path(psutil.Process(server.pid).exe()).is_relative_to(opened), "a copy runs"
    server.restart("immediate")
    assert ask(server, "SELECT 1") == [(1,)]
    postgres.discard(folder)
    assert not server.data_dir.exists() and not server.running()


def test_a_wrong_folder_of_binaries_is_a_configuration_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BIN_VARIABLE, str(tmp_path))
    with pytest.raises(ConfigError, match=f"{BIN_VARIABLE} is not valid") as caught:
        postgres.start(tmp_path / "server", "one")
    assert BIN_VARIABLE in caught.value.hint
    assert not (tmp_path / "server").exists()


def test_a_pid_that_is_another_program_is_not_the_server(folder: Path) -> None:
    server = postgres.start(folder, "one")
    server.stop()
    (server.data_dir / "postmaster.pid").write_text(f"{os.getpid()}\n", encoding="utf-8")
    assert not server.running()
    server.stop()
    (server.data_dir / "postmaster.pid").unlink()


def test_the_standin_runs_on_the_systems_binaries(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = sorted(Path(Path.cwd().anchor).glob("usr/lib/postgresql/1[5-9]/bin"))
    if not system:
        pytest.skip("no PostgreSQL of the system")
    monkeypatch.setenv(BIN_VARIABLE, str(system[0]))
    server = postgres.start(folder, "old")
    warehouse = Warehouse.install(server, dns=2)
    warehouse.create_table("ods.t", "a int, b text", ["a"])
    surface = Surface(warehouse)
    surface.start("ods.t")
    run(warehouse, "INSERT INTO ods.t VALUES (1, 'x')", "UPDATE ods.t SET b = 'y'", "ALTER TABLE ods.t RENAME b TO c")
    assert [row[2] for row in surface.changes("ods.t")] == ["I", "B", "U"]
    run(warehouse, "TRUNCATE ods.t")
    assert surface.changes("ods.t") == []
    surface.close()
    with pytest.raises(ConfigError, match="already"):
        Warehouse.install(server)
