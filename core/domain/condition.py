"""What a running driver knows to be wrong at this moment, as values that its report carries. Pure.

A condition lasts until a step of its lanes has succeeded, or until it is measured as gone; a new attempt does not end
it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from slotkeeper.core.domain.text import many

_SERVER = re.compile(r"(?:^|: )((source|sink) (\S+)) \([^()]*\):? ", re.DOTALL)
GIVEN_UP = "a step did not end in time and was cancelled"
"""What is said of a step that waited for something longer than its task may last."""
_CONNECTING = re.compile(r"connection to server .*? failed: ", re.DOTALL)
_ADVICE = re.compile(r"\s*Is the server running .*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Condition:
    """`party` is a `slotkeeper.core.domain.fault.Party` value, `name` the party in words, `cause` what it said itself.

    `since` is in seconds since 1970. `lanes` wait by it, out of `of`; `tries` is how often it was tried again.
    """

    party: str
    name: str
    cause: str
    since: float
    lanes: tuple[str, ...] = ()
    of: int = 0
    tries: int = 0

    @property
    def effect(self) -> str:
        """What waits by it."""
        return self.effect_on("DN")

    def effect_on(self, part: str) -> str:
        """What waits by it, where a lane reads what the source calls `part`.

        >>> Condition("sink", "sink mart", "refused", 0.0, ("dn_1", "dn_2"), 4).effect_on("DN")
        '2 of 4 DNs wait'
        """
        if not self.lanes:
            return ""
        if self.of == 1:
            return "the job waits"
        verb = "waits" if len(self.lanes) == 1 else "wait"
        return f"{len(self.lanes)} of {many(self.of, part)} {verb}"

    @property
    def said(self) -> str:
        """In a line, without the time that it lasts: a text that changes every second is no text to compare."""
        return f"{self.name}: {self.cause}" + (f", {self.effect}" if self.lanes else "")


def server_of(message: str) -> tuple[str, str, str]:
    """(side, name, cause) of an error's sentence: which server it names, and what is left of it in that one's words.

    >>> server_of('sink mart (h:5432/m as etl): connection to server at "h", port 5432 failed: Connection refused')
    ('sink', 'sink mart', 'Connection refused')
    >>> server_of("dn_2: a step did not end in time")
    ('', '', 'dn_2: a step did not end in time')
    """
    found = _SERVER.search(message)
    side, name, rest = (found[2], found[1], message[found.end() :]) if found else ("", "", message)
    return side, name, _ADVICE.sub("", _CONNECTING.sub("", rest)).strip() or message


def merged(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    """Those of one party and name as one, which began with the first of them; the oldest first.

    A DN that does not answer behind a source that does not is the source's.
    """
    every, found = list(conditions), dict[tuple[str, str], Condition]()
    source = next((one for one in every if one.party == "source"), None)
    for given in every:
        behind = source is not None and given.party == "dn"
        one = replace(given, party="source", name=source.name) if source is not None and behind else given
        key = (one.party, one.name)
        before = found.get(key)
        if before is None:
            found[key] = one
            continue
        cause = before.cause if before.cause else one.cause
        lanes = tuple(dict.fromkeys((*before.lanes, *one.lanes)))
        since = min(before.since, one.since)
        tries = max(before.tries, one.tries)
        found[key] = replace(one, cause=cause, since=since, lanes=lanes, of=max(before.of, one.of), tries=tries)
    return tuple(sorted(found.values(), key=lambda one: (one.since, one.name)))
