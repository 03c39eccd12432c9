"""A channel whose source table has other columns: what has to be typed, or its target altered and copied anew.

A changed table shows as SCHEMA CHANGED, or as SLOT LOST where the source clears its slots (DWS: ADD and DROP COLUMN,
SET TYPE). Either way the old place in the binlog is of no use, so both ways out end with a new copy.

The steps of the second, each of which may be the last before a crash (ADR 33): the audit's intent, the epoch, the
target's statements in one transaction, the progress rows back to creating, the audit's outcome. Until the rows are back
the next start meets the same trouble and does the steps again; from then on it copies. Next door: `core.domain.shape`
and the sink say what the target needs, `job.py` asks here, `start.py` goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.domain.progress import LaneState, ProgressRow
from core.domain.shape import RESNAPSHOT, Reshape
from core.domain.text import typed
from core.engine.driver.context import JobContext
from core.errors import ErrorKind, SlotkeeperError, Trouble, TroubleName

NAMES = (TroubleName.SCHEMA_CHANGED, TroubleName.SLOT_LOST)
ACTION = "schema change"
PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
WAIT = 5.0
"""Seconds before the next start where a server or a lock was in the way: it meets the trouble again."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A channel whose source has other columns than its rows were made for."""

    part: JobContext
    rows: Sequence[ProgressRow]
    shape: Reshape

    @property
    def goes_on(self) -> bool:
        """Whether the job may, and can, bring its target in line by itself."""
        return (
            self.part.job.channel.on_schema_change == RESNAPSHOT
            and self.part.audit is not None
            and self.shape.by_itself
        )


def overcome(ctx: JobContext, error: Trouble) -> bool:
    """Whether the job is to be started again after this trouble; where not, its hint says what has to be typed."""
    if error.name not in NAMES:
        return False
    found = _all_changed(ctx, error)
    if not found or not all(one.goes_on for one in found):
        error.hint = "; ".join([*(manual(one) for one in found), *([] if found else [error.hint])])
        return False
    try:
        for one in found:
            resnapshot(one, str(error))
    except SlotkeeperError as failed:
        if failed.kind not in PASSING:
            failed.hint = failed.hint or "; ".join(manual(one) for one in found)
            raise
        ctx.narrator.retrying(f"altering the target, next in {WAIT:.0f} s: {failed.message}")
        ctx.pause(WAIT)
    return True


def _all_changed(ctx: JobContext, error: Trouble) -> list[Changed]:
    """The channels that the trouble may be of; none where the servers do not tell, as then the trouble says enough."""
    try:
        return [one for part in ctx.parts if (one := changed(part)) is not None]
    except SlotkeeperError as failed:
        if failed.kind is ErrorKind.OPERATOR:  # columns = { ... } or where name a column that is gone
            error.hint = f"{failed.message} ({failed.hint}); then {_again(ctx.parts[0])}"
        return []


def changed(part: JobContext) -> Changed | None:
    """The channel with what its target needs; None where its table is the same, or another one of the same name."""
    store = part.sessions.store()
    rows = store.rows()
    if not rows or any(row.state is LaneState.CREATING for row in rows):
        return None
    identity = part.sessions.source("start").identify()
    known = {row.fingerprint for row in rows}
    server_and_table = identity.text.rpartition(":")[0]
    if known == {identity.text} or {one.rpartition(":")[0] for one in known} != {server_and_table}:
        return None
    old = store.noted_columns(rows[0].fingerprint)
    return Changed(part, rows, part.sessions.target().reshape(identity, old))


def manual(one: Changed) -> str:
    """What a person types, word for word: the statements at the sink, then the reset and the start."""
    shape, job = one.shape, one.part.job
    said = "; ".join(change.text for change in shape.found)
    cures = "; ".join(shape.typed) or "nothing: the target holds the new columns"
    what = f"{job.channel.source_table}: {said}; " if said else ""
    return f"{what}type at the sink: {cures}; then {_again(one.part)}"


def _again(part: JobContext) -> str:
    job = part.job
    first = "" if job.on_existing != "refuse" else 'set on_existing = "replace", then '
    table = job.channel.source_table
    return f"{first}slotkeeper slots reset {typed(table, job.slot)} --to snapshot, and slotkeeper jobs start {job.name}"


def resnapshot(one: Changed, reason: str) -> None:
    """Alter the target and put the rows back, so that the next start copies anew; both lines of it are in the audit."""
    part, job = one.part, one.part.job
    assert part.audit is not None, "goes_on comes first"
    what = f"{job.source.name} {job.channel.source_table} slot {job.slot}"
    asked = {f"{job.channel.target} {n}": each for n, each in enumerate(one.shape.statements, 1)}
    line = part.audit.intent(ACTION, what, reason, asked | {row.key.shard: _place(row) for row in one.rows})
    part.probe("after_reshape_intent")
    store = part.sessions.store()
    try:
        epoch = store.raise_epoch([job.channel.source_table])
        part.probe("after_reshape_epoch")
        done = part.sessions.target().alter(one.shape)
        part.probe("after_reshape_alter")
        store.empty(epoch)
    except SlotkeeperError as error:
        part.audit.outcome(line, f"failed: {error}", {})
        raise
    part.probe("after_reshape_rows")
    said = {f"{job.channel.target} {n}": each for n, each in enumerate(done, 1)}
    part.audit.outcome(line, "done: altered, and is copied anew", said | {row.key.shard: "none" for row in one.rows})
    part.probe("after_reshape_outcome")


def _place(row: ProgressRow) -> str:
    return f"{row.position.text if row.position else 'none'} -> none"
