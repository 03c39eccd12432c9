"""Open and close Spark: one `SparkContext` and its JVM. After closing, no process or file of Spark remains.

This module handles the JVM's environment, its folders and its exit.

pyspark stores gateway and context in class attributes; they are cleared at the end for another context.
"""

from __future__ import annotations

import logging
import os
import pwd
import shutil
import signal
import site
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

import platformdirs
import psutil
import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

import slotkeeper
from slotkeeper.core.clock import monotonic
from slotkeeper.core.config import handover
from slotkeeper.core.domain.cluster import Master, MasterKind
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.drivers.socket_folder import SocketFolder, socket_folder
from slotkeeper.core.errors import ConfigError, SlotkeeperError, Unreachable
from slotkeeper.core.ownership import complaint, follow, private_folder
from slotkeeper.core.spark.cluster import PACKAGE, ask_masters, cluster_secret, own_home, own_pod, write_package
from slotkeeper.core.spark.java import ClassArchive, Java, class_archive, find_java, shim_home
from slotkeeper.core.spark.settings import LEAST_CAPACITY, LOG_SETTINGS, logged, spark_settings, with_capacity

STOP_SECONDS = 5.0
"""Seconds that Spark has to stop before its JVM is killed."""
ARCHIVE_SECONDS = 20.0
"""Extra seconds that the JVM has to write the class archive, once for each combination of Java and Spark."""
_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss.SSSXXX} spark %p %c{1}: %m%n
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
logger.client.name = org.apache.spark.network.client
logger.client.level = off
"""
_NOT_OURS = ("PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET", "PYSPARK_DRIVER_PYTHON")
"""Environment variables of the user's shell that would start another Spark."""


class Context:
    """A running Spark. `spark` is the SparkContext, for `slotkeeper.core.spark.runner` only."""

    def __init__(self, spark: Any, java: Java, capacity: int | None, remains: _Remains) -> None:
        self.spark, self.java, self.fixed_capacity, self._remains = spark, java, capacity, remains
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """Number of tasks that can run at once; on a cluster, the current number of task slots of its executors."""
        return self.fixed_capacity or max(LEAST_CAPACITY, int(self.spark.defaultParallelism))

    @property
    def jvm_pid(self) -> int:
        """The JVM's process id (the spark-submit process becomes the JVM)."""
        return self._remains.jvm.pid

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether the JVM has exited; waits up to `seconds` for its exit."""
        with suppress(TimeoutExpired):
            self._remains.jvm.wait(seconds)
        return self._remains.jvm.poll() is not None

    def executors(self) -> int:
        """Return the number of registered executors; 1 (the JVM) in local mode. Waits without a limit if the JVM is
        silent.

        `SparkContext.getExecutorMemoryStatus` is public, needs no UI, and has one entry per executor in addition to the
        driver's. Spark removes an executor's entry when it loses the executor.
        """
        return int(self.spark._jsc.sc().getExecutorMemoryStatus().size()) - (self.fixed_capacity is None)

    def kill(self) -> None:
        """Kill the JVM and its workers; every call that waits for them fails at once."""
        tree = _descendants(self.jvm_pid)
        self._remains.jvm.kill()
        for process in tree:
            with suppress(psutil.Error):
                process.kill()

    def end_by(self, at: float) -> None:
        """Set the monotonic time, in seconds, after which closing no longer waits for Spark and its class archive."""
        self._remains.end_by = at

    def stop(self) -> None:
        """Stop Spark and its processes, or kill them after a limit; safe to call twice, and after the JVM's exit."""
        with self._lock:
            if self.spark is not None:
                spark, self.spark = self.spark, None
                self._remains.end(spark)


