"""Open and close Spark: one `SparkContext`, its JVM, and the certainty that nothing of it is left.

Here: the JVM's environment, its folders, its end.

pyspark keeps gateway and context in class attributes; they are cleared at the end, so that a driver whose JVM died
can open another.
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

import psutil
import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

import slotkeeper
from slotkeeper.core.clock import monotonic
from slotkeeper.core.config import handover
from slotkeeper.core.domain.cluster import Master, MasterKind
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.errors import ConfigError, SlotkeeperError, Unreachable
from slotkeeper.core.spark.cluster import PACKAGE, ask_masters, cluster_secret, own_home, write_package
from slotkeeper.core.spark.folders import SocketFolder, cache_folder, private_folder, socket_folder
from slotkeeper.core.spark.java import ClassArchive, Java, class_archive, find_java, shim_home
from slotkeeper.core.spark.settings import LEAST_CAPACITY, LOG_SETTINGS, logged, spark_settings, with_capacity

STOP_SECONDS = 5.0
"""Seconds that Spark gets to stop before its JVM is killed."""
ARCHIVE_SECONDS = 20.0
"""Extra seconds for the JVM, once per Java and Spark, to write the class archive."""
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
"""Variables of the user's shell that would start another Spark."""


class Context:
    """A running Spark. `spark` is the SparkContext, for `slotkeeper.core.spark.runner` only."""

    def __init__(self, spark: Any, java: Java, capacity: int | None, remains: _Remains) -> None:
        self.spark, self.java, self.fixed_capacity, self._remains = spark, java, capacity, remains
        self._lock = threading.Lock()

    @property
    def capacity(self) -> int:
        """How many tasks run at once: on a cluster as many as its executors have places for by now."""
        return self.fixed_capacity or max(LEAST_CAPACITY, int(self.spark.defaultParallelism))

    @property
    def jvm_pid(self) -> int:
        """The JVM's process id (spark-submit becomes it)."""
        return self._remains.jvm.pid

    def ended(self, seconds: float = 0.0) -> bool:
        """Whether the JVM is gone, waiting up to `seconds` for it to be so."""
        with suppress(TimeoutExpired):
            self._remains.jvm.wait(seconds)
        return self._remains.jvm.poll() is not None

    def executors(self) -> int:
        """How many executors are registered; in local mode 1, the JVM itself. Waits for a silent JVM without a limit.

        `SparkContext.getExecutorMemoryStatus` is public, needs no UI, and has one entry per executor beside the
        driver's. Spark removes an executor's entry when it loses the executor.
        """
        return int(self.spark._jsc.sc().getExecutorMemoryStatus().size()) - (self.fixed_capacity is None)

    def kill(self) -> None:
        """End the JVM and its workers by force: every call that waits for them fails at once."""
        tree = _descendants(self.jvm_pid)
        self._remains.jvm.kill()
        for process in tree:
            with suppress(psutil.Error):
                process.kill()

    def end_by(self, at: float) -> None:
        """From that moment (monotonic seconds) on nothing of Spark's end is waited for, its class archive neither."""
        self._remains.end_by = at

    def stop(self) -> None:
        """Stop Spark and its processes, by force after a limit; safe twice, and with a JVM that is dead already."""
        with self._lock:
            if self.spark is not None:
                spark, self.spark = self.spark, None
                self._remains.end(spark)


class _Remains:
    """What has to be taken away again, whether Spark came up or not."""

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
        """Ask, wait, kill; processes are recorded before the JVM goes, because orphans have no parent to find."""
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
        """Forget the gateway and remove the folders."""
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
        """Stop the context from a thread of its own: the call has no limit of time."""
        done = threading.Event()

        def ask() -> None:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark")
                try:
                    spark.stop()
                    done.set()
                except Exception:
                    # The JVM is gone; a second call clears the Python side, which needs no JVM.
                    with suppress(Exception):
                        spark.stop()

        asking = threading.Thread(target=ask, name="spark-stop", daemon=True)
        asking.start()
        asking.join(self._at_most(STOP_SECONDS))
        return done.is_set()

    def _waited(self) -> bool:
        """End the JVM by closing its stdin, as the death of the driver would."""
        try:
            if self.jvm.stdin is not None:
                self.jvm.stdin.close()
            return self.jvm.wait(self._at_most(STOP_SECONDS + (ARCHIVE_SECONDS if self.archive.fresh else 0.0))) == 0
        except (OSError, TimeoutExpired):
            return False


