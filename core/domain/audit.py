"""The audit: who did what to which object, why, and the observed result; each line chained to the one before. Pure.

An action that changes something writes two lines under one `action_id`: the intent before, the outcome after. Each
line names the hash of the one before it, so that a removed or changed line shows. A hash is SHA-256 of a line's bytes,
which are canonical JSON (keys sorted, ASCII, no blanks). The first line of a new file names the last hash of the file
before it. A cut line (a crash, a full disk) is not a link: the next line names the last whole one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from slotkeeper.core.domain.field import Positive
from slotkeeper.core.redaction import masked_values


class Phase(Enum):
    """Before and after."""

    INTENT = "intent"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who, by the kernel, and what the environment claimed."""

    os_user: str
    """The account of the uid; a claim in a line of an earlier version, which has no uid."""
    host: str
    """The machine."""
    pid: Positive
    """The process."""
    sudo_user: str = ""
    """Claimed: who called sudo, or empty."""
    origin: str = ""
    """Claimed: the SSH client's address, or empty."""
    uid: int | None = None
    """The process's own; null: a line of an earlier version."""
    login_uid: int | None = None
    """What the kernel noted at the login (`/proc/PID/loginuid`, which neither sudo nor su changes); null: it noted
    nothing."""
    claimed: str = ""
    """Claimed: another name, or empty."""

    @property
    def who(self) -> str:
        """In a few words.

        >>> Actor("alice", "h1", 7, uid=1000).who, Actor("bob", "h1", 7, uid=1000, claimed="alice").who
        ('alice uid 1000', 'alice (claimed) uid 1000')
        """
        if self.uid is None:
            return f"{self.os_user} (claimed)"
        return f"{self.claimed} (claimed) uid {self.uid}" if self.claimed else f"{self.os_user} uid {self.uid}"

    @property
    def text(self) -> str:
        """In words.

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
        """The actor of a line; raises ValueError, KeyError or TypeError for anything else."""
        if not isinstance(found, dict):
            raise TypeError("an actor is an object")
        texts = {name: found.get(name, "") for name in ("sudo_user", "origin", "claimed")}
        texts |= {name: found[name] for name in ("os_user", "host")}
        numbers = {name: found.get(name) for name in ("uid", "login_uid")}
        if set(found) - {"pid", *texts, *numbers} or not all(isinstance(one, str) for one in texts.values()):
            raise TypeError("an actor is made of texts")
        if type(found["pid"]) is not int or any(one is not None and type(one) is not int for one in numbers.values()):
            raise TypeError("a uid is a number")
        uid, login_uid = numbers["uid"], numbers["login_uid"]
        return cls(pid=found["pid"], uid=uid, login_uid=login_uid, **texts)


@dataclass(frozen=True, slots=True)
class AuditLine:
    """A line."""

    at: datetime
    """When it was written."""
    actor: Actor
    """Who did it."""
    action: str
    """The command."""
    action_id: str
    """What an intent and its outcome share."""
    phase: Phase
    """Before or after."""
    what: str
    """The thing, such as "dws1 ods.orders slot orders_rt"."""
    reason: str = ""
    """Why, as typed, or empty."""
    plan: str = ""
    """The plan that was carried out, or empty."""
    outcome: str = ""
    """How it ended; empty before."""
    result: Mapping[str, str] = field(default_factory=dict)
    """What was requested or observed, by DN or by name; each: as text."""

    @property
    def said(self) -> str:
        """Why before, and how it ended after."""
        if self.phase is not Phase.INTENT:
            return self.outcome
        return f"because: {self.reason}" if self.reason else "asked, no reason given"

    @property
    def failed(self) -> bool:
        """Whether it is the outcome of something that failed."""
        return self.phase is Phase.OUTCOME and self.outcome.startswith("failed")

    def as_json(self) -> dict[str, Any]:
        """The line as JSON values, without known secrets; times are UTC."""
        found = asdict(self) | {"phase": self.phase.value}
        found["at"] = self.at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        found["result"] = dict(self.result)
        return {name: masked_values(value) for name, value in found.items()}

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> AuditLine:
        """The line that `as_json` wrote; raises ValueError, KeyError or TypeError for anything else."""
        values = dict(found)
        at, actor, phase, result = (values.pop(name) for name in ("at", "actor", "phase", "result"))
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None or not isinstance(result, dict):
            raise TypeError("a time without an offset, or a result that is not an object")
        if not all(isinstance(one, str) for one in (*values.values(), *result, *result.values())):
            raise TypeError("a line is made of texts")
        return cls(moment, Actor.parse(actor), phase=Phase(phase), result=result, **values)


FIRST = "0" * 64
"""What the very first line names."""
ACCEPT = "audit accept"
"""The action of the line that records the unlinked lines before it: `SEAL` in its result is the hash of theirs."""
SEAL = "lines"
_BEFORE = "before"


@dataclass(frozen=True, slots=True)
class Link:
    """A line of a file, `number` from 1; `line` is None where it cannot be read, `before` where it names nothing."""

    file: str
    number: int
    line: AuditLine | None
    before: str | None
    digest: str

    @property
    def place(self) -> str:
        """Its file and line."""
        return f"{self.file}:{self.number}"


@dataclass(frozen=True, slots=True)
class CopiedHead:
    """The hash of a line as a sink has it, with what that line was about."""

    head: str
    at: datetime
    about: str


@dataclass(frozen=True, slots=True)
class Chain:
    """What the files say of themselves.

    `damaged` are the places of lines that cannot be read, `broken` sentences about lines that do not follow one
    another. `unlinked` are the lines without a hash that no `audit accept` has recorded, `accepted` counts the others.
    """

    links: tuple[Link, ...]
    damaged: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    unlinked: tuple[Link, ...] = ()
    accepted: int = 0
    rotated_out: bool = False

    @property
    def whole(self) -> tuple[Link, ...]:
        """The links that can be read."""
        return tuple(link for link in self.links if link.line is not None)


@dataclass(frozen=True, slots=True)
class Compared:
    """A chain against the heads of one sink: `missing` are sentences, `after` counts the lines after the newest.

    `older` counts the heads of lines that are older than the first one here, where files were dropped: not compared.
    """

    heads: int
    missing: tuple[str, ...]
    after: int
    older: int = 0


def linked(line: AuditLine, before: str) -> bytes:
    """A line as it is written, without its end."""
    values = line.as_json() | {_BEFORE: before}
    return json.dumps(values, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def digest(raw: bytes) -> str:
    """The hash by which the next line names this one."""
    return hashlib.sha256(raw).hexdigest()


def link_of(file: str, number: int, raw: bytes) -> Link:
    """A line as it was read; any other content is damaged."""
    try:
        values = json.loads(raw)
        before = values.pop(_BEFORE, None)
        if before is not None and not isinstance(before, str):
            raise TypeError("a hash is a text")
        return Link(file, number, AuditLine.parse(values), before, digest(raw))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Link(file, number, None, None, digest(raw))


def judge(links: Sequence[Link], rotated_out: bool = False) -> Chain:
    """Whether each line follows the one before it; `rotated_out`: earlier files were dropped by their number.

    A version that linked no lines noted no uid either. So a line with a uid and without a hash has lost it, and one
    with neither is of that version, or both were removed from it.
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
                broken.append(f"{link.place} names no line before it: Slotkeeper did not write it")
            elif link.line.actor.uid is not None:
                broken.append(f"{link.place} names no line before it: its hash was removed")
        elif fault := _fault(link, last, rotated_out):
            broken.append(fault)
        elif link.line.action == ACCEPT and (unlinked or not rotated_out):
            if link.line.result.get(SEAL) != seal(unlinked):
                broken.append(f"{link.place} accepted other lines than the unlinked ones before it")
            accepted, unlinked = accepted + len(unlinked), []
        last = link
    damaged = tuple(link.place for link in links if link.line is None)
    return Chain(tuple(links), damaged, tuple(broken), tuple(unlinked), accepted, rotated_out)


def seal(links: Iterable[Link]) -> str:
    """One hash of several lines, in their order."""
    return digest("".join(link.digest for link in links).encode("ascii"))


def _fault(link: Link, last: Link | None, rotated_out: bool) -> str:
    if last is None:
        return "" if rotated_out or link.before == FIRST else f"{link.place}: the lines before it are missing"
    if link.before == last.digest:
        return ""
    here, before = link.place, last.place
    return f"{here} does not follow {before}: one of them was changed, or a line between them was removed or added"


def compare(chain: Chain, heads: Iterable[CopiedHead]) -> Compared:
    """Whether each line that a sink knows is here as it was; what is older than our first line was rotated out."""
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
    if older and newest < 0:  # files that were dropped in order leave later lines, which have heads too
        what = f"none of {older + found} copied lines exists: the files were replaced, or no copy was made recently"
        missing.append(what)
    return Compared(found, tuple(missing), len(place) - 1 - newest, older)


@dataclass(frozen=True, slots=True)
class Armed:
    """Somebody at a console: who by the kernel, why, and until when at most."""

    who: str
    reason: str
    until: datetime
