"""From a raw tree to endpoints and jobs: reads each table, then checks what only two tables together can tell.

Names are taken as they are written, and a server reads them back as just those names
(`slotkeeper.core.sqltext.dotted`), so two spellings are two tables.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, TypeGuard, TypeVar

from slotkeeper.core.config import check, keys, keys_source, tls
from slotkeeper.core.config.check import (
    Reading,
    Table,
    as_table,
    dotted,
    read_options,
    read_section,
    read_value,
    secret_ref,
    unknown_key,
)
from slotkeeper.core.config.keys import JOB_TABLES, NAMED, PLAIN, KindKeys
from slotkeeper.core.config.keys_sink import NEWER, NEWER_NAMES, SINK_OPTIONS, conflict
from slotkeeper.core.config.keys_source import SETS, SYNC, UNTOLD, BinlogKeys, binlog_table
from slotkeeper.core.config.model import Path, SinkEntry, SourceEntry
from slotkeeper.core.config.values import BadValue, section_name, show_duration, slot, spark_setting, start_time
from slotkeeper.core.domain.cluster import Master, MasterKind
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef
from slotkeeper.core.domain.spec import (
    RESNAPSHOT,
    STOP,
    BinlogOptions,
    ChannelSpec,
    JobSpec,
    RetryOptions,
    SinkOptions,
    SparkOptions,
    StartKind,
)
from slotkeeper.core.domain.text import safe, see
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.sinks.registry import KINDS as SINKS
from slotkeeper.core.sinks.registry import traits as sink_traits
from slotkeeper.core.sources.registry import KINDS as SOURCES
from slotkeeper.core.sources.registry import traits as source_traits

_Options = TypeVar("_Options", BinlogOptions, SinkOptions, RetryOptions, SparkOptions)
_MEMORY = re.compile(r"(\d+)([mg])b?")


def check_top(reading: Reading) -> None:
    """Refuse tables that no key belongs to."""
    for name in reading.tree:
        if name not in NAMED and name not in PLAIN:
            raise unknown_key(reading, (), name, (*NAMED, *PLAIN))


def read_sources(reading: Reading) -> dict[str, SourceEntry]:
    """All `[sources.X]`."""
    found = {}
    for name, path, raw in _entries(reading, "sources"):
        kind = as_table(reading, path, raw).get("dialect")
        where = keys.SERVERS[source_traits(kind).server_keys] if _known(kind, SOURCES) else keys.SERVER
        given = read_section(reading, path, raw, keys.at(keys.SOURCE, where))
        endpoint = _endpoint(reading, name, path, given, where)
        found[name] = SourceEntry(name, str(given["dialect"]), endpoint, str(given["environment"] or ""))
    return found


def read_sinks(reading: Reading) -> dict[str, SinkEntry]:
    """All `[sinks.X]`."""
    found = {}
    for name, path, raw in _entries(reading, "sinks"):
        kind = as_table(reading, path, raw).get("kind")
        where = keys.SERVERS[sink_traits(kind).server_keys] if _known(kind, SINKS) else keys.SERVER
        given = read_section(reading, path, raw, keys.at(keys.SINK, where))
        found[name] = SinkEntry(
            name,
            str(given["kind"]),
            _endpoint(reading, name, path, given, where),
            str(given["progress_schema"]),
            str(given["progress_store"] or ""),
        )
    for name, sink in found.items():
        _stored(reading, ("sinks", name), sink, found)
    return found


def _known(kind: object, kinds: Collection[str]) -> TypeGuard[str]:
    """Whether there is such a kind; another one is refused with the other keys."""
    return isinstance(kind, str) and kind in kinds


def _stored(reading: Reading, path: Path, sink: SinkEntry, sinks: Mapping[str, SinkEntry]) -> None:
    """A sink that keeps no progress rows names one that does, and only such a sink does."""
    here = (*path, "progress_store")
    known = ", ".join(name for name, one in sinks.items() if sink_traits(one.kind).stores_for_others) or "none"
    if sink_traits(sink.kind).is_store:
        if sink.store:
            what = f"{dotted(here)} has no effect: a sink of kind {sink.kind} keeps its progress rows itself"
            raise reading.error(here, what, "remove the key")
        return
    if not sink.store:
        what = f"[{dotted(path)}] names no progress_store, and a sink of kind {sink.kind} keeps no progress rows"
        raise reading.error(path, what, f"stores: {known}")
    if sink.store not in sinks:
        raise reading.error(here, f"{dotted(here)} names no [sinks.X]", f"stores: {known}")
    if not sink_traits(sinks[sink.store].kind).stores_for_others:
        what = f"{dotted(here)} names a sink of kind {sinks[sink.store].kind}, which keeps no progress rows for others"
        raise reading.error(here, what, f"stores: {known}")
    given = as_table(reading, path, as_table(reading, ("sinks",), reading.tree["sinks"])[sink.name])
    if "progress_schema" in given:
        what = f"{dotted(path)}.progress_schema has no effect: the progress rows are in sinks.{sink.store}"
        raise reading.error((*path, "progress_schema"), what, "set it there")


def read_jobs(
    reading: Reading, sources: Mapping[str, SourceEntry], sinks: Mapping[str, SinkEntry]
) -> tuple[dict[str, JobSpec], dict[str, ConfigError]]:
    """All `[jobs.X]` that can be used, none in another's way; and why each of the others cannot."""
    jobs: dict[str, JobSpec] = {}
    refused: dict[str, ConfigError] = {}
    for name, raw in as_table(reading, ("jobs",), reading.tree.get("jobs", {})).items():
        path: Path = ("jobs", name)
        noted = len(reading.settings)
        try:
            _check_name(reading, path, name)
            job = _job(reading, name, path, as_table(reading, path, raw), sources, sinks)
            for other in jobs.values():
                _apart(reading, path, job, other)
        except ConfigError as error:
            del reading.settings[noted:]
            refused[safe(name, 80)] = error
        else:
            jobs[name] = job
    return jobs, refused


