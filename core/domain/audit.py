"""One line of the audit: who did what to which thing, why, and what was seen afterwards. Values only.

An action that changes something writes two lines under one `action_id`: the intent before, the outcome after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from slotkeeper.core.redaction import masked_values


class Phase(Enum):
    """Before and after."""

    INTENT = "intent"
    OUTCOME = "outcome"


@dataclass(frozen=True, slots=True)
class Actor:
    """A process at a machine, as the kernel knows it, and beside it what its environment claims.

    `uid` is the process's own and `os_user` the account of that number; `login_uid` is what the kernel noted at the
    login (`/proc/<pid>/loginuid`, which neither sudo nor su changes), None where it noted nothing. Claims, each empty
    where there is none: `claimed` another name, `sudo_user`, and `origin`, the SSH client's address. A line without
    `uid` is of an earlier version: then `os_user` is a claim too.
    """

    os_user: str
    host: str
    pid: int
    sudo_user: str = ""
    origin: str = ""
    uid: int | None = None
    login_uid: int | None = None
    claimed: str = ""

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
    """`what` names the thing ("dws1 ods.orders slot orders_rt"), `result` says per DN what was asked or seen."""

    at: datetime
    actor: Actor
    action: str
    action_id: str
    phase: Phase
    what: str
    reason: str = ""
    plan: str = ""
    outcome: str = ""
    result: Mapping[str, str] = field(default_factory=dict)

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
            raise TypeError("a time without an offset, or a result that is no object")
        if not all(isinstance(one, str) for one in (*values.values(), *result, *result.values())):
            raise TypeError("a line is made of texts")
        return cls(moment, Actor.parse(actor), phase=Phase(phase), result=result, **values)
