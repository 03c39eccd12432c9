"""A notification as the JSON that a command gets on its standard input: docs/alerts.md has the schema. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone

from slotkeeper.core import codec
from slotkeeper.core.alerts.rules import Notification
from slotkeeper.core.domain.fault import Fault
from slotkeeper.core.redaction import masked_values

SCHEMA = 1
"""Raised where a key is renamed or taken away; a further key is no other schema."""


@dataclass(frozen=True, slots=True)
class Place:
    """Whose faults these are: the host's name, and the path of the state folder."""

    host: str
    folder: str


def message(one: Notification, place: Place) -> dict[str, object]:
    """The values of a notification, without known secrets; what a fault does not say is null, times are UTC."""
    found = {
        "schema": SCHEMA,
        "kind": one.kind.value,
        "at": moment(one.at),
        "began": moment(one.began),
        "id": one.fault.id,
        "host": place.host,
        "state_folder": place.folder,
        "text": one.fault.said(one.at),
        "fault": fault_values(one.fault),
    }
    return {key: masked_values(value) for key, value in found.items()}


def text_of(one: Notification, place: Place) -> str:
    """The same as one line of ASCII."""
    return json.dumps(message(one, place), ensure_ascii=True).replace("\x7f", "\\u007f") + "\n"


def fault_values(one: Fault) -> dict[str, object]:
    """All that a fault says; what it does not say is null."""
    since = None if one.since is None else moment(one.since)
    return codec.shown(one) | {"party": one.party.value, "severity": one.severity.value, "since": since}


def moment(at: datetime) -> str:
    """A moment as RFC 3339 in UTC, to the millisecond.

    >>> moment(datetime(2026, 1, 31, 8, 30, tzinfo=timezone.utc))
    '2026-01-31T08:30:00.000Z'
    """
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
