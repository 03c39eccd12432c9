"""What is known about a kind of trouble: what it means and what can be done, the way that loses least first. Pure.

The names of trouble and their safe ways are `slotkeeper.core.domain.start`'s, what a server refuses and the act that
ends it `slotkeeper.core.judgement.servers`'s.
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
    """What a way out loses; the order is the order in which ways are offered."""

    NOTHING = 0
    TIME = 1
    UNREAD = 2
    ROWS = 3

    @property
    def words(self) -> str:
        """In words."""
        return ("loses nothing", "copies everything again", "loses what is unread", "loses these rows")[self]


@dataclass(frozen=True, slots=True)
class Option:
    """One way out; `do` names a command where there is one, JOB, TABLE and SLOT standing for the names."""

    do: str
    loses: Loss = Loss.NOTHING


@dataclass(frozen=True, slots=True)
class Remedy:
    """A kind of error: its title, what it means, and the ways out."""

    title: str
    means: str
    options: tuple[Option, ...]
    code: str = ""
    """Of a server's refusal: SK- and four digits."""


_SNAPSHOT = Option("`slotkeeper slots reset TABLE SLOT --to snapshot`", Loss.TIME)
_VERIFY = Option("`slotkeeper verify JOB` names the keys that differ")
_DOCTOR = Option("`slotkeeper doctor` checks servers, logins and privileges")
_START = Option("fix it, then `slotkeeper jobs start JOB`: it resumes at the sink's position")
_WAIT = Option("wait: it is tried again, the position stays and nothing is skipped")
_POLL = Option("`slotkeeper errors list JOB`, or Enter on the line of 4 Errors: which rows, and why each was refused")
_REPLAY = Option(
    "cure the target, then `slotkeeper errors replay JOB --all --reason TEXT`: what is still bad stays quarantined"
)
_DISCARD = Option("`slotkeeper errors discard JOB ID`: the target never gets the row, until its key changes", Loss.ROWS)


def _trouble(name: TroubleName, means: str, *first: Option) -> Remedy:
    return Remedy(f"{name.value}: {SAFE[name]}", means, (*first, _VERIFY, _SNAPSHOT))


_TROUBLES = {
    TroubleName.SLOT_LOST: _trouble(
        TroubleName.SLOT_LOST, "the source dropped what the slot had not read: the target misses changes"
    ),
    TroubleName.SLOT_MOVED: _trouble(
        TroubleName.SLOT_MOVED,
        "the slot is not where the sink's rows have it: the sink was restored to an older copy, or another program"
        " confirms this slot; what lies between may be gone",
        Option("find out whether the sink was restored, and bring the newer copy back"),
        Option("find the other consumer: `slotkeeper slots show TABLE SLOT`"),
    ),
    TroubleName.PROGRESS_LOST: Remedy(
        f"{TroubleName.PROGRESS_LOST.value}: {SAFE[TroubleName.PROGRESS_LOST]}",
        "the slot has points and the sink no progress rows: where to go on is not known",
        (
            Option("restore slotkeeper_progress from a backup of the sink, then `slotkeeper jobs start JOB`"),
            Option(
                "`slotkeeper slots drop TABLE SLOT`: then set on_existing, and `slotkeeper jobs start JOB`", Loss.TIME
            ),
        ),
    ),
    TroubleName.SOURCE_OLDER: _trouble(
        TroubleName.SOURCE_OLDER,
        "the source's newest point lies below ours, as after a restore of the source",
        Option("find out whether the source was restored"),
    ),
    TroubleName.POSITIONS_DIFFER: _trouble(
        TroubleName.POSITIONS_DIFFER,
        "our place in the binlog is of another life of it: what lies between cannot be told",
        Option("find out whether the source was rebuilt or failed over"),
    ),
    TroubleName.SINK_OLDER: _trouble(
        TroubleName.SINK_OLDER,
        "the slot is ahead of the sink's rows, as after a restore of the sink",
        Option("find out whether the sink was restored"),
    ),
    TroubleName.TARGET_CHANGED: _trouble(
        TroubleName.TARGET_CHANGED,
        "another session emptied, exchanged or altered the target: rows may be missing or wrong, also after it is"
        " reverted; only a snapshot restores them",
        Option("find the session that changed the target in the sink's log, and revert what it altered"),
    ),
    TroubleName.SCHEMA_CHANGED: _trouble(
        TroubleName.SCHEMA_CHANGED,
        "the source table was altered or made again",
        Option('type the statements that the job names at the sink; on_schema_change = "resnapshot" does so by itself'),
    ),
    TroubleName.TOPOLOGY_CHANGED: _trouble(
        TroubleName.TOPOLOGY_CHANGED, "the DNs are not the ones that the progress rows name"
    ),
    TroubleName.QUARANTINE_FULL: Remedy(
        f"{TroubleName.QUARANTINE_FULL.value}: {SAFE[TroubleName.QUARANTINE_FULL]}",
        "more rows than quarantine_limit do not fit the target: it is rather the target that is wrong than the rows",
        (
            _POLL,
            _REPLAY,
            Option("then `slotkeeper jobs start JOB`: the step that did not fit is taken again"),
            Option("raise quarantine_limit if you expect this number of bad rows"),
            _DISCARD,
        ),
    ),
}
QUARANTINED_ROWS = Remedy(
    "rows are in quarantine",
    "the target refused these rows and lacks them; all others are applied, and a later change of a key ends its entry",
    (_POLL, _REPLAY, _DISCARD),
)

