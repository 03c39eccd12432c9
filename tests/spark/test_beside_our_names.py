"""A user's program with its own folders `core` and `console`: a batch, a stream and the writer, on any worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slotkeeper.core.spark.java import find_java, shim_home
from slotkeeper.demo.warehouse import Warehouse
from tests.support.frame_session import SETTINGS
from tests.support.frames import JOB, configured
from tests.support.mirror import ROWS, MakeMirror, orders
from tests.support.spark_cluster import SparkCluster

pytestmark = [pytest.mark.spark, pytest.mark.chaos]
SECRET = "a secret of this test"
PROGRAM = """
import json, sys
from console import shout
from core.mine import twice
from pyspark.sql import SparkSession
from slotkeeper.dataframe import register, start

config, job, checkpoint, settings = sys.argv[1:]
builder = SparkSession.builder.appName("beside")
for name, value in json.loads(settings).items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
register(spark)
reads = {"config": config, "job": job}
rows = spark.read.format("slotkeeper").options(**reads, read="rows").load()


def loaded(part):
    import core.mine
    got = sum(twice(1) for _ in part)
    import slotkeeper.core.dataframe.reader.read
    of_ours = [name for name in sys.modules if name.partition(".")[0] in ("core", "console") and "mine" not in name]
    yield got, core.mine.__file__, sorted(set(of_ours) - {"core", "console"})


found = rows.rdd.mapPartitions(loaded).collect()
stream = spark.readStream.format("slotkeeper").options(**reads, start="initial", changelog="raw").load()
writer = stream.writeStream.format("slotkeeper_postgres").options(config=config, sink="mart", table="mart.beside")
writer = writer.option("create_target", "true").option("checkpointLocation", checkpoint)
query = start(writer.trigger(availableNow=True))
query.awaitTermination()
print(json.dumps({
    "rows": sum(one[0] for one in found) // 2, "files": sorted({one[1] for one in found}),
    "others": sorted({name for one in found for name in one[2]}), "said": shout("done"),
}))
spark.stop()
"""


@pytest.mark.parametrize("standalone", [False, True], ids=["local", "standalone"])
def test_a_program_with_packages_of_our_folders_names_reads_streams_and_writes(
    standalone: bool, make_mirror: MakeMirror, warehouse: Warehouse, tmp_path: Path, seed: int
) -> None:
    mirror = orders(make_mirror, warehouse, seed)
    config = configured(mirror, tmp_path / "conf")
    mine = tmp_path / "mine"
    for name, text in {
        "core/__init__.py": "",
        "core/mine.py": "def twice(n):\n    return 2 * n\n",
        "console/__init__.py": "def shout(text):\n    return text.upper()\n",
        "program.py": PROGRAM,
    }.items():
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text(text)
    settings = {**SETTINGS, "spark.master": "local[2]", "spark.local.dir": str(tmp_path / "local")}
    cluster = SparkCluster(tmp_path / "cluster", SECRET) if standalone else None
    try:
        if cluster is not None:
            settings |= {
                "spark.master": cluster.url,
                "spark.authenticate": "true",
                "spark.authenticate.secret": SECRET,
                "spark.executorEnv.PYTHONPATH": str(mine),
                **{name: value for name, value in cluster.settings.items() if "crypto" in name or "network" in name},
            }
        environ = {**os.environ, "PYTHONPATH": str(mine), "PYSPARK_PYTHON": sys.executable}
        environ["JAVA_HOME"] = str(shim_home(find_java(), (tmp_path,)))
        checkpoint = str(tmp_path / "checkpoint")
        words = [sys.executable, str(mine / "program.py"), str(config), JOB, checkpoint, json.dumps(settings)]
        ran = subprocess.run(words, cwd=mine, env=environ, capture_output=True, text=True, check=False, timeout=500)
        assert ran.returncode == 0, ran.stderr[-4_000:]
    finally:
        if cluster is not None:
            cluster.close()
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found == {"rows": ROWS, "files": [str(mine / "core" / "mine.py")], "others": [], "said": "DONE"}
    compared = "SELECT cust, order_no, status FROM {} ORDER BY 1, 2"
    theirs = mirror.query(mirror.sink, compared.format("mart.beside"))
    assert theirs == mirror.query(warehouse.connect, compared.format(mirror.table))
