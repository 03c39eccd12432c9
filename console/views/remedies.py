"""Remedies for each kind of problem: its meaning and the options, least loss first. Pure.

`slotkeeper.core.domain.start` defines the names of problems and their safe actions; `slotkeeper.core.judgement.servers`
defines server rejections and their actions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from slotkeeper.core.domain.report import server_of
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.domain.text import typed
from slotkeeper.core.errors import TroubleName
from slotkeeper.core.judgement.servers import UNKNOWN, Refusal, cause_of, filled


class Loss(IntEnum):
    """The loss that an option causes; options are listed in this order."""

    NOTHING = 0
    TIME = 1
    UNREAD = 2
    ROWS = 3

    @property
    def words(self) -> str:
        """The loss as text."""
        return ("loses nothing", "copies everything again", "loses unread changes", "loses these rows")[self]


@dataclass(frozen=True, slots=True)
class Option:
    """One option; `do` contains its command, with the placeholders JOB, TABLE and SLOT."""

    do: str
    loses: Loss = Loss.NOTHING


@dataclass(frozen=True, slots=True)
class Remedy:
    """A kind of error: its title, its meaning, and the options."""

    title: str
    means: str
    options: tuple[Option, ...]
    code: str = ""
    """The code of a server's rejection: SK- and four digits."""


SNAPSHOT = Option(
    "`slotkeeper slots reset TABLE SLOT --to snapshot`, with --on-existing replace or merge if the target has rows",
    Loss.TIME,
)
_VERIFY = Option("`slotkeeper verify JOB` names the keys that differ")
_DOCTOR = Option("`slotkeeper doctor` checks servers, logins and privileges")
_START = Option("fix it, then `slotkeeper jobs start JOB`: it resumes from the sink's progress rows")
_WAIT = Option("wait: the job retries automatically and skips nothing")
_POLL = Option("`slotkeeper errors list JOB`, or Enter in 4 Errors, shows the rows and why each was rejected")
_REPLAY = Option(
    "correct the target, then `slotkeeper errors replay JOB --all --reason TEXT`: rows that still fail stay quarantined"
)
_DISCARD = Option("`slotkeeper errors discard JOB ID`: the target lacks the row until its key changes", Loss.ROWS)


def _trouble(name: TroubleName, means: str, *first: Option) -> Remedy:
    return Remedy(f"{name.value}: {SAFE[name]}", means, (*first, _VERIFY, SNAPSHOT))


_TROUBLES = {
    TroubleName.SLOT_LOST: _trouble(
        TroubleName.SLOT_LOST, "the source dropped changes that the slot had not read: the target lacks them"
    ),
    TroubleName.SLOT_MOVED: _trouble(
        TroubleName.SLOT_MOVED,
        "the slot is not at the position of the sink's progress rows: the sink was restored to an older copy, or"
        " another program confirms this slot; changes between the two positions may be lost",
        Option("find out whether the sink was restored, and restore the newer copy"),
        Option("find the other consumer: `slotkeeper slots show TABLE SLOT`"),
    ),
    TroubleName.PROGRESS_LOST: Remedy(
        f"{TroubleName.PROGRESS_LOST.value}: {SAFE[TroubleName.PROGRESS_LOST]}",
        "the slot has points, but the sink has no progress rows: the position to resume from is unknown",
        (
            Option("restore slotkeeper_progress from a backup of the sink, then `slotkeeper jobs start JOB`"),
            Option(
                "`slotkeeper slots drop TABLE SLOT`: then set on_existing, and `slotkeeper jobs start JOB`", Loss.TIME
            ),
        ),
    ),
    TroubleName.SOURCE_OLDER: _trouble(
        TroubleName.SOURCE_OLDER,
        "the source's newest point is before the job's position, as after a restore of the source",
        Option("find out whether the source was restored"),
    ),
    TroubleName.POSITIONS_DIFFER: _trouble(
        TroubleName.POSITIONS_DIFFER,
        "the job's position belongs to another history of the binlog: the changes in between are unknown",
        Option("find out whether the source was rebuilt or failed over"),
    ),
    TroubleName.SINK_OLDER: _trouble(
        TroubleName.SINK_OLDER,
        "the slot is ahead of the sink's rows, as after a restore of the sink",
        Option("find out whether the sink was restored"),
    ),
    TroubleName.TARGET_CHANGED: _trouble(
        TroubleName.TARGET_CHANGED,
        "another session emptied, exchanged or altered the target: rows may be missing or wrong, even after a revert;"
        " only a snapshot restores them",
        Option("find the session that changed the target in the sink's log, and revert what it altered"),
    ),
    TroubleName.SCHEMA_CHANGED: _trouble(
        TroubleName.SCHEMA_CHANGED,
        "the source table was altered or created again",
        Option(
            'in the sink, run the statements that the job names; on_schema_change = "resnapshot" does so automatically'
        ),
    ),
    TroubleName.TOPOLOGY_CHANGED: _trouble(
        TroubleName.TOPOLOGY_CHANGED, "the source's DNs differ from those of the progress rows"
    ),
    TroubleName.QUARANTINE_FULL: Remedy(
        f"{TroubleName.QUARANTINE_FULL.value}: {SAFE[TroubleName.QUARANTINE_FULL]}",
        "more than quarantine_limit rows do not fit the target: probably the target is wrong, not the rows",
        (
            _POLL,
            _REPLAY,
            Option("then `slotkeeper jobs start JOB`: the job retries the step that did not fit"),
            Option("raise quarantine_limit if you expect this number of bad rows"),
            _DISCARD,
        ),
    ),
}
QUARANTINED_ROWS = Remedy(
    "rows are in quarantine",
    "the target rejected these rows and lacks them; all others are applied, and a later change to a key ends its entry",
    (_POLL, _REPLAY, _DISCARD),
)

