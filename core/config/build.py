"""Build endpoints and jobs from a raw tree: read each table, then check the rules that involve two tables.

Names are used exactly as written and are sent to servers unchanged (`slotkeeper.core.sqltext.dotted`), so two
different spellings refer to two different tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeGuard, TypeVar

from slotkeeper.core.config import check, keys, keys_source, tls
from slotkeeper.core.config.channels import channels_of, refuse_added, refuse_constant, with_views
from slotkeeper.core.config.check import (
    Reading,
    Table,
    as_fields,
    as_table,
    dotted,
    read_options,
    read_section,
    read_value,
    refuse_below,
    secret_ref,
    table_at,
    unknown_key,
)
from slotkeeper.core.config.keys import JOB_TABLES, NAMED, PLAIN
from slotkeeper.core.config.keys_sink import NEWER, NEWER_NAMES, SINK_OPTIONS, conflict
from slotkeeper.core.config.keys_source import SETS, SYNC, UNTOLD, BinlogKeys, binlog_table
from slotkeeper.core.config.model import Path, SinkEntry, SourceEntry
from slotkeeper.core.config.values import BadValue, hosts, section_name, show_duration, slot, spark_setting, start_time
from slotkeeper.core.domain.cluster import Master, MasterKind
from slotkeeper.core.domain.copy_limit import CopyLimit
from slotkeeper.core.domain.endpoint import Endpoint, SecretRef, place_of
from slotkeeper.core.domain.spec import (
    FOLLOWING,
    RESNAPSHOT,
    STOP,
    BinlogOptions,
    ChannelSpec,
    JobSpec,
    RetryOptions,
    RoundOptions,
    SinkOptions,
    SparkOptions,
    StartKind,
)
from slotkeeper.core.domain.text import safe, see
from slotkeeper.core.domain.traits import SinkTraits, SourceTraits
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.sinks.registry import KINDS as SINKS
from slotkeeper.core.sinks.registry import traits as sink_traits
from slotkeeper.core.sources.registry import KINDS as SOURCES
from slotkeeper.core.sources.registry import traits as source_traits

_Options = TypeVar("_Options", BinlogOptions, SinkOptions, RetryOptions, RoundOptions, SparkOptions)
_Claim = tuple[object, ...]
"""A slot of one table (server, slot, table) or a target (server, table)."""
_Place = tuple[int, int]
"""The numbers of a job and of its channel."""
_MEMORY = re.compile(r"(\d+)([mg])b?")


def check_top(reading: Reading) -> None:
    """Reject unknown top-level tables."""
    for name in reading.tree:
        if name not in NAMED and name not in PLAIN:
            raise unknown_key(reading, (), name, (*NAMED, *PLAIN))


def read_sources(reading: Reading) -> dict[str, SourceEntry]:
    """Read all `[sources.X]` tables."""
    return {
        name: SourceEntry(name, given["dialect"], endpoint, given["environment"] or "")
        for name, given, endpoint in _servers(reading, "sources", "dialect", keys.SOURCE, SOURCES, source_traits)
    }


def read_sinks(reading: Reading) -> dict[str, SinkEntry]:
    found = {
        name: SinkEntry(name, given["kind"], endpoint, given["progress_schema"], given["progress_store"] or "")
        for name, given, endpoint in _servers(reading, "sinks", "kind", keys.SINK, SINKS, sink_traits)
    }
    for name, sink in found.items():
        _stored(reading, ("sinks", name), sink, found)
    return found


def _servers(
    reading: Reading,
    table: str,
    key: str,
    section: keys.Section,
    kinds: Collection[str],
    traits: Callable[[str], SourceTraits | SinkTraits],
) -> Iterator[tuple[str, dict[str, Any], Endpoint]]:
    entries = as_table(reading, (table,), reading.tree.get(table, {}))
    for name in entries:
        _check_name(reading, (table, name), name)
    for name, raw in entries.items():
        path = (table, name)
        entry = as_table(reading, path, raw)
        kind = entry.get(key)
        # an unknown kind is rejected by read_section
        where = keys.SERVERS[traits(kind).server_keys] if _known(kind, kinds) else keys.SERVER
        if "hosts" in where.keys and "hosts" in entry:
            _first_host(reading, path, entry)
        given = read_section(reading, path, raw, keys.at(section, where))
        settled = tls.settled if "sslcert" in where.keys else tls.verified
        line = settled(reading, path, given) if "sslrootcert" in where.keys else {}
        password = secret_ref(reading, path, given)
        yield name, given, Endpoint(name=name, password=password, **line, **where.endpoint(given))


def _first_host(reading: Reading, path: Path, raw: Table) -> None:
    """Set host and port from the first of `hosts`, which replaces both."""
    here = (*path, "hosts")
    for name in ("host", "port"):
        if name in raw:
            what = f"[{dotted(path)}] sets {name} and hosts, two keys for one setting"
            raise reading.error(here, what, "keep hosts, with the port of each server")
    every = read_value(reading, here, hosts, raw["hosts"])
    assert isinstance(every, tuple)
    if len(set(every)) < len(every):
        raise reading.error(here, f"{dotted(here)} names a server twice")
    raw["host"], port = place_of(every[0])
    if port:
        raw["port"] = port
    for name in ("host", "port"):
        reading.overrides[(*path, name)] = reading.origin(here)


def _known(name: object, names: Collection[str]) -> TypeGuard[str]:
    return isinstance(name, str) and name in names


def _stored(reading: Reading, path: Path, sink: SinkEntry, sinks: Mapping[str, SinkEntry]) -> None:
    """Check that progress_store is set exactly for sinks that store no progress rows, and names a suitable sink."""
    here = (*path, "progress_store")
    known = ", ".join(name for name, one in sinks.items() if sink_traits(one.kind).stores_for_others) or "none"
    if sink_traits(sink.kind).is_store:
        if sink.store:
            what = f"{dotted(here)} has no effect: a sink of kind {sink.kind} stores its own progress rows"
            raise reading.error(here, what, "remove the key")
        return
    if not sink.store:
        what = f"[{dotted(path)}] sets no progress_store, but a sink of kind {sink.kind} cannot store progress rows"
        raise reading.error(path, what, f"stores: {known}")
    if sink.store not in sinks:
        raise reading.error(here, f"{dotted(here)} is not the name of a [sinks.X]", f"stores: {known}")
    if not sink_traits(sinks[sink.store].kind).stores_for_others:
        what = f"{dotted(here)} names a sink of kind {sinks[sink.store].kind}, which cannot store others' progress rows"
        raise reading.error(here, what, f"stores: {known}")
    if "progress_schema" in table_at(reading, path):
        what = f"{dotted(path)}.progress_schema has no effect: the progress rows are in sinks.{sink.store}"
        raise reading.error((*path, "progress_schema"), what, f"set it in [sinks.{sink.store}]")


def read_jobs(
    reading: Reading, sources: Mapping[str, SourceEntry], sinks: Mapping[str, SinkEntry]
) -> tuple[dict[str, JobSpec], dict[str, ConfigError]]:
    """Read all `[jobs.X]`; return the usable jobs, which do not conflict, and the error of each unusable job."""
    jobs: dict[str, JobSpec] = {}
    refused: dict[str, ConfigError] = {}
    taken: dict[_Claim, _Place] = {}
    for name, raw in as_table(reading, ("jobs",), reading.tree.get("jobs", {})).items():
        path: Path = ("jobs", name)
        noted = len(reading.noted)
        try:
            _check_name(reading, path, name)
            job = _job(reading, name, path, as_table(reading, path, raw), sources, sinks)
            taken |= _claimed(reading, path, job, taken, list(jobs))
        except ConfigError as error:
            del reading.noted[noted:]
            refused[safe(name, 80)] = error
        else:
            jobs[name] = job
    return jobs, refused


def _check_name(reading: Reading, path: Path, name: str) -> None:
    try:
        section_name(name)
    except BadValue as error:
        raise reading.error(path, f"the name of [{dotted(path)}] {error}") from None


def _job(
    reading: Reading,
    name: str,
    path: Path,
    raw: Table,
    sources: Mapping[str, SourceEntry],
    sinks: Mapping[str, SinkEntry],
) -> JobSpec:
    named = raw.get("source")
    of_binlog = SETS[source_traits(sources[named].dialect).binlog_keys] if _known(named, sources) else UNTOLD
    _misplaced(reading, path, raw, of_binlog)
    given = read_section(reading, path, raw, keys.JOB, (*JOB_TABLES, "channels", "views"))
    for kind, known in (("source", sources), ("sink", sinks)):
        if given[kind] not in known:
            what, names = f"{dotted(path)}.{kind} is not the name of a [{kind}s.X]", ", ".join(known) or "none"
            raise reading.error((*path, kind), what, f"known: {names}")
    source, sink = sources[given["source"]], sinks[given["sink"]]
    store = sinks[sink.store] if sink.store else sink
    binlog = _binlog(reading, path, raw, source.dialect)
    channels, patterns = channels_of(reading, path, raw, given["on_schema_change"])
    every = (*channels, *(one.channel for one in patterns))
    options = _sink_options(reading, path, raw, given["on_existing"], every)
    sync, options = keys_source.read_sync(reading, path, raw, source.dialect, options)
    job = JobSpec(
        name=name,
        source=replace(source.endpoint, socket_timeout_ms=binlog.connection_socket_timeout),
        sink=sink.endpoint,
        slot="",
        channels=channels,
        patterns=patterns,
        start=given["start"],
        on_existing=given["on_existing"],
        wait_ms=given["wait"],
        progress_schema=store.progress_schema,
        sink_kind=sink.kind,
        source_kind=source.dialect,
        environment=source.environment,
        binlog=binlog,
        sink_options=options,
        sync=sync,
        store=None if store is sink else store.endpoint,
        store_kind="" if store is sink else store.kind,
        copy_limit=CopyLimit(given["copy_rows_per_second"], given["copy_bytes_per_second"]),
    )
    keys_source.refuse_cascades(reading, path, source.dialect, every)
    _agree(reading, path, job, given["on_schema_change"])
    _refuse_pair(reading, path, job)
    tls.refuse_unwritten(reading, path, job)
    job = with_views(reading, path, raw, job)
    slot, retry = _slot(reading, name, path, given), _retry(reading, path, raw)
    return replace(job, slot=slot, retry=retry, spark=_spark(reading, path, raw.get("spark", {})))


def _refuse_pair(reading: Reading, path: Path, job: JobSpec) -> None:
    if job.sink_options.quarantines and job.in_two_parts and not sink_traits(job.sink_kind).tries_rows:
        here: Path = (*path, "sink_options", "on_bad_row")
        what = f'{dotted(here)} = "quarantine" needs a sink that stores its own progress rows or can test rows'
        raise reading.error(here, what, 'set on_bad_row = "stop"')
    for number, channel in enumerate(job.channels):
        if channel.constant is not None:
            refuse_constant(reading, (*path, "channels", number), job, channel)
    refuse_added(reading, path, job)
    several_by = source_traits(job.source_kind).several_by
    if several_by and job.several:
        has = "a pattern of tables" if job.patterns else f"{len(job.channels)} channels"
        what = f"[{dotted(path)}] has {has}, but a slot of this source covers one table"
        raise reading.error(path, what, f'create one job per table, or set dialect = "{several_by}"')
    for channel in job.channels if _server(job.source) == _server(job.sink) else ():
        if channel.source_table == channel.target:
            raise reading.error(path, f"[{dotted(path)}] copies {channel.target} onto itself")


def _misplaced(reading: Reading, path: Path, raw: Table, of_binlog: BinlogKeys) -> None:
    """Reject values that are set by two keys or in the wrong table, before the general unknown-key error applies."""
    binlog = raw.get("binlog")
    below = binlog if isinstance(binlog, dict) else {}
    for one, two in (("slot", "binlog_slot_name"), ("start", "binlog_start_time")):
        if one in raw and two in below:
            what = f"[{dotted(path)}] sets {one} and binlog.{two}, two keys for one setting"
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
        raise reading.error((*path, "sink"), what, f"set the sink's parameters in [{dotted(path)}.sink_options]")
    homes = {
        "binlog": of_binlog.section,
        "sink_options": SINK_OPTIONS,
        "sync": SYNC,
        "rounds": keys.ROUNDS,
        "retry": keys.RETRY,
        "spark": keys.SPARK,
    }
    for name in raw:
        if name in keys.JOB or name in homes or name in ("channels", "views"):
            continue
        for table, section in homes.items():
            if name in section:
                raise reading.error(
                    (*path, name), f"unknown key {name} in [{dotted(path)}]; it belongs in [{dotted(path)}.{table}]"
                )


def _agree(reading: Reading, path: Path, job: JobSpec, on_schema_change: str) -> None:
    """Reject contradictory options of two tables; `on_schema_change` is the job's own setting."""
    if job.start != "initial" and not job.binlog.binlog:
        what = f'{dotted(path)}.start must be "initial" if binlog is false (one full copy)'
        raise reading.error((*path, "start"), what, f"set binlog = true in [{dotted(path)}.binlog]")
    without_old = job.binlog.binlog_ignore_update_before
    every = (*job.channels, *(one.channel for one in job.patterns))
    if without_old and not all(channel.keys_never_change for channel in every):
        here: Path = (*path, "binlog", "binlog_ignore_update_before")
        what = f"{dotted(here)} omits the old key when a key changes, so the old row would remain"
        raise reading.error(here, what, "if no key ever changes, set keys_never_change = true in the channel")
    if without_old and not job.sink_options.ignore_update_before:
        here = (*path, "sink_options", "ignore_update_before")
        what = f"{dotted(here)} = false has no effect: with binlog_ignore_update_before, the server omits old images"
        raise reading.error(here, what, "set only one of them")
    _refuse_resnapshot(reading, path, job, on_schema_change)


