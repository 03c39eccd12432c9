"""`slotkeeper alerts`: the alerts that are sent without a console, users' responses, and the endpoint of metrics.

Acknowledgements and silences made here also apply on the console's Alerts screen, and vice versa.
"""

from __future__ import annotations

import getpass
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Annotated

import typer

from slotkeeper.console.cli import context, diagnostics, output, select
from slotkeeper.console.cli.select import OneJson, StateDir
from slotkeeper.core.alerts.rules import Firing, a_test, fault_values
from slotkeeper.core.clock import SystemClock
from slotkeeper.core.config import values
from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.fault import Ack, Fault, ack_in, in_brief, is_quiet
from slotkeeper.core.domain.text import many, safe, see
from slotkeeper.core.errors import ConfigError, Refused
from slotkeeper.core.judgement.judge import judge
from slotkeeper.core.launch.alert_sender import Sender
from slotkeeper.core.launch.seen import gather
from slotkeeper.core.state.alerts import BESIDE, AckFile, AlertFile
from slotkeeper.core.state.folder import StateFolder
from slotkeeper.core.state.sqlite import Store

app = typer.Typer(help="Current alerts and notifications: list, acknowledge, silence, test.", no_args_is_help=True)

Which = Annotated[str, typer.Argument(metavar="KEY", help="the key of an alert, from `alerts list`")]
Why = Annotated[str, typer.Option("--reason", metavar="TEXT", help="reason, stored with the alert")]


def _seconds(text: str) -> float:
    """Parse a typed duration of at most four weeks and return it in seconds."""
    return select.seconds(text, 1_000, 4 * values.WEEK)


@dataclass(frozen=True, slots=True)
class Shown:
    """A current fault; `firing` is its stored record."""

    fault: Fault
    firing: Firing | None
    ack: Ack | None
    """The acknowledgement or silence that currently covers it."""


@app.callback()
def alerts() -> None:
    """Current alerts and notifications: list, acknowledge, silence, test."""


@app.command("list")
def list_alerts(ctx: typer.Context, as_json: OneJson = False, state_dir: StateDir = None) -> None:
    """List current alerts with their notifications and acknowledgements, worst first; queries no server."""
    found, now = _found(ctx, state_dir)
    if as_json:
        output.as_json({"alerts": [_values(one, now) for one in found]})
        return
    if not found:
        output.line("no current alerts")
        return
    columns = ["key", "severity", "rule", "about", "for", "sent", "acknowledged"]
    output.table(columns, [_row(one, now) for one in found], select.ascii_only(ctx))


@app.command()
def ack(ctx: typer.Context, which: Which, reason: Why = "", state_dir: StateDir = None) -> None:
    """Acknowledge an alert: it is not sent again until it ends or its severity rises."""
    now = SystemClock().utc()
    one = _change(ctx, which, state_dir, lambda file, keys: file.put(keys[0], _said(now, None, reason)))
    output.line(f"acknowledged until it ends or its severity rises: {_named(one.fault)}", select.ascii_only(ctx))


@app.command()
def unack(ctx: typer.Context, which: Which, state_dir: StateDir = None) -> None:
    """Remove the acknowledgement or silence of an alert, so that it is sent again."""
    now = SystemClock().utc()

    def take_back(file: AckFile, keys: tuple[str, ...]) -> None:
        for key in keys:
            file.remove(key, now)

    one = _change(ctx, which, state_dir, take_back)
    output.line(f"acknowledgement removed: {_named(one.fault)}", select.ascii_only(ctx))


@app.command()
def silence(
    ctx: typer.Context,
    which: Which,
    seconds: Annotated[float, typer.Option("--for", metavar="TIME", help='duration, such as "2h"', parser=_seconds)],
    reason: Why = "",
    state_dir: StateDir = None,
) -> None:
    """Silence an alert for a time, even if it ends and returns; if it still fires afterwards, it is sent again."""
    now = SystemClock().utc()
    until = now + timedelta(seconds=seconds)
    one = _change(ctx, which, state_dir, lambda file, keys: file.put(keys[0], _said(now, until, reason)))
    output.line(f"silenced until {output.second(until)}: {_named(one.fault)}", select.ascii_only(ctx))


@app.command()
def test(ctx: typer.Context, as_json: OneJson = False) -> None:
    """Run the command of [alerts] with one test notification; exit code 1 if the command fails."""
    loaded = context.of(ctx).load()
    if not loaded.alerts.command:
        hint = f"set command in [alerts]: {see('alerts', 'Configuration')}"
        raise ConfigError(f"{loaded.path}: no command in [alerts]", hint)
    sender = Sender(StateFolder.open(loaded.state_dir), loaded.alerts.command, loaded.alerts.command_timeout)
    answer = sender.send(a_test(SystemClock().utc()))
    if as_json:
        output.as_json({"exit_code": answer.code, "fault": answer.fault or None, "written": answer.written})
    elif not answer.fault:
        output.line(f"the command succeeded{': ' + answer.written if answer.written else ''}", select.ascii_only(ctx))
    if answer.fault:
        diagnostics.warn(f"the command failed: {answer.said}")
        raise typer.Exit(int(diagnostics.ExitCode.FAILED))


