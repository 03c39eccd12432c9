"""Slotkeeper's dependencies: their licences, the SBOM, and the pages that name packages."""

from __future__ import annotations

import json
import re
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from bench import sbom
from tests.architecture.checkout import ROOT

CONSTRAINTS = (ROOT / "constraints.txt").read_text("utf-8")
PINNED = dict(re.findall(r"^([a-z0-9-]+)==(\S+)", CONSTRAINTS, re.MULTILINE))


def noticed(text: str) -> dict[str, str]:
    return dict(re.findall(r"^  ([a-z0-9-]+)\s{2,}(\S.*?)\s+https?://\S+$", text, re.MULTILINE))


def test_notice_has_the_licence_of_every_package_that_is_installed_at_run_time_and_no_other() -> None:
    installed = {name: sbom.licence(one) for name, one in sbom.closure(sbom.EXTRAS).items()}
    assert len(installed) > 30
    assert noticed((ROOT / "NOTICE").read_text("utf-8")) == installed


def test_packages_of_the_run_time_are_listed_apart_from_those_of_the_extras() -> None:
    text = (ROOT / "NOTICE").read_text("utf-8")
    assert noticed(text.partition("\nOnly with the extras")[0]).keys() == sbom.closure().keys()


def test_a_licence_that_is_not_known_is_an_error_with_the_packages_name(tmp_path: Path) -> None:
    (tmp_path / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\nLicense: My own\n", "utf-8")
    with pytest.raises(LookupError, match="odd: unknown license"):
        sbom.licence(metadata.PathDistribution(tmp_path))


def test_the_sbom_has_every_installed_package_and_jar_once_and_its_references_lead_somewhere() -> None:
    document = sbom.bill(sbom.spark_jars())
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", document["serialNumber"])
    components = document["components"]
    packages = {one["name"]: one["version"] for one in components if one["bom-ref"].startswith("pypi:")}
    assert packages == {name: one.version for name, one in sbom.closure(sbom.EXTRAS).items()}
    jars = {one["bom-ref"] for one in components if one["bom-ref"].startswith("jar:")}
    assert jars == {f"jar:{path.name}" for path in sbom.spark_jars().glob("*.jar")}
    assert any(one.get("purl", "").startswith("pkg:maven/org.apache.spark/spark-core_2.13@") for one in components)
    references = [one["bom-ref"] for one in (document["metadata"]["component"], *components)]
    assert len(references) == len(set(references))
    assert {ref for one in document["dependencies"] for ref in (one["ref"], *one["dependsOn"])} <= set(references)
    assert json.dumps(document) == json.dumps(sbom.bill(sbom.spark_jars())), "the same installation, the same document"


def test_a_jar_without_coordinates_is_named_by_its_file(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "some-thing-1.2.jar", "w") as jar:
        jar.writestr("a.class", b"")
    (found,) = sbom.jars(tmp_path)
    assert found == {"type": "library", "bom-ref": "jar:some-thing-1.2.jar", "name": "some-thing", "version": "1.2"}


def test_what_is_installed_for_users_is_pinned_at_a_version_that_contributing_does_not_contradict() -> None:
    assert sbom.closure(sbom.EXTRAS).keys() <= PINNED.keys()
    old = dict(re.findall(r"^\| `([a-z0-9-]+)` (\S+) \|", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE))
    assert old
    assert {name: PINNED.get(name) for name in old} == old, "check whether it has had a release since the last renewal"
