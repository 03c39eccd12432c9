"""Handles changed columns of a source table: prints the commands, or alters the target and copies the table again.

The change is detected as SCHEMA CHANGED, or as SLOT LOST if the source clears its slots (DWS: ADD and DROP COLUMN, SET
TYPE). In both cases the old position in the binlog is useless, so both fixes end with a new copy. If a copy is already
due, for example after a reset, the check of the target raises the error.

The driver can crash after any step of the automatic fix (ADR 33). The steps are: write the audit's intent, raise the
epoch, run the target's statements in one transaction (which a stop cancels), reset the progress rows to creating, and
write the audit's outcome. Until the rows are reset, the next start finds the same problem and repeats the steps; after
that, it copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from slotkeeper.core.domain.progress import LaneState, ProgressRow
from slotkeeper.core.domain.remedy import THEN, new_snapshot, start
from slotkeeper.core.domain.row_counts import CopyRows
from slotkeeper.core.domain.shape import Reshape
from slotkeeper.core.domain.slot import TableIdentity
from slotkeeper.core.domain.spec import RESNAPSHOT
from slotkeeper.core.domain.start import SAFE, SNAPSHOT
from slotkeeper.core.domain.text import typed
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.engine.driver.context import Interrupted, JobContext, about, run_beside
from slotkeeper.core.engine.driver.follow import follow_change
from slotkeeper.core.errors import Busy, ErrorKind, Refused, RowRefused, SlotkeeperError, Trouble, TroubleName
from slotkeeper.core.sqltext import dotted, literal

NAMES = (TroubleName.SCHEMA_CHANGED, TroubleName.SLOT_LOST)
REFUSALS = (Refused, RowRefused)
ACTION = "schema change"
PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
WAIT = 5.0
"""Seconds before the next start after a server or lock error; that start detects the change again."""


@dataclass(frozen=True, slots=True)
class Changed:
    """A channel whose source columns differ from those in its progress rows.

    `due`: a copy is already due; `ours`: this job holds the channel's lease, and no reset of the slot is unfinished.
    """

    part: JobContext
    rows: Sequence[ProgressRow]
    identity: TableIdentity
    shape: Reshape
    due: bool
    ours: bool

    @property
    def may_alter(self) -> bool:
        """Whether the job can and is allowed to alter its target automatically."""
        may = self.part.job.channel.on_schema_change == RESNAPSHOT and self.part.audit is not None
        return may and self.ours and self.shape.by_itself and (self.may_empty or not self.shape.empties)

    @property
    def may_empty(self) -> bool:
        """Whether a copy replaces all rows of the target: rows retained by a merge would lose a column's values."""
        return self.way == "replace"

    @property
    def way(self) -> str:
        """The copy's mode for existing rows of the target, from a reset or otherwise from the job's configuration."""
        return self.part.sessions.store().ordered().way or self.part.job.on_existing


def is_resolvable(ctx: JobContext, error: SlotkeeperError) -> bool:
    """Whether `resolve_change` handles this error: the table's columns have changed or its target must be altered.

    May add a hint to the error.
    """
    return _may_tell_of_it(error) and bool(_all_changed(ctx, error))


def resolve_change(ctx: JobContext, error: SlotkeeperError) -> bool:
    """Resolve an error if possible; return whether to start again. If not, the error's hint contains the commands."""
    if not _may_tell_of_it(error):
        return False
    try:
        if follow_change(ctx, error):
            return True
        found = _all_changed(ctx, error)
    except Interrupted:
        return True
    except SlotkeeperError as failed:
        if failed.kind not in PASSING:
            raise
        ctx.narrator.retrying(f"altering the target, next attempt in {WAIT:.0f} s: {failed.message}", failed)
        ctx.pause(WAIT)
        return True
    if not found:
        return False
    if not all(one.may_alter for one in found):
        error.hint = _all_commands(found)
        return False
    try:
        for one in found:
            with about(one.part, one.part):
                emptied = _likely_emptied(one)
                if emptied:
                    error.hint = f"{emptied}; {_all_commands(found)}"
                    return False
                resnapshot(one, str(error))
    except Interrupted:
        return True
    except SlotkeeperError as failed:
        if failed.kind not in PASSING:
            failed.hint = "; ".join(one for one in (failed.hint, _all_commands(found)) if one)
            raise
        ctx.narrator.retrying(f"altering the target, next attempt in {WAIT:.0f} s: {failed.message}", failed)
        ctx.pause(WAIT)
    return True