_OPEN = Remedy(
    "a start waits for open transactions",
    "changes that they wrote before recording started are in neither the binlog nor the copy yet; nothing is skipped",
    (
        Option("wait: the start continues automatically once they have ended"),
        Option("end them: the message shows where an administrator can see them"),
        Option("let the login see all sessions: `slotkeeper doctor` prints the GRANT"),
        Option("raise `wait` in [jobs.JOB], then `slotkeeper jobs start JOB`"),
    ),
)
_MASKED = Remedy(
    "rows or values may be hidden from this login",
    "with row security or a redaction policy, copy and comparison could miss rows without an error",
    (
        Option("remove it from the table, or use a login that it does not affect: `slotkeeper doctor` prints how"),
        _START,
    ),
)
_COPY_LOST = Remedy(
    "a copy cannot continue",
    "the target, its shadow table or the record of the copy is missing, so all rows must be copied again",
    (SNAPSHOT,),
)
_TAKEN = Remedy(
    "the target belongs to another job",
    "two jobs would overwrite each other's rows, so only one of them can run",
    (Option("find that job and stop or cancel it, or choose another target"), _VERIFY),
)
_FILLED = Remedy(
    "the target is not empty",
    "a first copy would mix its rows with the rows in the target",
    (
        Option("if the job ran before, its progress rows are lost: do not empty the target, restore the progress rows"),
        Option('set on_existing = "replace" or "merge" in [jobs.JOB], then `slotkeeper jobs start JOB`', Loss.TIME),
    ),
)
_GTM = Remedy(
    "the cluster's order of transactions is not certain",
    "without one sync point per transaction and DN, in order, changes could be lost or applied in the wrong order",
    (
        Option("`slotkeeper doctor --probe SOURCE` tests it and records the result (gtm-lite)"),
        Option("ask an administrator to set gtm_option to gtm and to restart the cluster"),
    ),
)
_CRASH = Remedy(
    "the driver crashed",
    "its supervisor restarts it with increasing delays; after 5 crashes in 10 minutes the job fails",
    (
        Option("read the log: `slotkeeper jobs logs JOB`; SIGKILL usually means that the kernel ran out of memory"),
        _START,
    ),
)
_RESET = Remedy(
    "a reset is unfinished",
    "no job reads a slot whose reset is unfinished",
    (Option("`slotkeeper slots reset --resume TABLE SLOT` finishes it or rolls it back"),),
)
_LEASE = Remedy(
    "another run has the lease",
    "another run of this job, or a reset, holds it",
    (_WAIT, Option("stop it there; `slotkeeper jobs start JOB --take-over` ends a holder that no longer runs")),
)
_STRANGER = Remedy(
    "another session has the lease's lock",
    "a session that belongs to no job took a lock with the same number; it cannot change the job's data",
    (
        Option("ask its user or an administrator to end it: the message names it"),
        Option("`slotkeeper jobs start JOB --take-over` continues without it: the progress rows fence each step"),
    ),
)
_STRANGERS_TARGET = Remedy(
    "another session has the target's lock",
    "a session that belongs to no job took it; no option bypasses this lock, because no fence protects the target",
    (Option("ask its user or an administrator to end it: the message names it"), _START),
)
_OVER = "no action needed: the job has recovered"