def _entries(reading: Reading, kind: str) -> list[tuple[str, Path, object]]:
    found: list[tuple[str, Path, object]] = []
    for name, raw in as_table(reading, (kind,), reading.tree.get(kind, {})).items():
        _check_name(reading, (kind, name), name)
        found.append((name, (kind, name), raw))
    return found


def _check_name(reading: Reading, path: Path, name: str) -> None:
    try:
        section_name(name)
    except BadValue as error:
        raise reading.error(path, f"the name of [{dotted(path)}] {error}") from None


def _endpoint(reading: Reading, name: str, path: Path, given: Mapping[str, Any], kind: KindKeys) -> Endpoint:
    settled = tls.settled if "sslcert" in kind.keys else tls.verified
    line = settled(reading, path, given) if "sslrootcert" in kind.keys else {}
    return Endpoint(name=name, password=secret_ref(reading, path, given), **line, **kind.endpoint(given))


def _job(
    reading: Reading,
    name: str,
    path: Path,
    raw: Table,
    sources: Mapping[str, SourceEntry],
    sinks: Mapping[str, SinkEntry],
) -> JobSpec:
    _misplaced(reading, path, raw, _binlog_keys(raw, sources))
    given: Mapping[str, Any] = read_section(reading, path, raw, keys.JOB, (*JOB_TABLES, "channels"))
    _refuse_unknown(reading, path, given, sources, sinks)
    source, sink = sources[given["source"]], sinks[given["sink"]]
    binlog = _binlog(reading, path, raw, source.dialect)
    store = sinks[sink.store] if sink.store else sink
    channels = _channels(reading, path, raw, given["on_schema_change"])
    options = _sink_options(reading, path, raw, given["on_existing"], channels)
    sync, options = keys_source.read_sync(reading, path, raw, source.dialect, options)
    keys_source.refuse_cascades(reading, path, source.dialect, channels)
    _agree(reading, path, given, binlog, channels, options)
    _refuse_pair(reading, path, source, sink, channels, options)
    tls.refuse_unwritten(reading, path, source, (sink, store))
    return JobSpec(
        name=name,
        source=replace(source.endpoint, socket_timeout_ms=binlog.connection_socket_timeout),
        sink=sink.endpoint,
        slot=_slot(reading, name, path, given),
        channels=channels,
        **{field: given[key] for field, key in _AS_GIVEN.items()},
        progress_schema=store.progress_schema,
        sink_kind=sink.kind,
        source_kind=source.dialect,
        environment=source.environment,
        binlog=binlog,
        sink_options=options,
        sync=sync,
        retry=_retry(reading, path, raw),
        spark=_spark(reading, path, raw.get("spark", {})),
        store=None if store is sink else store.endpoint,
        store_kind="" if store is sink else store.kind,
    )


def _refuse_unknown(
    reading: Reading,
    path: Path,
    given: Mapping[str, Any],
    sources: Mapping[str, SourceEntry],
    sinks: Mapping[str, SinkEntry],
) -> None:
    for kind, known in (("source", sources), ("sink", sinks)):
        if given[kind] not in known:
            names = ", ".join(known) or "none"
            raise reading.error((*path, kind), f"{dotted(path)}.{kind} names no [{kind}s.X]", f"known: {names}")


