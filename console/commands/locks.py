"""`slotkeeper locks [JOB]`: waits for locks in the sinks, and for slots and sessions of jobs in the sources.

The command queries the servers directly, each for at most a few seconds, and takes no lock. `locks end PID` ends one
session that blocks a job's session.
"""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer
import typer.core

from slotkeeper.console.cli import completion, context, diagnostics, output, select
from slotkeeper.console.cli.select import OneJob, OneJson, Reason
from slotkeeper.console.commands import configured
from slotkeeper.console.views.locks import NONE_WAITS, NONE_WAITS_AT_SOURCE, end_command, shown, source_values, values
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain import source_waits
from slotkeeper.core.domain.ending import moment, moment_from
from slotkeeper.core.domain.locks import locked
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import in_words
from slotkeeper.core.errors import ConfigError
from slotkeeper.core.services import looking
from slotkeeper.core.services.looking import LocksSeen, ServerLocks


class ListsByDefault(typer.core.TyperGroup):
    """`slotkeeper locks [JOB]` is `slotkeeper locks list [JOB]`; a job called `list` or `end` is typed after `list`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Insert `list` if no verb was typed."""
        verb = args[0] if args else ""
        return super().parse_args(ctx, args if verb in (*self.commands, "--help") else ["list", *args])


app = typer.Typer(cls=ListsByDefault, help="Sessions that wait for locks, and their blockers; end a blocker.")
Pid = Annotated[int, typer.Argument(metavar="PID", help="the session's pid, from `locks list`", min=1)]
Sink = Annotated[
    str,
    typer.Option(
        "--sink", metavar="NAME", help="the session's sink, if there are several", autocompletion=completion.sinks
    ),
]
EndSource = Annotated[
    str, typer.Option("--source", metavar="NAME", help="the session's source", autocompletion=completion.sources)
]
Began = Annotated[str, typer.Option("--began", metavar="TIME", help="when the session started, from `locks list`")]


@app.command("list")
def list_locks(ctx: typer.Context, job: OneJob = "", as_json: OneJson = False) -> None:
    """List job sessions that wait for locks in the sinks, and sessions that wait for jobs in the sources.

    Changes nothing. 0: every server answered; 5: a server did not answer.
    """
    loaded = select.job_of(ctx, job)[0] if job else context.of(ctx).load()
    if not job:
        configured.tell_refused(loaded)
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


@app.command()
def end(
    ctx: typer.Context,
    pid: Pid,
    began: Began = "",
    sink: Sink = "",
    source: EndSource = "",
    reason: Reason = "",
    as_json: OneJson = False,
) -> None:
    """End a session that blocks a job's session. Its pid and start time must match.

    0: the session has ended; 1: it still exists after the request; 3: the request was refused.
    """
    from slotkeeper.core.services import ending  # `locks list` needs no audit

    loaded = context.of(ctx).load()
    server, clock = ending.server_of(loaded, sink, source), SystemClock()
    try:
        since = moment_from(began) if began else None
    except ValueError:
        raise ConfigError(
            f"{safe(began, 60)!r} is not a time", "--began TIME, as shown by `slotkeeper locks`"
        ) from None
    asked = ending.Asked(server, pid, since, reason)
    ended = ending.end(loaded, asked, lambda: clock.utc().timestamp(), diagnostics.warn)
    one = ended.found.blocker
    if as_json:
        output.as_json(
            {
                "server": server,
                "pid": pid,
                "began": moment(one.began or 0.0),
                "user": one.user,
                "application": one.application,
                "ended": ended.gone,
                "outcome": ended.outcome,
            }
        )
    else:
        output.line(f"{server}: {one.name}: {ended.outcome}", select.ascii_only(ctx))
    if not ended.gone:
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


def _print(one: LocksSeen, now: float, ascii_only: bool) -> None:
    if one.error is not None:
        output.line(f"{one.server}: unknown", ascii_only)
        return
    if one.is_source:
        _print_source(one, now, ascii_only)
        return
    if not one.waits:
        output.line(f"sink {one.place}: {one.untold or NONE_WAITS}", ascii_only)
        return
    output.line(f"sink {one.place}:", ascii_only)
    heads = ["waiting", "waits for", "for", "blocker", "user", "state"]
    rows: list[list[object]] = []
    for wait in one.waits:
        root, lasts = wait.root, in_words(max(0.0, now - wait.since))
        blocker: list[object] = [None, None, None]
        if root is not None:
            blocker = [root.pid, shown(root.user), "prepared" if root.pid is None else shown(root.state)]
        rows.append([wait.session, wait.thing, lasts, *blocker])
    output.table(heads, rows, ascii_only)
    for each in locked(one.waits, now):
        output.paragraph("problem", each.cause, ascii_only)
        output.paragraph("action ", each.do, ascii_only)
    for command in dict.fromkeys(end_command(one.name, wait) for wait in one.waits):
        if command:
            output.paragraph("end    ", command, ascii_only)


def _print_source(one: LocksSeen, now: float, ascii_only: bool) -> None:
    """Print the waits in a source, or why they are unknown, because not every login can see all sessions."""
    if not one.source_waits:
        output.line(f"{one.server}: {one.untold or one.hidden or NONE_WAITS_AT_SOURCE}", ascii_only)
        return
    output.line(f"{one.server}:{f' {one.hidden}' if one.hidden else ''}", ascii_only)
    for wait in one.source_waits:
        output.paragraph("problem", source_waits.cause(wait, now), ascii_only)
        output.paragraph("       ", source_waits.effect(wait), ascii_only)
        output.paragraph("action ", source_waits.to_do(wait), ascii_only)
        if command := end_command(one.name, wait):
            output.paragraph("end    ", command, ascii_only)
