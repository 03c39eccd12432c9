"""What `spark-submit` ships: Slotkeeper in an archive of code is refused by one line, an environment is taken."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pyspark
import pytest

from slotkeeper.core.spark.java import find_java, shim_home
from tests.support.frames import JOB
from tests.support.sides import side_of
from tests.support.spark_cluster import bare_python

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]
ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from pyspark.sql import SparkSession
from slotkeeper.dataframe import register

spark = SparkSession.builder.getOrCreate()
register(spark)
rows = spark.read.format("slotkeeper").options(config=sys.argv[1], job=sys.argv[2], read="rows").load()
pythons = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("sys").prefix).collect()
print("rows", rows.count(), *pythons)
"""


def submitted(folder: Path, *words: str, program: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """The end of a program given to `spark-submit` in a working folder of its own."""
    (folder / "program.py").write_text(PROGRAM, "utf-8")
    environ = os.environ | {
        "JAVA_HOME": str(shim_home(find_java(), (folder,))),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    quiet = ("--conf", "spark.ui.enabled=false", "--conf", "spark.driver.host=127.0.0.1", "--driver-memory", "1g")
    command = [str(Path(sys.prefix, "bin", "spark-submit")), *quiet, *words, "program.py", *program]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, timeout=400, check=False)


def test_slotkeeper_in_an_archive_of_code_is_refused_by_one_line(tmp_path: Path) -> None:
    code = tmp_path / "slotkeeper.zip"
    with zipfile.ZipFile(code, "w") as into:
        for place, _, names in os.walk(ROOT / "slotkeeper", followlinks=True):
            for name in (one for one in names if one.endswith((".py", ".sql"))):
                file = Path(place, name)
                into.write(file, file.relative_to(ROOT))
    done = submitted(tmp_path, "--master", "local[1]", "--py-files", str(code), program=("no.toml", JOB))
    (line,) = [one for one in done.stdout.splitlines() if "Refused" in one]  # Spark redirects the program
    assert done.returncode != 0 and "slotkeeper is imported from an archive" in line, done.stdout[-2000:]


def test_an_environment_that_is_shipped_runs_the_workers(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    side = side_of(request, "dws")
    side.write((1, 1), (2, 2))
    python = bare_python(tmp_path / "environment")
    theirs = next((tmp_path / "environment" / "lib").glob("python*/site-packages"))
    (theirs / "more.pth").write_text(f"{Path(pyspark.__file__).parents[1]}\n{ROOT}\n", "utf-8")
    packed = tmp_path / "environment.tar.gz"
    with tarfile.open(packed, "w:gz", dereference=False) as into:
        for one in (tmp_path / "environment").iterdir():
            into.add(one, one.name)
    assert python.exists()  # the driver's Pythons start in its own folder, so the environment is there too
    ships = ("--archives", f"{packed}#environment", "--conf", "spark.pyspark.python=./environment/bin/python")
    more = ("--conf", "spark.executor.memory=512m", "--conf", "spark.pyspark.driver.python=" + sys.executable)
    config = side.configured(tmp_path / "c", JOB)
    done = submitted(tmp_path, "--master", "local-cluster[1,1,1024]", *ships, *more, program=(str(config), JOB))
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("rows ")] or [done.stderr[-3000:]]
    _, rows, prefix = line.split(" ", 2)
    assert rows == "2" and prefix.endswith("environment"), done.stderr[-3000:]
    assert str(tmp_path / "environment") != prefix, "the executor has unpacked its own"