class _Remains:
    """The processes and folders to remove at the end, whether or not Spark has started."""

    def __init__(self, work_dir: Path, sockets: SocketFolder | None, archive: ClassArchive) -> None:
        self.work_dir, self.sockets, self.archive = work_dir, sockets, archive
        self.gateway: Any = None
        self.end_by = float("inf")

    def _at_most(self, seconds: float) -> float:
        return max(0.0, min(seconds, self.end_by - monotonic()))

    @property
    def jvm(self) -> Popen[bytes]:
        return self.gateway.proc  # type: ignore[no-any-return]

    def end(self, spark: Any) -> None:
        """Request a stop, wait, then kill. Lists the processes before the JVM exits, because orphaned processes can no
        longer be found by their parent.
        """
        tree = _descendants(self.jvm.pid)
        clean = self._asked(spark) and self._waited()
        self.jvm.kill()
        self.jvm.wait()
        _, alive = psutil.wait_procs(tree, timeout=1.0)
        for process in alive:
            with suppress(psutil.Error):
                process.kill()
        psutil.wait_procs(alive, timeout=1.0)
        self.archive.finish(clean)
        self.clear()

    def clear(self) -> None:
        """Clear the gateway in pyspark and remove the folders."""
        with suppress(Exception):
            self.gateway.shutdown()
        if self.gateway is not None and self.jvm.stdin is not None:
            with suppress(OSError):
                self.jvm.stdin.close()
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        if self.sockets is not None:
            self.sockets.remove()
        shutil.rmtree(self.work_dir, ignore_errors=True)

    def _asked(self, spark: Any) -> bool:
        """Stop the context in a separate thread, because the call has no time limit."""
        done = threading.Event()

        def ask() -> None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark")
                try:
                    spark.stop()
                    done.set()
                except Exception:
                    # The JVM has exited; a second call clears the Python part, which needs no JVM.
                    with suppress(Exception):
                        spark.stop()

        asking = threading.Thread(target=ask, name="spark-stop", daemon=True)
        asking.start()
        asking.join(self._at_most(STOP_SECONDS))
        return done.is_set()

    def _waited(self) -> bool:
        """End the JVM by closing its stdin, in the same way as when the driver exits."""
        try:
            if self.jvm.stdin is not None:
                self.jvm.stdin.close()
            return self.jvm.wait(self._at_most(STOP_SECONDS + (ARCHIVE_SECONDS if self.archive.fresh else 0.0))) == 0
        except (OSError, TimeoutExpired):
            return False


def open_context(options: SparkOptions, name: str, work_dir: Path, kinds: tuple[str, ...] = ()) -> Context:
    """Start Spark for the job `name`; its files are in a separate folder below `work_dir`, deleted at the end.

    The modules of the source and sink `kinds` are imported before workers are forked.

    Raises ConfigError if there is no Java, or if the settings or the cluster secret are rejected, and Unreachable if
    Spark or its cluster does not start.
    """
    _check_user()
    java = find_java()
    run = work_dir / f"spark-{os.getpid()}"
    if not private_folder(run) or not all(private_folder(run / part) for part in ("local", "tmp")):
        raise ConfigError(f"Cannot create the folder {run} for Spark", hint="Check its owner and free space")
    master, secret = Master.parse(options.master), cluster_secret(options)
    cache = cache_folder(run)
    spark_home, archive = Path(pyspark.__file__).parent, ClassArchive()
    if master.kind is MasterKind.LOCAL_CLUSTER:
        spark_home = own_home(spark_home, run)  # created for one run, so no class archive is made for it
    else:
        archive = class_archive(java, pyspark.__version__, spark_home, cache)
    sockets = socket_folder()
    remains = _Remains(run, sockets, archive)
    spelled, capacity = with_capacity(master)
    conf = SparkConf(loadDefaults=False).setMaster(spelled).setAppName(f"slotkeeper/{name}")
    folder = sockets.path if sockets else None
    (run / LOG_SETTINGS).write_text(_LOG4J, "utf-8")
    java_options = (*logged(run), *archive.options)
    for key, value in spark_settings(options, run, folder, java_options, PACKAGE, kinds, own_pod()).items():
        conf.set(key, value)
    environ = _environ(java, cache, run, spark_home, options)
    try:
        with _environment(environ), _own_interrupts():
            spark = _start(conf, remains, secret, options)
            if master.ships:
                spark.addFile(str(write_package(run)))
    except BaseException:
        # clean up after a failed start
        if remains.gateway is not None:
            remains.jvm.kill()
            remains.jvm.wait()
        remains.archive.finish(clean=False)
        remains.clear()
        raise
    return Context(spark, java, capacity, remains)


