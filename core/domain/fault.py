"""A fault (a current problem): its responsible party, cause, start, severity and impact. Pure.

Every screen, command, exit code and alert uses these faults, and no other code assesses a job's condition. With an
`Ack`, a user acknowledges a fault or silences it until a given time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, IntEnum

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.domain.field import TextOrNull
from slotkeeper.core.errors import TroubleName


class Severity(Enum):
    """The severity of a fault; unknown means that no assessment is possible, and is never treated as healthy."""

    CRITICAL = "critical"
    WARNING = "warning"
    UNKNOWN = "unknown"


class Party(Enum):
    """The party that causes a fault; the values appear in `--json`."""

    SOURCE = "source"
    DN = "dn"
    SINK = "sink"
    LOCK = "lock"
    """A lock and the session that holds it."""
    SLOT = "slot"
    TABLE = "table"
    PROCESS = "process"
    """A Slotkeeper process."""
    MACHINE = "machine"
    """This host: its disk, its clock, Slotkeeper's files on it."""
    PERSON = "person"
    """A user who requested the current condition."""


class Urgency(IntEnum):
    """The effect of a fault on its job, in the order in which faults of one severity are shown."""

    BLOCKS = 0
    """Rows cannot be applied until the fault ends."""
    DELAYS = 1
    """Rows are applied late, or information about them is late."""
    THREATENS = 2
    """Rows are not affected yet."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A kind of fault."""

    code: str
    """SK- followed by four digits, never reused for another kind; rejections by a server have more specific codes."""
    urgency: Urgency
    root: int
    """Rank within one urgency: a fault of a lower-numbered kind can cause a fault of a higher-numbered kind."""


