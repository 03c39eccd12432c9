"""`slotkeeper locks [JOB]`: which sessions of ours wait for a lock at the sinks, and who is in front of them.

The sinks themselves are asked, each for at most a few seconds; nothing is locked, and no session is ended.
"""

from __future__ import annotations

from contextlib import closing

import typer

from slotkeeper.console.cli import context, diagnostics, output, select
from slotkeeper.console.cli.select import OneJob, OneJson
from slotkeeper.console.views.locks import NOBODY, shown, values
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.locks import locked
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.services import looking
from slotkeeper.core.services.looking import LocksSeen, SinkLocks

app = typer.Typer(add_completion=False, help="Which sessions wait for a lock at the sinks, and who is in front.")


@app.command()
def locks(ctx: typer.Context, job: OneJob = "", as_json: OneJson = False) -> None:
    """Which sessions of ours wait for a lock at the sinks, since when, and who is in front. Only looks.

    0: every sink answered; 5: one did not.
    """
    loaded = select.job_of(ctx, job)[0] if job else context.of(ctx).load()
    if not job:
        select.tell_refused(loaded)
    now = SystemClock().utc().timestamp()
    with closing(SinkLocks(loaded, job)) as asking:
        found = asking.ask(now, looking.SECONDS)
    if as_json:
        errors = [diagnostics.with_hint(one.error) if one.error else one.untold or None for one in found]
        waits = [[values(wait, now) for wait in one.waits] for one in found]
        said = zip(found, errors, waits, strict=True)
        output.as_json({"sinks": [{"sink": s.sink, "place": s.place, "error": e, "waits": w} for s, e, w in said]})
    else:
        for one in found:
            _print(one, now, select.ascii_only(ctx))
    failed = [(one, one.error) for one in found if one.error is not None]
    for _, error in failed:
        diagnostics.warn(diagnostics.with_hint(error))
    if failed:
        raise typer.Exit(int(diagnostics.EXIT_CODES[failed[0][1].kind]))


def _print(one: LocksSeen, now: float, ascii_only: bool) -> None:
    if one.error is not None:
        output.line(f"sink {one.place}: not known", ascii_only)
        return
    if not one.waits:
        output.line(f"sink {one.place}: {one.untold or NOBODY}", ascii_only)
        return
    output.line(f"sink {one.place}:", ascii_only)
    heads = ["waiting", "waits for", "for", "blocker", "user", "it is"]
    rows: list[list[object]] = []
    for wait in one.waits:
        root, lasts = wait.root, in_words(max(0.0, now - wait.since))
        blocker: list[object] = [None, None, None]
        if root is not None:
            blocker = [root.pid, shown(root.user), "prepared" if root.pid is None else shown(root.state)]
        rows.append([wait.session, wait.thing, lasts, *blocker])
    output.table(heads, rows, ascii_only)
    for each in locked(one.waits, now):
        output.paragraph("wrong", each.cause, ascii_only)
        output.paragraph("do   ", each.do, ascii_only)