_OPEN = Remedy(
    "a start waits for open transactions",
    "what they wrote before recording began is in no binlog and in no copy yet; nothing is skipped",
    (
        Option("wait: the start continues by itself once they have ended"),
        Option("end it: the start names where an administrator sees it"),
        Option("let the login see all sessions: `slotkeeper doctor` prints the GRANT"),
        Option("raise `wait` in [jobs.JOB], then `slotkeeper jobs start JOB`"),
    ),
)
_MASKED = Remedy(
    "rows or values may be hidden from us",
    "row security or a redaction policy would let the copy and the comparison miss rows, without an error",
    (Option("take it off the table, or use a login that it does not concern: `slotkeeper doctor` prints how"), _START),
)
_COPY_LOST = Remedy(
    "a copy cannot go on",
    "the target, its shadow or the way of the copy is gone: what was copied with it has to be copied again",
    (
        Option(
            "`slotkeeper slots reset TABLE SLOT --to snapshot`, with --on-existing replace where the target has rows",
            Loss.TIME,
        ),
    ),
)
_TAKEN = Remedy(
    "the target belongs to another job",
    "two jobs would overwrite each other's rows, so that one of them stays away",
    (Option("find that job and stop or cancel it, or choose another target"), _VERIFY),
)
_FILLED = Remedy(
    "the target is not empty",
    "a first copy would mix its rows with those that are there",
    (
        Option("if the job ran before, its progress rows are lost: do not empty the target, restore them"),
        Option('set on_existing = "replace" or "merge" in [jobs.JOB], then `slotkeeper jobs start JOB`', Loss.TIME),
    ),
)
_GTM = Remedy(
    "the cluster's order of transactions is not certain",
    "without one sync point per transaction and DN, in order, changes could be lost or applied in the wrong order",
    (
        Option("`slotkeeper doctor --probe SOURCE` finds out and records it (gtm-lite)"),
        Option("an administrator sets gtm_option to gtm, and restarts the cluster"),
    ),
)
_CRASH = Remedy(
    "the driver ended by itself",
    "its supervisor starts it again with growing pauses, and gives up after 5 crashes in 10 minutes",
    (Option("read the log: `slotkeeper jobs logs JOB`; SIGKILL is most often the kernel out of memory"), _START),
)
_RESET = Remedy(
    "a reset is unfinished",
    "a slot that is half moved is not followed",
    (Option("`slotkeeper slots reset --resume TABLE SLOT` finishes it or rolls it back"),),
)
_LEASE = Remedy(
    "somebody else has the lease",
    "another run of this job, or a reset, holds it",
    (_WAIT, Option("stop it there; `slotkeeper jobs start JOB --take-over` ends a holder that is gone")),
)
_STRANGER = Remedy(
    "somebody else has the lease's lock",
    "a session that belongs to no job took a lock of the same number; it can change nothing of this job",
    (
        Option("have its user or an administrator end it: the message names it"),
        Option("`slotkeeper jobs start JOB --take-over` continues without it: the progress rows fence each step"),
    ),
)
_STRANGERS_TARGET = Remedy(
    "somebody else has the target's lock",
    "a session that belongs to no job took it; no option passes this lock, because no fence backs it",
    (Option("have its user or an administrator end it: the message names it"), _START),
)
UNKNOWN_KIND = Remedy(
    "not a kind that is known here",
    "the message is all there is",
    (Option("`slotkeeper jobs logs JOB` shows what came before it"), _DOCTOR),
)

