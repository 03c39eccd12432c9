"""A real MariaDB server for the demo and the tests: start, stop, restart; loopback TCP only, by its process id.

The programs are the system's own (Debian: package mariadb-server). A server's folder has `data`, `files`, `temporary`,
`server.cnf`, `server.log`; nothing of the system's configuration is read (`--defaults-file`), and nothing of the
system's service is touched. As root it runs as a user of its own, as `slotkeeper.demo.unprivileged` says.

Before it listens its superuser gets a random password, and is the only login. File statements reach the empty folder
`files` only (MariaDB Server Documentation, "secure_file_priv"), and the Unix socket is in the data folder (0700).
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
"""Seconds of a call in a superuser's session."""
PORT_TRIES = 5
_LOGINS = (
    "DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys'",
    "FLUSH PRIVILEGES",  # from here on accounts are known, which a bootstrap otherwise ignores
    f"CREATE USER {SUPERUSER}@'{HOST}' IDENTIFIED BY '{{password}}'",
    f"GRANT ALL ON *.* TO {SUPERUSER}@'{HOST}' WITH GRANT OPTION",
)
"""Replace the superusers without a password that `mariadb-install-db` creates by one over TCP with a password."""
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
    """The server's program and the one that makes its first tables."""

    server: str
    install: str


def find_programs() -> Programs:
    """The system's programs. Raises ConfigError with what to install where one is absent."""
    path = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))
    server = shutil.which("mariadbd", path=path)
    install = shutil.which("mariadb-install-db", path=path)
    if not server or not install:
        raise ConfigError("no MariaDB server on this host (mariadbd, mariadb-install-db)", hint=INSTALL_HINT)
    return Programs(server, install)


@dataclass(slots=True)
class MariaServer:
    """A server in `folder`; it ends with `stop`, or `discard`, which deletes its folder too."""

    folder: Path
    programs: Programs
    place: Path
    """The folder of its files: `folder`, or for root one that the server's user can enter."""
    port: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    child: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        """The server's data folder."""
        return self.place / "data"

    @property
    def files_dir(self) -> Path:
        """The empty folder that the server's file statements reach, and no other."""
        return self.place / "files"

    @property
    def temporary_dir(self) -> Path:
        """The folder of the server's temporary files."""
        return self.place / "temporary"

    @property
    def log_file(self) -> Path:
        """Where the server writes its log."""
        return self.place / "server.log"

    @property
    def client_file(self) -> Path:
        """The 0600 file by which the `mariadb` client logs in as the superuser (`--defaults-extra-file`)."""
        return self.folder / "client.cnf"

    def password_file(self, user: str = SUPERUSER) -> Path:
        """The 0600 file with a login's password."""
        return self.folder / f"{user}.password"

    def password(self, user: str = SUPERUSER) -> str:
        """A login's password."""
        return self.password_file(user).read_text("utf-8").strip()

    def endpoint(self, name: str = "maria", user: str = SUPERUSER) -> Endpoint:
        """Where it is, for its superuser or another login; `name` is the source's."""
        secret = SecretRef("file", str(self.password_file(user)))
        return Endpoint(name, HOST, self.port, "", user, secret, sslmode="disable")

    def session(self) -> my.Session:
        """A session of its superuser."""
        return my.connect(self.endpoint(), self.password(), "slotkeeper-demo", SESSION_SECONDS)

    def create_login(self, user: str, *grants: str) -> Endpoint:
        """Make a login with a random password and these rights alone ("SELECT ON ods.orders"); where it connects."""
        password = write_password(self.password_file(user))
        with closing(self.session()) as session:
            session.rows(f"CREATE USER {user}@'{HOST}' IDENTIFIED BY '{password}'")
            for grant in grants:
                session.rows(f"GRANT {grant} TO {user}@'{HOST}'")
        return self.endpoint(user=user)

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start it, with these settings on top of its own; on the same port as before where that is free.

        Raises ConfigError with the end of its log where it does not come up.
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
        raise ConfigError(f"no free port for MariaDB after {PORT_TRIES} tries", hint="try again")

    def stop(self, crash: bool = False) -> None:
        """Stop it, as a crash where asked, and wait until its process is gone; fine if it does not run.

        Raises Unreachable where it does not go.
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
            f"MariaDB in {self.data_dir} (pid {child.pid}) does not stop", hint="end the process yourself"
        )

    def restart(self, settings: Mapping[str, str] | None = None, crash: bool = False) -> None:
        """Stop it and start it again on the same port."""
        self.stop(crash)
        self.start(settings)

    def discard(self) -> None:
        """Stop it hard and delete everything that it wrote."""
        self.stop(crash=True)
        placement.remove(self.place)
        placement.remove(self.folder)

    def _write_settings(self) -> None:
        fixed = {
            "datadir": str(self.data_dir),
            "bind_address": HOST,
            "port": str(self.port),
            "socket": "s",  # in the data folder, whose own path may be too long for a socket
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
                start_new_session=True,  # Ctrl-C of its parent must not end it
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
    """Make the data folder of a new server and start it. Its only login is `root`, on loopback, with a random password.

    Raises ConfigError where there are no programs, or they fail.
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
    # a bootstrap listens nowhere, and takes its statements from its input: the password is in no argument
    statements = "".join(f"{each};\n" for each in _LOGINS).format(password=password)
    _ran(server, [server.programs.server, *given, "--bootstrap", "--log-warnings=0"], statements)


def _ran(server: MariaServer, command: list[str], given: str) -> None:
    how = rights(placement.owner_of(server.place))
    ran = patient.run(command, given, env=_environment(server), cwd=server.place, umask=0o077, **how)
    if ran.returncode:
        said = " ".join((ran.stdout + ran.stderr)[-800:].split())
        raise ConfigError(f"{Path(command[0]).name} failed in {server.place}: {said}", hint=INSTALL_HINT)


def discard(folder: Path) -> None:
    """Stop the server of `folder` hard and delete everything that it wrote; fine where there is none.

    For one whose starter has exited: it is found by the pid that it wrote down, and by working in its own data folder.
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
    """The process id of the server of `folder`, 0 where none runs."""
    data = placement.noted_place(folder) / "data"
    file = data / "server.pid"
    pid = int(file.read_text("ascii").strip() or 0) if file.exists() else 0
    return pid if pid and works_in(pid, data) else 0


def _environment(server: MariaServer) -> dict[str, str]:
    """Its own TMPDIR: that of root may be closed to the server's user."""
    kept = {name: value for name, value in handover.environment().items() if not name.startswith(("MYSQL", "LC_"))}
    return {**kept, "LC_ALL": "C", "TMPDIR": str(server.temporary_dir)}
