"""The demo on a host that is busy with other work: every run ends verified, however long its start takes.

    SLOTKEEPER_CHAOS_BUSY=5 SLOTKEEPER_CHAOS_RUNS=2 make chaos ARGS="tests/chaos/test_demo_under_load.py -s"

`SLOTKEEPER_CHAOS_BUSY` is the number of busy loops per core (20), `SLOTKEEPER_CHAOS_RUNS` the number of runs (10; they
alternate between root and an ordinary user, with and without Java on PATH), `SLOTKEEPER_CHAOS_TOGETHER` how many of
them run at once (1), `SLOTKEEPER_CHAOS_WRITE` the duration of the writes. A run that cannot succeed ends with one JSON
object and one sentence: a JVM that is killed again and again, no space, no port.
"""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from slotkeeper.demo.placement import everybody_may_enter
from tests.support.promised import broken
from tests.support.report import Page

pytestmark = [pytest.mark.chaos, pytest.mark.spark]
ROOT = Path(__file__).parents[2]
BUSY, RUNS = int(os.environ.get("SLOTKEEPER_CHAOS_BUSY", "20")), int(os.environ.get("SLOTKEEPER_CHAOS_RUNS", "10"))
TOGETHER = int(os.environ.get("SLOTKEEPER_CHAOS_TOGETHER", "1"))
WRITE = os.environ.get("SLOTKEEPER_CHAOS_WRITE", "60s")
SOMEBODY = pwd.getpwnam("nobody").pw_uid
"""An ordinary user. initdb looks up the name of the user that runs it (PostgreSQL, "initdb")."""
LIMIT_SECONDS = 3_600.0
"""No run takes this long: a run that hangs fails at this limit, not at a limit of the demo."""
LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(10_000_000): pass"

ONE_PORT = ["unshare", "--net", "sh", "-c"]
ONE_PORT += ['ip link set lo up && echo 65001 65001 > /proc/sys/net/ipv4/ip_local_port_range && exec "$@"', "sh"]
"""Runs a command in a network namespace with a single free port."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str
    seconds: float

    @property
    def found(self) -> dict[str, object]:
        """The one JSON object that the run printed; it conforms to its schema."""
        (line,) = self.out.splitlines()
        found: dict[str, object] = json.loads(line)
        assert broken("demo", found) == []
        return found

    def failed(self) -> str:
        """The reason of the failure; asserts that the run failed with one sentence and named the files that remain."""
        assert self.code != 0 and self.found["ok"] is False, self.err
        assert "Traceback" not in self.err and "jobs show" not in self.err
        assert "the demo's files remain in " in self.err
        return str(self.found["why"])


@dataclass(frozen=True)
class Place:
    """The folder of a demo's files, the user that runs it and its environment."""

    folder: Path
    user: int
    environ: Mapping[str, str]

    def command(self, words: Sequence[str]) -> list[str]:
        whoami = ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"]
        return [
            *(whoami if self.user != os.geteuid() else []),
            sys.executable,
            "-P",
            "-m",
            "slotkeeper.console",
            *words,
        ]

    def demo(self, *words: str, before: Sequence[str] = ()) -> Ended:
        """Run a headless demo to its end, then remove the files that it left."""
        began = time.monotonic()
        command = [*before, *self.command(["demo", "--headless", "--json", *words])]
        try:
            ran = subprocess.run(
                command,
                cwd=self.folder,
                env=dict(self.environ),
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_SECONDS,
            )
            return Ended(ran.returncode, ran.stdout, ran.stderr, time.monotonic() - began)
        finally:
            subprocess.run(self.command(["demo", "stop"]), cwd=self.folder, env=dict(self.environ), check=True)


