"""What a loaded configuration is: endpoints and jobs as domain values, and where every value came from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from slotkeeper.core.alerts.options import AlertOptions
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.errors import ConfigError


class NoConfig(ConfigError):
    """There is no configuration file where one is looked for by default; the console offers the demo then."""


class Layer(Enum):
    """Where a value came from; later members win over earlier ones."""

    DEFAULT = "default"
    FILE = "file"
    ENVIRONMENT = "environment"
    OPTION = "option"


@dataclass(frozen=True, slots=True)
class Origin:
    """A layer and the place in it: `config.toml:12`, the variable's or the option's name, "" for a default."""

    layer: Layer
    place: str = ""

    @property
    def text(self) -> str:
        """Both in words.

        >>> Origin(Layer.FILE, "config.toml:12").text
        'file config.toml:12'
        """
        return f"{self.layer.value} {self.place}".rstrip()


@dataclass(frozen=True, slots=True)
class Setting:
    """One effective value as it may be shown: `key` is its dotted path, private values are masked already."""

    key: str
    value: str | int | bool | None
    origin: Origin


@dataclass(frozen=True, slots=True)
class SourceEntry:
    """A `[sources.X]`."""

    name: str
    dialect: str
    endpoint: Endpoint
    environment: str = ""


@dataclass(frozen=True, slots=True)
class SinkEntry:
    """A `[sinks.X]`; `store` is the one that keeps its progress rows, empty where it does so itself."""

    name: str
    kind: str
    endpoint: Endpoint
    progress_schema: str = "public"
    store: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checked configuration; `warnings` are sentences about what works and should not stay so.

    `refused` are the jobs that cannot be used, each with its error; `jobs` are the others.
    """

    path: Path
    sources: dict[str, SourceEntry]
    sinks: dict[str, SinkEntry]
    jobs: dict[str, JobSpec]
    state_dir: Path
    settings: tuple[Setting, ...]
    warnings: tuple[str, ...] = ()
    refused: Mapping[str, ConfigError] = field(default_factory=dict)
    alerts: AlertOptions = field(default_factory=AlertOptions)

    def whole(self) -> Loaded:
        """Itself where every job can be used; else raises the first refused one's error.

        For what must know all jobs: a slot that nobody here seems to follow may be a refused job's.
        """
        for error in self.refused.values():
            raise error
        return self


def owners(loaded: Loaded, source: str, table: str) -> dict[str, str]:
    """The configured jobs that follow a table, by their slots."""
    mine = [job for job in loaded.jobs.values() if job.source.name == source and job.binlog.binlog]
    return {job.slot: job.name for job in mine if any(channel.source_table == table for channel in job.channels)}


def tables(loaded: Loaded, source: str = "", table: str = "") -> list[tuple[str, str]]:
    """(source, table) of every table that a configured job reads, narrowed to a source and a table where given."""
    found = {(job.source.name, channel.source_table) for job in loaded.jobs.values() for channel in job.channels}
    return sorted((one, its) for one, its in found if source in ("", one) and table in ("", its))
