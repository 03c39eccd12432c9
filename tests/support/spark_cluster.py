"""A standalone Spark cluster for tests: a master and its workers from the pyspark wheel, on 127.0.0.1, ended by pid.

The workers' Python has the third-party packages but not the product, so the code that runs there was shipped. An
executor is recognized as a process below one that the test started (the job's JVM, or a cluster's worker), never by its
name alone.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark

from slotkeeper.core.drivers import pg
from slotkeeper.core.ownership import private_folder
from slotkeeper.core.spark.java import find_java, shim_home
from slotkeeper.demo.run import SINK_DATABASE
from tests.support.product import Mirrored
from tests.support.waiting import until

_HOME = Path(pyspark.__file__).parent
_LOG4J = """rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""
_NEEDED = ("psycopg2", "psycopg2_binary.libs")


def bare_python(folder: Path, needed: tuple[str, ...] = _NEEDED) -> Path:
    """The interpreter of a new environment that has the packages that `docs/runbook.md` requires of a worker, and not
    the product.
    """
    venv.create(folder, with_pip=False, symlinks=True)
    mine = Path(sysconfig.get_path("purelib"))
    theirs = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    for name in needed:
        if (mine / name).exists():
            (theirs / name).symlink_to(mine / name)
    return folder / "bin" / "python"


def documented_settings() -> dict[str, str]:
    """The settings that the runbook writes into spark-defaults.conf of masters and workers, without the secret."""
    page = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text("utf-8")
    found = dict(re.findall(r"^ +(spark\.\S+) +(\S+)$", page, re.MULTILINE))
    assert found.pop("spark.authenticate.secret") == "..."
    return found


class SparkCluster:
    """One master and `workers` of one core each, whose secret is `secret`; `close` ends the processes that were started
    here. `settings` are those that `docs/runbook.md` writes into spark-defaults.conf, unless a test needs others; the
    secret is added to them.
    """

    def __init__(self, folder: Path, secret: str, workers: int = 2, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.secret = secret
        self.settings = documented_settings() if settings is None else settings
        self._started: list[subprocess.Popen[bytes]] = []
        self._workers: list[int] = []
        private_folder(folder)
        self.java_home = shim_home(find_java(), (folder,))
        (folder / "log4j2.properties").write_text(_LOG4J, "utf-8")
        self.url = ""
        try:
            self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            self.url = until(lambda: self._said("master", r"Starting Spark master at (spark://\S+)"), 60, "a master")
            for number in range(workers):
                self.add_worker(f"worker{number}")
            until(lambda: "New state: ALIVE" in self.log("master"), 60, "the master to be ready")
            until(lambda: self.registered() == workers, 60, "the workers to register")
        except BaseException:
            self.close()
            raise

    def add_worker(self, name: str, secret: str | None = None) -> None:
        """Start one more worker; it registers by itself."""
        where = ("--host", "127.0.0.1", "--webui-port", "0", "--cores", "1", "--memory", "600m", self.url)
        self._start(name, "worker.Worker", *where, secret=secret)
        self._workers.append(self._started[-1].pid)

    def restart_master(self) -> None:
        """Kill the master and start one at the same address that has no earlier state, and has the workers again."""
        self._started[0].kill()
        self._started[0].wait()
        self._start(
            "master", "master.Master", "--host", "127.0.0.1", "--port", self.url.rpartition(":")[2], "--webui-port", "0"
        )
        self._started[0] = self._started.pop()
        until(lambda: self.registered() >= len(self._workers), 120, "the workers to register again")

    def restart_workers(self) -> None:
        """Kill all workers, whose executors then end by themselves, and start as many."""
        killed = [one for one in self._started if one.pid in self._workers]
        for one in killed:
            one.kill()
            one.wait()
            self._started.remove(one)
        self._workers.clear()
        for number in range(len(killed)):
            self.add_worker(f"again{number}")

    def worker_pids(self) -> list[int]:
        return list(self._workers)

    def listening(self) -> list[int]:
        lines = psutil.Process(self._started[0].pid).net_connections("tcp")
        return [line.laddr.port for line in lines if line.status == psutil.CONN_LISTEN]

    def registered(self) -> int:
        return self.log("master").count("Registering worker")

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text("utf-8", "replace")

    def close(self) -> None:
        """End everything by the pids that were started here."""
        trees = [child for one in self._started for child in _below(one.pid)]
        for one in reversed(self._started):
            one.kill()
            one.wait()
        for process in trees:
            if process.is_running():
                process.kill()
        psutil.wait_procs(trees, timeout=5)
        self._started.clear()

    def _start(self, name: str, program: str, *arguments: str, secret: str | None = None) -> None:
        settings = self.folder / f"{name}.properties"
        settings.touch(0o600)
        chosen = self.secret if secret is None else secret
        lines = [f"{key} {value}" for key, value in self.settings.items()]
        lines += [f"spark.authenticate.secret {chosen}"] if chosen else []
        settings.write_text("\n".join(lines) + "\n", "utf-8")
        home = self.folder / name
        private_folder(home)
        environ = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "XDG_CACHE_HOME") if key in os.environ}
        environ |= {
            "JAVA_HOME": str(self.java_home),
            "SPARK_HOME": str(_HOME),
            "SPARK_CONF_DIR": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(home / "work"),
            "SPARK_LOCAL_DIRS": str(home / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={self.folder / 'log4j2.properties'}"
            " -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData",
        }
        log = (self.folder / f"{name}.log").open("wb")
        with log:
            command = [str(_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}", *arguments]
            command += ["--properties-file", str(settings)]
            self._started.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environ, cwd=home)
            )

    def _said(self, name: str, pattern: str) -> str | None:
        found = re.search(pattern, self.log(name))
        return found[1] if found else None


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


_BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def executors(parents: Iterable[int]) -> list[psutil.Process]:
    return [one for parent in parents for one in _children(parent) if _is_executor(one)]


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.Error:
        return []


def _is_executor(process: psutil.Process) -> bool:
    try:
        return _BACKEND in process.cmdline()
    except psutil.Error:  # exited, or a zombie that no parent has waited for
        return False


@dataclass(frozen=True)
class HeldStep:
    """An executor whose worker waits at the sink, in mid-transaction, for a lock of the test."""

    executor: psutil.Process
    backend: int


@contextmanager
def held_in_a_step(job: Mirrored, parents: Iterable[int]) -> Iterator[HeldStep]:
    """Lock the target until a step waits for it, its progress row changed and not committed; released at the end."""
    with closing(job.product.sink.connect(SINK_DATABASE, autocommit=False)) as connection:
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE mart.{job.name} IN SHARE MODE")
        yield until(lambda: _held(job, list(parents)), 30, "a step to wait for the target")


def _held(job: Mirrored, parents: list[int]) -> HeldStep | None:
    waiting = job.product.at_sink(
        "SELECT pid, client_port FROM pg_stat_activity WHERE application_name LIKE %s AND wait_event_type = 'Lock'",
        (f"slotkeeper/{job.name}/%",),
    )
    ports = {int(port): int(pid) for pid, port in waiting}
    for executor in executors(parents):
        with contextlib.suppress(psutil.Error):
            for process in executor.children(recursive=True):
                for socket in process.net_connections("tcp"):
                    if socket.laddr and socket.laddr.port in ports:
                        return HeldStep(executor, ports[socket.laddr.port])
    return None


def backend_lives(job: Mirrored, backend: int) -> bool:
    with contextlib.suppress(pg.DriverError):
        return bool(job.product.at_sink("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (backend,)))
    return False