def _check_user() -> None:
    """Raise ConfigError if the user has no name (in a container): Spark's Hadoop would fail with an obscure error."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        what = f"The user id {os.geteuid()} has no name on this host, but Spark requires a name"
        hint = "Add an entry for it to /etc/passwd, or start the container as a user with a name"
        raise ConfigError(what, hint, where="spark") from None


def _start(conf: Any, remains: _Remains, secret: str, options: SparkOptions) -> Any:
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_not_from_py4j)
    try:
        # A separate process group keeps Ctrl-C and a SIGTERM to the driver's group away from the JVM. The session id
        # is still the driver's, because the supervisor identifies the job's processes by it. JVM output goes to stderr,
        # because stdout belongs to the driver.
        remains.gateway = launch_gateway(conf, popen_kwargs={"process_group": 0, "umask": 0o077, "stdout": 2})
        if secret:
            # Sent only now, over the gateway's own connection, because launch_gateway puts settings on a command line.
            conf.set("spark.authenticate.secret", secret)
            master = Master.parse(options.master)
            if master.places:
                ask_masters(remains.gateway.jvm, master, secret, options.secret)
        spark = SparkContext(conf=conf, gateway=remains.gateway)
        # The accumulator server would print a traceback when the JVM is killed, which is reported elsewhere.
        spark._accumulatorServer.handle_error = lambda *_: None
        return spark
    except SlotkeeperError:
        raise
    except Exception as error:
        hint = "Read the log lines above; `slotkeeper doctor` checks Java, memory and folders"
        cause = str(error).split("\n", 1)[0][:500]
        raise Unreachable("Spark did not start", hint, where="spark", cause=cause) from error


def _not_from_py4j(record: logging.LogRecord) -> bool:
    """Filter the records of py4j out of the root logger, because every error in py4j is also raised."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


def _environ(java: Java, cache: Path, run: Path, spark_home: Path, options: SparkOptions) -> dict[str, str]:
    """Return the environment variables for the JVM, which passes them on to the workers."""
    master = Master.parse(options.master)
    settings = cache / "conf"
    private_folder(settings)
    root = str(Path(slotkeeper.__file__).parent.parent)
    path = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    if not master.ships and root not in path and root not in site.getsitepackages():
        path.insert(0, root)
    environ = {
        "JAVA_HOME": str(shim_home(java, (cache, run))),
        "SPARK_HOME": str(spark_home),
        # Intentionally empty: this folder is first on the class path, where the archive accepts no folder with files.
        "SPARK_CONF_DIR": str(settings),
        "PYSPARK_PYTHON": options.python or sys.executable,
        "PYTHONPATH": os.pathsep.join(path),
        # Otherwise workers would import a folder `slotkeeper` in the current folder instead of this package.
        "PYTHONSAFEPATH": "1",
    }
    return environ | handover.for_workers() | ({"SPARK_LOCAL_IP": "127.0.0.1"} if master.here else {})


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Change `os.environ` temporarily, because launch_gateway passes on only this environment."""
    dropped = (*_NOT_OURS, *handover.left_out())
    before = dict(os.environ)
    for name in dropped:
        os.environ.pop(name, None)
    os.environ.update(changes)
    try:
        yield
    finally:
        for name in {*changes, *dropped}:
            if name in before:
                os.environ[name] = before[name]
            else:
                os.environ.pop(name, None)


@contextmanager
def _own_interrupts() -> Iterator[None]:
    """Restore the driver's SIGINT handler, which pyspark replaces in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def cache_folder(fallback: Path) -> Path:
    """Return the user's cache folder, or `fallback` (deleted with the run) if other users can write to the home."""
    cache = Path(platformdirs.user_cache_dir("slotkeeper", appauthor=False)) / "spark"
    if private_folder(cache) and not complaint(f"cache {cache}", follow(cache), os.geteuid()):
        return cache
    private_folder(fallback)
    return fallback