def recovered(known: Remedy) -> Remedy:
    """Return the remedy for an error from which its job has recovered: a named problem no longer requires its action.

    >>> recovered(remedy_for("", "SLOT LOST: dn_1: gone"))
    Remedy(title='SLOT LOST', means='no action needed: the job has recovered', options=(), code='')
    """
    name = next((name.value for name, remedy in _TROUBLES.items() if remedy is known), "")
    return Remedy(name, _OVER, ()) if name else known


UNKNOWN_KIND = Remedy(
    "unknown kind of error",
    "only the message is known",
    (Option("`slotkeeper jobs logs JOB` shows the log lines before it"), _DOCTOR),
)

_THEN = dict.fromkeys(("SK-11", "SK-15", "SK-16", "SK-18"), _START)
"""The option that follows the action: start the job if it has ended; otherwise it retries automatically."""
_CRASHES = ("SIG", "exit ", "gone")
_BY_WORDS = (
    (r"reset \S+ of slot .* is unfinished", _RESET),
    (r"driver ended: ", _CRASH),
    (r"waiting for (an unlisted transaction|a transaction|transactions) that|open transaction may exist", _OPEN),
    (r"cannot see all sessions", _OPEN),
    (r"row(-level)? security|redaction policy", _MASKED),
    (r"target \S.* does not exist: take|unfinished copy", _COPY_LOST),
    (r"target \S.* belongs to (no( job|body)|an unknown session)", _STRANGERS_TARGET),
    (r"target \S.* belongs to", _TAKEN),
    (r"target \S.* is not empty", _FILLED),
    (r"gtm_option|enable_gtm_free", _GTM),
    (r"the lease of .* is held by a session", _STRANGER),
    (r"the lease of|holds the lease$", _LEASE),
)


_NAMES = re.compile(r"\b(?:JOB|TABLE|SLOT)\b")


def remedy_for(code: str, message: str) -> Remedy:
    """Return the remedy for an error by its code (an SQLSTATE, a signal, the name of a problem) and message.

    >>> remedy_for("57P01", "source dws1: terminating connection").title
    'session ended by an administrator'
    >>> remedy_for("", "SLOT LOST: dn_1: gone").options[0].do
    '`slotkeeper verify JOB` names the keys that differ'
    >>> remedy_for("", "?").title
    'unknown kind of error'
    """
    for name, remedy in _TROUBLES.items():
        if code == name.value or message.startswith(name.value):
            return remedy
    if code.startswith(_CRASHES):
        return _CRASH
    cause = cause_of(code, message)
    if not (code and cause is not UNKNOWN):
        for pattern, remedy in _BY_WORDS:
            if re.search(pattern, message, re.IGNORECASE):
                return remedy
    if cause is UNKNOWN:
        return UNKNOWN_KIND
    side, server, _ = server_of(message)
    said = filled(cause, Refusal(message, code, side, server=server))
    then = _THEN.get(cause.code[:5], _WAIT)
    return Remedy(cause.problem, said.impact, (Option(said.action), then), cause.code)


def ranked(options: tuple[Option, ...]) -> tuple[Option, ...]:
    """Return the options, least loss first."""
    return tuple(sorted(options, key=lambda one: one.loses))


def with_act(do: str, known: tuple[Option, ...]) -> tuple[Option, ...]:
    """Return the fault's own action with its loss, then the known options, except a shorter form of its reset.

    >>> [one.loses for one in with_act("`slots reset t s --to snapshot --on-existing replace`", (SNAPSHOT,))]
    [<Loss.TIME: 1>]
    """
    snapshot = "--to snapshot"
    act = (Option(do, Loss.TIME if "snapshot" in do else Loss.NOTHING),) if do else ()
    return tuple(dict.fromkeys((*act, *(one for one in known if not (snapshot in do and snapshot in one.do)))))


def numbered(options: tuple[Option, ...], job: str, table: str = "", slot: str = "") -> list[str]:
    """Return the options with names filled in, each with its number and loss, least loss first."""
    found = enumerate(ranked(options), 1)
    return [f"{number}  {named(each.do, job, table, slot)} ({each.loses.words})" for number, each in found]


def named(text: str, job: str, table: str = "", slot: str = "") -> str:
    """Fill in an option's names, quoted for a shell; a placeholder stays if its name is unknown.

    >>> named("slotkeeper slots drop TABLE SLOT", "orders_rt", "ods.MY SLOT", "s")
    "slotkeeper slots drop 'ods.MY SLOT' s"
    """
    names = {"JOB": job, "TABLE": table, "SLOT": slot}
    return _NAMES.sub(lambda found: typed(names[found[0]]) if names[found[0]] else found[0], text)
