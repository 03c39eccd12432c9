"""`[jobs.X.spark]` as options: the settings that are allowed, and what only two keys together can tell.

Next door: `build` reads the rest of a job; `core.domain.master` reads a master; `core.spark.settings` uses all of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from core.config import keys
from core.config.check import Reading, as_table, dotted, read_section, unknown_key
from core.config.lines import Path
from core.config.references import KINDS, secret_ref
from core.config.values import BadValue, spark_setting
from core.domain.endpoint import SecretRef
from core.domain.master import Master, MasterKind
from core.domain.spec import SparkOptions

_MEMORY = re.compile(r"(\d+)([mg])b?")


def read_spark(reading: Reading, path: Path, raw: object) -> SparkOptions:
    """The options of the job at `path`."""
    here: Path = (*path, "spark")
    given: Mapping[str, Any] = read_section(reading, here, raw, keys.SPARK)
    master = Master.parse(given["master"])
    secret = secret_ref(reading, here, given, "secret")
    _only_on_a_cluster(reading, here, given, master, secret)
    settings = tuple(_settings(reading, (*here, "settings"), given["settings"] or {}))
    _fits(reading, here, master, dict(settings))
    return SparkOptions(master.text, given["driver_memory"], settings, secret, str(given["python"] or ""))


def _only_on_a_cluster(
    reading: Reading, path: Path, given: Mapping[str, Any], master: Master, secret: SecretRef
) -> None:
    """A standalone cluster has a secret and an interpreter of its own; anything on this machine takes ours."""
    if master.kind is MasterKind.STANDALONE:
        if not secret.how:
            what = f"{dotted(path)}.master is a standalone cluster, and no secret of it is given"
            raise reading.error(
                (*path, "master"), what, "set secret_file to a file with the cluster's spark.authenticate.secret"
            )
        return
    for name in (*(f"secret_{how}" for how in KINDS), "python"):
        if given[name]:
            what = f"{dotted(path)}.{name} has a meaning for a master spark://host:port only"
            raise reading.error((*path, name), what, "remove the key")


def _settings(reading: Reading, path: Path, raw: object) -> list[tuple[str, str]]:
    chosen: list[tuple[str, str]] = []
    for name, value in _flat(reading, path, raw):
        place: Path = (*path, name)
        if name not in keys.SPARK_SETTINGS:
            error = unknown_key(reading, path, name, sorted(keys.SPARK_SETTINGS))
            error.hint = error.hint or "only settings of place and size are allowed; see docs/parameters.md"
            raise error
        try:
            chosen.append((name, spark_setting(value)))
        except BadValue as error:
            raise reading.error(place, f"{dotted(place)} {error}") from None
        reading.note(place, chosen[-1][1], reading.origin(place))
    return chosen


def _flat(reading: Reading, path: Path, raw: object, prefix: str = "") -> list[tuple[str, object]]:
    """Settings by their whole name, also where they were written with dots outside quotes."""
    found: list[tuple[str, object]] = []
    for name, value in as_table(reading, path, raw).items():
        if isinstance(value, dict):
            found += _flat(reading, path, value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found


def _fits(reading: Reading, path: Path, master: Master, settings: Mapping[str, str]) -> None:
    """An executor that is larger than its worker is never started, and a job would wait for it for ever."""
    asked = _MEMORY.fullmatch(settings.get("spark.executor.memory", "").lower())
    if master.memory and asked and int(asked[1]) * (1024 if asked[2] == "g" else 1) > master.memory:
        what = f"{dotted(path)}.settings: spark.executor.memory is more than a worker of {master.text} has"
        raise reading.error((*path, "settings"), what, "make it smaller, or the workers larger")