def _likely_emptied(one: Changed) -> str:
    """Return an explanation if a copy would replace the target's rows and the source was likely emptied; else "".

    No user is present to confirm the number of rows that the target would lose.
    """
    if one.way != "replace":
        return ""
    sessions = one.part.sessions
    rows = CopyRows(sessions.starter().inspector.count_rows(), sessions.target().count_rows(one.identity), one.way)
    return f"{rows.sentence}; TRUNCATE at the source is likely, so nothing was altered" if rows.truncated else ""


def _may_tell_of_it(error: SlotkeeperError) -> bool:
    """Whether changed columns can be the cause of a problem in `NAMES`, or of an error in the sink, e.g. in a copy."""
    if isinstance(error, Trouble):
        return error.name in NAMES
    return isinstance(error, REFUSALS) and error.where == "sink"


def _all_changed(ctx: JobContext, error: SlotkeeperError) -> list[Changed]:
    """Return the changed channels that may have caused the error; empty if none is found or a server call fails."""
    try:
        found = [one for part in ctx.parts if (one := find_change(part) or find_due_change(part)) is not None]
        # if a held lease or an unfinished reset prevents the start, the hint of that error contains the action
        return [one for one in found if one.ours or isinstance(error, Trouble)]
    except SlotkeeperError as failed:
        # `columns = { ... }` or `where` names a dropped column
        if failed.kind is ErrorKind.OPERATOR and isinstance(error, Trouble):
            error.hint = f"{failed.message} ({failed.hint}); then {copy_commands(ctx.parts[0])}"
        return []


def find_change(part: JobContext) -> Changed | None:
    """Return a copied channel and its target's required changes; None if its table is unchanged or was recreated."""
    rows = part.sessions.store().rows()
    if not rows or any(row.state is LaneState.CREATING for row in rows):
        return None
    _read_present(part)
    identity = part.sessions.source("start").identify()
    return _changed(part, rows, identity, due=False) if _other_columns(rows, identity) else None


def find_due_change(part: JobContext) -> Changed | None:
    """Return a channel with rows cleared by a reset, and its target's required changes; None without changes."""
    rows = part.sessions.store().rows()
    if not rows or not _emptied(rows):
        return None
    _read_present(part)
    identity = part.sessions.source("start").identify()
    found = _changed(part, rows, identity, due=True)
    return found if found.shape.typed or _other_columns(rows, identity) else None


def _read_present(part: JobContext) -> None:
    """Read the table's present columns: a copy reads them, regardless of the lane's position."""
    if part.sessions.admin("start").shapes is not None:
        part.sessions.know_columns(())


def refuse_outdated(part: JobContext, rows: Sequence[ProgressRow], identity: TableIdentity) -> None:
    """Raise SCHEMA CHANGED if a copy is due and the table has changed since the target last matched it.

    Raised only if the job is allowed to alter the target, because the copy would succeed even with a dropped column.
    """
    may = part.job.channel.on_schema_change == RESNAPSHOT and part.audit is not None
    if may and rows and _emptied(rows) and _other_columns(rows, identity):
        raise trouble(TroubleName.SCHEMA_CHANGED, "the table's columns changed before its new copy")


def _emptied(rows: Sequence[ProgressRow]) -> bool:
    return all(row.state is LaneState.CREATING and row.registered is not None for row in rows)


def _other_columns(rows: Sequence[ProgressRow], identity: TableIdentity) -> bool:
    known = {row.fingerprint for row in rows}
    return known != {identity.text} and {_table(one) for one in known} == {_table(identity.text)}


def _changed(part: JobContext, rows: Sequence[ProgressRow], identity: TableIdentity, due: bool) -> Changed:
    store = part.sessions.store()
    shape = part.sessions.target().reshape(identity, store.noted_columns(rows[0].fingerprint))
    return Changed(part, rows, identity, shape, due, store.leased() and not store.open_reset())


def _table(fingerprint: str) -> str:
    return fingerprint.rpartition(":")[0]


def _all_commands(found: Sequence[Changed]) -> str:
    return "; ".join(manual_commands(one) for one in found)