def _refuse_following(reading: Reading, path: Path, job: JobSpec, on_schema_change: str) -> None:
    """Reject an on_schema_change that needs the statements in the source's log for another kind of source."""
    if source_traits(job.source_kind).logs_shapes and job.binlog.binlog:
        return
    for channel in (*job.channels, *(one.channel for one in job.patterns)):
        if channel.on_schema_change in FOLLOWING:
            blocks = table_at(reading, path).get("channels")
            named = enumerate(blocks) if isinstance(blocks, list) else ()
            own = (n for n, one in named if isinstance(one, dict) and one.get("on_schema_change") in FOLLOWING)
            place: Path = path if on_schema_change == channel.on_schema_change else (*path, "channels", next(own, 0))
            here: Path = (*place, "on_schema_change")
            what = f'{dotted(here)} = "{channel.on_schema_change}" needs a source whose log contains changes of columns'
            raise reading.error(here, what, f'set "{STOP}" or "{RESNAPSHOT}"')


def _refuse_resnapshot(reading: Reading, path: Path, job: JobSpec, on_schema_change: str) -> None:
    """Reject on_schema_change = "resnapshot" unless the job's options allow a copy into a target that contains rows."""
    _refuse_following(reading, path, job, on_schema_change)
    every = (*job.channels, *(one.channel for one in job.patterns))
    if all(channel.on_schema_change != RESNAPSHOT for channel in every):
        return
    blocks = table_at(reading, path).get("channels")
    named = enumerate(blocks) if isinstance(blocks, list) else ()
    first = next((n for n, one in named if isinstance(one, dict) and one.get("on_schema_change") == RESNAPSHOT), 0)
    place: Path = path if on_schema_change == RESNAPSHOT else (*path, "channels", first)
    here: Path = (*place, "on_schema_change")
    for wrong, what, hint in (
        (not job.binlog.binlog, "has no effect with binlog = false", "each run is a copy, which checks the columns"),
        (
            job.start != "initial",
            f'copies the table again, but start = "{job.start}" makes no copy',
            'set start = "initial"',
        ),
        (
            job.on_existing == "refuse",
            'copies into a target with rows, which on_existing = "refuse" rejects',
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
        what = f"[{dotted(path)}] sets no slot, and the job's name is not a valid slot name"
        raise reading.error(path, what, 'set slot = "...", using only letters, digits, _ and $') from None


def _binlog(reading: Reading, path: Path, raw: Table, dialect: str) -> BinlogOptions:
    its = SETS[source_traits(dialect).binlog_keys]
    if raw.get("start") == StartKind.EARLIEST.value and not source_traits(dialect).earliest:
        what = f'{dotted(path)}.start = "earliest" needs a source whose binlog exists without a slot'
        raise reading.error((*path, "start"), what, 'set start = "initial", or "latest"')
    options = its.more(
        binlog_table(reading, path, raw), read_options(reading, path, raw, "binlog", its.section, BinlogOptions)
    )
    if not options.need_redistribution and "check_node_change_interval" in binlog_table(reading, path, raw):
        # DWS, "Real-Time Binlog Consumption by Flink", table 1: only valid if needRedistribution is true
        here: Path = (*path, "binlog", "check_node_change_interval")
        what = f"{dotted(here)} has no effect with need_redistribution = false"
        raise reading.error(here, what, "remove one of the two")
    if not source_traits(dialect).adopts_shards:
        options = replace(options, need_redistribution=False)
    refuse_below(reading, (*path, "binlog"), options, "binlog_max_sleep_time", "binlog_sleep_time")
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
    least = f" ({show_duration(options.wait_initial)})"
    refuse_below(reading, (*path, "retry"), options, "wait_max", "wait_initial", least)
    return options


def _server(endpoint: Endpoint) -> tuple[str, int, str]:
    return endpoint.host.lower(), endpoint.port, endpoint.database


def _claimed(
    reading: Reading, path: Path, job: JobSpec, taken: Mapping[_Claim, _Place], others: Sequence[str]
) -> dict[_Claim, _Place]:
    """Return what the job claims: its slot of each table, and each target.

    Raises ConfigError if another job has the same claim, because each job would undo the other's work. `taken` are the
    claims of the jobs `others`.
    """
    source, sink = (_server(job.source), job.slot), (_server(job.sink),)
    mine: dict[_Claim, _Place] = {}
    # jobs are not compared pairwise, which takes seconds for 40 jobs of 200 tables
    for number, channel in enumerate(job.channels):
        mine[*source, channel.source_table] = mine[*sink, channel.place] = len(others), number
    for view in job.views:
        mine[*sink, view.target] = len(others), 0
    if shared := mine.keys() & taken.keys():
        claim = min(shared, key=lambda one: (taken[one][0], mine[one][1], taken[one][1], len(one) < 3))
        table, other = claim[-1], others[taken[claim][0]]
        if len(claim) < 3:
            raise reading.error(path, f"[{dotted(path)}] writes to {table}, which job {other} already writes to")
        what = f"[{dotted(path)}] uses slot {job.slot} of {table}, which job {other} already uses"
        raise reading.error(path, what, "give each job its own slot")
    return mine


# -- the connector's names, and Spark's -----------------------------------------------------------------------------


def _refuse_newer_names(reading: Reading, path: Path, raw: object) -> None:
    """Reject a connector 2.x name in the table at `path`, either quoted or parsed as nested tables."""
    table = as_table(reading, path, raw)
    for name in table:
        if name == NEWER or name.startswith(f"{NEWER}."):
            whole, value, place = name, table[name], (*path, name)
            while isinstance(value, dict) and value:
                key = next(iter(value))
                whole, value, place = f"{whole}.{key}", value[key], (*place, key)
            instead = NEWER_NAMES.get(whole, "the 1.x name in snake_case")
            what = f"{whole} in [{dotted(path)}] is a key of connector 2.x"
            raise reading.error(place, what, f"write {instead}")


def _spark(reading: Reading, path: Path, raw: object) -> SparkOptions:
    here: Path = (*path, "spark")
    given = read_section(reading, here, raw, keys.SPARK)
    master = Master.parse(given["master"])
    secret = secret_ref(reading, here, given, "secret")
    _only_on_a_cluster(reading, here, given, master, secret)
    settings = tuple(_settings(reading, (*here, "settings"), given.pop("settings") or {}))
    asked = _MEMORY.fullmatch(dict(settings).get("spark.executor.memory", "").lower())
    if master.memory and asked and int(asked[1]) * (1024 if asked[2] == "g" else 1) > master.memory:
        # an executor larger than its worker never starts, so the job would wait indefinitely
        what = f"{dotted(here)}.settings: spark.executor.memory exceeds the memory of a worker of {master.text}"
        raise reading.error((*here, "settings"), what, "reduce it, or give the workers more memory")
    if given["spark_ui"] and not master.here:
        what = f"{dotted(here)}.spark_ui applies only to a master on this host: its pages have no login"
        raise reading.error((*here, "spark_ui"), what, "remove the key; the cluster's master shows its applications")
    return SparkOptions(settings=settings, secret=secret, **as_fields(SparkOptions, given))


def _only_on_a_cluster(
    reading: Reading, path: Path, given: Mapping[str, Any], master: Master, secret: SecretRef
) -> None:
    """Check that secret and Python path are set only for a cluster; local masters use this process's."""
    if master.kind is MasterKind.KUBERNETES:
        settings = dict(_flat(reading, (*path, "settings"), given["settings"] or {}))
        if secret.how != "file":
            what = f"{dotted(path)}.master is on Kubernetes, but secret_file is not set"
            do = "mount a Secret in the driver's pod and at the same path in its executors, and name its file"
            raise reading.error((*path, "master"), what, do)
        if "spark.kubernetes.container.image" not in settings:
            what = f"{dotted(path)}.settings has no spark.kubernetes.container.image"
            raise reading.error((*path, "settings"), what, "name an image of executors (docs/kubernetes)")
        return
    if master.kind is MasterKind.STANDALONE:
        if not secret.how:
            what = f"{dotted(path)}.master is a standalone cluster, but its secret is not set"
            raise reading.error(
                (*path, "master"), what, "set secret_file to a file with the cluster's spark.authenticate.secret"
            )
        return
    for name in (*(f"secret_{how}" for how in check.SECRET_KINDS), "python"):
        if given[name]:
            what = f"{dotted(path)}.{name} applies only to a master spark:// or k8s://"
            raise reading.error((*path, name), what, "remove the key")


def _settings(reading: Reading, path: Path, raw: object) -> list[tuple[str, str]]:
    chosen: list[tuple[str, str]] = []
    for name, value in _flat(reading, path, raw):
        place: Path = (*path, name)
        if not keys.is_allowed(name):
            error = unknown_key(reading, path, name, sorted({**keys.SPARK_SETTINGS, **keys.SPARK_GROUPS}))
            error.hint = error.hint or f"only settings for location and size are allowed: {see('parameters')}"
            raise error
        try:
            chosen.append((name, spark_setting(value)))
        except BadValue as error:
            raise reading.error(place, f"{dotted(place)} {error}") from None
        reading.note(place, chosen[-1][1], reading.overrides.get(place))
    given = dict(chosen)
    if given.get("spark.eventLog.enabled", "").strip().lower() == "true" and not given.get("spark.eventLog.dir"):
        hint = "set it to a folder that you own, as file:///...; any user can create Spark's default folder in /tmp"
        raise reading.error(path, f"{dotted(path)}: spark.eventLog.enabled needs spark.eventLog.dir", hint)
    return chosen


def _flat(reading: Reading, path: Path, raw: object, prefix: str = "") -> list[tuple[str, object]]:
    """Return the settings by full name, including names written with unquoted dots."""
    found: list[tuple[str, object]] = []
    for name, value in as_table(reading, path, raw).items():
        if isinstance(value, dict):
            found += _flat(reading, path, value, f"{prefix}{name}.")
        else:
            found.append((prefix + name, value))
    return found
