"""The options of a read; unknown options are rejected, so that a misspelled option is not ignored."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slotkeeper.core.config.load import load_usable
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.dataframe.changelog import FORMS, WEIGHTED
from slotkeeper.core.domain.progress import QUERY_TARGET
from slotkeeper.core.domain.spec import JobSpec, start_at
from slotkeeper.core.domain.traits import OldImages
from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.core.sources import registry as sources
from slotkeeper.core.state.files import answered, probe_record

STARTS = ("slot", "earliest")
"""Values of `start` that a query accepts in addition to those of a job."""
DEFAULTS = {
    "config": "",
    "job": "",
    "table": "",
    "start": "slot",
    "points_per_trigger": "",
    "poll_interval": "200ms",
    "register": "auto",
    "take_over": "false",
    "columns": "",
    "as_text": "",
    "read": "",
    "changelog": "",
    "from": "",
    "to": "latest",
    "partition_rows": "",
    "pushdown": "auto",
}
_CHOICES = {
    "register": ("auto", "never"),
    "take_over": ("true", "false"),
    "read": ("", "rows", "changes"),
    "changelog": ("", *FORMS),
    "pushdown": ("auto", "never"),
}
_SPARKS = ("path", "paths")
"""Options that Spark adds automatically."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The parsed options of a read; `points_per_trigger` is in the source's own unit (sync points for DWS).

    `changelog` is one of `slotkeeper.core.dataframe.changelog.FORMS`, or "" for the rows of the table.
    `config` is the path of the file that was read. `job` is a job for the requested table, with the query as its
    target. `poll_interval` is in seconds, `partition_rows` in rows.
    """

    job: JobSpec
    start: str
    points_per_trigger: int
    poll_interval: float
    registers: bool
    takes_over: bool
    columns: tuple[str, ...]
    as_text: tuple[str, ...]
    read: str
    changelog: str
    begin: str
    end: str
    partition_rows: int
    pushes: bool
    config: str


def asked(options: Mapping[str, str]) -> Asked:
    """Parse the options and load the configuration file that they specify; raises ConfigError."""
    given = {**DEFAULTS, **_known(options)}
    for name, allowed in _CHOICES.items():
        if given[name] not in allowed:
            raise _wrong(name, given[name], f"one of {', '.join(one or 'nothing' for one in allowed)}")
    loaded = load_usable(Path(given["config"]) if given["config"] else None, os.environ)
    job = _job(loaded, given["job"], given["table"])
    _refuse_form(given["changelog"], given["read"])
    if given["changelog"] == WEIGHTED:
        _refuse_weights(loaded, job, given["start"])
    binlog = job.binlog
    return Asked(
        job,
        _start(given["start"]),
        _number(given, "points_per_trigger", binlog.binlog_sync_point_size),
        _seconds(given, "poll_interval"),
        given["register"] == "auto",
        given["take_over"] == "true",
        _names(given["columns"]),
        _names(given["as_text"]),
        given["read"],
        given["changelog"],
        given["from"],
        given["to"],
        _number(given, "partition_rows", binlog.full_sync_binlog_batch_read_size),
        given["pushdown"] == "auto",
        str(loaded.path.absolute()),
    )


def _refuse_form(form: str, read: str) -> None:
    """Raise ConfigError for a changelog without a form, with the meaning of each."""
    if read == "rows" and form:
        raise ConfigError('read = "rows" returns the table, not a changelog', 'remove .option("changelog", ...)')
    if read == "rows" or form:
        return
    meanings = "\n".join(f'  .option("changelog", "{name}"): {meaning}' for name, meaning in FORMS.items())
    what = "a changelog is not its table: choose its form"
    raise ConfigError(what, f'set one of:\n{meanings}\n  spark.read and .option("read", "rows"): the table itself')


def _refuse_weights(loaded: Loaded, job: JobSpec, start: str) -> None:
    """Raise Refused if the weights of some changes would be wrong or their old images incomplete."""
    place, table = job.source.place, job.channel.source_table
    instead = 'use .option("changelog", "net") and aggregate the table, or a view of the job ([[jobs.X.views]])'
    if start == "initial":
        what = 'changelog = "weighted" with start = "initial" counts changes during the copy twice'
        raise Refused(what, 'start at "latest", and add the sums of the table at that time', where="spark")
    if job.binlog.binlog_ignore_update_before or job.binlog.binlog_ignore_delete:
        what = f"[jobs.{job.name}.binlog] omits old images or deletes, which a weighted changelog needs"
        raise ConfigError(what, "remove binlog_ignore_update_before and binlog_ignore_delete")
    images = sources.traits(job.source_kind).old_images
    if images is OldImages.KEY:
        what = f"{table}: a source of kind {job.source_kind} is not known to log whole old images"
        raise Refused(f"{what}, so a weighted sum can be wrong", instead, where="source")
    if images is OldImages.PROBED:
        found = probe_record(loaded.state_dir, job.source.name)
        if answered(found, place, "full_old_images") != "yes":
            what = f"{table}: no probe has found whole old images at {place}, so a weighted sum can be wrong"
            probe = "run `slotkeeper doctor --probe`; unless it finds full_old_images, "
            raise Refused(what, f"{probe}{instead}", where="source")


def _known(options: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name, value in options.items():
        if name.lower() in _SPARKS:
            what = f"load({value!r}) has a path, but a binlog has no path"
            raise ConfigError(what, 'name the table: .option("table")')
        if name.lower() not in DEFAULTS:
            near = difflib.get_close_matches(name.lower(), DEFAULTS, 1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(DEFAULTS)}"
            raise ConfigError(f"unknown option {name!r}", hint)
        found[name.lower()] = value
    return found


def _job(loaded: Loaded, name: str, table: str) -> JobSpec:
    if not name:
        raise ConfigError("no job given", f'set .option("job", ...) to one of {", ".join(loaded.jobs) or "none"}')
    if name in loaded.refused:
        raise loaded.refused[name]
    if name not in loaded.jobs:
        raise ConfigError(f"{loaded.path} has no [jobs.{name}]", f"known: {', '.join(loaded.jobs) or 'none'}")
    job = loaded.jobs[name]
    tables = [channel.source_table for channel in job.channels]
    if not table and len(tables) == 1:
        table = tables[0]
    if table not in tables:
        raise ConfigError(
            f"[jobs.{name}] has no channel from {table!r}", f'set .option("table", ...) to one of {", ".join(tables)}'
        )
    narrowed = job.of(table)
    if narrowed.channel.where:
        what = f"[jobs.{name}] filters the rows of {table}, but a DataFrame cannot"
        raise ConfigError(what, "give the query its own job without `where`, and filter in the program")
    _refuse_shared(loaded, narrowed)
    target = f"{QUERY_TARGET}{narrowed.slot}"
    channel = replace(narrowed.channel, target=target, create_target=False, columns=(), constant=None)
    return replace(narrowed, channels=(channel,), binlog=replace(narrowed.binlog, binlog=True))


def _refuse_shared(loaded: Loaded, job: JobSpec) -> None:
    """Reject a slot that another job reads, because each reader would miss the changes that the other registers."""
    for other in loaded.jobs.values():
        if other.name != job.name and (other.source.name, other.slot) == (job.source.name, job.slot):
            tables = [channel.source_table for channel in other.channels]
            if job.channel.source_table in tables:
                what = f"slot {job.slot} of {job.channel.source_table} is also the slot of job {other.name}"
                raise ConfigError(what, f"set another slot in [jobs.{job.name}]")


def _start(text: str) -> str:
    if text not in STARTS:
        try:
            start_at(text)
        except ValueError as error:
            what = f'{error}, or "slot" (the slot\'s position), or "earliest"'
            raise ConfigError(f"option start {what}", f"found {text!r}") from None
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(part for part in (piece.strip() for piece in text.split(",")) if part)


def _number(given: Mapping[str, str], name: str, default: int) -> int:
    text = given[name]
    if not text:
        return default
    if not text.isdecimal() or int(text) < 1:
        raise _wrong(name, text, "a number of at least 1")
    return int(text)


_UNITS = {"ms": 0.001, "s": 1.0}


def _seconds(given: Mapping[str, str], name: str) -> float:
    text = given[name].strip()
    digits = text.rstrip("ms")
    unit = text[len(digits) :]
    if not digits.isdecimal() or unit not in _UNITS:
        raise _wrong(name, text, 'a time with a unit, such as "200ms" or "2s"')
    return int(digits) * _UNITS[unit]


def _wrong(name: str, value: str, rule: str) -> ConfigError:
    return ConfigError(f"option {name} is {value!r}", f"it must be {rule}", where="spark")