def manual_commands(one: Changed) -> str:
    """Return the exact commands for a user: the statements in the sink, the reset, and the start."""
    said = "; ".join(change.text for change in one.shape.found)
    cures = (
        "; ".join(f"`{each}`" for each in one.shape.typed) or "no statement (the target already has the new columns)"
    )
    what = f"{one.part.job.channel.source_table}: {said}; " if said else ""
    return f"{what}run in the sink: {cures}{THEN}{copy_commands(one.part, one.due)}"


def copy_commands(part: JobContext, due: bool = False) -> str:
    """Return the commands that copy a channel again; only the start command if a copy is already `due`."""
    job = part.job
    if due:
        return start(job.name)
    if not part.sessions.no_reset:
        return new_snapshot(job)
    place = typed(job.channel.source_table, job.slot)
    first = f'set on_existing = "replace"{THEN}' if job.on_existing == "refuse" else ""
    drop = f"`slotkeeper slots drop {place}` prints the command that drops the slot"
    key, rows = job.lane_key(), dotted(f"{job.progress_schema}.slotkeeper_progress")
    names = {"source": key.source, "source_table": key.source_table, "slot": key.slot}
    # after this, the next start is a first start
    forget = f"DELETE FROM {rows} WHERE {' AND '.join(f'{name} = {literal(its)}' for name, its in names.items())}"
    return f"{first}{drop}{THEN}run in the sink: `{forget}`{THEN}{start(job.name)}"


def name_the_command(ctx: JobContext, error: SlotkeeperError) -> None:
    """Add the commands for a new copy to the hint of an error that requires one."""
    if not isinstance(error, Trouble) or not error.hint.endswith(SNAPSHOT) or error.hint != SAFE[error.name]:
        return
    if len(ctx.job.channels) == 1 and ctx.job.binlog.binlog:
        error.hint = f"{error.hint.removesuffix(SNAPSHOT)}{SNAPSHOT}: {copy_commands(ctx)}"


def resnapshot(one: Changed, reason: str) -> None:
    """Alter the target and reset the rows, so that the next start copies again; write both audit lines."""
    part, job = one.part, one.part.job
    assert part.audit is not None, "goes_on comes first"
    part.sessions.target().alterable(one.shape)  # before any write, because retries follow every few seconds
    what = f"{job.source.name} {job.channel.source_table} slot {job.slot}"
    places = {row.key.shard: f"{row.position.text if row.position else 'none'} -> none" for row in one.rows}
    line = part.audit.intent(ACTION, what, reason, _numbered(one, one.shape.statements) | places)
    part.probe("after_reshape_intent")
    try:
        done = _reshape_target(one)
    except (SlotkeeperError, Interrupted) as error:
        said = "the desired state changed; the next start determines how much was done"
        with suppress(SlotkeeperError):
            part.audit.outcome(line, f"failed: {said if isinstance(error, Interrupted) else error}", {})
        raise
    part.probe("after_reshape_rows")
    emptied = {row.key.shard: "none" for row in one.rows}
    part.audit.outcome(line, "done: altered; a new copy follows", _numbered(one, done) | emptied)
    part.probe("after_reshape_outcome")


def _reshape_target(one: Changed) -> Sequence[str]:
    part, store = one.part, one.part.sessions.store()
    epoch = store.raise_epoch([part.job.channel.source_table])
    part.probe("after_reshape_epoch")
    if not store.leased():
        raise Busy("the lease's session was lost", where="sink")
    done = _alter_target(one)
    part.probe("after_reshape_alter")
    store.empty(epoch, one.identity.text, one.identity.known or one.identity.columns)
    return done


def _alter_target(one: Changed) -> Sequence[str]:
    """Alter the target in a thread, and return the executed statements; a stop or pause can cancel them at any time."""
    part, store, done = one.part, one.part.sessions.store(), list[str]()
    target, may_empty = part.sessions.target(), one.may_empty

    def alter() -> None:
        done.extend(target.alter(one.shape, may_empty))

    run_beside(part, alter, store)
    return done


def _numbered(one: Changed, statements: Sequence[str]) -> dict[str, str]:
    return {f"{one.part.job.channel.target} {n}": each for n, each in enumerate(statements, 1)}
