"""Continues tables at another server that has their history: translates the positions in the progress rows (ADR 88).

A switch is a step of the start. The start has raised the epoch, so no task of an earlier run can commit a position of
the former server, and no task of this run has started. Steps: the audit's intent, one compare-and-swap of the lane's
row (position, decided range and fingerprint together), the audit's outcome. A crash between them leaves either the old
row, which the next start translates again, or the new row, which belongs to the new server.

During a copy, a switch is refused: the copy has read rows at the former server that the new one may lack.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.errors import SlotkeeperError, Trouble, TroubleName, Unreachable
from slotkeeper.core.ports.driver import StartStore
from slotkeeper.core.ports.source import NOT_YET, Failover

ACTION = "source switch"
NAMES = (
    TroubleName.SCHEMA_CHANGED,
    TroubleName.SLOT_LOST,
    TroubleName.SOURCE_OLDER,
    TroubleName.POSITIONS_DIFFER,
)
"""The problems that a status or a stream reports after a switch."""
PATIENCE = 60.0
"""Seconds for which a server that lacks transactions of the job is asked again."""
PAUSE = 1.0
"""Seconds before the start after a switch, so that an address that alternates between servers causes no busy loop."""


def may_be_switch(part: JobContext, error: SlotkeeperError) -> bool:
    """Whether a new start of the table can find that another server explains the error."""
    named = isinstance(error, Trouble) and error.name in NAMES
    return named and part.sessions.admin("start").failover is not None


def is_switch(ctx: JobContext, error: SlotkeeperError) -> bool:
    """Whether another server explains the error, so that a start can continue there or name what prevents it."""
    if ctx.switch.suspected or not isinstance(error, Trouble) or error.name not in NAMES:
        return False
    try:
        found = any(_differs(part) for part in ctx.parts)
    except SlotkeeperError:
        return False
    if found:
        ctx.switch.suspected = True
        ctx.pause(PAUSE)
    return found


def _differs(part: JobContext) -> str:
    failover, rows = part.sessions.admin("start").failover, _streaming(part.sessions.store().rows())
    return _first(failover, rows, compares=True) if failover is not None else ""


def _streaming(rows: Sequence[ProgressRow]) -> list[ProgressRow]:
    return [row for row in rows if row.position is not None and row.state is not LaneState.CREATING]


def _first(failover: Failover, rows: Sequence[ProgressRow], compares: bool) -> str:
    said = (failover.other_server(row.fingerprint, row.position, compares) for row in rows if row.position is not None)
    return next((one for one in said if one), "")


def follow(part: JobContext, epoch: int) -> str:
    """Translate the channel's rows if another server answers; return how it differs, "" if it is the same server.

    Raises Trouble that names why the channel cannot continue there, and Superseded if another run has taken over.
    """
    store, failover = part.sessions.store(), part.sessions.admin("start").failover
    rows = _streaming(store.rows())
    if failover is None or not rows:
        return ""
    what = _first(failover, rows, part.switch.suspected)
    if not what:
        return ""
    if any(row.state in (LaneState.COPYING, LaneState.CATCHING_UP) for row in rows):
        sentence = f"{what} during a copy: it may lack transactions whose rows the copy has read"
        raise trouble(TroubleName.POSITIONS_DIFFER, sentence)
    try:
        moved = [_moved(failover, part, row) for row in rows]
    except Trouble as error:
        error.message = f"{what}: {error.message}"
        if error.code == NOT_YET:
            _wait_for_replica(part, error)
        raise
    _store(part, store, epoch, what, list(zip(rows, moved, strict=True)))
    return what


def _wait_for_replica(part: JobContext, error: Trouble) -> None:
    """Raise an error that is retried for a while: a replica may still have to execute what it has received.

    Meanwhile the former server can answer again, and the job then continues there.
    """
    now, since = part.clock.monotonic(), part.switch.lacking_since
    part.switch.lacking_since = now if since is None else since
    if since is None or now - since < PATIENCE:
        raise Unreachable(f"{error.message}; waiting {PATIENCE:.0f} s for them", error.hint, where="source") from error


def _moved(failover: Failover, part: JobContext, row: ProgressRow) -> ProgressRow:
    """Return the row with its positions at the new server, its columns unchanged: a changed column is found later."""
    places = [row.position, row.decided.end] if row.decided is not None else [row.position]
    found = failover.moved(row.fingerprint, [place for place in places if place is not None])
    now = part.sessions.source("start").identify()
    here, columns = found[0], row.fingerprint.partition(":")[2]
    decided = replace(row.decided, end=found[1]) if row.decided is not None else None
    return replace(
        row,
        position=here,
        decided=decided,
        fingerprint=f"{now.server}:{columns}",
        noted_start=here if row.noted_start is not None else None,
        noted_end=here if row.noted_end is not None else None,
    )


def _store(
    part: JobContext, store: StartStore, epoch: int, what: str, pairs: Sequence[tuple[ProgressRow, ProgressRow]]
) -> None:
    job = part.job
    places = {old.key.shard: f"{_text(old.position)} -> {_text(new.position)}" for old, new in pairs}
    line = None
    if part.audit is not None:
        line = part.audit.intent(ACTION, f"{job.source.name} {job.channel.source_table} slot {job.slot}", what, places)
    part.probe("after_switch_intent")
    known = store.noted_columns(pairs[0][0].fingerprint)
    try:
        store.switch(pairs, epoch)
        if known is not None:
            store.note_columns(pairs[0][1].fingerprint, known)
    except SlotkeeperError as error:
        if part.audit is not None and line is not None:
            with suppress(SlotkeeperError):
                part.audit.outcome(line, f"failed: {error}", {})
        raise
    part.probe("after_switch")
    if part.audit is not None and line is not None:
        part.audit.outcome(
            line, "done: continues without a copy", {old.key.shard: _text(new.position) for old, new in pairs}
        )


def _text(position: Position | None) -> str:
    return position.text if position is not None else "none"


def report(ctx: JobContext, said: Sequence[str]) -> None:
    """Report the switch of a group's tables as one event."""
    switched = [one for one in said if one]
    if switched:
        tables = "table continues" if len(switched) == 1 else "tables continue"
        text = f"source {ctx.job.source.name}: {switched[0]}; {len(switched)} {tables} without a copy"
        ctx.narrator.event(JobEvent.SWITCHED, text)
    ctx.switch.suspected, ctx.switch.lacking_since = False, None


def prefer_known(ctx: JobContext, rows: Sequence[ProgressRow]) -> None:
    """Connect to the server of the rows if it is one of several and answers."""
    known = _streaming(rows)
    if ctx.job.source.hosts and known:
        ctx.sessions.prefer(known[0].fingerprint.partition(":")[0])


def at_server(ctx: JobContext, identity: TableIdentity) -> JobContext:
    """Return the context with the server from which this start's tasks read, if the kind of source supports several."""
    if ctx.parts[0].sessions.admin("start").failover is None:
        return ctx
    return replace(ctx, job=replace(ctx.job, source=replace(ctx.job.source, server=identity.server)))
