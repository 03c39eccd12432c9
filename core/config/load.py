"""Find, read and check a configuration. Only this module imports the TOML parser.

Precedence: defaults < file < environment < command-line options. Variables and options are written into the raw tree
with their origin. A variable has the form `SLOTKEEPER_<TABLE>__<NAME>__<KEY>` in upper case, with `-` in a name written
as `_` and tables joined by two `_`: `SLOTKEEPER_SOURCES__DWS1__HOST`,
`SLOTKEEPER_JOBS__ORDERS_RT__BINLOG__BINLOG_SLEEP_TIME`, `SLOTKEEPER_STATE__DIR`. A variable can change or add a key of
a source, sink or job in the file, but cannot add a source, sink or job; thus a misspelled variable is an error and does
not create an incomplete job. Channels and Spark settings can be set only in the file.
"""

from __future__ import annotations

import re
import shlex
import socket
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Literal

import tomli

from slotkeeper.core import ownership
from slotkeeper.core.config import build, handover, keys, model, secrets, tls
from slotkeeper.core.config.check import Reading, Table, as_fields, beside, dotted, read_section, unknown_key
from slotkeeper.core.config.model import DEFAULT, Layer, Loaded, NoConfig, Origin, SinkEntry, SourceEntry
from slotkeeper.core.domain.access import AccessRules, Rule
from slotkeeper.core.domain.placement import HostOptions
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.core.judgement.facts import MIB, AlertOptions, Limits
from slotkeeper.core.sinks.registry import KINDS, traits

CONFIG_VARIABLE = "SLOTKEEPER_CONFIG"
SIZE_MAX = 1_048_576
"""Maximum size of a configuration file, in bytes; a larger file was probably specified by mistake."""
PREFIX = "SLOTKEEPER_"
_RULE = "SLOTKEEPER_SOURCES__NAME__KEY, SLOTKEEPER_JOBS__NAME__BINLOG__KEY, SLOTKEEPER_STATE__DIR and the like"
_NO_OPTIONS: Mapping[str, object] = {}
_START_HINT = "`slotkeeper init` creates one, --config names another; to try Slotkeeper: `slotkeeper demo`"


WEAKER = (
    "binlog_ignore_update_before omits the old keys of updates: source and target are equal only if no primary key is "
    "ever changed"
)
"""The warning for a job with this weaker guarantee."""


def default_path(env: Mapping[str, str]) -> Path:
    return _folder(env, "XDG_CONFIG_HOME", "user_config_path") / "config.toml"


def default_state_dir(env: Mapping[str, str]) -> Path:
    """Return the state folder that is used if the file does not set one."""
    return _folder(env, "XDG_STATE_HOME", "user_state_path")


def find(path: Path | None, env: Mapping[str, str]) -> Path:
    """Return the file to read: `path`, else `$SLOTKEEPER_CONFIG`, else the default; raises NoConfig if none exists."""
    if path is not None:
        return path.expanduser()
    if env.get(CONFIG_VARIABLE):
        return Path(env[CONFIG_VARIABLE]).expanduser()
    found = default_path(env)
    try:
        found.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise NoConfig(f"configuration {safe(found)} does not exist", _START_HINT) from None
    except (OSError, ValueError):
        pass  # the file may exist; reading it then reports the reason
    return found


def load(path: Path | None, env: Mapping[str, str], options: Mapping[str, object] = _NO_OPTIONS) -> Loaded:
    """Return the checked configuration with all jobs; raises ConfigError if any part is invalid."""
    return load_usable(path, env, options).whole()


