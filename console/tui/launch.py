"""Opens the console on this terminal."""

from __future__ import annotations

from slotkeeper.console.cli.context import Invocation
from slotkeeper.console.tui import terminal
from slotkeeper.console.tui.app import ConsoleApp, Place
from slotkeeper.console.tui.services import services_for
from slotkeeper.core.config.model import Loaded


def place_of(loaded: Loaded | None) -> Place:
    """What the configuration says of where we are."""
    if loaded is None:
        return Place()
    words = {entry.environment for entry in loaded.sources.values() if entry.environment}
    return Place(tuple(sorted(words)), bool(loaded.jobs))


def open_console(shared: Invocation) -> int:
    """Open the console on this terminal and stay until it is left; the exit code. Raises what ended it by a defect."""
    services = services_for(shared)
    app = ConsoleApp(services, place_of(services.loaded), shared.ascii_only, True, shared.mono, shared.read_only)
    code = app.run(mouse=False)
    if app.defect is not None:
        raise app.defect
    return terminal.followed(code or 0, shared.env)