@contextmanager
def place(user: int, java: bool = True) -> Iterator[Place]:
    """A folder that belongs to the user and is deleted afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="slotkeeper-under-load-"))
    try:
        for name in ("home", "tmp"):
            (folder / name).mkdir()
        (folder / "tmp").chmod(0o1777)
        path = os.environ["PATH"] if java else str(without_java(folder / "bin"))
        home = folder / "home"
        environ = {"PATH": path, "HOME": str(home), "TMPDIR": str(folder / "tmp"), "LANG": "C.UTF-8"}
        environ |= {name: str(home / name) for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME")}
        folder.chmod(0o755)
        os.chown(home, user, -1)
        yield Place(folder, user, environ)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def without_java(folder: Path) -> Path:
    """A folder with every program of PATH except Java's."""
    folder.mkdir()
    for one in os.environ["PATH"].split(os.pathsep):
        for program in Path(one).iterdir() if Path(one).is_dir() else ():
            if program.name != "java" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return folder


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Run this number of busy processes for the block; each exits when this process does."""
    command = [sys.executable, "-c", LOOP, str(os.getpid())]
    running = [subprocess.Popen(command) for _ in range(loops)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
        for one in running:
            one.wait()


def users() -> list[int]:
    """The users that the runs alternate between: root and a user who can reach the interpreter, or the current user
    alone.
    """
    reaches = everybody_may_enter(Path(sys.executable).resolve().parent) and everybody_may_enter(ROOT)
    if os.geteuid() == 0 and not reaches:
        print(f"no run as an ordinary user, who cannot reach {Path(sys.executable).resolve()}: install it elsewhere")
    return [os.geteuid(), SOMEBODY] if os.geteuid() == 0 and reaches else [os.geteuid()]


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(
        "demo-under-load",
        "The demo on a busy host",
        f"`slotkeeper demo --headless --duration {WRITE} --json` beside {BUSY} busy loops per core,"
        f" runs at a time: {TOGETHER}. Seconds: from the command to its end;"
        " start: from the job's start until every DN was recorded.",
        ("run", "user", "Java on PATH", "verified", "seconds", "start, seconds", "load at the end", "events"),
    )


def test_every_run_on_a_busy_host_ends_verified(page: Page) -> None:
    kinds = [(user, java) for java in (True, False) for user in users()]
    wrong = []

    def run_one(number: int) -> Ended:
        user, java = kinds[number % len(kinds)]
        with place(user, java) as here:
            return here.demo("--duration", WRITE)

    with busy(BUSY * (os.cpu_count() or 1)), ThreadPoolExecutor(TOGETHER) as pool:
        for number, ended in enumerate(pool.map(run_one, range(RUNS))):
            user, java = kinds[number % len(kinds)]
            print(f"-- run {number + 1} as uid {user}, {'with' if java else 'without'} Java on PATH\n{ended.err}")
            found = ended.found
            verified = ended.code == 0 and found["ok"] is True and found.get("verified") is True
            spark, load = found.get("spark"), os.getloadavg()[0]
            start = spark["start_s"] if isinstance(spark, dict) else "-"
            who = "root" if user == 0 else f"uid {user}"
            written = found.get("changes_written", "-")
            page.add(number + 1, who, java, verified, ended.seconds, start, f"{load:.0f}", written)
            if not verified:
                wrong.append(f"run {number + 1}: {ended.out}{ended.err}")
    assert not wrong, "\n".join(wrong)


def test_a_jvm_that_is_killed_again_and_again_is_one_object_and_one_sentence() -> None:
    ended, stop = list[Ended](), threading.Event()
    with place(os.geteuid()) as here:

        def kill_jvms() -> None:
            while not stop.wait(0.5):
                for one in psutil.process_iter():
                    with suppress(psutil.Error):
                        if one.name() == "java" and one.environ().get("TMPDIR") == here.environ["TMPDIR"]:
                            one.kill()

        killing = threading.Thread(target=kill_jvms)
        killing.start()
        try:
            ended.append(here.demo("--duration", "5s", "--rows", "2000"))
        finally:
            stop.set()
            killing.join()
    why = ended[0].failed()
    assert why.startswith("the job is FAILED: 5 crashes within"), why
    assert ended[0].found["log"]


def test_a_jvm_that_is_killed_once_is_waited_for() -> None:
    with place(os.geteuid()) as here:
        stop, killed = threading.Event(), list[int]()

        def kill_one() -> None:
            while not stop.wait(0.2) and not killed:
                for one in psutil.process_iter():
                    with suppress(psutil.Error):
                        if one.name() == "java" and one.environ().get("TMPDIR") == here.environ["TMPDIR"]:
                            one.kill()
                            killed.append(one.pid)

        killing = threading.Thread(target=kill_one)
        killing.start()
        try:
            ended = here.demo("--duration", "5s", "--rows", "2000")
        finally:
            stop.set()
            killing.join()
    assert killed and ended.code == 0 and ended.found["verified"] is True, ended.err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize(("size", "rows"), [("24m", "2000"), ("140m", "400000")], ids=["initdb", "rows"])
def test_no_space_is_one_object_and_one_sentence(size: str, rows: str) -> None:
    with place(os.geteuid()) as here:
        disk = here.environ["TMPDIR"]
        mounted = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=1777", "slotkeeper", disk]
        subprocess.run(mounted, check=True)
        try:
            ended = here.demo("--duration", "5s", "--rows", rows)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)
    assert "no space left" in ended.failed().lower()


def test_a_limit_of_file_sizes_is_one_object_and_one_sentence() -> None:
    with place(os.geteuid()) as here:
        ended = here.demo("--duration", "5s", before=["prlimit", "--fsize=1000000"])
    assert "File too large" in ended.failed()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network")
def test_no_port_is_one_object_and_one_sentence() -> None:
    with place(os.geteuid()) as here:
        ended = here.demo("--duration", "5s", before=ONE_PORT)
    assert "no free port on 127.0.0.1" in ended.failed()
