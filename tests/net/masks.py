"""Values that vary between runs are masked: keys, their order, types of values and all words remain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

PATTERNS = (
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z| UTC|[+-]\d\d:\d\d)?"), "<time>"),
    (re.compile(r"\b\d{8}T\d{6}-[0-9a-f]{6}\b"), "<reset>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{13}\b"), "<epoch>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{12,64}\b"), "<hex>"),
    (re.compile(r"\b(pid|port|uid|supervisor) \d+"), r"\1 <number>"),
    (re.compile(r":pid:\[\d+\]:\d+"), ":<process>"),
    (re.compile(r"\b(\d+/-?\d+)/\d+\b"), r"\1/<xid>"),
    (re.compile(r"\bdb\d+:\d+:"), "db<oid>:<oid>:"),
    (re.compile(r"\bPostgreSQL \d[^;]*"), "PostgreSQL <version>"),
    (re.compile(r"\bpyspark [\d.]+"), "pyspark <version>"),
    (re.compile(r"\b(warehouse|sink|slot)_\d+\b"), r"\1_<number>"),
    (re.compile(r"(?<![\w.])[+-]?\d[\d,]*(\.\d+)? ?(ms|s|min|h|d|MiB|GiB)\b"), "<amount>"),
)
"""Moments, identifiers, process ids, durations and sizes in a text."""
VARYING = frozenset({"pid", "session_id", "uid", "epoch", "xmin", "seconds", "seconds_left"})
"""Keys whose numbers vary."""
SOMETIMES = frozenset({"sent_at"})
"""Keys whose time may or may not be known at that moment."""
HOST = "host"
"""The measurements of this host by a job's supervisor, if it has any yet; a text is a server's address."""
UNORDERED = "findings"
"""The key of `doctor`'s findings: servers are queried concurrently, and the first to answer is the first in the list.
"""
_ALERT = re.compile(r"[0-9a-f]{8}")
"""The key of an alert: a hash that includes the user's name."""
PROGRESS = re.compile(r"slotkeeper: \w+( [\w.]+)?: [A-Z][A-Z ]+( \(.*\))?")
"""A line on standard error about the state of a job: the host's speed determines which of them are seen."""


def _place(finding: object) -> str:
    return str(finding["place"]) if isinstance(finding, dict) else ""


class Masks:
    """Masks values; `places` are texts of this run (folders, ports, names) and their replacements."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = sorted(places.items(), key=lambda pair: -len(pair[0]))
        self._numbers = {here for here in places if here.isdecimal()}

    def text(self, text: str) -> str:
        """Return a text without the values that vary."""
        for here, mark in self._places:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(here)}(?![A-Za-z0-9])", mark, text)
        for pattern, mark in PATTERNS:
            text = pattern.sub(mark, text)
        return text

    def value(self, value: object, key: str = "") -> object:
        """A JSON value without what varies; a number of a varying key becomes the name of its type.

        >>> Masks({"/tmp/x": "{folder}"}).value({"pid": 7, "rows": 7, "at": "2026-01-31T08:30:00Z", "in": "/tmp/x/y"})
        {'pid': '<int>', 'rows': 7, 'at': '<time>', 'in': '{folder}/y'}
        """
        if key == HOST and not isinstance(value, str):
            return "<host or null>"
        if isinstance(value, dict):
            return {self.text(str(name)): self.value(each, name) for name, each in value.items()}
        if isinstance(value, list):
            found = [self.value(each, key) for each in value]
            return sorted(found, key=_place) if key == UNORDERED else found
        if key in SOMETIMES:
            return "<time or null>"
        if isinstance(value, str):
            return "<alert>" if key == "key" and _ALERT.fullmatch(value) else self.text(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return value
        return f"<{type(value).__name__}>" if key in VARYING or str(value) in self._numbers else value

    def lines(self, lines: Iterable[str]) -> list[str]:
        """Return lines of text, each masked, without those on progress."""
        return [self.text(line) for line in lines if not PROGRESS.fullmatch(line)]
