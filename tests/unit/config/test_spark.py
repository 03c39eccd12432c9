"""Masters and a cluster's secret in the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.config.secrets import place, resolve
from slotkeeper.core.domain.cluster import Master, MasterKind
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.spec import SparkOptions
from tests.unit.config.samples import added

SPARK = "jobs.orders_rt.spark"


def spark(folder: Path, text: str, env: dict[str, str] | None = None) -> SparkOptions:
    path = folder / "config.toml"
    path.write_text(added(SPARK, text), "utf-8")
    return load(path, env or {}).jobs["orders_rt"].spark


@pytest.mark.parametrize(
    ("text", "kind", "capacity", "here", "ships"),
    [
        ("local", MasterKind.LOCAL, 1, True, False),
        ("local[*]", MasterKind.LOCAL, None, True, False),
        ("local[ 4, 2 ]", MasterKind.LOCAL, 4, True, False),
        ("local-cluster[2, 3, 1024]", MasterKind.LOCAL_CLUSTER, 6, True, True),
        ("spark://[::1]:7077", MasterKind.STANDALONE, None, False, True),
    ],
)
def test_a_master_says_where_tasks_run(
    text: str, kind: MasterKind, capacity: int | None, here: bool, ships: bool
) -> None:
    master = Master.parse(text)
    assert (master.kind, master.capacity, master.here, master.ships) == (kind, capacity, here, ships)


def test_a_cluster_s_secret_is_a_reference_and_never_a_value(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("hush\n", "utf-8")
    (tmp_path / "s").chmod(0o640)
    options = spark(tmp_path, 'master = "spark://h:7077"\nsecret_file = "s"\npython = "/opt/python"')
    assert options.secret == SecretRef("file", str(tmp_path / "s"), "secret")
    assert options.python == "/opt/python"
    assert place(options.secret) == f"secret_file {tmp_path / 's'}"
    assert resolve(options.secret) == "hush"
    assert "hush" not in repr(options)
    loaded = load(tmp_path / "config.toml", {})
    assert any(
        "jobs.orders_rt.spark: secret_file" in one and "accessible to other users" in one for one in loaded.warnings
    )


def test_a_variable_that_holds_a_clusters_secret_is_not_a_configuration_key(tmp_path: Path) -> None:
    name = "SLOTKEEPER_JOBS__SPARK_SECRET"
    options = spark(tmp_path, f'master = "spark://h:7077"\nsecret_env = "{name}"', {name: "hush"})
    assert options.secret == SecretRef("env", name, "secret")