_THEN = dict.fromkeys(("SK-11", "SK-15", "SK-16", "SK-18"), _START)
"""What follows an act, by what is wrong: a job that has ended by it is started, any other tries again by itself."""
_CRASHES = ("SIG", "exit ", "gone")
_BY_WORDS = (
    (r"reset \S+ of slot .* is unfinished", _RESET),
    (r"driver ended", _CRASH),
    (r"waiting for (an unlisted transaction|transactions) that|an open transaction may exist", _OPEN),
    (r"row(-level)? security|redaction policy", _MASKED),
    (r"target \S.* does not exist: take|unfinished copy", _COPY_LOST),
    (r"target \S.* belongs to no job", _STRANGERS_TARGET),
    (r"target \S.* belongs to", _TAKEN),
    (r"target \S.* is not empty", _FILLED),
    (r"gtm_option|enable_gtm_free", _GTM),
    (r"the lease of .* is held: by (no job|a session)", _STRANGER),
    (r"the lease of|holds the lease$", _LEASE),
)


_NAMES = re.compile(r"\b(?:JOB|TABLE|SLOT)\b")


def remedy_for(code: str, message: str) -> Remedy:
    """The remedy of an error with this code (an SQLSTATE, a signal, the name of a problem) and message.

    >>> remedy_for("57P01", "source dws1: terminating connection").title
    'session ended by an administrator'
    >>> remedy_for("", "SLOT LOST: dn_1: gone").options[0].do
    '`slotkeeper verify JOB` names the keys that differ'
    >>> remedy_for("", "?").title
    'not a kind that is known here'
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
    """The ways out, the one that loses least first."""
    return tuple(sorted(options, key=lambda one: one.loses))


def with_act(do: str, known: tuple[Option, ...]) -> tuple[Option, ...]:
    """The judgement's act with what it loses, then what else is known, without a shorter form of the act's reset.

    >>> [one.loses for one in with_act("`slots reset t s --to snapshot --on-existing replace`", (_SNAPSHOT,))]
    [<Loss.TIME: 1>]
    """
    anew = "--to snapshot"
    act = (Option(do, Loss.TIME if "snapshot" in do else Loss.NOTHING),) if do else ()
    return tuple(dict.fromkeys((*act, *(one for one in known if not (anew in do and anew in one.do)))))


def numbered(options: tuple[Option, ...], job: str, table: str = "", slot: str = "") -> list[str]:
    """The ways out with the names put in, each with its number and what it loses, the one that loses least first."""
    found = enumerate(ranked(options), 1)
    return [f"{number}  {named(each.do, job, table, slot)} ({each.loses.words})" for number, each in found]


def named(text: str, job: str, table: str = "", slot: str = "") -> str:
    """A way out with the names put in, as a shell takes them back; a name that is not known leaves its word.

    >>> named("slotkeeper slots drop TABLE SLOT", "orders_rt", "ods.MY SLOT", "s")
    "slotkeeper slots drop 'ods.MY SLOT' s"
    """
    names = {"JOB": job, "TABLE": table, "SLOT": slot}
    return _NAMES.sub(lambda found: typed(names[found[0]]) if names[found[0]] else found[0], text)
