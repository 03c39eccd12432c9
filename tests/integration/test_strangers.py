"""Another user of the host, with embedded servers of any owner: no login, no file access, no signal.

The attempts are in `tests/support/strangers.py`; the servers run once as root's, each with its own user id, and once as
an ordinary user's.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from slotkeeper.core.drivers import my, pg
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.sources.mysql.kind import KIND
from slotkeeper.demo import maria_orders, mariadb, placement, postgres
from slotkeeper.demo.binaries import BIN_VARIABLE, find_binaries
from tests.support import other_user, strangers
from tests.support.strangers import Served

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become two other users")
NOBODY, STRANGER = 65_534, 64_003
"""Users who have no part in the servers: one whose id other programs use, and one whose id no system has."""


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A folder that every user can enter, unlike pytest's."""
    try:
        mariadb.find_programs()
    except ConfigError as error:
        pytest.skip(f"{error.message}: {error.hint}")
    found = Path(tempfile.mkdtemp(prefix="slotkeeper-strangers-"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


@pytest.fixture(scope="module")
def started() -> list[list[str]]:
    """Return the command lines of every process with which root's servers were started."""
    return []


@pytest.fixture(scope="module")
def of_root(place: Path, started: list[list[str]]) -> Iterator[Served]:
    folder = place / "root"
    folder.mkdir(mode=0o700)
    usual = subprocess.Popen.__init__

    def recorded(self: Any, args: Any, *more: Any, **named: Any) -> None:
        started.append([str(word) for word in args])
        usual(self, args, *more, **named)

    with ExitStack() as stack:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(subprocess.Popen, "__init__", recorded)
            served = strangers.serve(folder, stack)
        yield served


@pytest.fixture(scope="module")
def of_a_user(place: Path) -> Iterator[Served]:
    """Servers of an ordinary user with a name, which initdb requires."""
    folder = place / "user"
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)
    binaries = placement.reachable_binaries(find_binaries()).folder
    command = [sys.executable, "-m", "tests.support.strangers", str(folder), str(NOBODY)]
    env = {**os.environ, BIN_VARIABLE: str(binaries), "HOME": str(folder)}
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env, cwd=other_user.ROOT
    )
    with running:
        assert running.stdout is not None
        line = running.stdout.readline()
        assert line, "the servers of an ordinary user did not start"
        yield Served(**json.loads(line))


def tried(served: Served, uid: int) -> dict[str, str]:
    return other_user.run("break_in", Path(served.victim), uid, served=served)


@pytest.mark.parametrize("uid", [NOBODY, STRANGER])
def test_another_user_gets_no_login_and_no_file_at_the_servers_of_root(of_root: Served, uid: int) -> None:
    assert tried(of_root, uid) == {}
    assert [one.name for one in Path(of_root.victim).iterdir()] == ["secret"]


def test_another_user_gets_no_login_and_no_file_at_the_servers_of_an_ordinary_user(of_a_user: Served) -> None:
    assert tried(of_a_user, STRANGER) == {}
    assert [one.name for one in Path(of_a_user.victim).iterdir()] == ["secret"]


def test_the_servers_of_root_run_as_users_that_own_nothing_else(of_root: Served) -> None:
    pids = [int(str(one["pid"])) for one in of_root.processes]
    family = [child for pid in pids for child in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True))]
    users = {tuple(one.uids()) for one in family}
    assert len(users) == len(pids), "each server has a different user id"
    assert not {number for ids in users for number in ids} & {0, NOBODY, STRANGER}
    for one in family:
        assert Path(f"/proc/{one.pid}/uid_map").read_text("ascii") == Path("/proc/self/uid_map").read_text("ascii")


def test_a_superuser_of_a_server_reaches_no_file_of_root(of_root: Served) -> None:
    victim, folder = Path(of_root.victim), Path(of_root.victim).parent
    maria = (folder / "maria" / "root.password").read_text("utf-8").strip()
    with closing(my.connect(strangers.at(of_root.mysql[0], "root"), maria, "test", 20.0)) as session:
        for text in (f"'{victim}/planted'", f"'{folder}/planted'", "'/tmp/planted'"):
            with pytest.raises(my.DriverError, match="secure-file-priv"):
                session.rows(f"SELECT 'planted' INTO OUTFILE {text}")
        assert session.rows(f"SELECT LOAD_FILE('{victim}/secret'), @@local_infile") == [(None, 0)]
    server = postgres.attach(folder / "pg")
    assert server is not None
    denied = pg.DriverError
    for statement in (
        f"COPY (SELECT 'planted') TO PROGRAM 'cat > {victim}/planted'",
        f"COPY (SELECT 'planted') TO '{victim}/planted'",
        f"SELECT pg_read_file('{victim}/secret')",
    ):
        with closing(server.connect("postgres")) as connection, connection.cursor() as cursor, pytest.raises(denied):
            cursor.execute(statement)
    assert [one.name for one in victim.iterdir()] == ["secret"]


def test_no_password_is_in_the_arguments_of_a_process(of_root: Served, started: list[list[str]]) -> None:
    secrets = [Path(file).read_text("utf-8").strip() for file in of_root.secrets]
    assert len(secrets) > 4
    running = [one.info["cmdline"] or [] for one in psutil.process_iter(("cmdline",))]
    assert any("initdb" in " ".join(words) for words in started)
    shown = [words for words in (*started, *running) if any(secret in word for secret in secrets for word in words)]
    assert shown == []


def test_the_login_of_the_demos_job_has_the_rights_that_doctor_asks_for(of_root: Served) -> None:
    secret = (Path(of_root.victim).parent / "maria" / "etl.password").read_text("utf-8").strip()
    at = strangers.at(of_root.mysql[0], maria_orders.LOGIN)
    with closing(my.connect(at, secret, "test", 20.0)) as session:
        told = sorted(str(row[0]).partition(" TO ")[0].replace("`", "") for row in session.rows("SHOW GRANTS"))
        for statement in ("INSERT INTO ods.orders VALUES (1)", "SELECT 1 INTO OUTFILE 'x'", "SELECT * FROM mysql.user"):
            with pytest.raises(my.DriverError, match="denied"):
                session.rows(statement)
    script = KIND.manual.grants(at, ["ods.orders"])
    asked = [line.partition(" TO ")[0].replace("`", "") for line in script if "MySQL only" not in line]
    assert [f"GRANT {each}" for each in maria_orders.GRANTS] == asked
    # MariaDB, "GRANT": REPLICATION CLIENT is BINLOG MONITOR
    assert told == ["GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.*", "GRANT SELECT ON ods.orders"]
