"""Find, read and check a configuration file; the only importer of the TOML parser.

Precedence: defaults < file < environment < typed options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import platformdirs
import tomli

from slotkeeper.core import ownership
from slotkeeper.core.config import build, handover, keys, secrets, tls
from slotkeeper.core.config.check import Reading, Table, beside, read_section
from slotkeeper.core.config.keys_alerts import read_alerts
from slotkeeper.core.config.model import Layer, Loaded, NoConfig, Origin, SinkEntry, SourceEntry, find_lines
from slotkeeper.core.config.overlay import PREFIX, apply_environment, apply_options, secret_variables
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.judgement.limits import AlertOptions

CONFIG_VARIABLE = "SLOTKEEPER_CONFIG"
SIZE_MAX = 1_048_576
"""A configuration is small; anything larger is another file given by mistake."""
_NO_OPTIONS: Mapping[str, object] = {}
_START_HINT = "`slotkeeper init` writes one, --config names another; to try it: `slotkeeper demo`"


WEAKER = (
    "binlog_ignore_update_before leaves out the old keys of updates: equal only as long as no primary key is ever "
    "changed"
)
"""The weaker promise, in the words that are shown."""


def default_path(env: Mapping[str, str]) -> Path:
    """Where a configuration is looked for when nobody names one."""
    return _folder(env, "XDG_CONFIG_HOME", platformdirs.user_config_path) / "config.toml"


def default_state_dir(env: Mapping[str, str]) -> Path:
    """The state folder when the file does not set one."""
    return _folder(env, "XDG_STATE_HOME", platformdirs.user_state_path)


def find(path: Path | None, env: Mapping[str, str]) -> Path:
    """The file to read: the one named, else `$SLOTKEEPER_CONFIG`, else the default; raises NoConfig without one."""
    if path is not None:
        return path.expanduser()
    if env.get(CONFIG_VARIABLE):
        return Path(env[CONFIG_VARIABLE]).expanduser()
    found = default_path(env)
    try:
        found.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise NoConfig(f"there is no configuration: {safe(found)} does not exist", _START_HINT) from None
    except (OSError, ValueError):
        pass  # it may be there: whoever reads it says what refuses it
    return found


def load(path: Path | None, env: Mapping[str, str], options: Mapping[str, object] = _NO_OPTIONS) -> Loaded:
    """The checked configuration, every job of it; raises ConfigError where anything in it is wrong."""
    return load_usable(path, env, options).whole()


def load_usable(
    path: Path | None, env: Mapping[str, str], options: Mapping[str, object] = _NO_OPTIONS, text: str | None = None
) -> Loaded:
    """The checked configuration; a job with an error is refused alone. Raises ConfigError for what all jobs share.

    `options` are typed values by dotted path, None where not typed; `text` stands for the file's own. No secret is
    resolved and nothing is connected to.
    """
    file = find(path, env)
    text = text_of(file) if text is None else text
    tree = _tree(file, text)
    reading = Reading(file, tree, find_lines(text))
    build.check_top(reading)
    apply_environment(reading, env)
    apply_options(reading, options)
    handover.name(secret_variables(tree))
    sources = build.read_sources(reading)
    sinks = build.read_sinks(reading)
    jobs, refused = _with_own_secrets(reading, *build.read_jobs(reading, sources, sinks))
    read_section(reading, ("logging",), tree.get("logging", {}), keys.LOGGING)
    state = read_section(reading, ("state",), tree.get("state", {}), keys.STATE)
    read_section(reading, ("console",), tree.get("console", {}), keys.CONSOLE)
    state_dir = beside(file, str(state["dir"])) if state["dir"] else default_state_dir(env)
    _note_state_dir(reading, state_dir)
    alerts = read_alerts(reading)
    settings, warnings = tuple(reading.settings), tuple(_warnings(sources, sinks, jobs))
    return Loaded(file, sources, sinks, jobs, state_dir, settings, warnings, refused, alerts)


def load_alerts(file: Path, env: Mapping[str, str], text: str | None = None) -> AlertOptions:
    """`[alerts]` alone: what is wrong elsewhere in the file keeps no supervisor from telling it. Raises ConfigError.

    `text` stands for the file's own.
    """
    text = text_of(file) if text is None else text
    tree = _tree(file, text)
    handover.name(secret_variables(tree))
    reading = Reading(file, {"alerts": tree.get("alerts", {})}, find_lines(text))
    apply_environment(reading, {name: env[name] for name in env if name.startswith(f"{PREFIX}ALERTS__")})
    return read_alerts(reading)


def _warnings(
    sources: Mapping[str, SourceEntry], sinks: Mapping[str, SinkEntry], jobs: Mapping[str, JobSpec]
) -> Iterator[str]:
    entries = [("sources", one.name, one.endpoint) for one in sources.values()]
    entries += [("sinks", one.name, one.endpoint) for one in sinks.values()]
    for kind, name, endpoint in entries:
        complaint = secrets.complaint(endpoint.password)
        if complaint:
            yield f"{kind}.{name}: {complaint}"
        yield from tls.warnings(f"{kind}.{name}", endpoint)
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
    """The jobs whose secrets nobody else could have written; the others are refused before they are started."""
    kept, gone = dict(jobs), dict(refused)
    for name, job in jobs.items():
        for ref in (job.source.password, job.sink.password, job.store_at[0].password, job.spark.secret):
            if found := secrets.foreign(ref):
                kept.pop(name, None)
                gone.setdefault(name, reading.error(("jobs", name), f"jobs.{name}: {found.text}", found.hint))
    return kept, gone


def _folder(env: Mapping[str, str], variable: str, fallback: Callable[..., Path]) -> Path:
    """The XDG folder where the variable holds an absolute path (the standard ignores others), else the platform's."""
    base = env.get(variable, "")
    if base.startswith("/"):
        return Path(base, "slotkeeper")
    return fallback("slotkeeper", appauthor=False)


def _note_state_dir(reading: Reading, state_dir: Path) -> None:
    """Show the folder that is used, whatever it was spelled as."""
    last = reading.settings.pop()
    assert last.key == "state.dir", last.key
    reading.note(("state", "dir"), str(state_dir), last.origin if last.value else Origin(Layer.DEFAULT))


def text_of(file: Path) -> str:
    """The text of a configuration file, or a ConfigError; at most 1 MiB is read."""
    shown = safe(file)
    try:
        raw = ownership.read(file, f"configuration {shown}", SIZE_MAX + 1)
    except ownership.NotOurs as error:
        raise ConfigError(f"{error.message}: its commands would run as us", error.hint) from None
    except FileNotFoundError:
        raise ConfigError(f"{shown}: there is no such file", _START_HINT) from None
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:  # a NUL in the path
        raise ConfigError(f"{shown}: is no path of a file") from None
    if len(raw) > SIZE_MAX:
        raise ConfigError(f"{shown}: is larger than 1 MiB, which no configuration is")
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
            hint = "a name is given twice (parameters of the sink stand in [jobs.X.sink_options])"
        place = f"{safe(file)}:{error.lineno}:{error.colno}"
        raise ConfigError(f"{place}: is not valid TOML: {safe(what, 200)}", hint) from None
    except RecursionError:
        raise ConfigError(f"{safe(file)}: is nested too deeply") from None
