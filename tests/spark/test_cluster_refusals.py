"""A problem with a cluster is reported in one line that names it, before Spark waits for the cluster."""

from __future__ import annotations

import http.client
import json
import pickle
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from slotkeeper.console.commands import doctor
from slotkeeper.core.domain.cluster import Master
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.finding import Level
from slotkeeper.core.domain.spec import SparkOptions
from slotkeeper.core.drivers.login import takes_submissions
from slotkeeper.core.errors import ConfigError, Unclassified, Unreachable
from slotkeeper.core.spark import cluster, session, task
from slotkeeper.core.spark.cluster import EXECUTOR_LOST, ask_masters, from_executor
from slotkeeper.core.spark.java import find_java, shim_home
from slotkeeper.core.spark.settings import LIGHT, spark_settings
from slotkeeper.demo.postgres import free_port
from tests.support.spark_cluster import SparkCluster, documented_settings

pytestmark = pytest.mark.spark
SECRET = "the-cluster-s-own"
OPTIONS = SparkOptions("spark://h:7077", secret=SecretRef("file", "/etc/spark.secret", "secret"))
LOST = (
    "Job aborted due to stage failure: Task 0 in stage 7.0 failed 1 times, most recent failure: Lost task 0.0"
    " in stage 7.0 (TID 7) (10.0.0.7 executor 3): ExecutorLostFailure (executor 3 exited caused by one of the"
    " running tasks) Reason: Command exited with code 137"
)


@dataclass(frozen=True)
class Masters:
    """Masters without workers: as in the runbook, without any secret, and with Spark's own default for REST."""

    guarded: SparkCluster
    opened: SparkCluster
    resting: SparkCluster
    rest_port: int


@pytest.fixture(scope="module")
def masters(tmp_path_factory: pytest.TempPathFactory, spark_cache: Path) -> Iterator[Masters]:
    folder, port = tmp_path_factory.mktemp("masters"), free_port()
    documented = documented_settings()
    rest = {key: value for key, value in documented.items() if "rest" not in key} | {
        "spark.master.rest.port": str(port)
    }
    asked = {
        "guarded": (SECRET, None),
        "opened": ("", {"spark.authenticate": "false", "spark.master.rest.enabled": "false"}),
        "resting": (SECRET, rest),
    }
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack, ThreadPoolExecutor() as pool:
        patch.setenv("XDG_CACHE_HOME", str(spark_cache))

        def start(name: str) -> SparkCluster:
            secret, settings = asked[name]
            return stack.enter_context(closing(SparkCluster(folder / name, secret, workers=0, settings=settings)))

        guarded, opened, resting = pool.map(start, asked)
        yield Masters(guarded, opened, resting, port)


