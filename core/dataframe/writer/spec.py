"""The inputs of a query's writer (options and a DataFrame's columns), as values that can be sent to workers.

A password is sent as a reference, which is resolved on its host by the process that opens a session. Options have the
names and meanings of `[jobs.X.sink_options]` and are read with the same keys.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slotkeeper.core.config import values
from slotkeeper.core.config.check import Reading, as_fields, read_section
from slotkeeper.core.config.keys import REQUIRED, Key, section
from slotkeeper.core.config.keys_sink import SINK_OPTIONS, conflict
from slotkeeper.core.config.load import fenced_entries, load_usable
from slotkeeper.core.config.model import Layer, Origin, SinkEntry
from slotkeeper.core.dataframe import changelog
from slotkeeper.core.domain.slot import Column
from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.core.ports.sink import QuerySink, QueryTarget
from slotkeeper.core.wiring.query import query_sink

_PLACE = "slotkeeper_postgres"
OF_SPARK = frozenset({"checkpointlocation", "path", "queryname"})
"""Options that Spark handles itself and passes on."""
_TAKEN = (
    "write_mode",
    "conflict_strategy",
    "copy_write_batch_size",
    "ignore_update_before",
    "ignore_delete",
    "ignore_null_when_update",
)
"""A job's sink options that determine how a row is written; the others concern steps, sessions and quarantine."""


class _Options:
    config = Key(values.text(4_096))
    """configuration file; default: $SLOTKEEPER_CONFIG, else the default path"""
    sink = Key(values.text(values.NAME_MAX), REQUIRED)
    """name of a [sinks.X] in the configuration file"""
    table = Key(values.target, REQUIRED)
    """target table, schema.table"""
    key = Key(values.text(4_096))
    """key columns, separated by commas; default: the reader's key columns"""
    create_target = Key(values.boolean, False)
    """create the target if it does not exist"""
    successor_of = Key(values.text(64))
    """id of the query that previously wrote the target and has ended permanently"""


OPTIONS = section(_Options) | {name: SINK_OPTIONS[name] for name in _TAKEN}


@dataclass(frozen=True, slots=True)
class Field:
    """A DataFrame column: its name, Spark's `simpleString()` of its type, and its metadata."""

    name: str
    type: str
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class WriterSpec:
    """A query's target and columns: picklable, without secrets."""

    sink: SinkEntry
    store: SinkEntry
    target: QueryTarget

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns to write, as in the DataFrame."""
        return tuple(column.name for column in self.target.columns)

    def open(self, part: str) -> QuerySink:
        """Open the sink; its passwords are resolved in this process, and the name of its sessions contains `part`."""
        name = f"slotkeeper-query/{self.target.name[:36]}/{part}"[:63]
        return query_sink(self.sink, self.store, self.target, name)


def spec_of(options: Mapping[str, str], columns: Sequence[Field]) -> WriterSpec:
    """Return the spec; raises ConfigError for an invalid option, and Refused for columns that cannot be written."""
    given = _read({name: value for name, value in options.items() if name.lower() not in OF_SPARK})
    config = load_usable(Path(given["config"]) if given["config"] else None, os.environ)
    sink, store = fenced_entries(config, str(given["sink"]))
    names = [one.name for one in columns]
    _check_names(names)
    key = _key(given["key"], columns)
    own = [one for one in columns if one.name in changelog.own(names)]
    target = QueryTarget(
        str(given["table"]),
        tuple(Column(one.name, column_type(one.name, one.type)) for one in own),
        key,
        changelog.is_changelog(names),
        bool(given["create_target"]),
        str(given["successor_of"] or ""),
        _sink_options(given, options),
    )
    return WriterSpec(sink, store, target)


def _read(options: Mapping[str, str]) -> dict[str, Any]:
    tree: dict[str, object] = dict(options)
    reading = Reading(Path("options"), tree)
    for name in options:
        reading.overrides[(_PLACE, name)] = Origin(Layer.OPTION, safe(name, 60))
    reading.overrides[(_PLACE,)] = Origin(Layer.OPTION, "(missing)")
    return read_section(reading, (_PLACE,), tree, OPTIONS)


def _check_names(names: Sequence[str]) -> None:
    known = {changelog.WEIGHT, *(name for name, _ in changelog.COLUMNS)}
    odd = [name for name in names if name.lower().startswith(changelog.PREFIX) and name not in known]
    if odd:
        what = f"column {safe(odd[0], 60)} has a name reserved for changelog columns"
        hint = "rename it (withColumnRenamed); the names of changelog columns are in lower case"
        raise Refused(what, hint, where="sink")
    if (missing := changelog.missing(names)) and len(missing) < 3:
        what = f"the rows are changes, but have no {' and no '.join(missing)}"
        hint = "keep these columns in every select: they order the changes"
        raise Refused(what, hint, where="sink")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        what = f"the rows have several columns named {safe(twice[0], 60)}"
        raise Refused(what, "rename all but one (withColumnRenamed), or drop them", where="sink")
    if not changelog.own(names):
        raise Refused("the rows have only changelog columns", "select the columns to be written", where="sink")


def _key(spelled: str | None, columns: Sequence[Field]) -> tuple[str, ...]:
    named = [changelog.Named(one.name, one.metadata) for one in columns]
    key = tuple(part.strip() for part in spelled.split(",")) if spelled else changelog.key_of(named)
    if not key:
        raise ConfigError("option key is missing, and no column is marked as a key", "name the key columns")
    there = changelog.own(one.name for one in columns)
    absent = [name for name in key if name not in there]
    if absent or len(set(key)) < len(key):
        what = f"unknown column {safe(absent[0], 60)}" if absent else "names a column twice"
        raise ConfigError(f"option key: {what}", f"the columns are {', '.join(safe(one, 60) for one in there)}")
    return key


def _sink_options(given: Mapping[str, Any], options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a sink; raises ConfigError if two of them contradict each other."""
    made = SinkOptions(**as_fields(SinkOptions, given))
    sets = {re.sub(r"\W", "", name).lower() for name in options}
    if found := conflict(made, sets, bool(given["create_target"])):
        says = found.says.lstrip(".: ").replace('"', "")
        raise ConfigError(f"options: {says}", "set only one of the two")
    return made


_PLAIN = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
}
_DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)")
_TEXT = re.compile(r"(char|varchar)\(\d+\)|string collate .*")
_NESTED = ("array", "map", "struct")


def column_type(name: str, spark_type: str) -> str:
    """Return the type that can hold every value of a Spark column; raises Refused with the column's name if none can.

    >>> column_type("a", "decimal(12,2)"), column_type("b", "timestamp_ntz"), column_type("c", "varchar(20)")
    ('numeric(12,2)', 'timestamp without time zone', 'text')
    """
    if spark_type in _PLAIN:
        return _PLAIN[spark_type]
    if sized := _DECIMAL.fullmatch(spark_type):
        return f"numeric({sized[1]},{sized[2]})"
    if _TEXT.fullmatch(spark_type):
        return "text"
    cure = f'cast it first: withColumn("{safe(name, 60)}", ...cast("string"))'
    if spark_type.startswith(_NESTED):
        cure = f'convert it to JSON first: withColumn("{safe(name, 60)}", to_json("{safe(name, 60)}"))'
    shown = safe(spark_type, 60)
    raise Refused(f"column {safe(name, 60)} has type {shown}, which a table column cannot have", cure, where="sink")
