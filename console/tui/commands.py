"""The commands that can be typed after `:`, and the input line for them. To add one: `add(Command(...))`.

A command receives the app and the text after its name. Verbs (`:pause`, `:verify`, `:reset`) open the menu of the
selected jobs or slot and choose the verb's line, so the menu's refusals and confirmations apply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, ClassVar, cast

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Input

from slotkeeper.console.actions.verbs import JobVerb, SlotVerb
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.services import INTERVALS
from slotkeeper.console.tui.theme import THEMES, style_of
from slotkeeper.console.tui.widgets.line import Line, catch
from slotkeeper.console.views.rows import plain
from slotkeeper.console.views.slots import SlotFacts, all_slots
from slotkeeper.core.domain.text import safe

if TYPE_CHECKING:
    from slotkeeper.console.tui.services import Host

PAST = "actions are not available in history; press R to leave it"


def jobs_known(app: Host) -> list[str]:
    """Return the names of all jobs."""
    return [one.name for one in app.shown.local.jobs]


def slots_known(app: Host) -> dict[str, SlotFacts]:
    """Return every observed slot, by table and name."""
    return {f"{one.seen.table} {one.slot.name}": one for one in all_slots(app.shown.tables.values())}


def slots_called(app: Host, name: str) -> list[SlotFacts]:
    """Return the slots with that name, typed with or without the table."""
    return [one for words, one in slots_known(app).items() if name in (words, words.split(" ", 1)[-1])]


def on_jobs(verb: str) -> Callable[[Host, str], object]:
    """Return the command that applies the verb to the typed jobs, otherwise to the jobs selected on the screen."""

    def act(app: Host, typed: str) -> None:
        known = jobs_known(app)
        named = typed.split()
        unknown = [one for one in named if one not in known]
        names = named or (app.frame.jobs_meant() if app.frame is not None else [])
        if app.in_history:
            app.say(PAST, Level.WARNING)
        elif unknown:
            app.say(f"unknown job {unknown[0]}", Level.WARNING)
        elif not names:
            app.say(f"no job is selected: :{verb} JOB", Level.WARNING)
        else:
            app.open_job_menu(names, verb)

    return act


def on_slot(verb: str) -> Callable[[Host, str], object]:
    """Return the command that applies the verb to the typed slot, otherwise to the slot selected on the screen."""

    def act(app: Host, typed: str) -> None:
        meant = app.frame.slot_meant() if app.frame is not None else None
        found = slots_called(app, typed) if typed else [meant] if meant is not None else []
        if app.in_history:
            app.say(PAST, Level.WARNING)
        elif len(found) == 1:
            app.open_slot_menu(found, verb)
        elif typed:
            app.say(f"{len(found)} slots are named {typed}" if found else f"unknown slot {typed}", Level.WARNING)
        else:
            app.say(f"no slot is selected: :{verb} TABLE SLOT, or select its row on screen 3", Level.WARNING)

    return act


_SECONDS = {f"{one:g}": one for one in INTERVALS}
_THEMES = {one.name.partition("-")[2]: one.name for one in THEMES}


@dataclass(frozen=True, slots=True)
class Command:
    """A command. `argument` is the name of its argument, in brackets if optional; `values` are its completions."""

    name: str
    help: str
    run: Callable[[Host, str], object]
    argument: str = ""
    values: Callable[[Host], Iterable[str]] = lambda app: ()

    @property
    def usage(self) -> str:
        """The command with its argument, as typed."""
        return f"{self.name} {self.argument}".rstrip()


COMMANDS: dict[str, Command] = {}


def add(command: Command) -> None:
    """Register a command."""
    COMMANDS[command.name] = command


def completions(app: Host, typed: str) -> list[tuple[str, str]]:
    """Return the completions of the typed text, each with its help text, best match first.

    A free text, such as a reason, is its own completion, with the help text of its command.
    """
    name, space, rest = typed.lstrip(": ").partition(" ")
    if not space:
        return [(one.name + (" " if one.argument else ""), one.help) for one in COMMANDS.values() if _fits(one, name)]
    command = _meant(name)
    values = list(command.values(app)) if command else []
    if command is not None and command.argument and not values:
        return [(f"{command.name} {rest}", f"{command.argument}: {command.help}")]
    rest = rest.strip().casefold()
    found = sorted(
        (one for one in values if rest in one.casefold()), key=lambda one: not one.casefold().startswith(rest)
    )
    return [(f"{name} {value}", "") for value in found]


def wrong(typed: str) -> str:
    """Return the error in a typed command as one line; "" if it can be run."""
    name, _, rest = typed.strip().lstrip(": ").partition(" ")
    command = _meant(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
        return f"unknown command :{name}" + (f"; did you mean :{near[0]}?" if near else "; Tab lists them")
    needed = command.argument and not command.argument.startswith("[")
    return f"missing argument: :{command.usage}" if needed and not rest.strip() else ""


def run(app: Host, typed: str) -> None:
    """Run a typed command, or show its error."""
    said = wrong(typed)
    name, _, rest = typed.strip().lstrip(": ").partition(" ")
    command = _meant(name)
    if said or command is None:
        app.say(said)
    else:
        command.run(app, rest.strip())


def _fits(command: Command, name: str) -> bool:
    return command.name.startswith(name.casefold())


def _meant(name: str) -> Command | None:
    """Return the command with that name, or the only command with that prefix."""
    fitting = [one for one in COMMANDS.values() if name and _fits(one, name)]
    return COMMANDS.get(name) or (fitting[0] if len(fitting) == 1 else None)


# -- implementations ------------------------------------------------------------------------------------------------


def _key(name: str) -> Callable[[Host, str], object]:
    """Return a command that is equivalent to a key on the current screen."""

    def press(app: Host, rest: str) -> None:
        app.press(name)

    return press


def _job(app: Host, name: str) -> None:
    known = jobs_known(app)
    if name in known:
        app.open("job", name, "2")
        return
    near = get_close_matches(name, known, n=1)
    app.say(f"unknown job {name}" + (f"; did you mean {near[0]}?" if near else ""))


def _slot(app: Host, name: str) -> None:
    found = slots_called(app, name)
    if len(found) == 1:
        app.open("slot", found[0].key)
    elif not slots_known(app):
        app.say("no slot status yet: press 3 to poll it")
    else:
        app.say(f"{len(found)} slots are named {name}: add the table" if found else f"unknown slot {name}")


def _graphs(app: Host, name: str) -> None:
    named = [name] if name else app.frame.jobs_meant() if app.frame is not None else []
    if named and named[0] in jobs_known(app):
        app.open("graphs", named[0], "2")
    else:
        app.say(f"unknown job {name}" if name else "no job is selected: :graphs JOB")


def _refresh(app: Host, seconds: str) -> None:
    if seconds.rstrip("s") in _SECONDS:
        app.poll_every(_SECONDS[seconds.rstrip("s")])
    else:
        app.say(f"the interval must be one of {', '.join(_SECONDS)} seconds")


def _theme(app: Host, name: str) -> None:
    if name in _THEMES:
        app.wear(_THEMES[name])
    else:
        app.say(f"the theme must be one of {', '.join(_THEMES)}")


def _settings(app: Host, word: str) -> None:
    """Show the path of the settings file and whether it is used; `reset` deletes the settings."""
    settings = app.services.settings
    if word == "reset":
        settings.forget()
        app.redrawn()
        app.say("settings deleted: the next start uses the defaults")
    elif word:
        app.say("usage: :settings or :settings reset")
    else:
        app.say(f"{settings.path or 'settings are not stored'}   {settings.fault}".rstrip())


def _own(app: Host, name: str) -> None:
    """Run one of the user's own commands, or show which parts of their file are not used."""
    if name:
        app.action_own(name)
        return
    own = app.own
    faults = own.faults if own is not None else ()
    names = ", ".join(one.name for one in own.commands) if own is not None else ""
    app.say("; ".join(faults) or f"own commands: {names or 'none'}   {app.services.own_file or ''}")