def _binlog_keys(raw: Table, sources: Mapping[str, SourceEntry]) -> BinlogKeys:
    """The keys of the job's kind of source."""
    name = raw.get("source")
    if not isinstance(name, str) or name not in sources:
        return UNTOLD
    return SETS[source_traits(sources[name].dialect).binlog_keys]


_AS_GIVEN = {"start": "start", "on_existing": "on_existing", "wait_ms": "wait"}
"""Fields of a job that are its keys' values as they are."""


def _refuse_pair(
    reading: Reading,
    path: Path,
    source: SourceEntry,
    sink: SinkEntry,
    channels: tuple[ChannelSpec, ...],
    options: SinkOptions,
) -> None:
    if options.quarantines and sink.store and not sink_traits(sink.kind).tries_rows:
        here: Path = (*path, "sink_options", "on_bad_row")
        what = f'{dotted(here)} = "quarantine" needs a sink that keeps its progress rows itself, or can try rows'
        raise reading.error(here, what, 'set on_bad_row = "stop"')
    several_by = source_traits(source.dialect).several_by
    if several_by and len(channels) > 1:
        what = f"[{dotted(path)}] has {len(channels)} channels, and a slot of this source is of one table"
        raise reading.error(path, what, f'make a job for each table, or read with dialect = "{several_by}"')
    for channel in channels if _server(source.endpoint) == _server(sink.endpoint) else ():
        if channel.source_table == channel.target:
            raise reading.error(path, f"[{dotted(path)}] copies {channel.target} onto itself")


def _misplaced(reading: Reading, path: Path, raw: Table, of_binlog: BinlogKeys) -> None:
    """What is written with two keys, or in the wrong table, is named before the plain unknown key."""
    binlog = raw.get("binlog")
    below = binlog if isinstance(binlog, dict) else {}
    for one, two in (("slot", "binlog_slot_name"), ("start", "binlog_start_time")):
        if one in raw and two in below:
            what = f"[{dotted(path)}] sets {one} and binlog.{two}, two keys for one thing"
            raise reading.error((*path, "binlog", two), what, f"keep {one}")
    if "binlog_slot_name" in below:
        raw["slot"] = below.pop("binlog_slot_name")
        reading.overrides[(*path, "slot")] = reading.origin((*path, "binlog", "binlog_slot_name"))
    of_binlog.start(reading, path, raw, below)
    if "binlog_start_time" in below and "binlog_start_time" in of_binlog.section:
        here: Path = (*path, "binlog", "binlog_start_time")
        raw["start"] = read_value(reading, here, start_time, below.pop("binlog_start_time"))
        reading.overrides[(*path, "start")] = reading.origin(here)
    if isinstance(raw.get("sink"), dict):
        what = f"{dotted(path)}.sink must be the name of a [sinks.X]"
        raise reading.error((*path, "sink"), what, f"parameters of the sink stand in [{dotted(path)}.sink_options]")
    homes = {
        "binlog": of_binlog.section,
        "sink_options": SINK_OPTIONS,
        "sync": SYNC,
        "retry": keys.RETRY,
        "spark": keys.SPARK,
    }
    for name in raw:
        if name in keys.JOB or name in homes or name == "channels":
            continue
        for table, section in homes.items():
            if name in section:
                raise reading.error(
                    (*path, name), f"unknown key {name} in [{dotted(path)}]; it stands in [{dotted(path)}.{table}]"
                )


def _agree(
    reading: Reading,
    path: Path,
    given: Mapping[str, Any],
    binlog: BinlogOptions,
    channels: tuple[ChannelSpec, ...],
    options: SinkOptions,
) -> None:
    """Refuse options of two tables that contradict each other."""
    if given["start"] != "initial" and not binlog.binlog:
        what = f"{dotted(path)}.start is not initial, but binlog is false: one full copy"
        raise reading.error((*path, "start"), what, f"set binlog = true in [{dotted(path)}.binlog]")
    if binlog.binlog_ignore_update_before and not all(one.keys_never_change for one in channels):
        here: Path = (*path, "binlog", "binlog_ignore_update_before")
        what = f"{dotted(here)} drops the old key of a changed one, so that its row would stay"
        raise reading.error(here, what, "set keys_never_change = true in the channel, where that is certain")
    if binlog.binlog_ignore_update_before and not options.ignore_update_before:
        here = (*path, "sink_options", "ignore_update_before")
        what = f"{dotted(here)} = false has no effect: binlog_ignore_update_before leaves old images at the server"
        raise reading.error(here, what, "set one of them")
    _refuse_resnapshot(reading, path, given, binlog, channels)


