"""Resolve the patterns of a job: which tables of the source become channels, with the rules for names of both sides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from slotkeeper.core.config import values
from slotkeeper.core.config.values import BadValue
from slotkeeper.core.domain.inventory import Inventory, Skipped, TableListed, TablesFound, target_of, wants
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec, StartKind
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.state import files


@dataclass(frozen=True, slots=True)
class Resolved:
    """The channels of a job, first those of the configuration; `unmatched`: the patterns that match no table."""

    channels: tuple[ChannelSpec, ...]
    skipped: tuple[Skipped, ...] = ()
    unmatched: tuple[str, ...] = ()


def resolve(
    job: JobSpec,
    listed: Iterable[TableListed],
    known: Collection[str] = (),
    first: Collection[str] | None = None,
    reserved: Mapping[str, str] = MappingProxyType({}),
) -> Resolved:
    """Return the channels for the tables that a source lists; `job` has the channels of the configuration only.

    A table with a channel of its own in the configuration belongs to that channel. Of two tables with one target, the
    one that is `known` (mirrored already) has the target, then the first by name; the other is skipped. `first`: the
    tables of the job's first list; None if this is the first. `reserved`: targets of tables that are not listed now,
    with those tables.
    """
    found, skipped, hit = list(job.channels), list[Skipped](), set[str]()
    mine = {one.source_table for one in found}
    writers = {**reserved, **{one.target: one.source_table for one in found}}
    for one in sorted(listed, key=lambda one: (one.table not in known, one.table)):
        blocks = [pattern for pattern in job.patterns if wants(pattern, one.schema, one.name)]
        hit |= {pattern.source for pattern in blocks}
        if not blocks or one.table in mine:
            continue
        target = target_of(blocks[0], one.schema, one.name)
        # a start explains what is wrong with a table that was mirrored before
        unfit = "" if one.table in known else one.unfit
        reason, conflict = unfit or _name_objection(one.table), False
        if not reason and len(blocks) > 1:
            reason, conflict = f"matches {blocks[0].source} and {blocks[1].source}", True
        reason = reason or _target_objection(job, one.table, target)
        if not reason and target in writers:
            reason, conflict = f"its target {target} is also that of {writers[target]}", True
        if reason:
            skipped.append(Skipped(one.table, reason, conflict))
            continue
        writers[target] = one.table
        start = "" if first is None or one.table in first else StartKind.INITIAL.value
        found.append(replace(blocks[0].channel, source_table=one.table, target=target, start=start))
    unmatched = tuple(one.source for one in job.patterns if one.source not in hit)
    return Resolved(tuple(found), tuple(skipped), unmatched)


def with_known(jobs: Mapping[str, JobSpec], state_dir: Path) -> dict[str, JobSpec]:
    """Return the jobs, each pattern resolved to the tables that the job's driver has last found, without a query."""
    found = dict(jobs)
    for name, job in jobs.items():
        if job.patterns:
            stored = files.known_tables(state_dir, name)
            listed = [_listed(table) for table in stored.tables]
            found[name] = replace(job, channels=resolve(job, listed, stored.tables, stored.first).channels)
    return found


def configured(job: JobSpec) -> JobSpec:
    """Return a resolved job with the channels of its configuration only."""

    def made(channel: ChannelSpec) -> bool:
        schema, _, name = channel.source_table.partition(".")
        return any(
            wants(block, schema, name)
            and replace(channel, source_table="", target="", start="") == block.channel
            and channel.target == target_of(block, schema, name)
            for block in job.patterns
        )

    return replace(job, channels=tuple(one for one in job.channels if not made(one)))


def take_in(job: JobSpec, listed: Iterable[TableListed], before: Inventory | None) -> tuple[TablesFound, Inventory]:
    """Return the job with the tables that the source lists, and the data to store; `before` is None at a first start.

    At a first start, raises ConfigError for a pattern that matches no table, and for an ambiguous configuration. Later,
    such a table is skipped, because a newly created table must not end a job. A table that is missing from a list keeps
    its target, because the login may only have lost the privilege to see it.
    """
    every = list(listed)
    mine = set() if before is None else {*before.tables, *before.gone}
    lost = [_listed(table) for table in sorted(mine - {one.table for one in every})]
    gone = resolve(replace(job, channels=()), lost).channels
    reserved = {one.target: one.source_table for one in gone}
    found = resolve(job, every, mine, None if before is None else before.first, reserved)
    if before is None:
        _refuse_first(job, found)
    of_patterns = tuple(one.source_table for one in found.channels[len(job.channels) :])
    first = of_patterns if before is None else before.first
    kept = Inventory(of_patterns, first, tuple(one.source_table for one in gone), found.skipped)
    return TablesFound(found.channels, gone, found.skipped), kept


def _refuse_first(job: JobSpec, found: Resolved) -> None:
    for pattern in found.unmatched:
        what = f"jobs.{job.name}: no table of source {job.source.name} matches {pattern}"
        raise ConfigError(what, "check the pattern, and that this login can see the tables: `slotkeeper doctor`")
    for one in found.skipped:
        if one.conflict:
            raise ConfigError(
                f"jobs.{job.name}: {one.table}: {one.reason}", "exclude the table from one block (except)"
            )
    if not found.channels:
        first = found.skipped[0]
        what = f"jobs.{job.name}: no matching table can be mirrored: {first.table}: {first.reason}"
        raise ConfigError(what, "`slotkeeper doctor` lists the reasons")


def _listed(table: str) -> TableListed:
    schema, _, name = table.partition(".")
    return TableListed(schema, name)


def _name_objection(table: str) -> str:
    try:
        values.table(table)
    except BadValue as error:
        return f"its name {error}"
    return ""


def _target_objection(job: JobSpec, table: str, target: str) -> str:
    try:
        values.target(target)
    except BadValue as error:
        return f"its target {error}"
    same = (job.source.host.lower(), job.source.port, job.source.database) == (
        job.sink.host.lower(),
        job.sink.port,
        job.sink.database,
    )
    return "it would be copied onto itself" if same and table == target else ""