def load_usable(
    path: Path | None,
    env: Mapping[str, str],
    options: Mapping[str, object] = _NO_OPTIONS,
    text: str | None = None,
    resolves: bool = True,
) -> Loaded:
    """Return the checked configuration; jobs with an error are in `refused`. Raises ConfigError for errors elsewhere.

    `options` are command-line values by dotted path (None means not given); `text` replaces the content of the file. No
    secret is resolved and no connection is opened: a pattern of tables has the tables that the job's driver last found,
    unless `resolves` is false.
    """
    file = find(path, env)
    text = text_of(file) if text is None else text
    tree = _tree(file, text)
    reading = Reading(file, tree, text)
    build.check_top(reading)
    apply_environment(reading, env)
    apply_options(reading, options)
    handover.name(secret_variables(tree))
    sources = build.read_sources(reading)
    sinks = build.read_sinks(reading)
    jobs, refused = _with_own_secrets(reading, *build.read_jobs(reading, sources, sinks))
    read_section(reading, ("logging",), tree.get("logging", {}), keys.LOGGING)
    state_dir = _read_state_dir(reading, env)
    read_section(reading, ("console",), tree.get("console", {}), keys.CONSOLE)
    alerts, access = read_alerts(reading), read_access(reading)
    hosts = read_hosts(reading)
    if hosts is not None:
        jobs, refused = _with_shared_stores(reading, jobs, refused)
    warnings = tuple(_warnings(sources, sinks, jobs))
    if resolves and any(job.patterns for job in jobs.values()):
        from slotkeeper.core.config.patterns import with_known  # reads the state folder

        jobs = with_known(jobs, state_dir)
    settings = cache(reading.settings)
    return Loaded(file, sources, sinks, jobs, state_dir, settings, warnings, refused, alerts, access, hosts)


def fenced_entries(loaded: Loaded, name: str) -> tuple[SinkEntry, SinkEntry]:
    """Return a sink that takes each batch once, and its store, which has the fence: the sink itself, or another.

    Raises ConfigError for an unknown name, and Refused for a sink of another kind.
    """
    if name not in loaded.sinks:
        known = ", ".join(sorted(loaded.sinks)) or "none"
        raise ConfigError(f"{safe(loaded.path)} has no [sinks.{safe(name, 40)}]", f"known: {known}")
    sink = loaded.sinks[name]
    if not (traits(sink.kind).is_store or traits(sink.kind).keeps_prepared):
        what = f"sinks.{sink.name} is of kind {sink.kind}, which cannot write a batch exactly once"
        possible = " or ".join(sorted(kind for kind in KINDS if traits(kind).is_store or traits(kind).keeps_prepared))
        raise Refused(what, f"write to a sink of kind {possible}, or use a job", where="sink")
    return sink, loaded.sinks[sink.store] if sink.store else sink


def load_alerts(file: Path, env: Mapping[str, str], text: str | None = None) -> AlertOptions:
    """Read only `[alerts]`, so that errors elsewhere do not stop the supervisor's alerts. Raises ConfigError.

    `text` replaces the content of the file.
    """
    return read_alerts(_only("alerts", file, env, text))


def load_access(file: Path, env: Mapping[str, str]) -> tuple[AccessRules | None, Path]:
    """Read only `[access]` and `[state]`: the rules, None if the file has none, and the state folder.

    Raises ConfigError. Environment variables cannot change a rule.
    """
    text = text_of(file)
    rules = None
    if "access" in text or "\\u" in text.lower():  # the table `[access]`, whose name can have escapes
        rules = read_access(Reading(file, {"access": _tree(file, text).get("access", {})}, text))
    return rules, _read_state_dir(_only("state", file, env, text), env)


def system_access(file: Path) -> AccessRules | None:
    """Read the rules of this host, which apply to every configuration; None if there is no such file.

    Raises ConfigError for a file that users other than root can change; such a file grants no rights.
    """
    try:
        parts = ownership.follow(file)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise ConfigError(f"{safe(file)}: cannot be read: {error.strerror or type(error).__name__}") from None
    if any(part.uid != ownership.ROOT for part in parts):
        raise ConfigError(f"{safe(file)}: must belong to root, with every folder above it", f"chown root {safe(file)}")
    text = text_of(file)
    reading = Reading(file, _tree(file, text), text)
    for name in reading.tree:
        if name != "access":
            raise unknown_key(reading, (), name, ("access",))
    return read_access(reading)


