"""Where a worker takes pyspark from: the installed package, not the archive that Spark puts before it.

Spark sets `python/lib/pyspark.zip` of its own folder at the head of PYTHONPATH. Python keeps no compiled files of an
archive, so each process that imports it compiles all of it anew: half a second of CPU. Where that folder is the
installed package, both are the same files. No pyspark here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

_PY4J = re.compile(r"py4j-(.+)-src\.zip")


def without_archives(path: Sequence[str]) -> list[str]:
    """The same search path without the archives whose installed package it has, of the same release.

    One stays where Python would take another package of that name before it: PYTHONPATH comes before what is installed.
    """
    return [entry for entry in path if not _is_installed(Path(entry), path)]


def _is_installed(archive: Path, path: Sequence[str]) -> bool:
    package = archive.parents[2] if len(archive.parents) > 2 else archive
    if archive.parent != package / "python" / "lib" or str(package.parent) not in path:
        return False
    if archive.name == "pyspark.zip":
        return package.name == "pyspark" and _first("pyspark", package.parent, path)
    release = _PY4J.fullmatch(archive.name)
    there = release is not None and (package.parent / f"py4j-{release[1]}.dist-info").is_dir()
    return there and _first("py4j", package.parent, path)


def _first(package: str, site: Path, path: Sequence[str]) -> bool:
    """Whether that package is there, and in no folder that comes before."""
    folders = [Path(entry) for entry in path[: path.index(str(site)) + 1]]
    return [one for one in folders if (one / package / "__init__.py").is_file()] == [site]
