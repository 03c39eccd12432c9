"""The audit log: a hash chain of lines that record actions with actor, object, reason and observed result. Pure.

An action that changes something writes two lines with the same `action_id`: the intent before the action, the outcome
after it. Each line contains the hash of the line before it, so that a removed or changed line is detected. A hash is
the SHA-256 of a line's bytes, which are canonical JSON (sorted keys, ASCII only, no whitespace). The first line of a
new file contains the last hash of the previous file. A truncated line (after a crash or on a full disk) is not part of
the chain: the next line refers to the last complete line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from slotkeeper.core.domain.field import Positive
from slotkeeper.core.redaction import masked_values


class Phase(Enum):
    """The phase of an action in which a line is written: before or after the action."""

    INTENT = "intent"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True)
class Actor:
    """The user as reported by the kernel, and unverified claims from environment variables."""

    os_user: str
    """The account name for the uid; only a claim in lines from an earlier version, because those contain no uid."""
    host: str
    """The host name."""
    pid: Positive
    """The process id."""
    sudo_user: str = ""
    """The user who ran sudo, as claimed by the environment; empty if there is none."""
    origin: str = ""
    """The SSH client's address, as claimed by the environment; empty if there is none."""
    uid: int | None = None
    """The uid of the process; null: the line is from an earlier version."""
    login_uid: int | None = None
    """The login uid that the kernel records (`/proc/PID/loginuid`), unchanged by sudo and su; null: not recorded."""
    claimed: str = ""
    """A user name that differs from the account, as claimed by the environment; empty if there is none."""

    @property
    def who(self) -> str:
        """A short description of the actor.

        >>> Actor("alice", "h1", 7, uid=1000).who, Actor("bob", "h1", 7, uid=1000, claimed="alice").who
        ('alice uid 1000', 'alice (claimed) uid 1000')
        """
        if self.uid is None:
            return f"{self.os_user} (claimed)"
        return f"{self.claimed} (claimed) uid {self.uid}" if self.claimed else f"{self.os_user} uid {self.uid}"

    @property
    def text(self) -> str:
        """The actor as text.

        >>> Actor("root", "h1", 7, "eva", "10.0.0.9", 0, 1000).text
        'root@h1 uid 0, login uid 1000 (claimed: sudo by eva, from 10.0.0.9)'
        """
        known = [f"{self.os_user}@{self.host}" + ("" if self.uid is None else f" uid {self.uid}")]
        known += [f"login uid {self.login_uid}"] if self.login_uid not in (None, self.uid) else []
        claims = [f"name {self.claimed}"] if self.claimed else []
        claims += [f"sudo by {self.sudo_user}"] if self.sudo_user else []
        claims += [f"from {self.origin}"] if self.origin else []
        return ", ".join(known) + (f" (claimed: {', '.join(claims)})" if claims else "")

    @classmethod
    def parse(cls, found: object) -> Actor:
        """Parse the actor of a line; raises ValueError, KeyError or TypeError for invalid content."""
        if not isinstance(found, dict):
            raise TypeError("an actor is an object")
        texts = {name: found.get(name, "") for name in ("sudo_user", "origin", "claimed")}
        texts |= {name: found[name] for name in ("os_user", "host")}
        numbers = {name: found.get(name) for name in ("uid", "login_uid")}
        if set(found) - {"pid", *texts, *numbers} or not all(isinstance(one, str) for one in texts.values()):
            raise TypeError("an actor consists of strings")
        if type(found["pid"]) is not int or any(one is not None and type(one) is not int for one in numbers.values()):
            raise TypeError("a uid is a number")
        uid, login_uid = numbers["uid"], numbers["login_uid"]
        return cls(pid=found["pid"], uid=uid, login_uid=login_uid, **texts)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A line of the audit log."""

    at: datetime
    """When the line was written."""
    actor: Actor
    """The user who performed the action."""
    action: str
    """The command."""
    action_id: str
    """The id that an intent and its outcome share."""
    phase: Phase
    """Intent or outcome."""
    what: str
    """The object, such as "dws1 ods.orders slot orders_rt"."""
    reason: str = ""
    """The reason as typed, or empty."""
    plan: str = ""
    """The plan that was executed, or empty."""
    outcome: str = ""
    """The outcome; empty for an intent."""
    result: Mapping[str, str] = field(default_factory=dict)
    """Requested or observed values, by DN or by name; each: a value as text."""

    @property
    def said(self) -> str:
        """The reason if this line is an intent, else the outcome."""
        if self.phase is not Phase.INTENT:
            return self.outcome
        return f"reason: {self.reason}" if self.reason else "requested, no reason given"

    @property
    def failed(self) -> bool:
        return self.phase is Phase.OUTCOME and self.outcome.startswith("failed")

    def as_json(self) -> dict[str, Any]:
        """Return the line as JSON values with known secrets masked; times are UTC."""
        found = asdict(self) | {"phase": self.phase.value}
        found["at"] = self.at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found["result"] = dict(self.result)
        return {name: masked_values(value) for name, value in found.items()}

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> AuditLine:
        """Parse a line written by `as_json`; raises ValueError, KeyError or TypeError for invalid content."""
        values = dict(found)
        at, actor, phase, result = (values.pop(name) for name in ("at", "actor", "phase", "result"))
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None or not isinstance(result, dict):
            raise TypeError("a time without an offset, or a result that is not an object")
        if not all(isinstance(one, str) for one in (*values.values(), *result, *result.values())):
            raise TypeError("a line consists of strings")
        return cls(moment, Actor.parse(actor), phase=Phase(phase), result=result, **values)


FIRST = "0" * 64
"""The predecessor hash in the very first line, which has no predecessor."""
ACCEPT = "audit accept"
"""The action in a line that accepts preceding lines without a hash; its result has their hash under the key `SEAL`."""
SEAL = "lines"
_BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Link:
    """A line of a file; `number` starts at 1, `line` is None if parsing failed, and `before` is None without a hash."""

    file: str
    number: int
    line: AuditLine | None
    before: str | None
    digest: str

    @property
    def place(self) -> str:
        """The file and line number."""
        return f"{self.file}:{self.number}"


@dataclass(frozen=True, slots=True)
class CopiedHead:
    """The hash of a line as stored in a sink, with a description of the line."""

    head: str
    at: datetime
    about: str


@dataclass(frozen=True, slots=True)
class Chain:
    """The result of verifying the hash chain of the files.

    `damaged` contains the locations of lines that cannot be parsed, and `broken` contains one sentence per break in the
    chain. `unlinked` contains the lines without a hash that no `audit accept` has recorded; `accepted` counts the lines
    without a hash that an `audit accept` has recorded.
    """

    links: tuple[Link, ...]
    damaged: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    unlinked: tuple[Link, ...] = ()
    accepted: int = 0
    rotated_out: bool = False

    @property
    def whole(self) -> tuple[Link, ...]:
        """The lines that can be parsed."""
        return tuple(link for link in self.links if link.line is not None)


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of a chain with the hashes stored in one sink.

    `missing` contains one sentence per missing line; `after` counts the lines after the newest line known to the sink.
    `older` counts the hashes that were not compared because the files that contained their lines have been deleted.
    """

    heads: int
    missing: tuple[str, ...]
    after: int
    older: int = 0


