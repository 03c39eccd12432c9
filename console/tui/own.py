"""The user's own commands and contexts. They are read after the first frame and run with a key or `:own`."""

from __future__ import annotations

import importlib
import os
import pkgutil
import threading
from pathlib import Path
from typing import Any, Protocol

from textual.binding import Binding

import slotkeeper.console.tui.screens as package
from slotkeeper.console.actions import own
from slotkeeper.console.actions.own import Context, Own
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.keymap import own as bindings_at
from slotkeeper.console.tui.screens.base import Frame
from slotkeeper.console.tui.services import Host
from slotkeeper.console.tui.widgets.line import Panel
from slotkeeper.console.tui.widgets.live_table import LiveTable
from slotkeeper.core.config.load import default_path, default_state_dir, load_usable
from slotkeeper.core.domain.text import safe
from slotkeeper.core.errors import SlotkeeperError
from slotkeeper.core.state.folder import StateFolder

SHARED = Path("/etc/slotkeeper")
"""The folder in which an administrator provides configurations for all users of a host."""
OPEN_FORM = "a form is open: press Esc to close it first"


class Owner(Host, Protocol):
    """The members of the app that this module needs in addition to those of `Host`."""

    own_bindings: list[Binding]
    next_context: Context | None

    @property
    def is_running(self) -> bool: ...

    @property
    def screen_stack(self) -> Any: ...

    def bind(self, keys: str, action: str, *, description: str = "") -> None: ...
    def call_from_thread(self, callback: Any, *of: Any) -> Any: ...
    def push_screen(self, screen: Any) -> Any: ...
    def exit(self) -> None: ...


def every_screen() -> list[type]:
    """Import all screens of the console and return their classes."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)
    found: list[type] = []
    waiting: list[type] = [Frame]
    while waiting:
        kind = waiting.pop()
        below: list[type] = kind.__subclasses__()
        waiting += [one for one in below if one.__module__.startswith("slotkeeper.console.")]
        found.append(kind)
    return found


def taken(app: type) -> dict[str, str]:
    """Return the action of each key that is in use on a screen, in a table, in a menu, or everywhere."""
    found: dict[str, str] = {}
    for kind in (*every_screen(), LiveTable, Panel, *app.__mro__):
        for one in bindings_at(kind):
            found |= dict.fromkeys(one.key.split(","), one.description)
    return found


def load(app: Owner, file: Path) -> None:
    """Read the file and bind its keys, in a thread, because finding the keys in use imports every screen."""

    def work() -> None:
        found = own.read(file, taken(type(app)))
        if app.is_running:
            app.call_from_thread(ready, app, found)

    threading.Thread(target=work, name="slotkeeper-own", daemon=True).start()


def ready(app: Owner, found: Own) -> None:
    """Bind the keys of the commands, and show in one line which parts of the file are not used."""
    app.own = found
    for one in found.commands:
        if one.key:
            app.bind(one.key, f"own('{one.name}')", description=one.name)
    app.own_bindings = [
        Binding(one.key, f"own('{one.name}')", one.name, id=f"own-{one.name}", tooltip=safe(one.text, 60))
        for one in found.commands
        if one.key
    ]
    if found.faults:
        more = f" (and {len(found.faults) - 1} more: `:own`)" if len(found.faults) > 1 else ""
        app.say(f"{found.faults[0]}{more}", Level.WARNING)


def ask(app: Owner, name: str) -> None:
    """Ask whether to run a command for the row that was selected when the key was pressed."""
    command = app.own.command(name) if app.own is not None else None
    frame, file = app.frame, app.services.own_file
    if command is None or frame is None or file is None:
        app.say(f"no own command is named {name}", Level.WARNING)
    elif app.in_history:
        app.say("actions are not available in history; press R to leave it", Level.WARNING)
    elif _in_a_form(app):
        app.say(OPEN_FORM, Level.WARNING)
    else:
        from slotkeeper.console.tui.screens.actions.own import OwnConfirm

        try:
            row = frame.row_meant()
        except ValueError as error:
            app.say(str(error), Level.WARNING)
            return
        app.push_screen(OwnConfirm(command, row, file))


def _in_a_form(app: Owner) -> bool:
    return any(not getattr(screen, "subject", True) for screen in app.screen_stack)


# -- contexts --------------------------------------------------------------------------------------------------------


def contexts(app: Host) -> dict[str, Context]:
    """Return the contexts of the user's file and those found in the usual places, by name."""
    places = [default_path(os.environ).parent, SHARED]
    found: dict[str, Context] = {}
    for place in places:
        try:
            files = sorted(place.glob("*.toml"))
        except OSError:  # a folder that this user cannot read
            files = []
        for file in files:
            if file.name != own.FILE and own.NAME.fullmatch(file.stem):
                name = "default" if file == default_path(os.environ) else file.stem
                found.setdefault(name, Context(name, config=file))
    local = default_state_dir(os.environ)
    if local.is_dir():
        found.setdefault("local", Context("local", state_dir=local))
    return {**found, **{one.name: one for one in (app.own.contexts if app.own is not None else ())}}


def fault_of(one: Context) -> str:
    """Return the reason why a context cannot be opened; "" if it can."""
    try:
        if one.config is not None:
            StateFolder.looked_at(load_usable(one.config, dict(os.environ)).state_dir)
        elif one.state_dir is not None and StateFolder.existing(one.state_dir) is None:
            return f"folder {safe(one.state_dir, 120)} does not exist"
    except SlotkeeperError as error:
        return error.message
    except OSError as error:
        return str(error.strerror or error)
    return ""


def switch(app: Owner, name: str) -> None:
    """Close this console to open another context. If the context cannot be opened, stay and show the reason."""
    every = contexts(app)
    one = every.get(name)
    if not name:
        app.say(f"contexts: {', '.join(safe(each, 31) for each in every) or 'none'}")
    elif one is None:
        app.say(f"unknown context {safe(name, 40)}: {', '.join(safe(each, 31) for each in every)}", Level.WARNING)
    elif _in_a_form(app):
        app.say(OPEN_FORM, Level.WARNING)
    elif fault := fault_of(one):
        app.say(f"cannot open context {safe(name, 31)}: {fault}", Level.WARNING)
    else:
        if app.armed:
            app.disarm()
        app.next_context = one
        app.exit()
