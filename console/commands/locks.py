"""`slotkeeper locks [JOB]`: who waits for locks at the sinks, and at the sources for slots and sessions of jobs.

The servers themselves are asked, each for at most a few seconds; nothing is locked, and no session is ended.
"""

from __future__ import annotations

from contextlib import closing

import typer

from slotkeeper.console.cli import context, diagnostics, output, select
from slotkeeper.console.cli.select import OneJob, OneJson
from slotkeeper.console.views.locks import NOBODY, NOBODY_AT_SOURCE, shown, source_values, values
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain import source_waits
from slotkeeper.core.domain.locks import locked
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.services import looking
from slotkeeper.core.services.looking import LocksSeen, ServerLocks

app = typer.Typer(add_completion=False, help="Which sessions wait at the sinks and the sources, and for whom.")


@app.command()
def locks(ctx: typer.Context, job: OneJob = "", as_json: OneJson = False) -> None:
    """Which sessions of jobs wait for a lock at the sinks, and which wait for jobs at the sources. Only looks.

    0: every server answered; 5: one did not.
    """
    loaded = select.job_of(ctx, job)[0] if job else context.of(ctx).load()
    if not job:
        select.tell_refused(loaded)
    now = SystemClock().utc().timestamp()
    with closing(ServerLocks(loaded, job)) as asking:
        found = asking.ask(now, looking.SECONDS)
    if as_json:
        errors = [diagnostics.with_hint(one.error) if one.error else one.untold or None for one in found]
        output.as_json(
            {
                "sinks": [
                    {"sink": s.name, "place": s.place, "error": e, "waits": [values(wait, now) for wait in s.waits]}
                    for s, e in zip(found, errors, strict=True)
                    if not s.is_source
                ],
                "sources": [
                    {
                        "source": s.name,
                        "place": s.place,
                        "error": e,
                        "hidden": s.hidden or None,
                        "waits": [source_values(wait, now) for wait in s.source_waits],
                    }
                    for s, e in zip(found, errors, strict=True)
                    if s.is_source
                ],
            }
        )
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
        output.line(f"{one.server}: not known", ascii_only)
        return
    if one.is_source:
        _print_source(one, now, ascii_only)
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


def _print_source(one: LocksSeen, now: float, ascii_only: bool) -> None:
    """A login that is not shown all sessions cannot tell that no session waits."""
    if not one.source_waits:
        output.line(f"{one.server}: {one.untold or one.hidden or NOBODY_AT_SOURCE}", ascii_only)
        return
    output.line(f"{one.server}:{f' {one.hidden}' if one.hidden else ''}", ascii_only)
    for wait in one.source_waits:
        output.paragraph("wrong", source_waits.cause(wait, now), ascii_only)
        output.paragraph("      ", source_waits.effect(wait), ascii_only)
        output.paragraph("do   ", source_waits.to_do(wait), ascii_only)