def linked(line: AuditLine, before: str) -> bytes:
    """Return the bytes of a line as written to the file, without the line ending."""
    values = line.as_json() | {_BEFORE: before}
    return json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def digest(raw: bytes) -> str:
    """Return the hash of a line, which the next line contains."""
    import hashlib  # loads OpenSSL

    return hashlib.sha256(raw).hexdigest()


def link_of(file: str, number: int, raw: bytes) -> Link:
    """Parse a line as read from a file; a line with invalid content results in a `Link` without `line`."""
    try:
        values = json.loads(raw)
        before = values.pop(_BEFORE, None)
        if before is not None and not isinstance(before, str):
            raise TypeError("a hash is a string")
        return Link(file, number, AuditLine.parse(values), before, digest(raw))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Link(file, number, None, None, digest(raw))


def judge(links: Sequence[Link], rotated_out: bool = False) -> Chain:
    """Verify that each line contains the hash of the line before it; `rotated_out`: old files have been deleted.

    The version that wrote lines without a hash did not record a uid either. If a line has a uid but no hash, its hash
    was therefore removed; if it has neither, either that version wrote it or both were removed.
    """
    broken: list[str] = []
    last: Link | None = None
    unlinked: list[Link] = []
    accepted = 0
    for link in links:
        if link.line is None:
            continue
        if link.before is None:
            unlinked.append(link)
            if last is not None and last.before is not None:
                broken.append(f"{link.place} has no hash of the line before it: the line was not written by Slotkeeper")
            elif link.line.actor.uid is not None:
                broken.append(f"{link.place} has no hash of the line before it: its hash was removed")
        elif fault := _fault(link, last, rotated_out):
            broken.append(fault)
        elif link.line.action == ACCEPT and (unlinked or not rotated_out):
            if link.line.result.get(SEAL) != seal(unlinked):
                broken.append(f"{link.place} accepted lines that differ from the unlinked lines before it")
            accepted, unlinked = accepted + len(unlinked), []
        last = link
    damaged = tuple(link.place for link in links if link.line is None)
    return Chain(tuple(links), damaged, tuple(broken), tuple(unlinked), accepted, rotated_out)


def seal(links: Iterable[Link]) -> str:
    """Return one hash for several lines, in their order."""
    return digest("".join(link.digest for link in links).encode("ascii"))


def _fault(link: Link, last: Link | None, rotated_out: bool) -> str:
    if last is None:
        return "" if rotated_out or link.before == FIRST else f"{link.place}: the lines before it are missing"
    if link.before == last.digest:
        return ""
    here, before = link.place, last.place
    return f"{here} does not follow {before}: one of them was changed, or a line between them was removed or added"


def compare(chain: Chain, heads: Iterable[CopiedHead]) -> Compared:
    """Verify that each line whose hash a sink stores exists here unchanged; lines that were rotated out are skipped."""
    place = {link.digest: number for number, link in enumerate(chain.whole)}
    first = chain.whole[0].line if chain.whole else None
    found, older, missing, newest = 0, 0, list[str](), -1
    for one in heads:
        if chain.rotated_out and first is not None and one.at < first.at:
            older += 1
            continue
        found += 1
        newest = max(newest, place.get(one.head, -1))
        if one.head not in place:
            missing.append(f"{one.about} of {one.at:%Y-%m-%dT%H:%M:%SZ} is missing or was changed after it was written")
    if older and newest < 0:  # after rotation, later lines remain, and the sink stores their hashes, too
        what = f"none of {older + found} copied lines exists: the files were replaced, or no copy was made recently"
        missing.append(what)
    return Compared(found, tuple(missing), len(place) - 1 - newest, older)


@dataclass(frozen=True, slots=True)
class Armed:
    """A user who has enabled actions in a console: the name reported by the kernel, the reason, and the expiry."""

    who: str
    reason: str
    until: datetime
