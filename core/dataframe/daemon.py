"""The process that forks Spark's Pythons: pyspark's own, with what is ours of them loaded before it.

Each batch of a query that writes begins two Pythons and ends them, each query some more; what one of them imports it
imports anew. Forked from this one they begin with it. Arrow and pandas are not loaded here: both start threads (of
their allocator and of their algebra), and a fork has only the one that forked. For whoever makes the session, as
`spark.python.daemon.module`; without it all is slower, and as right. Next door: `core.spark.daemon` is that of a job's
workers.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module

from pyspark import daemon

MODULES = (
    "core.dataframe.writer.source",
    "core.dataframe.writer.task",
    "core.dataframe.reader.options",
    "core.wiring.driver",
    "core.engine.driver.start",
)
KINDS = (("core.sources.registry", "dws"), ("core.sinks.registry", "postgres"))
"""The kind that has changelogs, and the one that has writers: few bytes more than those in use."""


def preload() -> None:
    """Load all that; opens nothing. What cannot be loaded is left to whoever needs it, and says what is missing."""
    for name in MODULES:
        with suppress(Exception):
            import_module(name)
    for registry, kind in KINDS:
        with suppress(Exception):
            import_module(registry).open(kind)


if __name__ == "__main__":
    preload()
    daemon.manager()
