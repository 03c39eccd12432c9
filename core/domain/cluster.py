"""Spark masters for a job's tasks (the four forms of `[jobs.X.spark] master`), and lost sessions. Pure.

Spark, "Spark Standalone Mode", High Availability: `spark.deploy.recoveryMode` is NONE unless set, and a master that
restarts without recovery has no record of earlier applications. Its workers end the applications' executors, no new
executors are assigned, and Spark reports no error: the session is lost although its Java process is still running.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

LEAST_MEMORY = 512
"""Minimum memory of a worker, in MiB: Spark rejects an executor with a heap below 450 MiB."""
WORKERS_NEED = "psycopg2"
"""The package that the Python interpreter of a cluster's workers needs; Slotkeeper sends its own code to them."""
REST_PORT = 6_066
"""The default port for submissions to a standalone master: Spark, "Spark Standalone Mode", `spark.master.rest.port`."""
REST_OFF = "set `spark.master.rest.enabled false` in conf/spark-defaults.conf on the master, and restart it"
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,(\d+))?\])?")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[(\d+),(\d+),(\d+)\]")
_PLACE = re.compile(r"([\w.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_API = re.compile(r"k8s://(https://[\w.-]+(?::\d{1,5})?|http://(?:localhost|127\.0\.0\.1):\d{1,5})/?")
"""The address of a Kubernetes API; a token is sent to it, so it is encrypted unless it is on this host."""
_UNTRIED = re.compile(r"(yarn|mesos)\b")
_FORMS = "local[4], local-cluster[2,1,1024], spark://host:7077 or k8s://https://host:6443"


class MasterKind(Enum):
    """The kind of master that provides a job's task slots."""

    LOCAL = "local"
    LOCAL_CLUSTER = "local-cluster"
    STANDALONE = "standalone"
    KUBERNETES = "kubernetes"


@dataclass(frozen=True, slots=True)
class Master:
    """A Spark master; `capacity` is its configured number of task slots, None if the host or the cluster determines it.

    `workers` is the number of workers of a local cluster, each with `memory` MiB; `places` are the (host, port) pairs
    of a standalone cluster's masters, one of which is the leader.
    """

    text: str
    kind: MasterKind
    capacity: int | None = None
    workers: int = 0
    memory: int = 0
    places: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Master:
        """Parse a master; raises ValueError with a message that continues a sentence after the key's name.

        >>> Master.parse("local[4]").capacity, Master.parse("local-cluster[2,1,1024]").capacity
        (4, 2)
        >>> Master.parse("spark://a:7077,b:7077").places
        (('a', 7077), ('b', 7077))
        """
        plain = re.sub(r"\s+", "", text)
        if found := _LOCAL.fullmatch(plain):
            return cls(plain, MasterKind.LOCAL, None if found[1] == "*" else int(found[1] or 1))
        if found := _LOCAL_CLUSTER.fullmatch(plain):
            workers, cores, memory = map(int, found.groups())
            if not workers or not cores:
                raise ValueError("needs at least one worker with one core: local-cluster[workers,cores,MiB]")
            if memory < LEAST_MEMORY:
                raise ValueError(f"needs at least {LEAST_MEMORY} MiB for each worker: local-cluster[workers,cores,MiB]")
            return cls(plain, MasterKind.LOCAL_CLUSTER, workers * cores, workers, memory)
        if plain.startswith("spark://"):
            return cls(plain, MasterKind.STANDALONE, places=_places(plain))
        if plain.startswith("k8s://"):
            if not _API.fullmatch(plain):
                raise ValueError("needs the address of the Kubernetes API with TLS: k8s://https://host:6443")
            return cls(plain, MasterKind.KUBERNETES)
        if found := _UNTRIED.match(plain):
            beside = "start a standalone master and workers on hosts of that cluster"
            raise ValueError(f"is not supported on {found[1]}, where jobs are not tested; {beside}, or use {_FORMS}")
        raise ValueError(f"must be a Spark master such as {_FORMS}")

    @property
    def here(self) -> bool:
        """Whether all Spark processes run on this host, so that only loopback addresses are needed."""
        return self.kind not in (MasterKind.STANDALONE, MasterKind.KUBERNETES)

    @property
    def ships(self) -> bool:
        """Whether the Slotkeeper package must be sent to the processes that run tasks."""
        return self.kind is not MasterKind.LOCAL


def _places(text: str) -> tuple[tuple[str, int], ...]:
    found = []
    for each in text.removeprefix("spark://").split(","):
        place = _PLACE.fullmatch(each)
        if not place or not 0 < int(place[2]) < 65_536:
            raise ValueError("needs a host and a port for each master: spark://host:7077")
        found.append((place[1].strip("[]"), int(place[2])))
    return tuple(found)


LOST_AFTER = 60.0
"""Seconds after which a session counts as lost; a start waits equally long for its first executor. A lost executor is
replaced within seconds. Checking the Java process takes a millisecond, and even on an overloaded host the process
responds within a few seconds."""
NO_EXECUTOR = f"the Spark cluster has had no executor for {LOST_AFTER:.0f} s"


@dataclass(frozen=True, slots=True)
class SessionLife:
    """Seconds for which the Java process has not responded (`silent`) and the cluster has had no executor (`empty`)."""

    silent: float = 0.0
    empty: float = 0.0

    def after(self, seconds: float, executors: int | None) -> SessionLife:
        """Return the state `seconds` later; `executors` is the number of registered executors, None if unknown.

        >>> SessionLife(silent=9.0).after(2.0, 3), SessionLife(empty=9.0).after(2.0, 0)
        (SessionLife(silent=0.0, empty=0.0), SessionLife(silent=0.0, empty=11.0))
        """
        if executors is None:
            return SessionLife(self.silent + seconds, self.empty)
        return SessionLife(0.0, 0.0 if executors else self.empty + seconds)

    @property
    def lost(self) -> str:
        if self.silent >= LOST_AFTER:
            return f"Spark's Java process has not answered for {LOST_AFTER:.0f} s"
        return NO_EXECUTOR if self.empty >= LOST_AFTER else ""
