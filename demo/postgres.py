"""Starts, stops, restarts and finds real PostgreSQL servers for the demo and the tests; loopback TCP and scram only.

A server has one folder: `server.json` (its creation parameters), `superuser.password` (0600), `data`, `server.log`. No
server listens on a Unix socket, so long folder names work. Servers survive the process that started them; `attach`
finds them again by the server's own pid file, and `stop` waits until the server has exited. If started by root, a
server runs as its own user (`slotkeeper.demo.unprivileged`), with its files where that user can reach them
(`slotkeeper.demo.placement`).
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Literal

from slotkeeper.core.config import handover
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.drivers import pg
from slotkeeper.core.errors import ConfigError, Unreachable
from slotkeeper.demo import patient, placement
from slotkeeper.demo.binaries import Binaries, find_binaries
from slotkeeper.demo.unprivileged import Rights, must_drop, rights

HOST = "127.0.0.1"
SUPERUSER = "postgres"
START_LIMIT_S = 3_600
"""Seconds allowed for pg_ctl, which ends once the server has started or exited."""
STOP_LIMIT_S = 60.0
PORT_TRIES = 5

SETTINGS: Mapping[str, str] = {
    "fsync": "on",
    "shared_buffers": "128MB",
    "max_connections": "100",
    "max_wal_size": "2GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_line_prefix": "%m [%p] %q%u@%d %a ",
    "autovacuum_naptime": "15s",
}
"""Default settings of servers; the settings passed to `start` override them."""

StopMode = Literal["fast", "immediate", "smart"]
_SIGNALS: Mapping[str, str] = {"smart": "SIGTERM", "fast": "SIGINT", "immediate": "SIGQUIT"}


@dataclass(frozen=True, slots=True)
class _Card:
    """The content of `server.json`: enough to start the same server again."""

    name: str
    place: str
    port: int
    bin: str
    version: int


@dataclass(frozen=True, slots=True)
class Server:
    """A server in `folder`; the fields stay valid after restarts, `pid` is read from the server's own pid file."""

    name: str
    host: str
    port: int
    superuser: str
    password_file: Path
    data_dir: Path
    folder: Path

    @property
    def pid(self) -> int:
        """The server's process id, 0 if it is not running."""
        return _running_pid(self.data_dir)

    @property
    def log_file(self) -> Path:
        """The server's log file."""
        return self.data_dir.parent / "server.log"

    def running(self) -> bool:
        """Whether the server's process is running."""
        return self.pid != 0

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and wait until its process has exited; send SIGQUIT after one minute, SIGKILL after two.

        Does nothing if the server is not running. `fast` ends sessions, `smart` waits for them, `immediate` is a crash:
        the next start recovers. Raises Unreachable if the process does not exit.
        """
        _stop(self.data_dir, mode)

    def restart(self, mode: StopMode = "fast") -> None:
        """Stop the server and start it again on the same port. Raises ConfigError if it does not start."""
        self.stop(mode)
        _launch(_read_card(self.folder), self.port)

    def endpoint(self, database: str, user: str | None = None, password_file: Path | None = None) -> Endpoint:
        """Return the endpoint for connections, as the superuser unless `user` and its password file are given."""
        secret = SecretRef("file", str(password_file or self.password_file))
        return Endpoint(self.name, self.host, self.port, database, user or self.superuser, secret, sslmode="disable")

    def connect(self, database: str, autocommit: bool = True) -> pg.Connection:
        """Open a superuser session. Raises slotkeeper.core.drivers.pg.DriverError."""
        password = self.password_file.read_text(encoding="utf-8").strip()
        return pg.connect(self.endpoint(database), password, "slotkeeper/embedded", autocommit=autocommit)


def start(folder: Path, name: str, settings: Mapping[str, str] | None = None) -> Server:
    """Start the server of `folder`, creating it first in a new folder; return one that is already running.

    `settings` override `SETTINGS`. Raises ConfigError with a hint if there are no binaries or the server does not
    start.
    """
    attached = attach(folder)
    if attached:
        return attached
    if (folder / "server.json").exists():
        card = _read_card(folder)
        port = card.port if _is_free(card.port) else free_port()
    else:
        card = _create(folder, name)
        port = free_port()
    for _ in range(PORT_TRIES):
        _write_settings(card, port, {**SETTINGS, **(settings or {})})
        try:
            _launch(card, port)
        except _PortTaken:
            port = free_port()
            continue
        _write_card(folder, _Card(**{**asdict(card), "port": port}))
        return _server(folder, card, port)
    raise ConfigError(f"no free port for server {name} after {PORT_TRIES} attempts", hint="try again")


def attach(folder: Path) -> Server | None:
    """Return the running server of `folder`, regardless of which process started it; None if there is none."""
    if not (folder / "server.json").exists():
        return None
    card = _read_card(folder)
    data_dir = Path(card.place) / "data"
    if not _running_pid(data_dir):
        return None
    lines = (data_dir / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    return _server(folder, card, int(lines[3]))


def discard(folder: Path) -> None:
    """Stop the server of `folder` in immediate mode and delete all of its files, including those outside `folder`."""
    server = attach(folder)
    if server:
        server.stop("immediate")
    placement.remove(placement.noted_place(folder))  # an initdb that was killed has left no server.json
    placement.remove(folder)


class _PortTaken(Exception):
    """Raised if another process took the port between its selection and the bind."""


def _server(folder: Path, card: _Card, port: int) -> Server:
    return Server(
        name=card.name,
        host=HOST,
        port=port,
        superuser=SUPERUSER,
        password_file=folder / "superuser.password",
        data_dir=Path(card.place) / "data",
        folder=folder,
    )


def _create(folder: Path, name: str) -> _Card:
    binaries = placement.reachable_binaries(find_binaries())
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    password = write_password(folder / "superuser.password")
    place = placement.place_for(folder)
    card = _Card(name, str(place), 0, str(binaries.folder), binaries.version)
    try:
        _initdb(binaries, place, password)
    except BaseException:
        placement.remove(place if place != folder else place / "data")
        raise
    with (place / "data" / "postgresql.conf").open("a", encoding="utf-8") as conf:
        conf.write("include_if_exists = 'slotkeeper.conf'\n")
    _write_card(folder, card)
    return card


def write_password(file: Path) -> str:
    """Write a new random password to `file` (0600) and return it."""
    password = secrets.token_urlsafe(24)
    write_secret(file, password)
    return password


def write_secret(file: Path, secret: str) -> None:
    """Write a secret to `file` (0600), replacing an existing file."""
    file.unlink(missing_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
        stream.write(secret + "\n")


def _initdb(binaries: Binaries, place: Path, password: str) -> None:
    """Create the data folder. initdb looks up the name of its user, which the server's own user does not have, so it
    runs as `nobody` in that user's group. Meanwhile only members of that group can enter `place`; a process of another
    group cannot trace initdb either (ptrace(2), "Ptrace access mode checking").
    """
    password_file, data_dir, owner = place / "initdb.password", place / "data", placement.owner_of(place)
    write_secret(password_file, password)
    named = rights(owner, named=True)
    base = [binaries.program("initdb"), "--pgdata", str(data_dir), "--username", SUPERUSER, "--encoding=UTF8"]
    base += ["--auth=scram-sha-256", f"--pwfile={password_file}", "--no-sync", "--no-instructions"]
    if binaries.version >= 16:
        # iterations slow down guessing and every login; 24 random bytes cannot be guessed
        base += ["--set", "scram_iterations=1"]
    failures: list[str] = []
    try:
        if named:
            os.chown(password_file, named["user"], owner)
            place.chmod(0o770)
        locales = [["--locale=C.UTF-8"], ["--locale=C"]]
        if binaries.version >= 17:
            locales = [["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]]
        for locale in locales:
            answer = _run(named, [*base, *locale], cwd=place)
            if answer.returncode == 0:
                if named:
                    placement.give(data_dir, owner)
                return
            failures.append(" ".join(answer.stderr.split())[-400:])
            placement.remove(data_dir)
    finally:
        password_file.unlink()
        place.chmod(0o700)
    raise ConfigError(f"initdb failed in {place}: {failures[-1]}", hint=f"binaries: {binaries.folder}")


def _run(its: Rights, command: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in handover.environment().items() if not name.startswith(("PG", "LC_"))}
    environment["LC_ALL"] = "C"
    return patient.run(command, env=environment, cwd=cwd, umask=0o077, **its)


def _write_settings(card: _Card, port: int, settings: Mapping[str, str]) -> None:
    fixed = {"listen_addresses": HOST, "port": str(port), "unix_socket_directories": "", "logging_collector": "off"}
    lines = [f"{key} = '{_quoted(value)}'\n" for key, value in {**settings, **fixed}.items()]
    file = Path(card.place) / "data" / "slotkeeper.conf"
    file.write_text("".join(lines), encoding="utf-8")
    if must_drop():
        placement.give(file, placement.owner_of(Path(card.place)))


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "''")


def _launch(card: _Card, port: int) -> None:
    place = Path(card.place)
    log = place / "server.log"
    seen = log.stat().st_size if log.exists() else 0
    command = [str(Path(card.bin) / "pg_ctl"), "start", "-w", "-t", str(START_LIMIT_S)]
    answer = _run(rights(placement.owner_of(place)), [*command, "-D", str(place / "data"), "-l", str(log)], cwd=place)
    if answer.returncode == 0:
        return
    text = log.read_bytes()[seen:].decode("utf-8", "replace") if log.exists() else ""
    if "could not bind" in text or "Address already in use" in text:
        raise _PortTaken(str(port))
    reason = " ".join((text[-600:] or answer.stderr).split())
    raise ConfigError(f"server {card.name} did not start: {reason}", hint=f"see {log}")


def _stop(data_dir: Path, mode: StopMode) -> None:
    pid = _running_pid(data_dir)
    if not pid:
        return
    for name in (_SIGNALS[mode], "SIGQUIT", "SIGKILL"):
        try:
            os.kill(pid, getattr(signal, name))
        except ProcessLookupError:
            return
        deadline = time.monotonic() + STOP_LIMIT_S
        while time.monotonic() < deadline:
            if _running_pid(data_dir) != pid:
                return
            time.sleep(0.01)
    raise Unreachable(f"the server in {data_dir} (pid {pid}) did not stop", hint="kill the process manually")


def _running_pid(data_dir: Path) -> int:
    """Return the pid in postmaster.pid if that process is running and works in `data_dir`, else 0 (also for a
    zombie).
    """
    try:
        pid = int((data_dir / "postmaster.pid").read_text(encoding="utf-8").split("\n", 1)[0])
    except (OSError, ValueError):
        return 0
    return pid if placement.works_in(pid, data_dir) else 0


def free_port() -> int:
    """Return a loopback TCP port that no process uses right now. Raises ConfigError if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind((HOST, 0))
        except OSError as error:
            hint = "list used ports with `ss -tan`; the port range is in /proc/sys/net/ipv4/ip_local_port_range"
            raise ConfigError(f"no free port on {HOST}: {error.strerror or error}", hint) from error
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _read_card(folder: Path) -> _Card:
    file = folder / "server.json"
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        return _Card(**{one.name: written[one.name] for one in fields(_Card)})
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ConfigError(f"cannot read {file}: {error}", hint="delete the folder and start the demo again") from error


def _write_card(folder: Path, card: _Card) -> None:
    fresh = folder / "server.json.new"
    fresh.write_text(json.dumps(asdict(card)), encoding="utf-8")
    fresh.replace(folder / "server.json")
