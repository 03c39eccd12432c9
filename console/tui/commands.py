"""The commands that can be typed after `:`, each in one place. To add one: `add(Command(...))`.

A command gets the app and what was typed behind its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from slotkeeper.console.tui import verbs
from slotkeeper.console.tui.host import INTERVALS
from slotkeeper.console.tui.theme import THEMES

if TYPE_CHECKING:
    from slotkeeper.console.tui.host import Host

_SECONDS = {f"{one:g}": one for one in INTERVALS}
_THEMES = {one.name.partition("-")[2]: one.name for one in THEMES}


def _nothing(app: Host) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """`run` does it; `argument` names what has to follow, in brackets where it may; `values` are its completions."""

    name: str
    help: str
    run: Callable[[Host, str], object]
    argument: str = ""
    values: Callable[[Host], Iterable[str]] = _nothing

    @property
    def usage(self) -> str:
        """How it is typed."""
        return f"{self.name} {self.argument}".rstrip()


COMMANDS: dict[str, Command] = {}


def add(command: Command) -> None:
    """Make a command known."""
    COMMANDS[command.name] = command


def completions(app: Host, typed: str) -> list[tuple[str, str]]:
    """What the typed text can become, with what that does, best first."""
    name, space, rest = typed.lstrip(": ").partition(" ")
    if not space:
        return [(one.name + (" " if one.argument else ""), one.help) for one in COMMANDS.values() if _fits(one, name)]
    command = COMMANDS.get(name)
    values = list(command.values(app)) if command else []
    rest = rest.strip().casefold()
    found = sorted(
        (one for one in values if rest in one.casefold()), key=lambda one: not one.casefold().startswith(rest)
    )
    return [(f"{name} {value}", "") for value in found]


def wrong(typed: str) -> str:
    """What is wrong with a typed command, in one line; "" where it can be run."""
    name, _, rest = typed.strip().lstrip(": ").partition(" ")
    command = _meant(name)
    if command is None:
        near = get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
        return f"there is no command :{name}" + (f"; did you mean :{near[0]}?" if near else "; Tab lists them")
    needed = command.argument and not command.argument.startswith("[")
    return f"something is missing: :{command.usage}" if needed and not rest.strip() else ""


def run(app: Host, typed: str) -> None:
    """Run a typed command, or say what is wrong with it."""
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
    """The command of that name, or the only one that begins so."""
    fitting = [one for one in COMMANDS.values() if name and _fits(one, name)]
    return COMMANDS.get(name) or (fitting[0] if len(fitting) == 1 else None)


# -- what they do ----------------------------------------------------------------------------------------------------


def _key(name: str) -> Callable[[Host, str], object]:
    """What a key does on the screen that is seen."""

    def press(app: Host, rest: str) -> None:
        app.press(name)

    return press


def _job(app: Host, name: str) -> None:
    known = verbs.jobs_known(app)
    if name in known:
        app.open_job(name, "2")
        return
    near = get_close_matches(name, known, n=1)
    app.say(f"there is no job {name}" + (f"; did you mean {near[0]}?" if near else ""))


def _slot(app: Host, name: str) -> None:
    found = verbs.slots_called(app, name)
    if len(found) == 1:
        app.open_slot(found[0].key)
    elif not verbs.slots_known(app):
        app.say("no slot was looked at yet: 3 looks")
    else:
        app.say(f"there are {len(found)} slots {name}: type its table too" if found else f"there is no slot {name}")


def _graphs(app: Host, name: str) -> None:
    named = [name] if name else app.frame.jobs_meant() if app.frame is not None else []
    if named and named[0] in verbs.jobs_known(app):
        app.open_graphs(named[0])
    else:
        app.say(f"there is no job {name}" if name else "no job is chosen: :graphs JOB")


def _refresh(app: Host, seconds: str) -> None:
    if seconds.rstrip("s") in _SECONDS:
        app.poll_every(_SECONDS[seconds.rstrip("s")])
    else:
        app.say(f"one of {', '.join(_SECONDS)} seconds")


def _at(app: Host, moment: str) -> None:
    app.show_past(moment)


def _theme(app: Host, name: str) -> None:
    if name in _THEMES:
        app.wear(_THEMES[name])
    else:
        app.say(f"one of {', '.join(_THEMES)}")


for _mode in ("overview", "jobs", "slots", "errors", "binlog", "alerts", "audit"):
    add(Command(_mode, f"the screen {_mode.capitalize()}", lambda app, rest, mode=_mode: app.action_go(mode)))  # type: ignore[misc]
add(Command("job", "open one job", _job, "NAME", verbs.values_of_jobs))
add(Command("slot", "open one slot", _slot, "[TABLE] SLOT", verbs.values_of_slots))
add(Command("graphs", "lag and rate of this row's job over time", _graphs, "[JOB]", verbs.values_of_jobs))
add(Command("rw", "allow changes for ten minutes", lambda app, rest: app.arm(rest), "REASON"))
add(Command("ro", "only read again", lambda app, rest: app.disarm()))
add(Command("refresh", "poll every so many seconds", _refresh, "SECONDS", lambda app: _SECONDS))
add(Command("theme", "how it looks", _theme, "NAME", lambda app: _THEMES))
add(Command("history", "what was recorded; again leaves it", lambda app, rest: app.action_history()))
add(Command("at", "a moment of the past (UTC): 02:28, 2026-11-21 02:28, -15m", _at, "TIME"))
add(Command("locks", "who waits for a lock, and for whom", lambda app, rest: app.open_locks()))
add(Command("actions", "what was set going from here, and how it ended", lambda app, rest: app.open_actions()))
add(Command("freeze", "let what is shown stand still, or go on", lambda app, rest: app.action_pause()))
add(Command("mouse", "mouse on or off", lambda app, rest: app.action_mouse()))
add(Command("copy", "copy the row", _key("copy")))
add(Command("export", "the listed rows as CSV and JSON", _key("export")))
add(Command("wide", "the columns that this width hides", _key("wide")))
add(Command("columns", "which columns this table shows", _key("columns")))
add(Command("faults", "only rows in trouble, or all", _key("faults")))
add(Command("help", "the keys of this screen", lambda app, rest: app.action_keys()))
add(Command("quit", "leave", _key("quit")))
for _verb, _does in verbs.JOB_VERBS.items():
    add(Command(_verb, _does, verbs.on_jobs(_verb), "[JOB ...]", verbs.values_of_jobs))
for _verb, _does in verbs.SLOT_VERBS.items():
    add(Command(_verb, _does, verbs.on_slot(_verb), "[TABLE SLOT]", verbs.values_of_slots))