RULES = {
    "disk_full": Rule("SK-2001", Urgency.DELAYS, 0),
    "host_starved": Rule("SK-2009", Urgency.BLOCKS, 0),
    "lock_waits": Rule("SK-2101", Urgency.BLOCKS, 0),
    "source_blocked": Rule("SK-2106", Urgency.BLOCKS, 0),
    "slot_absent": Rule("SK-2201", Urgency.BLOCKS, 1),
    "reset_open": Rule("SK-2202", Urgency.BLOCKS, 1),
    "job_paused": Rule("SK-2301", Urgency.BLOCKS, 1),
    "job_stopped": Rule("SK-2302", Urgency.BLOCKS, 1),
    "awaits_copy": Rule("SK-2309", Urgency.BLOCKS, 1),
    "job_refused": Rule("SK-2303", Urgency.BLOCKS, 1),
    "query_dead": Rule("SK-2310", Urgency.BLOCKS, 1),
    "job_failed": Rule("SK-2304", Urgency.BLOCKS, 1),
    "job_dead": Rule("SK-2305", Urgency.BLOCKS, 1),
    "job_gone": Rule("SK-2306", Urgency.BLOCKS, 1),
    "job_elsewhere": Rule("SK-2307", Urgency.THREATENS, 1),
    "job_trouble": Rule("SK-2308", Urgency.DELAYS, 1),
    "table_failed": Rule("SK-2311", Urgency.BLOCKS, 1),
    "table_stopped": Rule("SK-2312", Urgency.BLOCKS, 1),
    "table_paused": Rule("SK-2313", Urgency.BLOCKS, 1),
    "view_failed": Rule("SK-2321", Urgency.DELAYS, 1),
    "view_late": Rule("SK-2322", Urgency.DELAYS, 2),
    "view_differs": Rule("SK-2323", Urgency.THREATENS, 1),
    "not_started": Rule("SK-2314", Urgency.BLOCKS, 3),
    "process_stopped": Rule("SK-2401", Urgency.BLOCKS, 1),
    "source_fails": Rule("SK-2102", Urgency.BLOCKS, 2),
    "dn_fails": Rule("SK-2103", Urgency.BLOCKS, 2),
    "sink_fails": Rule("SK-2104", Urgency.BLOCKS, 2),
    "driver_gone": Rule("SK-2402", Urgency.BLOCKS, 2),
    "driver_crashed": Rule("SK-2405", Urgency.BLOCKS, 2),
    "driver_silent": Rule("SK-2403", Urgency.BLOCKS, 3),
    "driver_retries": Rule("SK-2404", Urgency.BLOCKS, 3),
    "lag": Rule("SK-2105", Urgency.DELAYS, 4),
    "reader_fails": Rule("SK-2107", Urgency.THREATENS, 1),
    "store_unreadable": Rule("SK-2002", Urgency.DELAYS, 1),
    "clock_set_back": Rule("SK-2003", Urgency.DELAYS, 2),
    "slot_ttl": Rule("SK-2203", Urgency.THREATENS, 1),
    "crash_loop": Rule("SK-2406", Urgency.THREATENS, 1),
    "rows_quarantined": Rule("SK-2501", Urgency.THREATENS, 1),
    "target_differs": Rule("SK-2502", Urgency.THREATENS, 1),
    "not_verified": Rule("SK-2503", Urgency.THREATENS, 2),
    "disk_nearly_full": Rule("SK-2004", Urgency.THREATENS, 1),
    "clocks_differ": Rule("SK-2005", Urgency.THREATENS, 2),
    "audit_damaged": Rule("SK-2006", Urgency.THREATENS, 2),
    "alerts_stuck": Rule("SK-2007", Urgency.THREATENS, 1),
    "alert_command_fails": Rule("SK-2008", Urgency.THREATENS, 1),
}
"""All rules; `docs/alerts.md` describes when each starts and ends."""
NAMED = {
    TroubleName.SLOT_LOST: "SK-2601",
    TroubleName.SLOT_MOVED: "SK-2602",
    TroubleName.PROGRESS_LOST: "SK-2603",
    TroubleName.SOURCE_OLDER: "SK-2604",
    TroubleName.SINK_OLDER: "SK-2605",
    TroubleName.TARGET_CHANGED: "SK-2606",
    TroubleName.SCHEMA_CHANGED: "SK-2607",
    TroubleName.TOPOLOGY_CHANGED: "SK-2608",
    TroubleName.QUARANTINE_FULL: "SK-2609",
    TroubleName.POSITIONS_DIFFER: "SK-2610",
}
"""The code of a job or table that a named error ended, because each of these errors has an action of its own."""
_COUNTED = ("rows_quarantined",)
"""Rules that count rows: an acknowledgement applies only to the acknowledged number of rows."""
FEW = 40
"""Maximum length of an effect that is shown next to its cause in a terminal with 80 columns."""
_ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Fault:
    """A current problem."""

    rule: str
    """The rule's key, from a fixed list (`slotkeeper docs alerts`)."""
    party: Party
    """The party that causes it."""
    name: str
    """The party's name ("sink mart", "dn_2")."""
    severity: Severity
    """Its severity; unknown: no assessment is possible."""
    cause: str
    """The problem, with the server's error message if there is one."""
    effect: str = ""
    """The impact: the data that is delayed or lost, and when; empty if unknown."""
    do: str = ""
    """The safe action, empty if no action is needed."""
    since: datetime | None = None
    """When the problem started; null: not recorded."""
    job: TextOrNull = ""
    """The job's name; null: the fault concerns this host or a whole source."""
    table: TextOrNull = ""
    """The source table, as schema.table; null: the fault does not concern a table."""
    thing: TextOrNull = ""
    """A DN, a slot or another object that distinguishes faults of one rule and job; null: none."""
    value: TextOrNull = ""
    """The measured value; null: none."""
    limit: TextOrNull = ""
    """The limit of that value; null: none."""
    source: TextOrNull = ""
    """The source of a slot that no configured job reads; null: the fault does not concern such a slot."""
    code: str = ""
    """SK- followed by four digits, as in `slotkeeper docs messages` and the runbook."""

    @property
    def key(self) -> str:
        """An identifier that is unique among all current faults and does not change while the fault lasts."""
        named = (self.rule, self.job, self.table, self.thing)
        return "\x1f".join((*named, self.source) if self.source else named)

    @property
    def ack_keys(self) -> tuple[str, ...]:
        """The keys under which the fault can be acknowledged; the first is for a new acknowledgement.

        The acknowledgement of a warning does not apply to a critical fault, and an acknowledgement of three rows does
        not apply to four rows.
        """
        number = self.value if self.rule in _COUNTED else ""
        as_bad = reversed(_ORDER[: _ORDER.index(self.severity) + 1])
        return tuple("\x1f".join((self.key, number, one.value)) for one in as_bad)

    @property
    def id(self) -> str:
        """A short identifier, derived from the key, that users can type."""
        import hashlib  # loads OpenSSL, which starting a console does not need

        return hashlib.sha256(self.key.encode("utf-8", "surrogatepass")).hexdigest()[:8]

    def said(self, now: datetime) -> str:
        """Return one line with name, cause, duration, and the effect if it is short; `effect` contains the full text.

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
    """Return a duration as text, in the largest unit in which the number is at least 2.

    >>> in_brief(0.4), in_brief(119), in_brief(7_300), in_brief(200_000)
    ('0 s', '119 s', '121 min', '55 h')
    """
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min" if seconds < 10_800 else f"{seconds // 3600:.0f} h"


def coded(fault: Fault) -> Fault:
    """Return the fault with its rule's code, unless it has a more specific one."""
    return fault if fault.code else replace(fault, code=RULES[fault.rule].code)


def ranked(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Sort faults by severity, worst first.

    Within a severity, faults that block a job precede faults that delay it, causes precede their consequences, and
    newer faults precede older faults, which users already know.
    """

    def place(one: Fault) -> tuple[int, int, int, float, str]:
        rule = RULES[one.rule]
        began = one.since.timestamp() if one.since is not None else 0.0
        return (_ORDER.index(one.severity), rule.urgency, rule.root, -began, one.key)

    return tuple(sorted(faults, key=place))


def is_worse(one: Severity, other: Severity) -> bool:
    return _ORDER.index(one) < _ORDER.index(other)


def worst(faults: Iterable[Fault]) -> Severity | None:
    return min((one.severity for one in faults), key=_ORDER.index, default=None)


@dataclass(frozen=True, slots=True)
class Ack:
    """An acknowledgement with its user, time and reason; `until` is None if it lasts until the alert ends."""

    by: str
    at: datetime
    until: datetime | None = None
    reason: str = ""


def ack_in(acks: Mapping[str, Ack], keys: Iterable[str]) -> Ack | None:
    """Return the first acknowledgement under one of these keys."""
    return next((acks[key] for key in keys if key in acks), None)


def is_quiet(ack: Ack | None, now: datetime, since: datetime | None = None) -> bool:
    """Return whether this acknowledgement mutes its alert now; setting the clock back ends a silence.

    `since` is the start of the alert, if known: an acknowledgement does not apply to an alert that started later.
    """
    if ack is None:
        return False
    if ack.until is None:
        return since is None or since <= ack.at
    return now < ack.until and elapsed(ack.at, now) is not None
