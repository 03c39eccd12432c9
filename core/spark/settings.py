"""Spark's settings for a run, as a pure function of the options; a comment gives the reason for each.

Figures behind the choices: the ADR about Spark; settings for a cluster: the ADR about clusters.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from slotkeeper.core.domain.cluster import Master, MasterKind
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.spark.task import KINDS

LEAST_CAPACITY = 2
"""Minimum capacity: a lane that hangs must not hold back the others."""
SPARE = 1
"""Spare task slots: a cancelled task holds its slot for up to 3 s more, and the next one must not wait for it."""
LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")
"""C1 and the serial collector, for short tasks and a small heap; the measured start time is 0.53 of the default's."""
ENCRYPTED = "spark.network.crypto.enabled"
_CORES_MAX = "4"
"""As many cores as `local[4]`: without a limit a standalone cluster gives one job all its cores."""
LOG_SETTINGS = "log4j2.properties"
"""The log settings of a run's JVMs, in its folder."""


def logged(run: Path) -> tuple[str, ...]:
    """Return the options of a JVM whose files and log settings are in `run`."""
    return (*LIGHT, f"-Djava.io.tmpdir={run / 'tmp'}", f"-Dlog4j2.configurationFile={run / LOG_SETTINGS}")


def with_capacity(master: Master) -> tuple[str, int | None]:
    """Return the master with at least two task slots plus a spare, and the number without it (None: cluster decides).

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
) -> dict[str, str]:
    """Return every setting except master, name and secret; the user's allow-listed settings win. `run` is this run's
    folder, `kinds` the source and sink kinds that workers load in advance.
    """
    master = Master.parse(options.master)
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(run / "local"),
        "spark.driver.memory": options.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(map(quoted, java_options)),
        # The history of finished jobs is kept on the heap even without a UI; a job runs for months.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        # One attempt per task: slotkeeper.core.retry decides about a rerun.
        "spark.task.maxFailures": "1",
        "spark.task.reaper.enabled": "true",
        "spark.python.task.killTimeout": "1s",
        "spark.python.daemon.module": "slotkeeper.core.spark.daemon",
        # Local mode creates its own secret; for other masters the session sets one that is on no command line.
        "spark.authenticate": "true",
    }
    if kinds:
        settings[f"spark.executorEnv.{KINDS}"] = " ".join(kinds)
    if master.here:
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if sockets is not None and master.here:
        # A task start over TCP costs 40 ms more. Another host does not have the run's folder for sockets.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = str(sockets)
    if master.ships:
        settings |= _shipped(master, run, package)
    return settings | dict(options.settings)


def _shipped(master: Master, run: Path, package: str) -> dict[str, str]:
    """Return the settings of executors in separate processes: Slotkeeper's package first on the path, a small JVM."""
    settings = {
        # Relative to the executor's working folder, where Spark puts the file before the first task: it comes before
        # installed packages, so that a worker runs the same code as its driver.
        "spark.executorEnv.PYTHONPATH": package,
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.executor.extraJavaOptions": " ".join(LIGHT),
        "spark.executor.memory": "512m",
    }
    if master.kind is MasterKind.STANDALONE:
        # Spark sends unencrypted data to a master or worker without this setting; the driver and executors have it.
        return settings | {"spark.cores.max": _CORES_MAX, ENCRYPTED: "true"}
    return settings | {
        "spark.executor.extraJavaOptions": " ".join(map(quoted, logged(run))),
        # The web pages of master and workers in the driver's JVM listen on loopback: no other host can end a job there.
        "spark.ui.killEnabled": "false",
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
