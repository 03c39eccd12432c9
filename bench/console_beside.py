"""The other consoles that are measured in the same run: pg_activity and dolphie, each in its own virtual environment.

Each runs against a real server: pg_activity against an embedded PostgreSQL, dolphie against a MariaDB if one is
installed. If one of them cannot run, the table states the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.console_fill import ROOT
from bench.console_measure import SIZE
from slotkeeper.demo import postgres
from tests.support.terminal import Terminal, plain

FOLDER = ROOT / ".cache" / "bench-console"
INSTALL_SECONDS = 240


_ANSWERS = {b"\x1bP+q": b"\x1bP0+r\x1b\\", b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;22c"}
"""The replies of a terminal emulator to queries about itself; without them, pg_activity waits for ten seconds."""


class NotRun(Exception):
    """Raised if the program cannot run on this host; the message states the reason."""


@dataclass(frozen=True, slots=True)
class Beside:
    """The costs of one program, or the reason why it was not run."""

    name: str
    why_not: str = ""
    version: str = ""
    first_paint: float | None = None
    idle_percent: float | None = None
    idle_rate: float | None = None
    rss: int | None = None


def all_beside(seconds: float, say: Callable[[str], None]) -> list[Beside]:
    """Measure both programs; a program that cannot run is listed with the reason."""
    found = []
    for name, run in (("pg_activity", _pg_activity), ("dolphie", _dolphie)):
        say(f"beside: {name}")
        try:
            found.append(run(seconds))
        except NotRun as why:
            found.append(Beside(name, str(why)))
        except (OSError, AssertionError, subprocess.SubprocessError) as error:
            found.append(Beside(name, f"{type(error).__name__}: {str(error).splitlines()[0]}"))
    return found


def _pg_activity(seconds: float) -> Beside:
    program = _installed("pg_activity", "pg_activity[psycopg]")
    folder = Path(tempfile.mkdtemp(prefix="slotkeeper-bench-"))
    try:
        server = postgres.start(folder / "server", "beside", {})
        password = server.password_file.read_text(encoding="utf-8").strip()
        command = [
            str(program), "-h", server.host, "-p", str(server.port), "-U", server.superuser, "-d", "postgres"
        ]  # fmt: skip
        return _measured("pg_activity", program, command, {"PGPASSWORD": password}, "RUNNING QUERIES", seconds)
    finally:
        postgres.discard(folder / "server")
        shutil.rmtree(folder, ignore_errors=True)


def _dolphie(seconds: float) -> Beside:
    server, install = shutil.which("mariadbd"), shutil.which("mariadb-install-db")
    if server is None or install is None:
        raise NotRun("no MariaDB server on this host (mariadbd, mariadb-install-db)")
    program = _installed("dolphie", "dolphie")
    folder = Path(tempfile.mkdtemp(prefix="slotkeeper-bench-"))
    place = [f"--datadir={folder / 'data'}", f"--socket={folder / 's'}", f"--user={os.environ.get('USER', 'root')}"]
    subprocess.run(
        [install, "--no-defaults", *place[::2], "--auth-root-authentication-method=normal"],
        check=True,
        capture_output=True,
        timeout=120,
    )
    running = subprocess.Popen(
        [server, "--no-defaults", *place, "--skip-networking", f"--pid-file={folder / 'pid'}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(folder / "s", running)
        command = [str(program), "-u", "root", "-S", str(folder / "s")]
        return _measured("dolphie", program, command, {}, "Processlist", seconds)
    finally:
        running.terminate()
        running.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(socket: Path, running: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not socket.exists():
        if running.poll() is not None or time.monotonic() > deadline:
            raise NotRun("the MariaDB server did not start")
        time.sleep(0.1)


def _installed(name: str, requirement: str) -> Path:
    """Return the program's path in its own virtual environment; install it if it is absent."""
    program = FOLDER / name / "bin" / name
    if not program.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        pip = [str(FOLDER / name / "bin" / "python"), "-m", "pip", "install", "-q", requirement]
        for command in ([sys.executable, "-m", "venv", "--clear", str(FOLDER / name)], pip):
            ran = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
            if ran.returncode:
                raise NotRun(f"{requirement} cannot be installed here")
    return program


def _version(program: Path, name: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({name!r}))"
    ran = subprocess.run([str(program.with_name("python")), "-c", code], capture_output=True, text=True, check=False)
    return ran.stdout.strip()


def _measured(
    name: str, program: Path, command: Sequence[str], env: Mapping[str, str], word: str, seconds: float
) -> Beside:
    """Measure the program's first frame that contains `word`, then its idle costs at its default refresh interval."""
    with Terminal(command, SIZE, env, _ANSWERS) as terminal:
        terminal.until(lambda: word in plain(terminal.content), repr(word))
        paint = terminal.pieces[-1].at - terminal.began
        terminal.during(3.0)
        idle = terminal.during(seconds)
        return Beside(name, "", _version(program, name), paint, idle.percent, idle.rate, terminal.memory())