def submitted(port: int) -> str:
    """A port's answer to a submission without a secret ("Spark Standalone Mode: REST API"); "" if it is not HTTP."""
    wanted = {
        "action": "CreateSubmissionRequest",
        "appResource": "file:///nowhere.jar",
        "mainClass": "Stranger",
        "appArgs": [],
        "clientSparkVersion": "4.3.0",
        "environmentVariables": {"A": "a"},
        "sparkProperties": {
            "spark.app.name": "stranger",
            "spark.jars": "",
            "spark.master": f"spark://127.0.0.1:{port}",
        },
    }
    body, headers = json.dumps(wanted).encode(), {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/submissions/create", body, headers)
    try:
        with urllib.request.urlopen(asked, timeout=20) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return str(error.code)
    except (OSError, http.client.HTTPException):
        return ""


@contextmanager
def java(folder: Path) -> Iterator[Any]:
    """A JVM like that of a driver before its context exists: later it would know the secret of another master."""
    logging = folder / "log4j2.properties"
    logging.write_text(session._LOG4J, "utf-8")
    conf = SparkConf(loadDefaults=False).setMaster("local").setAppName("asking")
    options = " ".join((*LIGHT, f"-Dlog4j2.configurationFile={logging}"))
    conf.set("spark.driver.extraJavaOptions", options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_HOME", str(shim_home(find_java(), (folder,))))
        gateway = launch_gateway(conf, popen_kwargs={"process_group": 0, "stdout": 2})
    try:
        yield gateway.jvm
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(20)


def test_a_master_is_asked_for_its_secret_before_spark_waits_for_it(
    tmp_path: Path, masters: Masters, capfd: pytest.CaptureFixture[str]
) -> None:
    guarded, opened = masters.guarded.url, masters.opened.url
    with java(tmp_path) as jvm:

        def ask(url: str, secret: str) -> None:
            ask_masters(jvm, Master.parse(url), secret, OPTIONS.secret)

        ask(guarded, SECRET)
        ask(f"spark://127.0.0.1:1,{guarded.removeprefix('spark://')}", SECRET)
        for url, secret in ((guarded, "another"), (opened, SECRET)):
            with pytest.raises(ConfigError) as refused:
                ask(url, secret)
            place = url.removeprefix("spark://")
            assert refused.value.message == (
                f"the Spark master {place} rejects the secret of secret_file /etc/spark.secret"
            )
            assert "set spark.authenticate = true" in refused.value.hint
        with pytest.raises(Unreachable) as silent:
            ask("spark://127.0.0.1:1,127.0.0.1:2", SECRET)
        assert silent.value.message == "no Spark master answers at 127.0.0.1:1, 127.0.0.1:2"
        for url in (masters.resting.url, f"{guarded},{masters.resting.url.removeprefix('spark://')}"):
            with pytest.raises(ConfigError) as resting:
                ask(url, SECRET)
            place = masters.resting.url.removeprefix("spark://")
            assert resting.value.message == (
                f"the Spark master {place} accepts submissions without its secret (REST port {masters.rest_port})"
            )
            assert "`spark.master.rest.enabled false`" in resting.value.hint
    assert capfd.readouterr() == ("", ""), "Spark's own pages of Java text are not shown"


def test_a_master_with_a_secret_takes_submissions_without_it_unless_it_runs_as_documented(
    masters: Masters, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert '"success" : true' in submitted(masters.rest_port), "the behaviour of Spark without the documented setting"
    assert takes_submissions("127.0.0.1", masters.rest_port)
    ports = masters.guarded.listening()
    assert int(masters.guarded.url.rpartition(":")[2]) in ports
    assert [port for port in ports if "success" in submitted(port) or takes_submissions("127.0.0.1", port)] == []
    job = SimpleNamespace(spark=SparkOptions(masters.resting.url))
    monkeypatch.setattr(doctor, "REST_PORT", masters.rest_port)
    (found,) = doctor.masters({"orders_rt": job})  # type: ignore[dict-item]
    assert found.level is Level.FAIL
    assert "accepts submissions without the secret; set `spark.master.rest.enabled false`" in found.text


def test_the_secret_of_a_cluster_is_in_no_argument_of_a_process(masters: Masters) -> None:
    words = [word for one in psutil.process_iter(("cmdline",)) for word in one.info["cmdline"] or []]
    assert str(masters.guarded.folder / "master.properties") in words
    assert [word for word in words if SECRET in word] == []


def test_what_executors_say_is_named() -> None:
    lost = from_executor(LOST)
    assert isinstance(lost, Unclassified)
    assert (lost.code, lost.message) == (EXECUTOR_LOST, "an executor on the worker 10.0.0.7 was lost during a task")
    absent = from_executor('(h7 executor 0): java.io.IOException: Cannot run program "/opt/py": error=2, No such file')
    assert isinstance(absent, ConfigError)
    assert absent.message == "the worker h7 has no Python /opt/py"
    other = from_executor("(h7 executor 0): PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has ...")
    assert isinstance(other, ConfigError)
    assert "the worker h7 has a different Python version" in other.message
    assert from_executor("(h7 executor 0): Python worker exited unexpectedly (crashed)") is None


def test_a_package_that_a_worker_lacks_is_named_and_our_module_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def without(name: str) -> task.Answer:
        def missing(_entry: bytes) -> object:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        monkeypatch.setattr(pickle, "loads", missing)
        return task.call(task.pack(task.nothing), None)

    lacking = without("psycopg2.extensions").failure
    assert lacking is not None
    assert lacking.kind == "config"
    assert "lacks the Python package psycopg2" in lacking.message
    defect = without("slotkeeper.core.absent").failure
    assert defect is not None
    assert defect.kind == "unknown"


def test_the_package_holds_all_of_slotkeeper_and_its_statements(tmp_path: Path) -> None:
    names = set(zipfile.ZipFile(cluster.write_package(tmp_path)).namelist())
    root = Path(cluster.__file__).parents[2]
    files = [*root.glob("*.py"), *(root / "core").rglob("*")]
    wanted = {f"slotkeeper/{file.relative_to(root)}" for file in files if file.suffix in (".py", ".sql")}
    expected = {"core/sinks/postgres/tables.sql", "core/spark/daemon.py", "core/__init__.py", "__init__.py"}
    assert {f"slotkeeper/{name}" for name in expected} <= wanted
    assert names == wanted


def test_no_setting_holds_a_secret_and_only_loopback_is_used_on_this_machine(tmp_path: Path) -> None:
    for master, here in (("local[2]", True), ("local-cluster[2,1,1024]", True), ("spark://h:7077", False)):
        found = spark_settings(SparkOptions(master, secret=OPTIONS.secret), tmp_path, tmp_path, (), cluster.PACKAGE)
        assert found["spark.authenticate"] == "true"
        assert "spark.authenticate.secret" not in found
        assert (found.get("spark.driver.host") == "127.0.0.1") is here
        assert (str(tmp_path) in found.get("spark.executor.extraJavaOptions", "")) is (master[:6] == "local-")
        assert ("spark.python.unix.domain.socket.dir" in found) is here
