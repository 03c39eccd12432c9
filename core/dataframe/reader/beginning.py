"""Where a new query begins, beside the starts that a job has: where its slot stands, or at the oldest change."""

from __future__ import annotations

from dataclasses import replace

from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.slot import SlotStatus, TableIdentity
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.engine.driver.lease import take_lease
from slotkeeper.core.engine.driver.start import LEASE_WAIT, channel_hash
from slotkeeper.core.engine.driver.start_point import retained_from
from slotkeeper.core.errors import Refused


def at(ctx: JobContext, start: str) -> JobContext:
    """The context with a start that a job has; rows are made by this for one that goes on where its slot stands."""
    if start == "slot":
        _at_slot(ctx)
        return ctx
    return replace(ctx, job=replace(ctx.job, start=_earliest(ctx) if start == "earliest" else start))


def _earliest(ctx: JobContext) -> str:
    """The oldest place of each DN from which on every change is there; now, where nothing was ever recorded."""
    starter = ctx.sessions.starter()
    registered, records = retained_from(starter), starter.records()
    places = {}
    for shard in starter.nodes():
        oldest = records[shard.name].point if shard.name in records else None
        known = [one for one in (registered.get(shard.name), oldest) if one is not None]
        if known:
            places[shard.name] = min(known).place.text
    if not places:
        return "latest"
    return ", ".join(f"{name}={text}" for name, text in sorted(places.items()))


def _at_slot(ctx: JobContext) -> None:
    """Rows for a slot that is there and belongs to nobody: what it has registered is where the query begins."""
    source, job = ctx.sessions.source("start"), ctx.job
    take_lease(ctx, ctx, ctx.clock.monotonic() + LEASE_WAIT)
    store = ctx.sessions.store()
    if store.rows():
        return
    source.admit()
    identity = source.identify()
    points = ctx.sessions.starter().points()
    if not any(one.slot == job.slot for one in points or ()):
        what = f"slot {job.slot} of {job.channel.source_table} is not there, or this server lists no slots"
        raise Refused(what, '.option("start", "initial") or "latest" makes it', where="source")
    statuses = ctx.sessions.admin("start").read_status(None)
    store.insert([_row(ctx, identity, status) for status in statuses])


def _row(ctx: JobContext, identity: TableIdentity, status: SlotStatus) -> ProgressRow:
    there, job = status.kept, ctx.job
    oldest = there.oldest
    if there.missing or oldest is None or not there.settled:
        what = f"{status.shard.name}: slot {job.slot} holds {there.shown}, which is no place to begin"
        raise Refused(
            what, '`slotkeeper slots register` moves it to now; or .option("start", "initial")', where="source"
        )
    return ProgressRow(
        key=job.lane_key(status.shard.name),
        node_id=status.shard.node_id,
        target=f"{job.sink.database}.{job.channel.target}",
        position=oldest.from_here,
        epoch=0,
        changes=0,
        state=LaneState.RUNNING,
        noted_start=None,
        noted_end=None,
        channel=channel_hash(ctx, identity),
        fingerprint=identity.text,
        registered=there,
    )