def load_state_dir(path: Path | None, env: Mapping[str, str]) -> Path:
    """Read only `[state]`, for commands that need nothing else, and return the state folder. Raises ConfigError."""
    return _read_state_dir(_only("state", find(path, env), env), env)


def _only(table: str, file: Path, env: Mapping[str, str], text: str | None = None) -> Reading:
    """Return the reading of one table of PLAIN, with its variables; `text` replaces the content of the file."""
    text = text_of(file) if text is None else text
    tree = _tree(file, text)
    handover.name(secret_variables(tree))
    reading = Reading(file, {table: tree.get(table, {})}, text)
    apply_environment(reading, {name: env[name] for name in env if name.startswith(f"{PREFIX}{table.upper()}__")})
    return reading


def _read_state_dir(reading: Reading, env: Mapping[str, str]) -> Path:
    written = read_section(reading, ("state",), reading.tree.get("state", {}), keys.STATE)["dir"]
    folder = beside(reading.file, str(written)) if written else default_state_dir(env)
    origin = reading.noted.pop()[2]  # `config show` lists the resolved folder, regardless of how it was written
    reading.note(("state", "dir"), str(folder), origin if written else DEFAULT)
    return folder


def _warnings(
    sources: Mapping[str, SourceEntry], sinks: Mapping[str, SinkEntry], jobs: Mapping[str, JobSpec]
) -> Iterator[str]:
    entries = [(f"sources.{one.name}", one.endpoint) for one in sources.values()]
    for place, endpoint in [*entries, *((f"sinks.{one.name}", one.endpoint) for one in sinks.values())]:
        complaint = secrets.complaint(endpoint.password)
        if complaint:
            yield f"{place}: {complaint}"
        yield from tls.warnings(place, endpoint)
    for name, job in jobs.items():
        complaint = secrets.complaint(job.spark.secret)
        if complaint:
            yield f"jobs.{name}.spark: {complaint}"
    for name, job in jobs.items():
        if job.binlog.binlog_ignore_update_before:
            yield f"jobs.{name}: {WEAKER}"


def _with_own_secrets(
    reading: Reading, jobs: Mapping[str, JobSpec], refused: Mapping[str, ConfigError]
) -> tuple[dict[str, JobSpec], dict[str, ConfigError]]:
    """Return the jobs whose secret files only this user or root can write, and the error of each other job."""
    kept, gone = dict(jobs), dict(refused)
    for name, job in jobs.items():
        for ref in (job.source.password, job.sink.password, job.store_at[0].password, job.spark.secret):
            if found := secrets.foreign(ref):
                kept.pop(name, None)
                gone.setdefault(name, reading.error(("jobs", name), f"jobs.{name}: {found.text}", found.hint))
    return kept, gone


def _with_shared_stores(
    reading: Reading, jobs: Mapping[str, JobSpec], refused: Mapping[str, ConfigError]
) -> tuple[dict[str, JobSpec], dict[str, ConfigError]]:
    """Return the jobs that several hosts can share, and the error of each other job."""
    kept, gone = dict(jobs), dict(refused)
    for name, job in jobs.items():
        if not traits(job.store_at[1]).shares_jobs:
            del kept[name]
            possible = " or ".join(sorted(kind for kind in KINDS if traits(kind).shares_jobs))
            what = f"jobs.{name}: a store of kind {job.store_at[1]} cannot record which host runs a job"
            gone[name] = reading.error(("jobs", name), what, f"omit [hosts], or use a sink of kind {possible}")
    return kept, gone


def _folder(env: Mapping[str, str], variable: str, fallback: Literal["user_config_path", "user_state_path"]) -> Path:
    """Return the XDG folder if the variable is an absolute path, as the standard requires; otherwise the default."""
    base = env.get(variable, "")
    if base.startswith("/"):
        return Path(base, "slotkeeper")
    import platformdirs

    return Path(getattr(platformdirs, fallback)("slotkeeper", appauthor=False))


