"""`docs/parameters.md` from the model, so that the page cannot say anything else than the program does."""

from __future__ import annotations

from slotkeeper.core.config import keys
from slotkeeper.core.config.keys import REQUIRED, Key, Section
from slotkeeper.core.config.keys_sink import NEWER_NAMES, SINK_OPTIONS
from slotkeeper.core.config.keys_source import BINLOG, HOLOGRES, OWN, SYNC
from slotkeeper.core.config.values import show_duration

TABLES: tuple[tuple[str, Section], ...] = (
    ("[sources.X]", keys.SOURCE),
    ("[sinks.X]", keys.SINK),
    ("[jobs.X]", keys.JOB),
    ("[[jobs.X.channels]]", keys.CHANNEL),
    ("[jobs.X.binlog]", BINLOG),
    ("[jobs.X.sink_options]", SINK_OPTIONS),
    ("[jobs.X.sync]", SYNC),
    ("[jobs.X.retry]", keys.RETRY),
    ("[jobs.X.spark]", keys.SPARK),
    ("[logging]", keys.LOGGING),
    ("[state]", keys.STATE),
    ("[console]", keys.CONSOLE),
    ("[alerts]", keys.ALERTS),
)
"""Every table of a configuration, in the order of the page and of `config.example.toml`."""

_INTRODUCTION = """\
# Parameters

Made from the model (`core/config/keys.py`, `keys_source.py`, `keys_sink.py`) and compared with it by a test.

- Times: `"500ms"`, `"5s"`, `"10m"`, `"1h"`, `"1d"`; a bare number is in the unit given here (the vendor's).
- Sizes of memory: `"512MiB"`, `"512m"`, `"1g"`; a bare number is MiB.
- *Documented name* is the vendor's; write the key as given here. The camelCase name gets an error that says so.
- *Test*: `tests/unit/config` tests how a key is read and its limits; any other file tests what the key does.
- *No meaning here*: known and refused by name, also with its default value.
- Above the file stand environment variables (`SLOTKEEPER_SOURCES__DWS1__HOST`,
  `SLOTKEEPER_JOBS__ORDERS_RT__BINLOG__BINLOG_SLEEP_TIME`, `SLOTKEEPER_STATE__DIR`), above those typed options;
  `slotkeeper config show --origin` tells where each value came from.
- A job with an error in its own tables is refused alone: the others of the file go on. `slotkeeper config check` names
  every one and ends with 2, as any command on such a job does; `jobs list`, `status` and `doctor` show it.
- The sink's parameters stand in `[jobs.X.sink_options]`, because `sink` in `[jobs.X]` is the name of a sink.
"""


_LINE = """
- An `sslmode` below `verify-full` is warned of where the host is another machine. In a job whose source is PROD it is
  an error for each of its servers, unless it is written out. What each mode leaves open: [security](security.md).
- Only these keys say where a session goes and how safe its line is: no `PG...` variable, service file, `.pgpass` or
  file of `~/.postgresql` is read. Files are read on the host that connects, which may be a Spark worker's.
"""
_DORIS = (
    "A sink of kind `doris` has `host`, `user` and its password, and in the place of the other keys of a server:\n\n"
)
_HOLOGRES = (
    "### `[jobs.X.binlog]` of a hologres source\n",
    "Of the keys above it has "
    + ", ".join(f"`{name}`" for name in HOLOGRES if name not in OWN)
    + "; and those of its own client and connector:\n",
)
_MORE = {
    "[sinks.X]": (
        _DORIS
        + "".join(
            f"- `{name}`: {key.meaning}{f' (default {key.default})' if key.default not in (None, REQUIRED) else ''}\n"
            for name, key in keys.DORIS.keys.items()
            if not name.startswith("password_") and name not in ("host", "user", "connect_timeout")
        ),
    ),
    "[sources.X]": (
        _LINE.lstrip(),
        "A source of kind `mysql` has these keys but `database`; `port` is 3306 where it is not set. Keys of canal,"
        " through which Doris Binlog Load reads a MySQL, are refused by name:\n\n"
        + "".join(f"- `{name}` ({meaning}): {because}\n" for name, meaning, because in keys.CANAL),
    ),
    "[jobs.X.sync]": (
        "Of a source of kind `mysql` only; names and defaults are those of Doris Binlog Load, but for"
        " `stream_read_timeout`, which is Slotkeeper's own.\n",
    ),
    "[[jobs.X.channels]]": (
        "One of these for each source table; a job reads no table and writes no target twice. All of its channels have "
        "its slot name, its start and its options.\n",
    ),
}


def page() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for title, section in TABLES:
        parts.append(f"## `{title}`\n")
        parts.append(_table(section) if section else "Nothing can be set here yet.\n")
        parts.extend(_MORE.get(title, ()))
        if section is BINLOG:
            parts += [*_HOLOGRES, _table(OWN)]
    parts.append("## Names of the sink connector's 2.x\n")
    parts.append("Refused; what to write for each:\n")
    parts.append("".join(f"- `{name}`: {instead}\n" for name, instead in NEWER_NAMES.items()))
    parts.append("## Spark settings that are allowed in `[jobs.X.spark] settings`\n")
    noted = sorted(keys.SPARK_SETTINGS.items())
    parts.append("".join(f"- `{name}`{': ' + note if note else ''}\n" for name, note in noted))
    return "\n".join(parts)


def _table(section: Section) -> str:
    lines = ["| key | documented name | default | unit | meaning | test |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [_row(key) for key in section.values()]
    return "\n".join(lines) + "\n"


def _row(key: Key) -> str:
    documented = f"`{key.documented}`" if key.documented else ""
    test = f"no meaning here: {key.because}" if key.because else f"`{key.tested}`"
    return f"| `{key.name}` | {documented} | {spelled_default(key)} | {key.unit} | {key.meaning} | {test} |"


def spelled_default(key: Key) -> str:
    """The default as one would write it in the file."""
    if key.default is REQUIRED:
        return "required"
    if key.default is None:
        return "not set"
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    if isinstance(key.default, int) and key.unit == "ms":
        return f"`{key.default}` ({show_duration(key.default)})" if key.default else "`0`"
    if isinstance(key.default, str):
        return f'`"{key.default}"`'
    return f"`{key.default}`"
