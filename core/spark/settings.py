"""Spark's settings for a run, as a pure function of the options; each has its reason beside it.

Next door: `core.spark.session` starts Spark with them. Figures behind the choices: the ADR about Spark.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from core.domain.spec import SparkOptions

LEAST_SEATS = 2
"""One lane that hangs must not hold back the others."""
SPARE = 1
"""A cancelled task keeps its place in Spark for up to 3 s more; the next one must not wait behind it."""
_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,\s*(\d+)\s*)?\])?")


def is_local(master: str) -> bool:
    """Whether tasks run beside the driver.

    >>> is_local("local[4]"), is_local("spark://h:7077"), is_local("local-cluster[2,2,512]")
    (True, False, False)
    """
    return _LOCAL.fullmatch(master) is not None


def with_seats(master: str) -> tuple[str, int | None]:
    """The master with at least two seats and the spare, and how many seats those are (None: the cluster says).

    >>> with_seats("local"), with_seats("local[8]"), with_seats("spark://h:7077")
    (('local[3]', 2), ('local[9]', 8), ('spark://h:7077', None))
    """
    found = _LOCAL.fullmatch(master)
    if not found:
        return master, None
    asked = (os.cpu_count() or 1) if found[1] == "*" else int(found[1] or 1)
    seats = max(LEAST_SEATS, asked)
    return f"local[{seats + SPARE}]", seats


def spark_settings(
    options: SparkOptions, local_dir: Path, sockets: Path | None, java_options: tuple[str, ...]
) -> dict[str, str]:
    """Every setting but master and name; the user's allow-listed ones win."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.local.dir": str(local_dir),
        "spark.driver.memory": options.driver_memory,
        "spark.driver.extraJavaOptions": " ".join(map(quoted, java_options)),
        # The history of finished jobs is kept on the heap even without a UI; a job runs for months.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "200",
        # Ours are one attempt each: a rerun is decided by core.retry.
        "spark.task.maxFailures": "1",
        "spark.task.reaper.enabled": "true",
        "spark.python.task.killTimeout": "1s",
        "spark.python.daemon.module": "core.spark.daemon",
    }
    if is_local(options.master):
        settings["spark.driver.host"] = settings["spark.driver.bindAddress"] = "127.0.0.1"
    if is_local(options.master) or options.master == "yarn":
        # These two make the secret themselves; a standalone cluster's is part of the cluster's own settings.
        settings["spark.authenticate"] = "true"
    if sockets is not None:
        # A task start over TCP costs 40 ms more.
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = str(sockets)
    return settings | dict(options.settings)


def quoted(option: str) -> str:
    """One JVM option for `extraJavaOptions`, which Spark splits at blanks outside double quotes.

    >>> quoted("-Xa=/b c"), quoted("-Xb")
    ('"-Xa=/b c"', '-Xb')
    """
    if not re.search(r'[\s"\\\']', option):
        return option
    return '"' + option.replace("\\", "\\\\").replace('"', '\\"') + '"'
