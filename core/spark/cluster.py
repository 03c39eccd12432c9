"""Support for jobs on a cluster: a check of the master before Spark starts, the home of a local cluster, and the
classification of executor errors.

The ADR about clusters gives the reasons.
"""

from __future__ import annotations

import re
import secrets
import socket
import sys
import zipfile
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError

import slotkeeper
from slotkeeper.core.config.secrets import place, resolve
from slotkeeper.core.domain.cluster import REST_OFF, Master, MasterKind
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.domain.text import see
from slotkeeper.core.errors import ConfigError, SlotkeeperError, Unclassified, Unreachable
from slotkeeper.core.ownership import private_folder
from slotkeeper.core.spark.settings import ENCRYPTED

EXECUTOR_LOST = "spark executor lost"
CLUSTER_GONE = "spark cluster gone"
CONNECT_SECONDS = 5.0
_SILENT = "RpcTimeoutException"
_ASKING = {
    "spark.rpc.lookupTimeout": "10s",
    "spark.rpc.askTimeout": "10s",
    "spark.rpc.numRetries": "1",
    ENCRYPTED: "true",
}
_PLACE = re.compile(r"\((\S+) executor (\w+)\)")


def cluster_secret(options: SparkOptions) -> str:
    """Return the secret of the job's cluster; "" in local mode, where Spark creates its own. Raises ConfigError."""
    kind = Master.parse(options.master).kind
    if kind is MasterKind.LOCAL_CLUSTER:
        return secrets.token_hex(32)
    return resolve(options.secret)


def own_home(spark_home: Path, run: Path) -> Path:
    """Create a Spark home in the run's folder, because a local cluster always writes its work files below its home."""
    home = run / "home"
    private_folder(home)
    for part in spark_home.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    return home


def ask_masters(jvm: Any, master: Master, secret: str, reference: SecretRef) -> None:
    """Check that masters answer and accept the secret. A SparkContext would wait a minute and not report the cause.

    Raises Unreachable if no master answers, ConfigError if a master rejects the secret, or accepts submissions from
    clients without the secret.
    """
    silent: list[str] = []
    for host, port in master.places:
        said, rest = _asked(jvm, host, port, secret) if _connects(host, port) else (_SILENT, 0)
        if rest:
            what = f"the Spark master {host}:{port} accepts submissions without its secret (REST port {rest})"
            raise ConfigError(what, REST_OFF, where="spark")
        if said and _SILENT not in said:
            hint = "set spark.authenticate = true and the same secret on the master, its workers and this host"
            what = f"the Spark master {host}:{port} rejects the secret of {place(reference)}"
            raise ConfigError(what, hint, where="spark")
        if said:
            silent.append(f"{host}:{port}")
    if len(silent) < len(master.places):
        return
    what = f"no Spark master answers at {', '.join(silent)}"
    raise Unreachable(
        what, "check that the cluster is running and that this host can connect to it", CLUSTER_GONE, "spark"
    )


def _connects(host: str, port: int) -> bool:
    """Whether the port is open; Spark's own errors do not always distinguish a closed port from a rejected secret."""
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _asked(jvm: Any, host: str, port: int, secret: str) -> tuple[str, int]:
    """Look up the master like an application; return (error or "", port of the master's REST server or 0)."""
    conf = jvm.org.apache.spark.SparkConf(False)
    for name, value in _ASKING.items():
        conf.set(name, value)
    conf.set("spark.authenticate", "true").set("spark.authenticate.secret", secret)
    manager = jvm.org.apache.spark.SecurityManager
    no_file = getattr(manager, "$lessinit$greater$default$3")()
    env = None
    try:
        trusted = manager(conf, jvm.scala.Option.empty(), no_file)
        env = jvm.org.apache.spark.rpc.RpcEnv.create("slotkeeper", "localhost", 0, conf, trusted, True)
        found = env.setupEndpointRef(jvm.org.apache.spark.rpc.RpcAddress(host, port), "Master")
        return "", _rest_port(jvm, found)
    except Py4JJavaError as error:
        cause, said = error.java_exception, list[str]()
        while cause is not None and len(said) < 10:  # class names only: the messages are pages long
            said.append(str(cause.getClass().getSimpleName()))
            cause = cause.getCause()
        return "; ".join(said), 0
    finally:
        if env is not None:
            env.shutdown()


def _rest_port(jvm: Any, master: Any) -> int:
    """Return the port of a master's REST server, which the master reports to its status page; 0 if there is none.

    Since Spark 4.0 the server is on by default, even with `spark.authenticate.secret`, and does not ask for the secret
    (Spark, "Spark Standalone Mode", `spark.master.rest.enabled`).
    """
    messages = jvm.org.apache.spark.deploy
    question = getattr(getattr(messages, "DeployMessages$RequestMasterState$"), "MODULE$")
    answer = jvm.java.lang.Class.forName("org.apache.spark.deploy.DeployMessages$MasterStateResponse")
    port = master.askSync(question, jvm.scala.reflect.ClassTag.apply(answer)).restPort()
    return int(port.get()) if port.isDefined() else 0


def from_executor(text: str) -> SlotkeeperError | None:
    """Return the error for Spark's message about a failed task if an executor failed; None for other failures."""
    found = _PLACE.search(text)
    where = f"the worker {found[1]}" if found else "a worker"
    if "ExecutorLostFailure" in text:
        hint = "No action needed: Spark replaces it. If this repeats, read its log in Spark's work folder there."
        what, cause = f"an executor on {where} was lost during a task", text.split("\n", 1)[0][:500]
        return Unclassified(what, hint, EXECUTOR_LOST, "spark", cause)
    if program := re.search(r'Cannot run program "([^"]+)"', text):
        page = see("runbook", "I want a job on a Spark cluster")
        hint = f"install Python there and set python in [jobs.X.spark]; requirements: {page}"
        return ConfigError(f"{where} has no Python {program[1]}", hint, where="spark")
    if "PYTHON_VERSION_MISMATCH" in text:
        mine = f"{sys.version_info.major}.{sys.version_info.minor}"
        what = f"{where} has a different Python version than this driver ({mine})"
        return ConfigError(what, "set python in [jobs.X.spark] to a Python of that version", where="spark")
    return None


PACKAGE = "slotkeeper.zip"
"""The file's name in an executor's working folder."""
_PACKED = (".py", ".sql")


def write_package(folder: Path) -> Path:
    """Write the package that this driver runs, with its SQL files, into `folder`, and return the file.

    Spark sends the file to the executors, so the package does not have to be installed on the workers of a cluster.
    """
    root = Path(slotkeeper.__file__).parent
    target = folder / PACKAGE
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in [*sorted(root.glob("*.py")), *sorted((root / "core").rglob("*"))]:
            if file.suffix in _PACKED and "__pycache__" not in file.parts:
                archive.write(file, Path(root.name) / file.relative_to(root))
    return target