def _own_names(app: Host) -> list[str]:
    return [one.name for one in app.own.commands] if app.own is not None else []


def _contexts(app: Host) -> list[str]:
    from slotkeeper.console.tui.own import contexts

    return list(contexts(app))


for _mode in ("overview", "jobs", "slots", "errors", "binlog", "alerts", "audit"):
    add(Command(_mode, f"go to the {_mode.capitalize()} screen", lambda app, rest, mode=_mode: app.action_go(mode)))  # type: ignore[misc]
add(Command("job", "open one job", _job, "NAME", jobs_known))
add(Command("slot", "open one slot", _slot, "[TABLE] SLOT", slots_known))
add(Command("graphs", "lag and rate of this row's job over time", _graphs, "[JOB]", jobs_known))
add(Command("rw", "allow changes for ten minutes", lambda app, rest: app.arm(rest), "REASON"))
add(Command("ro", "return to read-only", lambda app, rest: app.disarm()))
add(Command("refresh", "set the poll interval in seconds", _refresh, "SECONDS", lambda app: _SECONDS))
add(Command("theme", "set the color theme", _theme, "NAME", lambda app: _THEMES))
_FORGETS = "show where your settings are stored; `reset` deletes them"
add(Command("settings", _FORGETS, _settings, "[reset]", lambda app: ["reset"]))
add(Command("own", "run one of your own commands for the row; without a name: list them", _own, "[NAME]", _own_names))
_OTHER = "open another configuration or state folder; without a name: list them"
add(Command("context", _OTHER, lambda app, name: app.open_context(name), "[NAME]", _contexts))
add(Command("history", "show recorded history, or return from it", lambda app, rest: app.action_history()))
_MOMENT = "show a past time (UTC): 02:28, 2026-11-21 02:28, -15m"
add(Command("at", _MOMENT, lambda app, moment: app.show_past(moment), "TIME"))
add(Command("locks", "sessions that wait for locks, and their blockers", lambda app, rest: app.open("locks")))
add(Command("views", "SQL views: freshness and state of each", lambda app, rest: app.open("views")))
add(Command("actions", "actions started from here, and their results", lambda app, rest: app.open("actions")))
add(Command("freeze", "freeze the screen, or show live data again", lambda app, rest: app.action_freeze()))
add(Command("mouse", "turn the mouse on or off", lambda app, rest: app.action_mouse()))
add(Command("copy", "copy the row", _key("copy")))
add(Command("export", "export the listed rows as CSV and JSON", _key("export")))
add(Command("wide", "show the columns that do not fit this width", _key("wide")))
add(Command("columns", "choose the columns of this table", _key("columns")))
add(Command("faults", "show only rows with a fault, or all rows", _key("faults")))
add(Command("help", "list the keys of this screen", lambda app, rest: app.action_keys()))
add(Command("quit", "quit the console", _key("quit")))
for _verb in JobVerb:
    if _verb.does.typed:
        add(Command(_verb.value, _verb.does.typed, on_jobs(_verb.value), "[JOB ...]", jobs_known))
