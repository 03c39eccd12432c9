"""What stands above the file: environment variables and typed options, written into the raw tree with their origin.

A variable is `SLOTKEEPER_<TABLE>__<NAME>__<KEY>`, in upper case, `-` in a name as `_`, tables joined by two `_`:
`SLOTKEEPER_SOURCES__DWS1__HOST`, `SLOTKEEPER_JOBS__ORDERS_RT__BINLOG__BINLOG_SLEEP_TIME`, `SLOTKEEPER_STATE__DIR`.
It may change or add a key of a source, sink or job that the file names, never add one of those: a misspelt variable is
an error, not a half-made job. Channels and Spark settings are set in the file only.
"""

from __future__ import annotations

from collections.abc import Mapping

from slotkeeper.core.config.check import Reading, Table, dotted
from slotkeeper.core.config.model import Layer, Origin, Path
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError

PREFIX = "SLOTKEEPER_"
NAMED = ("sources", "sinks", "jobs")
PLAIN = ("logging", "state", "console", "alerts")
JOB_TABLES = ("binlog", "sink_options", "sync", "retry", "spark")
_RULE = "SLOTKEEPER_SOURCES__NAME__KEY, SLOTKEEPER_JOBS__NAME__BINLOG__KEY, SLOTKEEPER_STATE__DIR and the like"


def apply_environment(reading: Reading, env: Mapping[str, str]) -> None:
    """Write every variable of ours into the tree; one that a `..._env` names is left alone."""
    referenced = secret_variables(reading.tree)
    for name in sorted(env):
        if name.startswith(PREFIX) and "__" in name and name not in referenced:
            origin = Origin(Layer.ENVIRONMENT, safe(name, 120))
            path = _variable_path(reading.tree, name, origin)
            _put(reading, path, env[name], origin)


def apply_options(reading: Reading, options: Mapping[str, object]) -> None:
    """Write typed options, given by dotted path; None means that the option was not typed."""
    for name, value in options.items():
        if value is not None:
            _put(reading, tuple(name.split(".")), value, Origin(Layer.OPTION, safe(name, 120)))


def secret_variables(tree: Table) -> set[str]:
    """The variables that a `..._env` names."""
    found: set[str] = set()
    for kind in NAMED:
        entries = tree.get(kind)
        for entry in entries.values() if isinstance(entries, dict) else ():
            below = entry.get("spark") if isinstance(entry, dict) else None
            for table, key in ((entry, "password_env"), (entry, "sslpassword_env"), (below, "secret_env")):
                if isinstance(table, dict) and isinstance(table.get(key), str):
                    found.add(table[key])
    return found


def _variable_path(tree: Table, name: str, origin: Origin) -> Path:
    parts = name.removeprefix(PREFIX).split("__")
    top, rest = parts[0].lower(), parts[1:]
    if top in PLAIN and len(rest) == 1 and rest[0]:
        return (top, rest[0].lower())
    if top not in NAMED or len(rest) < 2 or not all(rest):
        raise ConfigError(f"environment {origin.place}: names no key of the configuration", f"known: {_RULE}")
    path: Path = (top, _named(tree, top, rest[0], origin))
    below = [part.lower() for part in rest[1:]]
    if len(below) == 1 or (top == "jobs" and len(below) == 2 and below[0] in JOB_TABLES):
        return (*path, *below)
    raise ConfigError(f"environment {origin.place}: names no key of [{dotted(path)}]", f"known: {_RULE}")


def _named(tree: Table, top: str, spelled: str, origin: Origin) -> str:
    """The name in the file that the variable's part means."""
    entries = tree.get(top)
    names = [name for name in entries if _folded(name) == spelled.upper()] if isinstance(entries, dict) else []
    if len(names) == 1:
        return str(names[0])
    fault = "more than one" if names else "no"
    raise ConfigError(
        f"environment {origin.place}: {fault} [{top}.{safe(spelled, 40).lower()}] in the file",
        "a variable changes what the file names; it never adds a source, a sink or a job",
    )


def _folded(name: str) -> str:
    return name.upper().replace("-", "_")


def _put(reading: Reading, path: Path, value: object, origin: Origin) -> None:
    """Write one value; the tables on the way are made where the file does not have them."""
    table: object = reading.tree
    for part in path[:-1]:
        if not isinstance(table, dict):
            break
        table = table.setdefault(part, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{origin.layer.value} {origin.place}: {dotted(path[:-1])} is not a table")
    table[path[-1]] = value
    reading.overrides[path] = origin
