"""Spark's settings for a run, as a pure function of the options; comments give the reasons for the settings.

For the measurements, see the ADR about Spark; for the settings of a cluster, see the ADR about clusters.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from slotkeeper.core.domain.cluster import Master, MasterKind
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.spark.task import KINDS

LEAST_CAPACITY = 2
"""Minimum capacity: a lane that hangs must not block the other lanes."""
SPARE = 1
"""Number of spare task slots: a cancelled task holds its slot for up to 3 s, and the next task must not wait."""
LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xms64m")
"""JVM options for short tasks and a small heap: the C1 compiler and the serial collector. The measured start time is
0.53 times the default start time. By default, the heap starts with 1/64 of the host's memory (java, "-Xms"); the old
generation is then collected only once hours of garbage have filled it."""
ENCRYPTED = "spark.network.crypto.enabled"
_CORES_MAX = "4"
"""Maximum number of cores, as for `local[4]`; without a limit, a standalone cluster gives one job all its cores."""
LOG_SETTINGS = "log4j2.properties"
"""Name of the file with the log settings of a run's JVMs, in the run's folder."""


class Pod(NamedTuple):
    """The pod in which this process runs."""

    name: str
    address: str


def logged(run: Path) -> tuple[str, ...]:
    """Return the options for a JVM whose files and log settings are in the folder `run`."""
    return (*LIGHT, f"-Djava.io.tmpdir={run / 'tmp'}", f"-Dlog4j2.configurationFile={run / LOG_SETTINGS}")


def with_capacity(master: Master) -> tuple[str, int | None]:
    """Return the master with at least two task slots plus a spare, and the number without the spare (cluster: None).

    >>> with_capacity(Master.parse("local")), with_capacity(Master.parse("local[8]"))
    (('local[3]', 2), ('local[9]', 8))
    >>> with_capacity(Master.parse("spark://h:7077"))
    ('spark://h:7077', None)
    """
    if master.kind is not MasterKind.LOCAL:
        return master.text, None
    capacity = max(LEAST_CAPACITY, master.capacity or os.cpu_count() or 1)
    return f"local[{capacity + SPARE}]", capacity


def spark_settings(
    options: SparkOptions,
    run: Path,
    sockets: Path | None,
    java_options: tuple[str, ...],
    package: str,
    kinds: tuple[str, ...] = (),
    pod: Pod | None = None,
) -> dict[str, str]:
    """Return all settings except master, name and secret; the user's allow-listed settings take precedence. `run` is
    the folder of this run, `kinds` are the source and sink kinds that workers import in advance, `pod` is the driver's
    pod, if any.
    """
    master = Master.parse(options.master)
    settings = {
        # `session` sets SPARK_LOCAL_IP to loopback for a master on this host, and Spark's pages listen there
        "spark.ui.enabled": str(options.spark_ui).lower(),
        "spark.ui.killEnabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(run / "local"),
        "spark.driver.memory": options.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(map(quoted, java_options)),
        # Spark keeps the history of finished Spark jobs on the heap even without a UI; a driver runs for months.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        # One attempt per task: slotkeeper.core.retry decides about retries.
        "spark.task.maxFailures": "1",
        "spark.task.reaper.enabled": "true",
        "spark.python.task.killTimeout": "1s",
        "spark.python.daemon.module": "slotkeeper.core.spark.daemon",
        # Local mode creates its own secret; for other masters, the session sets the secret, not on a command line.
        "spark.authenticate": "true",
    }
    if kinds:
        settings[f"spark.executorEnv.{KINDS}"] = " ".join(kinds)
    if master.here:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if sockets is not None and master.here:
        # Starting a task over TCP takes 40 ms more. On another host, the run's folder for sockets does not exist.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = str(sockets)
    if master.ships:
        settings |= _shipped(master, run, package)
    if master.kind is MasterKind.KUBERNETES:
        # Without this file, Spark writes the secret into the specification of each executor's pod.
        settings["spark.authenticate.secret.file"] = options.secret.ref
        if pod is not None:
            # Kubernetes deletes the executors' pods with the driver's pod, which owns them: Spark, "Running Spark on
            # Kubernetes", Client Mode. A pod's name is its host name, and its address belongs to it alone.
            settings |= {"spark.kubernetes.driver.pod.name": pod.name, "spark.driver.host": pod.address}
    return settings | dict(options.settings)


def _shipped(master: Master, run: Path, package: str) -> dict[str, str]:
    """Return the settings for executors in separate processes: Slotkeeper's package first on the path, a small JVM."""
    settings = {
        # Relative to the executor's working folder, where Spark puts the file before the first task. The file comes
        # before installed packages, so that a worker runs the same code as its driver.
        "spark.executorEnv.PYTHONPATH": package,
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.executor.extraJavaOptions": " ".join(LIGHT),
        "spark.executor.memory": "512m",
    }
    if master.kind is MasterKind.KUBERNETES:
        # An executor reads the secret's file only if its own settings have a Kubernetes master
        # (`SecurityManager.secretKeyFromFile`), which Spark 4.3 does not pass to it, nor accept in extraJavaOptions.
        knows = {"spark.executorEnv.JAVA_TOOL_OPTIONS": "-Dspark.master=k8s://driver"}
        return settings | knows | {"spark.executor.instances": "2", ENCRYPTED: "true"}
    if master.kind is MasterKind.STANDALONE:
        # If a master or worker lacks this setting, Spark sends it unencrypted data; the driver and executors have it.
        return settings | {"spark.cores.max": _CORES_MAX, ENCRYPTED: "true"}
    return settings | {
        "spark.executor.extraJavaOptions": " ".join(map(quoted, logged(run))),
        "spark.executor.logs.rolling.strategy": "size",
        "spark.executor.logs.rolling.maxSize": "1048576",
        "spark.executor.logs.rolling.maxRetainedFiles": "2",
    }


def quoted(option: str) -> str:
    """Quote a JVM option for `extraJavaOptions`, which Spark splits at blanks outside double quotes.

    >>> quoted("-Xa=/b c"), quoted("-Xb")
    ('"-Xa=/b c"', '-Xb')
    """
    if not re.search(r'[\s"\\\']', option):
        return option
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'