for _slot_verb in SlotVerb:
    if _slot_verb.does.typed:
        does = _slot_verb.does
        add(Command(does.name, does.typed, on_slot(does.name), "[TABLE SLOT]", slots_known))


_MOST = 8
NO_COMPLETION = "no completion; Enter runs the command as typed"


class PaletteScreen(ModalScreen[str]):
    """The command palette. Its result is the typed command, "" if there is nothing to run."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+p", "close", "close"),
        Binding("down", "choose(1)", "next"),
        Binding("up", "choose(-1)", "previous"),
        Binding("tab", "complete", "complete"),
    ]

    def __init__(self, typed: str = "") -> None:
        super().__init__()
        self._typed = typed
        self._chosen = -1

    def compose(self) -> ComposeResult:
        yield Line("offered")
        yield Input(f":{self._typed}", id="command", select_on_focus=False)

    def on_mount(self) -> None:
        self.query_one(Input).cursor_blink = False
        self.query_one(Input).focus()
        self._offer()

    def on_key(self, event: events.Key) -> None:
        catch(self.query_one(Input), event)

    def on_input_changed(self) -> None:
        self._chosen = -1
        self._offer()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        offered = completions(self._owner, event.value)
        typed = offered[self._chosen][0] if 0 <= self._chosen < len(offered) else event.value
        said = wrong(typed) if typed.strip(": ") else ""
        if not said:
            self._end(typed.strip(": "))
        elif self._chosen >= 0:
            self._fill(typed)
        else:
            self._offer(said)

    def action_close(self) -> None:
        self._end("")

    def _end(self, typed: str) -> None:
        """Close, unless an earlier key has already closed it."""
        if self.app.screen is self:
            self.dismiss(typed)

    def action_choose(self, step: int) -> None:
        number = len(completions(self._owner, self.query_one(Input).value))
        self._chosen = (
            (self._chosen + step) % number if number and self._chosen >= 0 else (0 if step > 0 else number - 1)
        )
        self._offer()

    def action_complete(self) -> None:
        offered = completions(self._owner, self.query_one(Input).value)
        if offered:
            self._fill(offered[max(0, self._chosen)][0])

    @property
    def _owner(self) -> Host:
        return cast("Host", self.app)

    def _fill(self, typed: str) -> None:
        line = self.query_one(Input)
        line.value = f":{typed}"
        line.cursor_position = len(line.value)

    def _offer(self, said: str = "") -> None:
        offered = completions(self._owner, self.query_one(Input).value)
        first = max(0, self._chosen - _MOST + 1)
        theme, ascii_only = self.app.theme, self._owner.ascii_only
        lines = []
        for place, (typed, does) in enumerate(offered[first : first + _MOST], first):
            words = Text(
                plain(f" :{safe(typed, 200):<16}", ascii_only), style="reverse" if place == self._chosen else "", end=""
            )
            lines.append(words.append(f"  {does}", style_of(theme, "dim")))
        none = "no command matches; Esc closes" if wrong(self.query_one(Input).value) else NO_COMPLETION
        said = said or ("" if lines else none)
        lines += [Text(plain(f" {safe(said, 300)}", ascii_only), style=style_of(theme, "warn"), end="")] if said else []
        text = Text("\n", no_wrap=True, overflow="crop", end="").join(lines)
        self.query_one("#offered", Line).say(text, layout=True)
