"""Continues a table after a change to its columns, without a copy, if the source's log contains the statement.

The lane has applied everything before the statement. In one transaction of the store, its row gets the position after
the statement, together with the columns after it and their fingerprint. If the target has to be altered, a sink that is
its own store does so in the same transaction; any other sink is altered before it, by statements that can be repeated.
After a crash, the row is therefore either before the statement, which the next start then finds again, or after it (ADR
92).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from slotkeeper.core.domain.consent import Consent
from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.logged_change import LoggedChange, Verdict, clash, judge
from slotkeeper.core.domain.progress import STREAMING, ProgressRow
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import APPLY
from slotkeeper.core.domain.text import typed
from slotkeeper.core.engine.driver.context import Interrupted, JobContext, about, run_beside
from slotkeeper.core.errors import Busy, Refused, SlotkeeperError, Trouble
from slotkeeper.core.ports.driver import Followed

ACTION = "column change"


def know_columns(part: JobContext) -> None:
    """Open the channel's source with the columns that the table had at its lanes' position, if they are stored.

    An incomplete copy reads the present columns, which must therefore be the columns with which it started.
    """
    if part.sessions.admin("start").shapes is None:
        return
    store = part.sessions.store()
    rows = store.rows()
    known = None
    if rows and all(row.state in STREAMING and row.position is not None for row in rows):
        known = store.noted_columns(rows[0].fingerprint)
    part.sessions.know_columns(known if known and all(one.native for one in known) else ())


def with_columns(ctx: JobContext, identities: Mapping[str, TableIdentity]) -> JobContext:
    """Return the context of tasks that read each table with its columns at the lanes' position."""
    channels = []
    for one in ctx.job.channels:
        found = identities.get(one.source_table)
        channels.append(one if found is None else replace(one, known=found.known))
    return replace(ctx, job=replace(ctx.job, channels=tuple(channels)))


def follow_change(ctx: JobContext, error: SlotkeeperError) -> bool:
    """Continue the tables that stopped at a statement; return whether any did. Add to the error why others cannot."""
    found = False
    for part in ctx.parts:
        with about(ctx, part):
            found = _follow(part, error) or found
    return found


def _follow(part: JobContext, error: SlotkeeperError) -> bool:
    # a target of another server can have the columns behind the statement already, after an interrupted attempt
    refused = isinstance(error, Refused) and error.where == "sink" and part.job.in_two_parts
    if not (isinstance(error, Trouble) or refused) or part.sessions.admin("start").shapes is None:
        return False
    rows = part.sessions.store().rows()
    if len(rows) != 1:
        return False
    row, channel = rows[0], part.job.channel
    if row.position is None or row.state not in STREAMING or row.decided is not None:
        return False
    know_columns(part)
    identity = part.sessions.source("start").identify()
    shapes = part.sessions.admin("start").shapes
    if shapes is None or identity.text != row.fingerprint or not identity.known:
        return False
    try:
        change = shapes.change(row.position)
    except (Trouble, Refused):
        return False
    if change is None:
        return False
    mapped = channel.read
    verdict = judge(change, channel.on_schema_change, mapped, shapes.needed(), identity.key)
    if verdict.stop:
        _explain(error, verdict.stop)
        return False
    try:
        part.sessions.know_columns(verdict.known)
        after = part.sessions.source("start").identify()
        shape, affected = Reshape(), 0
        if verdict.touches or verdict.losses:
            target = part.sessions.target()
            there = {one.number for one in after.columns}
            before = (one for one in identity.columns if one.number in there or one.name in verdict.dropped)
            shape = target.reshape(after, tuple(before), dict(verdict.defaults))
            began = part.job.in_two_parts and part.sessions.store().noted_columns(after.text) is not None
            stop = clash(verdict, shape, part.job.in_two_parts, began) or _refused(part, shape)
            if verdict.losses and not stop:
                names = dict(channel.columns)
                losses = tuple(replace(one, column=names.get(one.column, one.column)) for one in verdict.losses)
                verdict = replace(verdict, losses=losses)
                affected, updates = target.affected(losses)
                shape = replace(shape, statements=(*updates, *shape.statements))
                stop = _unconfirmed(part, change, verdict, shape, affected)
            if stop:
                part.sessions.know_columns(())
                _explain(error, stop)
                return False
        _continue(part, row, change, verdict, after, shape, affected)
    except BaseException:
        part.sessions.know_columns(())
        raise
    return True