def open_context(options: SparkOptions, name: str, work_dir: Path, kinds: tuple[str, ...] = ()) -> Context:
    """Start Spark for the job `name`; its files are in a separate folder below `work_dir`, deleted at the end.

    The `kinds` of source and sink are imported before workers fork.

    Raises ConfigError without Java, or for rejected settings or a rejected cluster secret, and Unreachable if Spark or
    its cluster does not start.
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
        spark_home = own_home(spark_home, run)  # made for one run, so that it gets no archive of its classes
    else:
        archive = class_archive(java, pyspark.__version__, spark_home, cache)
    sockets = socket_folder()
    remains = _Remains(run, sockets, archive)
    spelled, capacity = with_capacity(master)
    conf = SparkConf(loadDefaults=False).setMaster(spelled).setAppName(f"slotkeeper/{name}")
    folder = sockets.path if sockets else None
    (run / LOG_SETTINGS).write_text(_LOG4J, "utf-8")
    java_options = (*logged(run), *archive.options)
    for key, value in spark_settings(options, run, folder, java_options, PACKAGE, kinds).items():
        conf.set(key, value)
    environ = _environ(java, cache, run, spark_home, options)
    try:
        with _environment(environ), _own_interrupts():
            spark = _start(conf, remains, secret, options)
            if master.ships:
                spark.addFile(str(write_package(run)))
    except BaseException:
        # take everything away after a start that failed
        if remains.gateway is not None:
            remains.jvm.kill()
            remains.jvm.wait()
        remains.archive.finish(clean=False)
        remains.clear()
        raise
    return Context(spark, java, capacity, remains)


def _check_user() -> None:
    """Hadoop, inside Spark, asks the system for the user's name and fails obscurely without one (containers)."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        what = f"The user id {os.geteuid()} has no name on this host, but Spark needs one"
        hint = "Add a line for it to /etc/passwd, or start the container as a user with a name"
        raise ConfigError(what, hint, where="spark") from None


def _start(conf: Any, remains: _Remains, secret: str, options: SparkOptions) -> Any:
    logging.getLogger("py4j").setLevel(logging.CRITICAL + 1)
    logging.getLogger().addFilter(_not_from_py4j)
    try:
        # A group of its own keeps Ctrl-C and a SIGTERM to the driver's group away from the JVM, while the session id
        # stays the driver's, by which the supervisor knows what belongs to the job. JVM output goes to stderr:
        # stdout has one owner.
        remains.gateway = launch_gateway(conf, popen_kwargs={"process_group": 0, "umask": 0o077, "stdout": 2})
        if secret:
            # Only now, over the gateway's own connection: what launch_gateway is given stands on a command line.
            conf.set("spark.authenticate.secret", secret)
            master = Master.parse(options.master)
            if master.places:
                ask_masters(remains.gateway.jvm, master, secret, options.secret)
        spark = SparkContext(conf=conf, gateway=remains.gateway)
        # It would print a traceback when the JVM is killed, which is reported otherwise.
        spark._accumulatorServer.handle_error = lambda *_: None
        return spark
    except SlotkeeperError:
        raise
    except Exception as error:
        hint = "Read the lines above; `slotkeeper doctor` checks Java, memory and folders"
        cause = str(error).split("\n", 1)[0][:500]
        raise Unreachable("Spark did not start", hint, where="spark", cause=cause) from error


def _not_from_py4j(record: logging.LogRecord) -> bool:
    """Everything that goes wrong in py4j is raised as well; what it writes to the root logger would be noise."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


def _environ(java: Java, cache: Path, run: Path, spark_home: Path, options: SparkOptions) -> dict[str, str]:
    """What the JVM and, through it, the workers find in their environment."""
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
        # Empty on purpose: it is the head of the class path, where the archive admits no folder with files in it.
        "SPARK_CONF_DIR": str(settings),
        "PYSPARK_PYTHON": options.python or sys.executable,
        "PYTHONPATH": os.pathsep.join(path),
        # Else the workers would import a folder `slotkeeper` of the current folder instead of this package.
        "PYTHONSAFEPATH": "1",
    }
    return environ | handover.for_workers() | ({"SPARK_LOCAL_IP": "127.0.0.1"} if master.here else {})


@contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """launch_gateway hands on `os.environ` and nothing else; it is put back as it was."""
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
    """pyspark replaces the SIGINT handler in the main thread; the driver's own is put back."""
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
