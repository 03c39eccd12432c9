"""Starts, stops and restarts a real MariaDB server for the demo and the tests.

The server listens only on loopback TCP and is identified by its process id.

The programs are the system's own (Debian: package mariadb-server). A server's folder has `data`, `files`, `temporary`,
`server.cnf` and `server.log`. The system's configuration is not read (`--defaults-file`), and the system's service is
not touched. If started by root, the server runs as its own user (`slotkeeper.demo.unprivileged`).

Before it listens, its superuser, which is the only login, gets a random password. File statements have access to the
empty folder `files` only (MariaDB Server Documentation, "secure_file_priv"), and the Unix socket is in the data folder
(0700).
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from slotkeeper.core.config import handover
from slotkeeper.core.domain.elapsed import Progress, Signs
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import ConfigError, Unreachable
from slotkeeper.demo import patient, placement
from slotkeeper.demo.placement import works_in
from slotkeeper.demo.postgres import free_port, write_password, write_secret
from slotkeeper.demo.unprivileged import rights

HOST = "127.0.0.1"
SUPERUSER = "root"
STOP_LIMIT_S = 60.0
SESSION_SECONDS = 60.0
"""Seconds allowed for a call in a superuser's session."""
PORT_TRIES = 5
_LOGINS = (
    "DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys'",
    "FLUSH PRIVILEGES",  # from here on accounts are recognized, which a bootstrap otherwise ignores
    f"CREATE USER {SUPERUSER}@'{HOST}' IDENTIFIED BY '{{password}}'",
    f"GRANT ALL ON *.* TO {SUPERUSER}@'{HOST}' WITH GRANT OPTION",
)
"""Replace the superusers without a password, which `mariadb-install-db` creates, with one that logs in over TCP with a
password."""
INSTALL_HINT = "install it (Debian, Ubuntu: apt-get install mariadb-server)"

SETTINGS: Mapping[str, str] = {
    "log_bin": "mysql-bin",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    "binlog_row_metadata": "FULL",
    "server_id": "77",
    "gtid_domain_id": "3",
    "gtid_strict_mode": "ON",
    "character_set_server": "utf8mb4",
    "collation_server": "utf8mb4_general_ci",
    "innodb_buffer_pool_size": "64M",
    "innodb_flush_log_at_trx_commit": "1",
    "sync_binlog": "0",
    "skip_name_resolve": "ON",
    "local_infile": "OFF",
    "performance_schema": "OFF",
}
"""A server's default settings: those that a source needs."""


@dataclass(frozen=True, slots=True)
class Programs:
    """The server program, and the program that creates its first tables."""

    server: str
    install: str


