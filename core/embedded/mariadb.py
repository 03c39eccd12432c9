"""A real MariaDB server for the demo and the tests: start, stop, restart; loopback TCP only, by its process id.

The programs are the system's own (Debian: package mariadb-server). A server lives in one folder: `data`, `server.cnf`,
`server.log`; nothing of the system's configuration is read (`--defaults-file`), and nothing of the system's service
is touched. As root it runs as an ordinary user, as `core.embedded.unprivileged` says.
Next door: `core.embedded.postgres` is the same for PostgreSQL.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.config import handover
from core.domain.endpoint import Endpoint
from core.drivers import my
from core.embedded import placement
from core.embedded.placement import works_in
from core.embedded.postgres import free_port
from core.embedded.unprivileged import Mode, choose_mode, nobody, wrapped
from core.errors import ConfigError, Unreachable

HOST = "127.0.0.1"
SUPERUSER = "root"
START_LIMIT_S = 60.0
STOP_LIMIT_S = 60.0
SESSION_SECONDS = 60.0
"""The time of a call of a superuser's session."""
PORT_TRIES = 5
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
    "performance_schema": "OFF",
}
"""What a server runs with unless it is started with other settings: a source as it is asked for."""


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
        raise ConfigError("no MariaDB server on this machine (mariadbd, mariadb-install-db)", hint=INSTALL_HINT)
    return Programs(server, install)


@dataclass(slots=True)
class MariaServer:
    """A server in `folder`; it ends with `stop`, or `discard`, which deletes its folder too."""

    folder: Path
    mode: Mode
    programs: Programs
    place: Path
    """Where `data` lies: `folder`, or one that the ordinary user may enter."""
    port: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    child: subprocess.Popen[bytes] | None = None

    @property
    def data_dir(self) -> Path:
        """The server's data folder."""
        return self.place / "data"

    @property
    def log_file(self) -> Path:
        """Where the server writes its log."""
        return self.place / "server.log"

    def endpoint(self, name: str = "maria") -> Endpoint:
        """Where it is, for its superuser; `name` is the source's."""
        return Endpoint(name, HOST, self.port, "", SUPERUSER, sslmode="disable")

    def session(self) -> my.Session:
        """A session of its superuser."""
        return my.connect(self.endpoint(), "", "slotkeeper-demo", SESSION_SECONDS)

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
        raise Unreachable(f"MariaDB in {self.data_dir} (pid {child.pid}) does not stop", hint="end it by hand")

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
            "plugin_load_add": "",
        }
        wanted = {**SETTINGS, **self.settings, **fixed}
        lines = [f"{name}={value}" for name, value in wanted.items() if value]
        file = self.place / "server.cnf"
        file.write_text("\n".join(["[mariadbd]", *lines, ""]), encoding="utf-8")
        if self.mode is Mode.SETUID:
            os.chown(file, *nobody())

    def _launch(self) -> None:
        command = [self.programs.server, f"--defaults-file={self.place / 'server.cnf'}"]
        with (self.place / "server.out").open("ab") as out:
            self.child = subprocess.Popen(
                wrapped(self.mode, command),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.data_dir,
                env=_environment(),
                start_new_session=True,  # Ctrl-C of whoever started it is not its own
            )

    def _came_up(self) -> bool:
        child = self.child
        end = time.monotonic() + START_LIMIT_S
        while child is not None and child.poll() is None and time.monotonic() < end:
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


def create(folder: Path, settings: Mapping[str, str] | None = None, mode: Mode | None = None) -> MariaServer:
    """Make the data folder of a new server and start it. Its superuser is `root` without a password, on loopback.

    Raises ConfigError where there are no programs, or they fail.
    """
    programs, mode = find_programs(), mode or choose_mode()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    place = placement.reachable_folder(folder) if mode is Mode.SETUID else folder
    server = MariaServer(folder, mode, programs, place)
    (place / "none.cnf").write_text("", encoding="utf-8")
    command = [programs.install, f"--defaults-file={place / 'none.cnf'}", f"--datadir={server.data_dir}"]
    command += ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
    ran = subprocess.run(
        wrapped(mode, command),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=START_LIMIT_S * 2,
        env=_environment(),
        cwd=place,
    )
    if ran.returncode:
        said = " ".join((ran.stdout + ran.stderr)[-800:].split())
        raise ConfigError(f"mariadb-install-db failed in {place}: {said}", hint=INSTALL_HINT)
    try:
        server.start(settings)
    except BaseException:
        server.discard()
        raise
    return server


def discard(folder: Path) -> None:
    """Stop the server of `folder` hard and delete everything that it wrote; fine where there is none.

    For one whose starter is gone: it is known by the pid that it wrote down, and by working in its own data folder.
    """
    card = folder / "place.txt"
    place = Path(card.read_text("utf-8").strip()) if card.exists() else folder
    file = place / "data" / "server.pid"
    pid = int(file.read_text("ascii").strip() or 0) if file.exists() else 0
    if pid and works_in(pid, place / "data"):
        os.kill(pid, signal.SIGKILL)
        end = time.monotonic() + STOP_LIMIT_S
        while works_in(pid, place / "data") and time.monotonic() < end:
            time.sleep(0.05)
    if place != folder:
        placement.remove(place)
    placement.remove(folder)


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in handover.environment().items() if not name.startswith(("MYSQL", "LC_"))}
    return {**kept, "LC_ALL": "C"}
