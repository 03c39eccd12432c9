"""What can be done to rows in quarantine: replay and discard, of those that were chosen or of all that a job holds.

Next door: `console.actions.menu` says what is possible, `confirm` asks, `progress` shows row by row what became
of it; `slotkeeper errors` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from console.actions.commands import EntryVerb, entry_words
from console.actions.menu import Entry, entries_in_words, entry_actions
from console.actions.rules import Part, entry_wants
from console.actions.runner import Order
from console.monitor.snapshot import Level
from console.tui.screens.actions.confirm import Confirm
from console.tui.screens.actions.menu import Menu, letters
from console.tui.screens.actions.progress import EntryProgress
from console.tui.screens.base import Lines
from console.views.quarantine import Choice
from core.domain.text import safe

_MEANS = {
    EntryVerb.REPLAY: (
        "each row is written into the target as the job writes, while no step of the job runs on its DN",
        "a row that is still refused stays here with its reason; one that is over by then is left alone",
    ),
    EntryVerb.DISCARD: (
        "FINAL: the target never gets these rows, and lacks them until a later change of their keys",
        "nothing is read or written at the source; the entries stay in the table as discarded",
    ),
}


class EntryMenu(Menu):
    """What can be done to rows in quarantine; they are those of the key press."""

    BINDINGS: ClassVar[list[BindingType]] = letters(
        ("r", "replay"), ("d", "discard"), ("R", "replay all"), ("D", "discard all")
    )

    def __init__(self, choice: Choice) -> None:
        super().__init__()
        self.choice = choice

    def entries(self) -> Sequence[Entry]:
        """What can be done."""
        loaded = self.console.services.loaded
        return entry_actions(self.choice, loaded.jobs if loaded else ())

    def named(self) -> str:
        """To what."""
        which = "all entries that are quarantined" if self.choice.every else f"entries {_named(self.choice.ids) or '-'}"
        return f"quarantine of job {safe(self.choice.job, 60)}   {which}"

    def taken(self, entry: Entry) -> None:
        """The last question."""
        verb, _, every = entry.what.partition(" ")
        ids = () if every else self.choice.ids
        number = self.choice.total if every else self.choice.number
        self.app.switch_screen(EntryConfirm(EntryVerb(verb), self.choice.job, ids, number))


class EntryConfirm(Confirm):
    """The last question before rows in quarantine are acted upon; they are those of the key press."""

    def __init__(self, verb: EntryVerb, job: str, ids: Sequence[int], number: int | None) -> None:
        super().__init__(entry_wants(job, number or 0, final=verb is EntryVerb.DISCARD))
        self._verb = verb
        self._job = job
        self._ids = tuple(ids)
        self._entries = entries_in_words(number)

    def verb(self) -> str:
        """What is done."""
        return self._verb.value

    def what(self) -> str:
        """How many entries of which job."""
        return f"{self._entries.upper()} of job {safe(self._job, 60)}"

    def does(self) -> str:
        """The words of the button."""
        return f"{self.verb().capitalize()} {self._entries}"

    def lines(self) -> Lines:
        """Which rows, and what the verb means."""
        which = f"entries {_named(self._ids)}" if self._ids else "all entries that are quarantined then"
        yield Level.FINE, f"{which}; the two halves of a changed key move together"
        for number, means in enumerate(_MEANS[self._verb]):
            final = self._verb is EntryVerb.DISCARD and not number
            yield Level.WARNING if final else Level.FINE, f"{'means' if not number else '':<7} {means}"

    def begin(self, typed: dict[Part, str]) -> None:
        """One command for all of them."""
        id = self.set_going(Order(self.command(typed), f"{self.verb()} rows of job {self._job}", self._job))
        if id is not None:
            self.app.switch_screen(EntryProgress([id]))

    def command(self, typed: dict[Part, str]) -> tuple[str, ...]:
        """The command line."""
        return entry_words(self.origin, self._verb, self._job, self._ids, typed)


def _named(ids: Sequence[int]) -> str:
    more = f" and {len(ids) - 5} more" if len(ids) > 5 else ""
    return ", ".join(f"#{id}" for id in ids[:5]) + more