def find_programs() -> Programs:
    """Return the system's programs. Raises ConfigError that names the package to install if one is absent."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
    server = shutil.which("mariadbd", path=path)
    install = shutil.which("mariadb-install-db", path=path)
    if not server or not install:
        raise ConfigError("no MariaDB server on this host (mariadbd, mariadb-install-db)", hint=INSTALL_HINT)
    return Programs(server, install)


@dataclass(slots=True)
class MariaServer:
    """A server in `folder`; `stop` ends it, `discard` also deletes its folder."""

    folder: Path
    programs: Programs
    place: Path
    """The folder of the server's files: `folder`, or for root a folder that the server's user can enter."""
    port: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    child: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        """The server's data folder."""
        return self.place / "data"

    @property
    def files_dir(self) -> Path:
        """The empty folder that is the only one accessible to the server's file statements."""
        return self.place / "files"

    @property
    def temporary_dir(self) -> Path:
        """The folder of the server's temporary files."""
        return self.place / "temporary"

    @property
    def log_file(self) -> Path:
        """The server's log file."""
        return self.place / "server.log"

    @property
    def client_file(self) -> Path:
        """The 0600 file with which the `mariadb` client logs in as the superuser (`--defaults-extra-file`)."""
        return self.folder / "client.cnf"

    def password_file(self, user: str = SUPERUSER) -> Path:
        """The 0600 file with a login's password."""
        return self.folder / f"{user}.password"

    def password(self, user: str = SUPERUSER) -> str:
        """A login's password."""
        return self.password_file(user).read_text("utf-8").strip()

    def endpoint(self, name: str = "maria", user: str = SUPERUSER) -> Endpoint:
        """Return the server's endpoint, for its superuser or another login; `name` is the source's name."""
        secret = SecretRef("file", str(self.password_file(user)))
        return Endpoint(name, HOST, self.port, "", user, secret, sslmode="disable")

    def session(self) -> my.Session:
        """Open a session of the superuser."""
        return my.connect(self.endpoint(), self.password(), "slotkeeper-demo", SESSION_SECONDS)

    def create_login(self, user: str, *grants: str) -> Endpoint:
        """Create a login with a random password and only these rights ("SELECT ON ods.orders"); return its endpoint."""
        password = write_password(self.password_file(user))
        with closing(self.session()) as session:
            session.rows(f"CREATE USER {user}@'{HOST}' IDENTIFIED BY '{password}'")
            for grant in grants:
                session.rows(f"GRANT {grant} TO {user}@'{HOST}'")
        return self.endpoint(user=user)

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the server, with these settings added to its own; on the same port as before if that is free.

        Raises ConfigError with the end of its log if the server does not start.
        """
        self.settings = {**self.settings, **(settings or {})}
        for _ in range(PORT_TRIES):
            self.port = self.port or free_port()
            self._write_settings()
            self._launch()
            if self._came_up():
                return
            said = self._end_of_log()
            self.stop(crash=True)
            if "Address already in use" not in said:
                raise ConfigError(f"MariaDB did not start: {said}", hint=f"see {self.log_file}")
            self.port = 0
        raise ConfigError(f"no free port for MariaDB after {PORT_TRIES} attempts", hint="try again")

    def stop(self, crash: bool = False) -> None:
        """Stop the server, with SIGKILL if `crash`, and wait until its process has exited; does nothing if it is not
        running.

        Raises Unreachable if the process does not exit.
        """
        child, self.child = self.child, None
        if child is None:
            return
        for number in (signal.SIGKILL,) if crash else (signal.SIGTERM, signal.SIGKILL):
            child.send_signal(number)
            try:
                child.wait(STOP_LIMIT_S)
                return
            except subprocess.TimeoutExpired:
                continue
        raise Unreachable(
            f"MariaDB in {self.data_dir} (pid {child.pid}) did not stop", hint="kill the process manually"
        )

    def restart(self, settings: Mapping[str, str] | None = None, crash: bool = False) -> None:
        """Stop the server and start it again on the same port."""
        self.stop(crash)
        self.start(settings)

    def discard(self) -> None:
        """Kill the server and delete all of its files."""
        self.stop(crash=True)
        placement.remove(self.place)
        placement.remove(self.folder)

    def _write_settings(self) -> None:
        fixed = {
            "datadir": str(self.data_dir),
            "bind_address": HOST,
            "port": str(self.port),
            "socket": "s",  # in the data folder, whose full path may be too long for a socket
            "pid_file": str(self.data_dir / "server.pid"),
            "log_error": str(self.log_file),
            "secure_file_priv": str(self.files_dir),
            "plugin_load_add": "",
        }
        wanted = {**SETTINGS, **self.settings, **fixed}
        lines = [f"{name}={value}" for name, value in wanted.items() if value]
        file = self.place / "server.cnf"
        file.write_text("\n".join(["[mariadbd]", *lines, ""]), encoding="utf-8")
        file.chmod(0o644)  # only its owner can enter the folder

    def _launch(self) -> None:
        command = [self.programs.server, f"--defaults-file={self.place / 'server.cnf'}"]
        with (self.place / "server.out").open("ab") as out:
            self.child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.data_dir,
                env=_environment(self),
                start_new_session=True,  # Ctrl-C in its parent must not end it
                umask=0o077,
                **rights(placement.owner_of(self.place)),
            )

    def _came_up(self) -> bool:
        child = self.child
        wait = Progress(time.monotonic())
        while child is not None and child.poll() is None and not wait.stalled(time.monotonic()):
            wait.see(Signs("MariaDB", (), patient.cpu_seconds(child.pid)), time.monotonic())
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                probe.settimeout(1.0)
                try:
                    probe.connect((HOST, self.port))
                    probe.recv(1)
                except OSError:
                    time.sleep(0.05)
                    continue
            return works_in(child.pid, self.data_dir) and child.poll() is None
        return False

    def _end_of_log(self) -> str:
        files = (self.log_file, self.place / "server.out")
        texts = [file.read_text("utf-8", "replace") for file in files if file.exists()]
        return " ".join(" ".join(texts)[-800:].split())


def create(folder: Path, settings: Mapping[str, str] | None = None) -> MariaServer:
    """Create the data folder of a new server and start it. Its only login is `root`, on loopback, with a random
    password.

    Raises ConfigError if the programs are absent, or if they fail.
    """
    programs = find_programs()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = placement.place_for(folder)
    server = MariaServer(folder, programs, place)
    try:
        _install(server)
        server.start(settings)
    except BaseException:
        server.discard()
        raise
    return server


def _install(server: MariaServer) -> None:
    password = write_password(server.password_file())
    lines = ("[client]", f"user={SUPERUSER}", f"password={password}", "")
    write_secret(server.client_file, "\n".join(lines))
    empty = server.place / "none.cnf"
    empty.write_text("", encoding="utf-8")
    empty.chmod(0o644)
    for own in (server.files_dir, server.temporary_dir):
        own.mkdir(mode=0o700)
        placement.give(own, placement.owner_of(server.place))
    given = (f"--defaults-file={empty}", f"--datadir={server.data_dir}")
    how = ("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
    _ran(server, [server.programs.install, *given, *how], "")
    # a bootstrap opens no port, and reads its statements from its input, so the password is not in an argument
    statements = "".join(f"{each};\n" for each in _LOGINS).format(password=password)
    _ran(server, [server.programs.server, *given, "--bootstrap", "--log-warnings=0"], statements)


def _ran(server: MariaServer, command: list[str], given: str) -> None:
    how = rights(placement.owner_of(server.place))
    ran = patient.run(command, given, env=_environment(server), cwd=server.place, umask=0o077, **how)
    if ran.returncode:
        said = " ".join((ran.stdout + ran.stderr)[-800:].split())
        raise ConfigError(f"{Path(command[0]).name} failed in {server.place}: {said}", hint=INSTALL_HINT)


def discard(folder: Path) -> None:
    """Kill the server of `folder` and delete all of its files; does nothing if there is no server.

    For a server whose starting process has exited: it is found by its pid file, and verified by its working folder.
    """
    place = placement.noted_place(folder)
    if pid := running_pid(folder):
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + STOP_LIMIT_S
        while works_in(pid, place / "data") and time.monotonic() < end:
            time.sleep(0.05)
    placement.remove(place)
    placement.remove(folder)


def running_pid(folder: Path) -> int:
    """Return the process id of the server of `folder`, 0 if none is running."""
    data = placement.noted_place(folder) / "data"
    file = data / "server.pid"
    pid = int(file.read_text("ascii").strip() or 0) if file.exists() else 0
    return pid if pid and works_in(pid, data) else 0


def _environment(server: MariaServer) -> dict[str, str]:
    """Return the server's environment with its own TMPDIR: root's TMPDIR may be inaccessible to the server's user."""
    kept = {name: value for name, value in handover.environment().items() if not name.startswith(("MYSQL", "LC_"))}
    return {**kept, "LC_ALL": "C", "TMPDIR": str(server.temporary_dir)}