def _refuse_resnapshot(
    reading: Reading, path: Path, given: Mapping[str, Any], binlog: BinlogOptions, channels: tuple[ChannelSpec, ...]
) -> None:
    """A job that copies again by itself needs all that a copy over a target with rows needs."""
    first = next((n for n, one in enumerate(channels) if one.on_schema_change != STOP), None)
    if first is None:
        return
    place: Path = path if given["on_schema_change"] != STOP else (*path, "channels", first)
    here: Path = (*place, "on_schema_change")
    for wrong, what, hint in (
        (not binlog.binlog, "has no effect with binlog = false", "each run is a copy, which checks the columns"),
        (
            given["start"] != "initial",
            f'copies again, start = "{given["start"]}" makes no copy',
            'set start = "initial"',
        ),
        (
            given["on_existing"] == "refuse",
            'copies over a target with rows, which on_existing = "refuse" refuses',
            'set on_existing = "replace" (or "merge")',
        ),
    ):
        if wrong:
            raise reading.error(here, f'{dotted(here)} = "{RESNAPSHOT}" {what}', hint)


def _slot(reading: Reading, name: str, path: Path, given: Mapping[str, Any]) -> str:
    if given["slot"]:
        return str(given["slot"])
    try:
        return slot(name)
    except BadValue:
        what = f"[{dotted(path)}] has no slot, and its own name is no slot name"
        raise reading.error(path, what, 'set slot = "..." of letters, digits, _ and $') from None


def _binlog(reading: Reading, path: Path, raw: Table, dialect: str) -> BinlogOptions:
    its = SETS[source_traits(dialect).binlog_keys]
    if raw.get("start") == StartKind.EARLIEST.value and not source_traits(dialect).earliest:
        what = f'{dotted(path)}.start = "earliest" is for sources whose binlog is there without a slot'
        raise reading.error((*path, "start"), what, 'set start = "initial", or "latest"')
    options = its.more(
        binlog_table(reading, path, raw), read_options(reading, path, raw, "binlog", its.section, BinlogOptions)
    )
    if not source_traits(dialect).adopts_shards:
        options = replace(options, need_redistribution=False)
    if options.binlog_max_sleep_time < options.binlog_sleep_time:
        what = f"{dotted(path)}.binlog.binlog_max_sleep_time is below binlog_sleep_time"
        raise reading.error(_set_one(raw, path, "binlog", "binlog_max_sleep_time", "binlog_sleep_time"), what)
    return options


def _sink_options(
    reading: Reading, path: Path, raw: Table, on_existing: str, channels: tuple[ChannelSpec, ...]
) -> SinkOptions:
    here: Path = (*path, "sink_options")
    _refuse_newer_names(reading, here, raw.get("sink_options", {}))
    options = read_options(reading, path, raw, "sink_options", SINK_OPTIONS, SinkOptions)
    set_here = as_table(reading, here, raw.get("sink_options", {}))
    if found := conflict(options, set_here, any(one.create_target for one in channels), on_existing):
        raise reading.error((*here, found.key), f"{dotted(here)}{found.says}", found.hint)
    return options


def _retry(reading: Reading, path: Path, raw: Table) -> RetryOptions:
    options = read_options(reading, path, raw, "retry", keys.RETRY, RetryOptions)
    if options.wait_max < options.wait_initial:
        what = f"{dotted(path)}.retry.wait_max is below wait_initial ({show_duration(options.wait_initial)})"
        raise reading.error(_set_one(raw, path, "retry", "wait_max", "wait_initial"), what)
    return options


def _set_one(raw: Table, path: Path, table: str, first: str, second: str) -> Path:
    """The path of the key that was set, to point at, where the other one is a default."""
    below = raw.get(table)
    return (*path, table, first if isinstance(below, dict) and first in below else second)


def _server(endpoint: Endpoint) -> tuple[str, int, str]:
    return endpoint.host.lower(), endpoint.port, endpoint.database


def _apart(reading: Reading, path: Path, job: JobSpec, other: JobSpec) -> None:
    """Two jobs never share a slot of one table, nor a target: each would undo the other's work."""
    same_source = _server(job.source) == _server(other.source) and job.slot == other.slot
    same_sink = _server(job.sink) == _server(other.sink)
    for mine, theirs in product(job.channels, other.channels):
        if same_source and mine.source_table == theirs.source_table:
            what = f"[{dotted(path)}] uses slot {job.slot} of {mine.source_table}, which job {other.name} uses"
            raise reading.error(path, what, "give each job a slot of its own")
        if same_sink and mine.target == theirs.target:
            raise reading.error(path, f"[{dotted(path)}] writes to {mine.target}, which job {other.name} writes to")


