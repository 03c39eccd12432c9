"""`slotkeeper agent`: the service of a host that shares jobs with other hosts, for systemd (Type=notify)."""

from __future__ import annotations

import time

import typer

from slotkeeper.console.cli import context, diagnostics
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.launch.agent import Agent, notify
from slotkeeper.core.launch.launch import Launch
from slotkeeper.core.launch.supervisor import Signals
from slotkeeper.core.state.folder import StateFolder

app = typer.Typer(help="Serve jobs that several hosts share.", add_completion=False)

LAUNCH = Launch()
"""The launch of the drivers; tests replace it with a driver without Spark."""


@app.command()
def agent(ctx: typer.Context) -> None:
    """Report this host's shared jobs every two seconds, and take over those of hosts that died.

    Needs [hosts] in the configuration. Jobs run in separate processes and continue when the agent exits. Another host
    takes them over unless an agent reports them again within 20 s (take_over_after). SIGTERM stops the agent.
    """
    loaded = context.of(ctx).load()
    serving, failed = Agent(loaded, StateFolder.open(loaded.state_dir), diagnostics.note, LAUNCH), ""
    assert loaded.hosts is not None
    try:
        with Signals() as signals:
            notify(f"READY=1\nSTATUS=host {loaded.hosts.name}, {len(loaded.jobs)} jobs")
            while not signals.asked_to_end:
                began = time.monotonic()
                try:
                    serving.round()
                    failed = ""
                except SlotkeeperError as error:  # for example a full disk: running jobs must still be reported later
                    if failed != (failed := str(error)):
                        diagnostics.note(failed)
                notify("WATCHDOG=1")
                signals.wait(loaded.hosts.interval - (time.monotonic() - began))
            notify("STOPPING=1")
    finally:
        serving.close()
