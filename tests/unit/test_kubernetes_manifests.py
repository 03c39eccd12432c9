"""The manifests of docs/kubernetes: they match the schemas of Kubernetes, agree with the example's configuration, and
contain no secret. No cluster was tested.
"""

from __future__ import annotations

import importlib
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from slotkeeper.core.config.load import load
from slotkeeper.core.spark.settings import Pod, spark_settings
from tests.architecture.checkout import ROOT

FOLDER = ROOT / "docs" / "kubernetes"
SCHEMAS = json.loads((ROOT / "tests" / "fixtures" / "kubernetes" / "definitions.json").read_text("utf-8"))
"""The strict schemas of one version: an unknown field is an error."""


def objects(text: str) -> list[dict[str, Any]]:
    yaml: Any = importlib.import_module("yaml")  # its types are not installed
    return [one for one in yaml.safe_load_all(text) if one]


def resources() -> list[dict[str, Any]]:
    (kustomization,) = objects((FOLDER / "kustomization.yaml").read_text("utf-8"))
    return [one for name in kustomization["resources"] for one in objects((FOLDER / name).read_text("utf-8"))]


def complaints(one: dict[str, Any]) -> list[str]:
    group, _, version = one["apiVersion"].rpartition("/")
    name = f"io.k8s.api.{group.split('.')[0] or 'core'}.{version}.{one['kind']}"
    schema = {"$ref": f"#/$defs/{name}", "$defs": SCHEMAS["$defs"]}
    return [error.message for error in jsonschema.Draft202012Validator(schema).iter_errors(one)]


def test_the_manifests_match_the_schemas_which_find_a_wrong_field() -> None:
    found = resources()
    assert {one["kind"] for one in found} >= {"Deployment", "Role", "RoleBinding", "ServiceAccount"}
    assert {one["metadata"]["name"]: complaints(one) for one in found if complaints(one)} == {}
    (job,) = [one for one in found if one["kind"] == "Deployment"]
    job["spec"]["template"]["spec"]["containers"][0]["imagee"] = "x"
    assert complaints(job) != []


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not a package of Python")
def test_kustomize_builds_them() -> None:
    built = subprocess.run(["kubectl", "kustomize", str(FOLDER)], capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")
    assert all(complaints(one) == [] for one in objects(built.stdout))


def test_executors_get_the_secrets_of_the_driver_at_the_same_paths_and_none_is_written_in_a_pod(tmp_path: Path) -> None:
    loaded = load(FOLDER / "slotkeeper.toml", {})
    (job,) = loaded.jobs.values()
    (deployment,) = [one for one in resources() if one["kind"] == "Deployment"]
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"] == ["run", job.name]
    secrets = {one["name"]: one["secret"]["secretName"] for one in spec["volumes"] if "secret" in one}
    mounted = {secrets[one["name"]]: one["mountPath"] for one in container["volumeMounts"] if one["name"] in secrets}
    settings = spark_settings(job.spark, tmp_path, None, (), "p.zip", pod=Pod("orders-rt-0", "10.0.0.7"))
    prefix = "spark.kubernetes.executor.secrets."
    assert {name.removeprefix(prefix): path for name, path in settings.items() if name.startswith(prefix)} == mounted
    assert settings["spark.authenticate.secret.file"] == f"{mounted['slotkeeper-spark']}/secret"
    assert settings["spark.kubernetes.driver.pod.name"] == "orders-rt-0"
    assert settings["spark.driver.host"] == "10.0.0.7"
    assert "spark.authenticate.secret" not in settings
    assert not re.search(r"password\"? ?[:=] ?\"", (FOLDER / "job.yaml").read_text("utf-8"))
