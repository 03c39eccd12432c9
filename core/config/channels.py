"""Read the channels and the views of a job: each channel maps a source table, or several by a pattern, to targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from slotkeeper.core.config import keys
from slotkeeper.core.config.check import (
    Reading,
    Table,
    as_fields,
    dotted,
    read_options,
    read_section,
    secret_ref,
    table_at,
)
from slotkeeper.core.config.model import Path
from slotkeeper.core.domain.inventory import PLACEHOLDER, is_pattern
from slotkeeper.core.domain.spec import STOP, ChannelSpec, JobSpec, RoundOptions, TablePattern, ViewSpec
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.sinks.registry import traits as sink_traits
from slotkeeper.core.sources.registry import traits as source_traits


def channels_of(
    reading: Reading, path: Path, raw: Table, on_schema_change: str
) -> tuple[tuple[ChannelSpec, ...], tuple[TablePattern, ...]]:
    """Return the channels of the job at `path`, and its blocks with patterns; no source table or target occurs twice.

    `on_schema_change` is the default for channels that do not set it.
    """
    here: Path = (*path, "channels")
    channels = raw.get("channels")
    if channels is None or channels == []:
        raise reading.error(path, f"[{dotted(path)}] has no channel", f"add [[{dotted(here)}]] with from and into")
    if not isinstance(channels, list):
        raise reading.error(here, f"{dotted(here)} must be a list of tables", f"write [[{dotted(here)}]]")
    by_number: dict[int, ChannelSpec] = {}
    patterns: list[TablePattern] = []
    readers: dict[str, int] = {}
    writers: dict[str, int] = {}
    for number, one in enumerate(channels):
        given = read_section(reading, (*here, number), one, keys.CHANNEL)
        given["on_schema_change"] = given["on_schema_change"] or on_schema_change
        salt = secret_ref(reading, (*here, number), given, "salt")
        channel = ChannelSpec(given["from"], given["into"], **as_fields(ChannelSpec, given), salt=salt)
        _refuse_salt(reading, (*here, number), channel)
        if _is_pattern(reading, (*here, number), channel, given["except"]):
            of_each = replace(channel, source_table="", target="")
            patterns.append(TablePattern(channel.source_table, channel.target, given["except"] or (), of_each))
            continue
        writer = writers.setdefault(channel.target, number)
        if writer < number and _shares(by_number[writer], channel):
            writer = writers.setdefault(channel.place, number)
        first = readers.setdefault(channel.source_table, number), writer
        if min(first) < number:
            raise _twice(reading, here, number, channel, *first)
        writers.setdefault(channel.place, number)
        by_number[number] = channel
    return tuple(by_number.values()), tuple(patterns)


def _refuse_salt(reading: Reading, path: Path, channel: ChannelSpec) -> None:
    if not channel.salt.how and any(one.salted for one in channel.compute):
        what = f"{dotted((*path, 'compute'))} uses salt(), but the channel has no salt"
        raise reading.error((*path, "compute"), what, "set salt_file or salt_env")


def _is_pattern(reading: Reading, path: Path, channel: ChannelSpec, excluded: tuple[str, ...] | None) -> bool:
    """Return whether a block maps several tables by a pattern; raises ConfigError if its keys contradict that."""
    placeholder = PLACEHOLDER.search(channel.target)
    several = is_pattern(channel.source_table)
    if not several and not excluded and not placeholder:
        return False
    here = dotted(path)
    if not several:
        if excluded:
            what = f"{here}.except has no effect: {here}.from names one table"
            raise reading.error((*path, "except"), what, 'write a pattern, such as from = "shop.*"')
        what = f"{here}.into has {placeholder[0] if placeholder else ''}, but {here}.from names one table"
        raise reading.error((*path, "into"), what, 'write the target, or a pattern, such as from = "shop.*"')
    if channel.columns:
        what = f"{here}.columns applies to one table, but {here}.from is a pattern"
        raise reading.error((*path, "columns"), what, "give a table with mapped columns its own block")
    if channel.constant is not None:
        what = f"{here}.constant applies to one table, but {here}.from is a pattern"
        raise reading.error((*path, "constant"), what, "give each table of a shared target its own block")
    if "{table}" not in channel.target:
        what = f"{here}.into has no {{table}}: every table of the pattern would have one target"
        raise reading.error((*path, "into"), what, 'write a target such as into = "mart.{table}"')
    return True


def _shares(one: ChannelSpec, other: ChannelSpec) -> bool:
    """Return whether two channels write to disjoint parts of one target; a column of numbers reads 07 as 7."""
    first, second = one.constant, other.constant
    if first is None or second is None or first.column != second.column:
        return False
    both_numbers = first.text.isdecimal() and second.text.isdecimal()
    return first.text == second.text or not both_numbers or int(first.text) != int(second.text)


def _twice(
    reading: Reading, channels: Path, number: int, channel: ChannelSpec, reader: int, writer: int
) -> ConfigError:
    """Return the error of a channel whose source table or target has an earlier reader or writer in the job."""
    here, there = (*channels, number), dotted((*channels, min(reader, writer)))
    if reader <= writer:
        what = f"{dotted(here)} reads {channel.source_table}, which {there} already reads"
        return reading.error(
            (*here, "from"), what, "a job can read each table once: create a second job with its own slot"
        )
    what = f"{dotted(here)} writes to {channel.place}, which {there} already writes to"
    hint = "give each channel its own target, or constant = { ... } with the same column and its own value"
    return reading.error((*here, "into"), what, hint)


def refuse_constant(reading: Reading, path: Path, job: JobSpec, channel: ChannelSpec) -> None:
    """Reject a constant for a pair of kinds that was not tested with it, and with options that change whole targets."""
    here, said, one = (*path, "constant"), f"{dotted((*path, 'constant'))}", channel.constant
    for kind, side, takes in (
        (job.source_kind, "source", source_traits(job.source_kind).many_into_one),
        (job.sink_kind, "sink", sink_traits(job.sink_kind).many_into_one),
    ):
        if not takes:
            raise reading.error(here, f"{said} is not supported for a {side} of kind {kind}", "remove the key")
    if channel.on_schema_change != STOP:
        what = f'{said}: on_schema_change = "{channel.on_schema_change}" would alter the rows of other channels'
        raise reading.error(here, what, 'set on_schema_change = "stop"')
    if one is not None and any(into == one.column for _, into in channel.columns):
        raise reading.error(here, f"{said}: columns also maps a column to {one.column}", "map only one of them")


def refuse_added(reading: Reading, path: Path, job: JobSpec) -> None:
    """Reject soft deletes and other added columns for a sink without them, and with options that contradict them."""
    options = job.sink_options
    timed = any(one.timed for one in (*job.channels, *(it.channel for it in job.patterns)))
    if timed and not (source_traits(job.source_kind).times_changes and job.binlog.new_system_value):
        what = f"{dotted(path)}: change_time() needs a source of kind dws with new_system_value"
        raise reading.error((*path, "channels"), what, "remove it; synced_at is the time of the last read")
    blocks = table_at(reading, path).get("channels")
    for number, block in enumerate(blocks if isinstance(blocks, list) else ()):
        given = {name for name in ("soft_delete", "synced_at", "compute") if isinstance(block, dict) and name in block}
        here: Path = (*path, "channels", number)
        for name in sorted(given):
            said = dotted((*here, name))
            if name not in sink_traits(job.sink_kind).adds:
                what = f"{said} is not supported for a sink of kind {job.sink_kind}"
                raise reading.error((*here, name), what, "remove the key, or use a sink of kind postgres")
        if "soft_delete" not in given:
            continue
        said = dotted((*here, "soft_delete"))
        if block.get("constant"):
            what = f"{said} cannot be combined with constant"
            raise reading.error((*here, "soft_delete"), what, "remove one of them")
        contradicts = {
            "ignore_delete": options.ignore_delete,
            "ignore_null_when_update": options.ignore_null_when_update,
            "conflict_strategy": options.conflict_strategy != "update",
            "write_mode": options.updates_only or options.write_mode == "copy_merge",
        }
        for name, found in contradicts.items():
            if found:
                what = f"{said} cannot be combined with this {dotted((*path, 'sink_options', name))}"
                raise reading.error((*path, "sink_options", name), what, "remove that option")
        if table_at(reading, path).get("views"):
            what = f"{said} cannot be combined with views: a view would show deleted rows"
            raise reading.error((*here, "soft_delete"), what, "remove one of them")


def with_views(reading: Reading, path: Path, raw: Table, job: JobSpec) -> JobSpec:
    """Return the job with its views, whose SELECTs are parsed."""
    here: Path = (*path, "views")
    rounds = read_options(reading, path, raw, "rounds", keys.ROUNDS, RoundOptions)
    views = raw.get("views")
    if not views:
        return replace(job, rounds=rounds)
    if not isinstance(views, list):
        raise reading.error(here, f"{dotted(here)} must be a list of tables", f"write [[{dotted(here)}]]")
    if instead := sink_traits(job.sink_kind).no_views:
        what = f"[[{dotted(here)}]] needs another sink: a sink of kind {job.sink_kind} cannot maintain views"
        raise reading.error(here, what, instead + _in_its_own_sql(job.sink_kind, views))
    if not job.binlog.binlog:
        what = f"[[{dotted(here)}]] has no effect with binlog = false: a view follows changes"
        raise reading.error(here, what, f"set binlog = true in [{dotted(path)}.binlog]")
    found = []
    for number, one in enumerate(views):
        given = read_section(reading, (*here, number), one, keys.VIEW)
        lists = {name: given.pop(name) or () for name in ("key", "lookup")}
        found.append(ViewSpec(given["into"], given["sql"], lists["key"], lists["lookup"], given["method"]))
    _refuse_views(reading, here, found, job)
    return replace(job, views=tuple(found), rounds=rounds)


def _in_its_own_sql(kind: str, views: Sequence[object]) -> str:
    """Return the statements that create the views in a sink that maintains them itself; "" for another sink."""
    given = [one for one in views if isinstance(one, Mapping) and isinstance(one.get("sql"), str)]
    if kind != "doris" or not given:
        return ""
    from slotkeeper.core.views.doris import materialized  # the parser's import takes half a second

    return ": " + "; ".join(filter(None, (materialized(str(one.get("into")), str(one["sql"])) for one in given)))


def _refuse_views(reading: Reading, here: Path, found: Sequence[ViewSpec], job: JobSpec) -> None:
    from slotkeeper.core.views.parse import parse_all  # the parser's import takes half a second
    from slotkeeper.core.views.plan import ViewRefused

    try:
        parse_all(found, [channel.target for channel in job.channels])
    except ViewRefused as error:
        number = next((n for n, one in enumerate(found) if one.target == error.target), 0)
        raise reading.error((*here, number, "sql"), error.message, error.hint) from None