def _explain(error: SlotkeeperError, why: str) -> None:
    error.message = f"{error.message}; not followed: {why}"


def _unconfirmed(part: JobContext, change: LoggedChange, verdict: Verdict, shape: Reshape, rows: int) -> str:
    """Return why values of the target are not removed; "" if a user has confirmed exactly this number of rows.

    Without a confirmation, the number is stored as a request. A sink in two parts can have lost the values in an
    attempt that a crash interrupted: then no row is affected any more.
    """
    job, consents, table = part.job, part.consents, part.job.channel.source_table
    if job.channel.constant is not None:
        return "other tables have rows in the target, so none of its values are removed"
    if consents is None:
        return "no user can confirm here that values of the target are removed"
    plan = f"shape-{hashlib.sha256(f'{job.name}|{table}|{change.position.text}'.encode()).hexdigest()[:16]}"
    known = next((one for one in consents.known() if one.plan == plan), None)
    given = known is not None and consents.given(plan)
    if known is not None and given and (known.rows == rows or (job.in_two_parts and rows == 0)):
        return ""
    what = f"{'; '.join(verdict.said)}; values of {rows} rows of {job.channel.target} would be removed"
    consents.keep(Consent(plan, job.name, table, job.slot, what, alone=False, rows=rows))
    moved = f" ({known.rows} were confirmed)" if known is not None and given else ""
    name, one = typed(job.name), f" --table {typed(table)}" if not part.alone else ""
    command = f"`slotkeeper jobs start {name}{one} --confirm {name} --confirm-rows {rows} --reason TEXT`"
    statements = "".join(f" by `{each}`" for each in shape.statements[:3])
    return f"{what}{statements}{moved}; confirm: {command}"


def _refused(part: JobContext, shape: Reshape) -> str:
    """Return why the target is not altered; "" if it need not be, or can be."""
    if not shape.typed:
        return ""
    statements = "; ".join(f"`{one}`" for one in shape.typed)
    if part.job.channel.on_schema_change != APPLY or part.audit is None:
        return f"the target needs {statements}"
    if not shape.by_itself:
        return f"the target cannot be altered: {'; '.join(one.text for one in (*shape.before, *shape.after))}"
    return f"the target would lose values with {statements}" if shape.empties else ""


def _continue(
    part: JobContext,
    row: ProgressRow,
    change: LoggedChange,
    verdict: Verdict,
    after: TableIdentity,
    shape: Reshape,
    affected: int,
) -> None:
    """Alter the target if necessary, and move the row after the statement, between two audit lines."""
    store, target, job = part.sessions.store(), part.sessions.target(), part.job
    said = f"{job.channel.source_table}: {'; '.join(verdict.said) or 'no mirrored column changed'}"
    places = {row.key.shard: f"{row.position.text if row.position else 'none'} -> {change.position.text}"}
    done = {f"{job.channel.target} {n}": each for n, each in enumerate(shape.statements, 1)}
    target.alterable(shape)  # before any write, because retries follow every few seconds
    line = None
    if part.audit is not None:
        what = f"{job.source.name} {job.channel.source_table} slot {job.slot}"
        line = part.audit.intent(ACTION, what, f"{change.text!r} at {change.place}; {said}", done | places)
    part.probe("after_follow_intent")
    try:
        epoch = store.raise_epoch([job.channel.source_table])
        part.probe("after_follow_epoch")
        if not store.leased():
            raise Busy("the lease's session was lost", where="sink")
        if job.in_two_parts and shape.statements:
            store.note_columns(after.text, after.known or after.columns)
        moved = replace(row, position=change.position, fingerprint=after.text)
        followed = Followed(row, moved, epoch, after, shape.statements, verdict.losses, affected)
        run_beside(part, lambda: target.follow(store, followed, part.probe), store)
    except (SlotkeeperError, Interrupted) as error:
        if part.audit is not None and line is not None:
            with suppress(SlotkeeperError):
                part.audit.outcome(line, f"failed: {error}", {})
        raise
    part.probe("after_follow")
    if verdict.losses and part.consents is not None:
        part.consents.drop(job.channel.source_table)
    if part.audit is not None and line is not None:
        part.audit.outcome(line, "done: the table continues without a copy", done | places)
    altered = f"; target altered: {'; '.join(shape.statements)}" if shape.statements else ""
    part.narrator.event(JobEvent.RESHAPED, f"{said}{altered}; the table continues without a copy")
