"""The confirmation of one of the user's own commands, and its output while it runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from slotkeeper.console.actions import outcome
from slotkeeper.console.actions.commands import Part
from slotkeeper.console.actions.outcome import took
from slotkeeper.console.actions.own import ROW, OwnCommand
from slotkeeper.console.actions.record import Stage
from slotkeeper.console.actions.runner import OWN, Order
from slotkeeper.console.monitor.snapshot import Level
from slotkeeper.console.tui.screens.actions.confirm import Confirm
from slotkeeper.console.tui.screens.actions.progress import Progress
from slotkeeper.console.tui.screens.base import Lines
from slotkeeper.core.domain.text import safe
from slotkeeper.core.domain.ttl import in_words

MOST_SHOWN = 200
"""The maximum number of lines shown from the end of the output; `:actions` and Enter show more."""


class OwnProgress(Progress):
    """The progress of one of the user's own commands."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "cancel", "end", id="act-end-own", tooltip="SIGTERM, then SIGKILL after 5 s; again: at once")
    ]
    keys_shown: ClassVar[tuple[str, ...]] = ("back", "act-end-own")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return not self.over if action == "cancel" else super().check_action(action, parameters)

    def action_cancel(self) -> None:
        asked = [self.runs.cancel(one.record.id) for one in self.actions if not one.over]
        self.console.say(
            "ending the command" if any(asked) else "cannot end the command from here: its process was not found"
        )

    def lines(self) -> outcome.Lines:
        found: outcome.Lines = []
        now = self.console.now_real()
        for one in self.actions:
            said, code = self.runs.said(one.record.id), one.record.code
            level = Level.UNKNOWN if one.stage is Stage.GONE else Level.BUSY
            if one.stage is Stage.ENDED:
                level = Level.FINE if code == 0 else Level.WARNING
            end = f"exit {code}" if one.stage is Stage.ENDED else one.stage.value
            how = (level, f"{end}, {in_words(took(one, now))}")
            written = [*said.err.splitlines(), *said.out.splitlines()]
            more = len(written) - MOST_SHOWN
            found += [how, (Level.REST, f"{more:,} earlier lines: `:actions`, Enter")] if more > 0 else [how]
            found += [(Level.FINE, safe(line, 2_000)) for line in written[-MOST_SHOWN:]]
        return found


class OwnConfirm(Confirm):
    """The command to run with the values of the row, both as they were when the key was pressed."""

    APART = "the command runs outside this console, without a shell; `:actions` shows it later"

    def __init__(self, command: OwnCommand, row: Mapping[str, str], file: Path) -> None:
        super().__init__((), "run", f"{command.name}   {safe(row.get('JOB', ''), 60)}", f"Run {command.name}")
        self._command, self._row, self._file = command, dict(row), file

    def lines(self) -> Lines:
        yield Level.WARNING, f"runs    {safe(self._command.text, 1_000)}"
        for key in ROW:
            yield Level.FINE, f"{key:<7} {safe(shlex.quote(self._row.get(key, '')), 300)}"
        yield Level.REST, "with this console's environment, without the secrets of its configuration"

    def begin(self, typed: dict[Part, str]) -> None:
        pairs = [f"{key}={self._row.get(key, '')}" for key in ROW]
        folder = str(Path(self.console.services.folder).resolve())
        words = (folder, str(self._file), self._command.name, self._command.mark, typed.get(Part.REASON, ""), *pairs)
        what = f"run {self._command.name} {self._row.get('JOB', '')}".rstrip()
        id = self.set_going(Order(words, what, self._row.get("JOB", ""), program=OWN, shown=self._command.run))
        if id is not None:
            self.app.switch_screen(OwnProgress([id]))

    def action_copy(self) -> None:
        """Copy the command, unless a value contains control characters, which could end the paste in a shell."""
        if not all(value.isprintable() for value in self._row.values()):
            self.console.say("not copied: a name in this row contains control characters", Level.WARNING)
            return
        values = " ".join(f"{key}={shlex.quote(self._row.get(key, ''))}" for key in ROW)
        self.console.copy_to_clipboard(f"{values} {self._command.text}")
