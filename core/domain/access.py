"""The rights of accounts, by job: who can view, pause, start, reset, reveal and discard. Pure.

The rules restrict Slotkeeper's own commands and screens. They do not restrict a user who can read the same files with
another program (docs/access.md).
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import Enum
from fnmatch import fnmatchcase

from slotkeeper.core.domain.elapsed import elapsed
from slotkeeper.core.errors import Refused

VALID_SECONDS = 86_400.0
EVERY_JOB = ""
"""The job of a verb that is not limited to one job; only a rule for all jobs (`*`) covers it."""


class Right(Enum):
    """A right that a verb needs; the values are the names in the configuration."""

    READ = "look"
    PAUSE = "pause"
    START = "start"
    RESET = "reset"
    REVEAL = "reveal"
    DISCARD = "discard"


@dataclass(frozen=True, slots=True)
class Account:
    """A user as the kernel reports it: the login uid if it is recorded, because sudo does not change it; else the uid.

    Environment variables are never used.
    """

    uid: int
    name: str
    groups: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        return f"account {self.name} (uid {self.uid})"


@dataclass(frozen=True, slots=True)
class Rule:
    """The rights of users and members of groups on the jobs that match a pattern (`fnmatch`)."""

    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ("*",)
    allow: tuple[str, ...] = ()

    def gives(self, right: Right, job: str, any_job: bool) -> bool:
        return right.value in self.allow and (any_job or any(fnmatchcase(job, one) for one in self.jobs))

    def has(self, account: Account) -> bool:
        return account.name in self.users or not account.groups.isdisjoint(self.groups)


@dataclass(frozen=True, slots=True)
class AccessRules:
    """The `[access]` table of one configuration file.

    >>> rules = AccessRules("a.toml", (Rule(("ann",), jobs=("pay_*",), allow=("look", "pause")), Rule((), ("dba",),
    ...     allow=("pause",))))
    >>> rules.missing(Account(7, "ann"), Right.PAUSE, "pay_1"), rules.missing(Account(7, "ann"), Right.RESET, "pay_1")
    ('', 'account ann (uid 7) lacks the right `reset`, which no account has')
    >>> rules.missing(Account(7, "ann"), Right.PAUSE, "ship")
    'account ann (uid 7) lacks the right `pause`, which group dba has'
    >>> AccessRules("a.toml", read_only=True).missing(Account(0, "root"), Right.START, "x")
    'read_only = true: commands can only read'
    """

    file: str
    rules: tuple[Rule, ...] = ()
    """The rules; if there are none, every account has every right that `read_only` does not remove."""
    read_only: bool = False
    second_account: bool = False
    """Whether a reset that skips or replaces rows needs the approval of another account."""

    def missing(self, account: Account, right: Right, job: str, any_job: bool = False) -> str:
        """Return why an account cannot use a right on a job, or on any job: the missing right, and who has it."""
        if self.read_only and right not in (Right.READ, Right.REVEAL):
            return "read_only = true: commands can only read"
        given = [one for one in self.rules if one.gives(right, job, any_job)]
        if not self.rules or any(one.has(account) for one in given):
            return ""
        users = sorted({f"user {name}" for one in given for name in one.users})
        groups = sorted({f"group {name}" for one in given for name in one.groups})
        holders = ", ".join((*users, *groups))
        return f"{account.text} lacks the right `{right.value}`, which {holders or 'no account'} has"


@dataclass(frozen=True, slots=True)
class Approval:
    """A second account's approval of one plan, or the request for it; `who` is "" before it is given.

    `what` describes the effect that is approved; `at` is in Unix time. `uid` is that of the approving account.
    """

    id: str
    job: str
    what: str
    asked: str
    who: str = ""
    uid: int = -1
    reason: str = ""
    at: float = 0.0
    name: str = ""
    groups: tuple[str, ...] = ()
    """The approving account, whose right is checked again when the plan is executed."""

    @property
    def approver(self) -> Account:
        return Account(self.uid, self.name, frozenset(self.groups))

    def refuse(self, account: Account, now: float) -> None:
        """Raise Refused unless another account has approved this plan less than a day ago.

        >>> one = Approval("4f2c", "orders", "7 rows", "ann", "bob", 8, "INC-1", 1_000.0)
        >>> one.refuse(Account(7, "ann"), 1_060.0)
        >>> one.refuse(Account(8, "bob"), 1_060.0)
        Traceback (most recent call last):
        slotkeeper.core.errors.Refused: bob approved plan 4f2c, and the same account cannot execute it
        """
        past = elapsed(self.at, now)
        hint = f"another account with the right `reset`: `slotkeeper slots approve {self.id} --reason TEXT`"
        if not self.who or past is None or past > VALID_SECONDS:
            raise Refused(f"{self.what} needs the approval of a second account", hint)
        if self.uid == account.uid:
            raise Refused(f"{self.who} approved plan {self.id}, and the same account cannot execute it", hint)

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Approval | None:
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError):
            return None


def plan_id(*parts: object) -> str:
    """Return the id of a plan that consists of these values: the same values have the same id."""
    import hashlib  # monitoring runs `status` every minute, and it needs no hash

    return hashlib.sha256(json.dumps(parts, default=str, sort_keys=True).encode()).hexdigest()[:16]
