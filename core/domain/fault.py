"""A fault: what is wrong now. Whose it is, in whose words, since when, how bad, what it delays or loses. Pure.

Every screen, command, exit code and alert shows faults, and nothing judges beside them. An `Ack` is a person's answer
to one: seen, or silent until a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.field import TextOrNull


class Severity(Enum):
    """How bad it is; unknown is what prevents a judgement, and is never fine."""

    CRITICAL = "critical"
    WARNING = "warning"
    UNKNOWN = "unknown"


class Party(Enum):
    """Whose fault it is; the values are the words of `--json`."""

    SOURCE = "source"
    DN = "dn"
    SINK = "sink"
    LOCK = "lock"
    """A lock and who holds it."""
    SLOT = "slot"
    TABLE = "table"
    PROCESS = "process"
    """A process of ours."""
    MACHINE = "machine"
    """This machine: its disk, its clock, our files on it."""
    PERSON = "person"
    """Somebody who asked for it."""


_COUNTED = ("rows_quarantined",)
"""Rules of which somebody who has seen three has not seen four."""
FEW = 40
"""Characters of an effect that has room beside its cause in a terminal of 80 columns."""
_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is wrong now."""

    rule: str
    """A key of a fixed list (`slotkeeper docs alerts`)."""
    party: Party
    """Whose it is."""
    name: str
    """The party in words ("sink mart", "dn_2")."""
    severity: Severity
    """How bad; unknown prevents a judgement."""
    cause: str
    """The server's own words where there are any."""
    effect: str = ""
    """What it delays or loses, and when; empty where nothing is said."""
    do: str = ""
    """What is safe to do, empty where nothing needs to be done."""
    since: datetime | None = None
    """Since when; null: nobody noted it."""
    job: TextOrNull = ""
    """The job's name; null: it is of the machine, or of a source as a whole."""
    table: TextOrNull = ""
    """The schema.table at the source; null: it is of nothing of that kind."""
    thing: TextOrNull = ""
    """A DN, a slot or another thing that tells faults of one rule and job apart; null: it is of nothing of that
    kind."""
    value: TextOrNull = ""
    """What was measured; null: nothing was."""
    limit: TextOrNull = ""
    """What it was held against; null: it has no limit."""
    source: TextOrNull = ""
    """The source of a slot that is no job's; null: it is of nothing of that kind."""

    @property
    def key(self) -> str:
        """What tells it from every other fault that holds now; the same as long as it lasts."""
        named = (self.rule, self.job, self.table, self.thing)
        return "\x1f".join((*named, self.source) if self.source else named)

    @property
    def ack_keys(self) -> tuple[str, ...]:
        """The keys of what may acknowledge it, wherever that was said: the first is for saying so now.

        Who has seen a warning has not seen it critical, and who has seen three has not seen four.
        """
        number = self.value if self.rule in _COUNTED else ""
        as_bad = reversed(_ORDER[: _ORDER.index(self.severity) + 1])
        return tuple("\x1f".join((self.key, number, one.value)) for one in as_bad)

    @property
    def id(self) -> str:
        """Its key as one short word that can be typed."""
        import hashlib  # loads OpenSSL, which a console that only starts does not need

        return hashlib.sha256(self.key.encode("utf-8", "surrogatepass")).hexdigest()[:8]

    def said(self, now: datetime) -> str:
        """In one line: who, what, for how long, and what waits where a few words say it; `effect` has the rest.

        >>> from datetime import timedelta, timezone
        >>> now = datetime(2026, 1, 1, tzinfo=timezone.utc)
        >>> Fault("sink_unreachable", Party.SINK, "sink mart", Severity.WARNING, "connection refused",
        ...       "4 of 4 DNs wait", since=now - timedelta(seconds=40)).said(now)
        'sink mart: connection refused, 40 s, 4 of 4 DNs wait'
        """
        lasts = None if self.since is None else elapsed(self.since, now)
        waits = self.effect if len(self.effect) <= FEW else ""
        parts = (self.cause, "" if lasts is None else in_brief(lasts), waits)
        return f"{self.name}: {', '.join(part for part in parts if part)}"


def in_brief(seconds: float) -> str:
    """How long something lasts, in its largest unit that is not 1.

    >>> in_brief(0.4), in_brief(119), in_brief(7_300), in_brief(200_000)
    ('0 s', '119 s', '121 min', '55 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min" if seconds < 10_800 else f"{seconds // 3600:.0f} h"


def ranked(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """The worst first, then those that last longest."""

    def place(one: Fault) -> tuple[int, float, str]:
        began = one.since.timestamp() if one.since is not None else float("inf")
        return (_ORDER.index(one.severity), began, one.key)

    return tuple(sorted(faults, key=place))


def is_worse(one: Severity, other: Severity) -> bool:
    """Whether the first matters more."""
    return _ORDER.index(one) < _ORDER.index(other)


def worst(faults: Iterable[Fault]) -> Severity | None:
    """The severity that matters most; None where nothing is wrong."""
    return min((one.severity for one in faults), key=_ORDER.index, default=None)


@dataclass(frozen=True, slots=True)
class Ack:
    """Who said so, when and why; `until` is None for an acknowledgement, which holds as long as the alert does."""

    by: str
    at: datetime
    until: datetime | None = None
    reason: str = ""


def ack_in(acks: Mapping[str, Ack], keys: Iterable[str]) -> Ack | None:
    """The first acknowledgement under one of these keys."""
    return next((acks[key] for key in keys if key in acks), None)


def is_quiet(ack: Ack | None, now: datetime, since: datetime | None = None) -> bool:
    """Whether an alert with this acknowledgement needs nobody now; a clock that was set back ends a silence.

    `since` is when the alert began, where that is known: what began after somebody acknowledged it is another one.
    """
    if ack is None:
        return False
    if ack.until is None:
        return since is None or since <= ack.at
    return now < ack.until and elapsed(ack.at, now) is not None