@app.command()
def serve(
    ctx: typer.Context,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65_535, metavar="N", help="metrics on this port of 127.0.0.1")
    ] = None,
    path: Annotated[
        Path | None, typer.Option("--socket", metavar="FILE", help="metrics and jobs on this Unix socket, mode 0600")
    ] = None,
    state_dir: StateDir = None,
) -> None:
    """Serve metrics (/metrics) and, on a Unix socket, the jobs as JSON (/jobs), until this command is ended.

    Each request reads the state store. Any user of this host can read a port.
    """
    from slotkeeper.console.commands.overall import as_values, judged  # not needed for other commands
    from slotkeeper.core.alerts.metrics import exposition
    from slotkeeper.core.launch import endpoint

    if port is None and path is None:
        raise ConfigError("nothing to serve", "--port N, --socket FILE or both")
    shared, clock = context.of(ctx), SystemClock()
    shared.state(state_dir)  # report an invalid configuration now

    def metrics() -> str:
        seen, _, faults = judged(*shared.state(state_dir), clock.utc())
        return exposition(seen, faults)

    def jobs() -> str:
        _, found, faults = judged(*shared.state(state_dir), clock.utc())
        return output.json_text(as_values(found, faults))

    texts = {"/metrics": metrics, "/jobs": jobs}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ExitStack() as stack:
        servers = [stack.enter_context(endpoint.on_port(port, texts))] if port is not None else []
        if servers:
            output.line(f"serving http://{endpoint.LOOPBACK}:{servers[0].server_address[1]}/metrics")
        if path is not None:
            servers.append(stack.enter_context(endpoint.on_socket(path, texts)))
            output.line(f"serving /metrics and /jobs on {path}")
        sys.stdout.flush()
        for one in servers[1:]:
            Thread(target=one.serve_forever, daemon=True).start()
        with suppress(KeyboardInterrupt):
            servers[0].serve_forever()


def _found(ctx: typer.Context, state_dir: StateDir) -> tuple[list[Shown], datetime]:
    loaded, folder = select.state_of(ctx, state_dir)
    now = SystemClock().utc()
    with Store.existing(folder) as store:
        faults = judge(gather(store, loaded, now))
        files = (AlertFile(store.folder), AlertFile(store.folder, BESIDE))
        firing, acks = {k: one for file in files for k, one in file.read().firing.items()}, AckFile(store.folder).read()
    standing = {key: one for key, one in firing.items() if not one.over}
    asked = [one.fault for one in standing.values() if one.fault.rule == "query_dead"]  # only `jobs ensure` finds them
    said = ((one, ack_in(acks, one.ack_keys)) for one in (*faults, *asked))
    return [Shown(one, standing.get(one.key), ack if is_quiet(ack, now, one.since) else None) for one, ack in said], now


def _change(
    ctx: typer.Context, which: str, state_dir: StateDir, change: Callable[[AckFile, tuple[str, ...]], object]
) -> Shown:
    """Change the acknowledgement of the named alert. Raises Refused if there is no such alert.

    The position in the list does not identify an alert, because the list can change at any time.
    """
    found, _ = _found(ctx, state_dir)
    one = next((each for each in found if which == each.fault.id), None)
    if one is None:
        known = (
            f"{many(len(found), 'alert')}: `slotkeeper alerts list` shows their keys" if found else "no current alerts"
        )
        raise Refused(f"no current alert has the key {safe(which, 40)!r}", known)
    change(AckFile(StateFolder.open(select.state_of(ctx, state_dir)[1])), one.fault.ack_keys)
    return one


def _said(now: datetime, until: datetime | None, reason: str) -> Ack:
    return Ack(getpass.getuser(), now, until, safe(reason, 200))


def _named(fault: Fault) -> str:
    of_job = f" of job {fault.job}" if fault.job else ""
    return f"{fault.id} {fault.severity.value} {fault.rule}{of_job}: {fault.said(SystemClock().utc())}"


def _since(one: Shown) -> datetime | None:
    return one.fault.since or (one.firing.began if one.firing else None)


def _row(one: Shown, now: datetime) -> list[object]:
    since = _since(one)
    lasts = None if since is None else elapsed(since, now)
    sent = one.firing.sent_at if one.firing else None
    said = None
    if one.ack is not None:
        until = "" if one.ack.until is None else f"silenced until {output.second(one.ack.until)}, "
        said = f"{until}{one.ack.by}{': ' + one.ack.reason if one.ack.reason else ''}"
    for_ = None if lasts is None else in_brief(lasts)
    fault = one.fault
    parts = (fault.job, fault.table, fault.thing if fault.thing != fault.table else "")
    about = " ".join(filter(None, parts)) or fault.name
    return [fault.id, fault.severity.value, fault.rule, about, for_, output.second(sent), said]


def _values(one: Shown, now: datetime) -> dict[str, object]:
    ack = one.ack
    return {
        "key": one.fault.id,
        "text": one.fault.said(now),
        "fault": fault_values(one.fault),
        "began": _since(one),
        "sent_at": one.firing.sent_at if one.firing else None,
        "ack": None if ack is None else {"by": ack.by, "at": ack.at, "until": ack.until, "reason": ack.reason or None},
    }