def text_of(file: Path) -> str:
    """Return the text of a configuration file, at most 1 MiB; raises ConfigError."""
    shown = safe(file)
    try:
        raw = ownership.read(file, f"configuration {shown}", SIZE_MAX + 1)
    except ownership.NotOurs as error:
        raise ConfigError(f"{error.message}: its commands would run as this user", error.hint) from None
    except FileNotFoundError:
        raise ConfigError(f"{shown}: the file does not exist", _START_HINT) from None
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:  # a NUL character in the path
        raise ConfigError(f"{shown}: is not a file path") from None
    if len(raw) > SIZE_MAX:
        raise ConfigError(f"{shown}: is larger than 1 MiB, the limit for a configuration")
    try:
        return raw.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{shown}:{line}: is not UTF-8 text", "save the file as UTF-8") from None


def _tree(file: Path, text: str) -> Table:
    try:
        return tomli.loads(text)
    except tomli.TOMLDecodeError as error:
        what = re.sub(r"\s*\(at [^)]*\)$", "", str(error))
        hint = ""
        if "overwrite" in what:
            hint = "a name is defined twice (the sink's parameters belong in [jobs.X.sink_options])"
        place = f"{safe(file)}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{place}: is not valid TOML: {safe(what, 200)}", hint) from None
    except RecursionError:
        raise ConfigError(f"{safe(file)}: is nested too deeply") from None


# -- values that override the file: environment variables and command-line options ---------------------------------


def apply_environment(reading: Reading, env: Mapping[str, str]) -> None:
    """Write every `SLOTKEEPER_...__...` variable into the tree, except the variables named by a `..._env` key."""
    referenced = secret_variables(reading.tree)
    for name in sorted(env):
        if name.startswith(PREFIX) and "__" in name and name not in referenced:
            origin = Origin(Layer.ENVIRONMENT, safe(name, 120))
            path = _variable_path(reading.tree, name, origin)
            _put(reading, path, env[name], origin)


def apply_options(reading: Reading, options: Mapping[str, object]) -> None:
    """Write command-line options, given by dotted path, into the tree; None means not given."""
    for name, value in options.items():
        if value is not None:
            _put(reading, tuple(name.split(".")), value, Origin(Layer.OPTION, safe(name, 120)))


def secret_variables(tree: Table) -> set[str]:
    """Return the variables named by `..._env` keys."""
    found: set[str] = set()
    for kind in keys.NAMED:
        entries = tree.get(kind)
        for entry in entries.values() if isinstance(entries, dict) else ():
            below = entry.get("spark") if isinstance(entry, dict) else None
            blocks = entry.get("channels") if isinstance(entry, dict) else None
            salts = ((block, "salt_env") for block in (blocks if isinstance(blocks, list) else ()))
            for table, key in ((entry, "password_env"), (entry, "sslpassword_env"), (below, "secret_env"), *salts):
                if isinstance(table, dict) and isinstance(table.get(key), str):
                    found.add(table[key])
    return found


def _variable_path(tree: Table, name: str, origin: Origin) -> model.Path:
    parts = name.removeprefix(PREFIX).split("__")
    top, rest = parts[0].lower(), parts[1:]
    if top in keys.PLAIN and top != "access" and len(rest) == 1 and rest[0]:
        return (top, rest[0].lower())
    if top not in keys.NAMED or len(rest) < 2 or not all(rest):
        raise ConfigError(f"environment {origin.place}: not a key of the configuration", f"known: {_RULE}")
    path: model.Path = (top, _named(tree, top, rest[0], origin))
    below = [part.lower() for part in rest[1:]]
    if len(below) == 1 or (top == "jobs" and len(below) == 2 and below[0] in keys.JOB_TABLES):
        return (*path, *below)
    raise ConfigError(f"environment {origin.place}: not a key of [{dotted(path)}]", f"known: {_RULE}")


