"""What opens a session beside the user's name: a reference that is read at each login, never the plain text itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from slotkeeper.core.redaction import MASK


class Secret(Protocol):
    """A password that can be exchanged while a job runs; its text is asked for at each login and retained nowhere."""

    def now(self) -> str:
        """The password as its reference says it, at most a few seconds old. Raises SecretUnread."""

    def refused(self, plain: str) -> None:
        """A server refused this password: the next `now` reads the reference again, at once after the first refusal."""

    def taken(self, plain: str) -> None:
        """A server accepted this password."""

    def accepted(self) -> str:
        """The password that a server accepted last in this process; "" where none was."""

    def hidden_in(self, text: str) -> str:
        """The text without the newest passwords of this reference, also those that are too short to mask elsewhere."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A password that has no reference: of a server that this process started itself.

    >>> Fixed("pw").hidden_in("refused: pw"), repr(Fixed("pw"))
    ('refused: ***', 'Fixed()')
    """

    plain: str = field(repr=False)

    def now(self) -> str:
        return self.plain

    def refused(self, plain: str) -> None:
        """Another one will never come."""

    def taken(self, plain: str) -> None:
        """It stays as it is."""

    def accepted(self) -> str:
        return ""

    def hidden_in(self, text: str) -> str:
        return text.replace(self.plain, MASK) if self.plain else text


def secret_of(password: Secret | str) -> Secret:
    """The same for a plain text and for a reference."""
    return Fixed(password) if isinstance(password, str) else password