# -- channels: one source table to one target each, every table once -----------------------------------------------


def _channels(reading: Reading, path: Path, raw: Table, on_schema_change: str) -> tuple[ChannelSpec, ...]:
    """The channels of the job at `path`; at least one, no source table and no target twice.

    `on_schema_change` is that of a channel which says nothing of it.
    """
    here: Path = (*path, "channels")
    channels = raw.get("channels")
    if channels is None or channels == []:
        raise reading.error(path, f"[{dotted(path)}] has no channel", f"add [[{dotted(here)}]] with from and into")
    if not isinstance(channels, list):
        raise reading.error(here, f"{dotted(here)} must be a list of tables", f"write [[{dotted(here)}]]")
    found: list[ChannelSpec] = []
    for number, one in enumerate(channels):
        channel = _channel(read_section(reading, (*here, number), one, keys.CHANNEL), on_schema_change)
        _refuse_twice(reading, (*here, number), channel, found)
        found.append(channel)
    return tuple(found)


def _channel(given: Mapping[str, Any], on_schema_change: str) -> ChannelSpec:
    return ChannelSpec(
        given["from"],
        given["into"],
        given["create_target"],
        given["columns"] or (),
        given["where"] or "",
        given["keys_never_change"],
        given["on_schema_change"] or on_schema_change,
        given["cascades"],
    )


def _refuse_twice(reading: Reading, here: Path, channel: ChannelSpec, before: list[ChannelSpec]) -> None:
    """One slot of one table has one reader, and one target one writer."""
    for number, other in enumerate(before):
        there = dotted((*here[:-1], number))
        if other.source_table == channel.source_table:
            what = f"{dotted(here)} reads {channel.source_table}, which {there} reads"
            raise reading.error(
                (*here, "from"), what, "a table is read once by a job: make a second job with a slot of its own"
            )
        if other.target == channel.target:
            what = f"{dotted(here)} writes to {channel.target}, which {there} writes to"
            raise reading.error((*here, "into"), what, "give each channel a target of its own")


# -- the connector's names, and Spark's -----------------------------------------------------------------------------


def _refuse_newer_names(reading: Reading, path: Path, raw: object) -> None:
    """Refuse a 2.x name in the table at `path`, quoted or with its dots read as tables."""
    table = as_table(reading, path, raw)
    for name in table:
        if name == NEWER or name.startswith(f"{NEWER}."):
            whole, value, place = name, table[name], (*path, name)
            while isinstance(value, dict) and value:
                key = next(iter(value))
                whole, value, place = f"{whole}.{key}", value[key], (*place, key)
            instead = NEWER_NAMES.get(whole, "the 1.x name in snake_case")
            what = f"{whole} in [{dotted(path)}] is a name of the connector's 2.x"
            raise reading.error(place, what, f"write {instead}")


def _spark(reading: Reading, path: Path, raw: object) -> SparkOptions:
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
    for name in (*(f"secret_{how}" for how in check.SECRET_KINDS), "python"):
        if given[name]:
            what = f"{dotted(path)}.{name} has a meaning for a master spark://host:port only"
            raise reading.error((*path, name), what, "remove the key")


def _settings(reading: Reading, path: Path, raw: object) -> list[tuple[str, str]]:
    chosen: list[tuple[str, str]] = []
    for name, value in _flat(reading, path, raw):
        place: Path = (*path, name)
        if name not in keys.SPARK_SETTINGS:
            error = unknown_key(reading, path, name, sorted(keys.SPARK_SETTINGS))
            error.hint = error.hint or f"only settings of place and size are allowed: {see('parameters')}"
            raise error
        try:
            chosen.append((name, spark_setting(value)))
        except BadValue as error:
            raise reading.error(place, f"{dotted(place)} {error}") from None
        reading.note(place, chosen[-1][1], reading.origin(place))
    given = dict(chosen)
    if given.get("spark.eventLog.enabled", "").strip().lower() == "true" and not given.get("spark.eventLog.dir"):
        hint = "name an existing folder of yours, as file:///...; anybody can create Spark's default, in /tmp"
        raise reading.error(path, f"{dotted(path)}: spark.eventLog.enabled needs spark.eventLog.dir", hint)
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