def _named(tree: Table, top: str, spelled: str, origin: Origin) -> str:
    """Return the name in the file to which a part of a variable's name refers."""
    entries = tree.get(top)
    names = (
        [name for name in entries if name.upper().replace("-", "_") == spelled.upper()]
        if isinstance(entries, dict)
        else []
    )
    if len(names) == 1:
        return str(names[0])
    fault = "more than one" if names else "no"
    raise ConfigError(
        f"environment {origin.place}: {fault} [{top}.{safe(spelled, 40).lower()}] in the file",
        "a variable changes an entry of the file; it cannot add a source, a sink or a job",
    )


def _put(reading: Reading, path: model.Path, value: object, origin: Origin) -> None:
    """Write one value to the tree; missing tables on its path are created."""
    table: object = reading.tree
    for part in path[:-1]:
        if not isinstance(table, dict):
            break
        table = table.setdefault(part, {})
    if not isinstance(table, dict):
        raise ConfigError(f"{origin.layer.value} {origin.place}: {dotted(path[:-1])} is not a table")
    table[path[-1]] = value
    reading.overrides[path] = origin


# -- [access], [hosts] and [alerts] -----------------------------------------------------------------------------------


def read_access(reading: Reading) -> AccessRules | None:
    """Read `[access]`; None if the file has no such table. Raises ConfigError."""
    path: model.Path = ("access",)
    if path[0] not in reading.tree or reading.tree[path[0]] == {}:
        return None
    given = read_section(reading, path, reading.tree[path[0]], keys.ACCESS)
    rules = given["rules"]
    if rules is not None and (not isinstance(rules, list) or not rules):
        raise reading.error((*path, "rules"), "access.rules must be a list of tables", "write [[access.rules]]")
    found = []
    for number, one in enumerate(rules or ()):
        here = (*path, "rules", number)
        rule = Rule(**as_fields(Rule, read_section(reading, here, one, keys.RULE)))
        if not rule.users and not rule.groups:
            raise reading.error(here, f"{dotted(here)} names no account", 'add users = ["..."] or groups = ["..."]')
        found.append(rule)
    return AccessRules(str(reading.file.absolute()), tuple(found), given["read_only"], given["second_account"])


def read_hosts(reading: Reading) -> HostOptions | None:
    """Read `[hosts]`; None if the table is missing. Raises ConfigError."""
    if "hosts" not in reading.tree:
        return None
    path = ("hosts",)
    given = read_section(reading, path, reading.tree["hosts"], keys.HOSTS)
    if given["take_over_after"] < 5 * given["interval"]:
        what = "hosts.take_over_after is below five times hosts.interval"
        raise reading.error((*path, "take_over_after"), what, "an owner must be able to miss a few heartbeats")
    name = str(given["name"] or socket.gethostname())
    return HostOptions(name, given["interval"] / 1000, given["take_over_after"] / 1000)


def read_alerts(reading: Reading) -> AlertOptions:
    """Read `[alerts]`; missing keys get their defaults. Raises ConfigError."""
    path = ("alerts",)
    given = read_section(reading, path, reading.tree.get("alerts", {}), keys.ALERTS)
    for low, high in (("lag_warning", "lag_critical"), ("silent_warning", "silent_critical")):
        if given[high] < given[low]:
            raise reading.error(
                (*path, high), f"{dotted(path)}.{high} is below {low}", "critical must be at least as high as warning"
            )
    times = {limit.name: given[limit.name] for limit in fields(Limits) if limit.name != "disk_free"}
    seconds = {name: time and time / 1000 for name, time in times.items()}
    room = re.sub(r"\D", "", given["disk_free"])
    file = given["metrics_file"]
    return AlertOptions(
        Limits(**seconds, disk_free=int(room) * MIB),
        tuple(shlex.split(given["command"] or "")),
        given["command_timeout"] / 1000,
        None if file is None else beside(reading.file, file),
    )
