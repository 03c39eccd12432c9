"""All verbs, each declared once: shell command, menu line, `:` command, confirmation and outcome.

To add a job verb that takes only a wait and a reason, add a member here and a function with the same name in
`slotkeeper.core.launch.control`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from slotkeeper.core.domain.access import Right
from slotkeeper.core.domain.job import JobEvent, JobState, transition
from slotkeeper.core.errors import Refused

if TYPE_CHECKING:
    from slotkeeper.console.monitor.snapshot import JobFacts
    from slotkeeper.core.domain.report import JobStatus

ELSEWHERE = "it may be running on another host; use that host"
NOT_CONFIGURED = "this job is not in the configuration"
NEVER_STARTED = "the job was never started"
_STREAMING = (JobState.RUNNING, JobState.CATCHING_UP)


class OfJob(NamedTuple):
    """A verb of a job."""

    name: str
    """Its name in the shell and at the `:` prompt."""
    key: str
    """Its key in the menu."""
    label: str
    """Its text in the menu."""
    requested: str
    """The state that its outcome is compared with."""
    right: Right = Right.START
    """The right that it needs."""
    bound: str = ""
    """Its text in the list of keys, if different from its name."""
    typed: str = ""
    """Its description at the `:` prompt; "" if it cannot be typed there."""
    means: str = ""
    """The text of its confirmation; "" if it changes nothing and starts immediately."""
    why_not: Callable[[JobState, bool], str] = lambda state, lives: ""
    """The reason why the verb is not available for a job in a state, with or without a process on this host; "" if it
    is."""
    before_first_start: str = NEVER_STARTED
    """The reason why it is not available for a job that was never started."""
    anywhere: bool = False
    """Whether it is available for a job that may run on another host."""
    configured: bool = False
    """Whether the job must be in this configuration."""
    many: bool = False
    """Whether it can be applied to several jobs at once."""
    final: bool = False
    """Whether it cannot be undone, so that a reason and the job's name must be typed."""
    copies: bool = False
    """Whether a copy may follow, so that its progress is shown."""
    command: tuple[str, ...] = ("jobs",)
    """The arguments before its name in the shell."""
    help: str = ""
    """Its `--help` text in the shell, if the verb takes only a wait and a reason."""
    reached: Callable[[JobStatus], bool] = lambda view: True
    """Whether its effect is visible, for a shell command that waits for the effect."""


def _refused(state: JobState, event: JobEvent) -> str:
    try:
        transition(state, event)
    except Refused as error:
        return error.message.rpartition(": ")[2]
    return ""


class JobVerb(Enum):
    """The verbs of a job, in the order of the menu. Their values are their names."""

    STOP = OfJob(
        name="stop",
        key="s",
        label="stop: a later start resumes at its position, while the source retains the binlog",
        typed="stop the job: a later start resumes at its position",
        means="ends its processes; a later start resumes at its position, while the source retains the binlog",
        requested="STOPPED",
        why_not=lambda state, lives: "" if lives or state.is_open else f"the job is {state.value}",
        many=True,
        help="Stop a job and its processes; a later start resumes at its position, while the source retains the"
        " binlog.",
        reached=lambda view: not view.state.is_open and not view.lives,
    )
    START = OfJob(
        name="start",
        key="g",
        label="start",
        typed="start the job of this row, or the named jobs",
        means="resumes from the sink's progress rows; a job that never ran starts with its copy",
        requested="a running process",
        why_not=lambda state, lives: (
            f"the job is {state.value}"
            if lives
            else _refused(state if not state.has_process else JobState.STOPPED, JobEvent.START)
        ),
        before_first_start="",
        configured=True,
        many=True,
        copies=True,
    )
    RESTART = OfJob(
        name="restart",
        key="r",
        label="restart with the current configuration",
        typed="restart the job with the current configuration",
        means="ends its processes, then starts the job with the current configuration",
        requested="a running process",
        why_not=lambda state, lives: "CANCELLED is final" if state is JobState.CANCELLED else "",
        configured=True,
        copies=True,
    )
    PAUSE = OfJob(
        name="pause",
        key="p",
        bound="pause or resume",
        label="pause: its process keeps running and applies nothing",
        typed="its process keeps running and applies nothing",
        means="its process keeps running and applies nothing; the source may purge unread changes",
        requested="PAUSED",
        right=Right.PAUSE,
        why_not=lambda state, lives: (
            f"the job is {state.value}: no process"
            if not lives
            else f"the job is {state.value}"
            if state is JobState.PAUSED
            else ""
        ),
        many=True,
        help="Pause a job: its processes keep running and apply nothing.",
        reached=lambda view: view.state is JobState.PAUSED,
    )
    RESUME = OfJob(
        name="resume",
        key="p",
        label="resume",
        typed="applies changes again",
        means="applies changes again from its position",
        requested="not PAUSED",
        right=Right.PAUSE,
        why_not=lambda state, lives: (
            f"the job is {state.value}: no process"
            if not lives
            else ""
            if state is JobState.PAUSED
            else f"the job is {state.value}"
        ),
        many=True,
        help="Resume a paused job, and wait until it runs or copies.",
        reached=lambda view: view.goes_on,
    )
    RETRY = OfJob(
        name="retry",
        key="t",
        bound="try now",
        label="try now: run waiting retries and polls immediately",
        means="retries immediately; this retry counts like any other; a rejected login still waits its full delay",
        requested="an immediate retry",
        right=Right.PAUSE,
        why_not=lambda state, lives: (
            "" if lives and state is not JobState.PAUSED else f"the job is {state.value}: nothing to retry"
        ),
        many=True,
    )
    DRAIN = OfJob(
        name="drain",
        key="d",
        label="drain: wait until all changes are read; changes nothing",
        typed="wait until all changes are read; changes nothing",
        requested="drained",
        right=Right.READ,
        why_not=lambda state, lives: (
            "" if lives and state in _STREAMING else f"the job is {state.value}: only a streaming job can drain"
        ),
        configured=True,
    )
    VERIFY = OfJob(
        name="verify",
        key="v",
        label="verify: compare all rows of source and target; changes nothing",
        typed="compare all rows of source and target; changes nothing",
        requested="compared",
        right=Right.READ,
        before_first_start="the job was never started: there is nothing to compare",
        anywhere=True,
        configured=True,
        command=(),
    )
    CANCEL = OfJob(
        name="cancel",
        key="c",
        label="cancel: the job can never be started again",
        typed="final: the job can never be started again",
        means="FINAL: no job of this name can be started again; slot and rows do not change",
        requested="CANCELLED",
        right=Right.RESET,
        why_not=lambda state, lives: (
            "one of its processes is running: stop the job first" if lives else _refused(state, JobEvent.CANCELLED)
        ),
        final=True,
    )

    does: OfJob

    def __new__(cls, *does: Any) -> JobVerb:
        verb = object.__new__(cls)
        verb.does = OfJob(*does)
        verb._value_ = verb.does.name
        return verb


Barred = Callable[[Right, str], str]
"""Returns why the user of the console lacks a right on a job; "" if the user has it."""


def unbarred(right: Right, job: str) -> str:
    """Return "": without rules, every account has every right."""
    return ""


def why_not(verb: JobVerb, job: JobFacts, configured: Collection[str], barred: Barred = unbarred) -> str:
    """Return the reason why a verb is currently not available for a job; "" if it is available."""
    from slotkeeper.console.views.queries import refusal  # the shell declares its commands without the views

    does = verb.does
    if why := barred(does.right, job.name):
        return why
    if job.queries:
        return refusal(job)
    if does.configured and job.name not in configured:
        return NOT_CONFIGURED
    if job.state is None:
        return does.before_first_start
    if job.alive is None and not does.anywhere:
        return ELSEWHERE
    return does.why_not(job.state, bool(job.alive))


class OfSlot(NamedTuple):
    """A verb of a slot: its name, its key and text in the menu, its description at the `:` prompt, and its right."""

    name: str
    key: str = ""
    label: str = ""
    typed: str = ""
    right: Right = Right.RESET


class SlotVerb(Enum):
    """The verbs of a slot, in the order of the menu. Their values are the names in the shell."""

    RESET = OfSlot(
        "reset", "r", "reset: shows a plan first; its positions are backed up",
        "reset the slot of this row: shows a plan first; its positions are backed up",
    )  # fmt: skip
    UNDO = OfSlot(
        "undo", "u", "undo the last reset: restores positions, not rows",
        "plan the undo of the last reset: restores positions, not rows",
    )  # fmt: skip
    REGISTER = OfSlot(
        "register", "f", "confirm up to a full-sync point: skips unread changes",
        "confirm up to a full-sync point: skips unread changes",
    )  # fmt: skip
    DROP = OfSlot("drop", "d", "drop", "drop the slot")
    CREATE = OfSlot("create", "c", "create", "create the slot")
    PREFLIGHT = OfSlot(
        "preflight", "p", "preflight: can a VACUUM FULL, scale-out or ALTER start now? changes nothing",
        "can a VACUUM FULL, scale-out or ALTER start now?", Right.READ,
    )  # fmt: skip
    HISTORY = OfSlot("history", right=Right.READ)

    does: OfSlot

    def __new__(cls, *does: Any) -> SlotVerb:
        verb = object.__new__(cls)
        verb.does = OfSlot(*does)
        verb._value_ = verb.does.name
        return verb


class OfEntry(NamedTuple):
    """A verb of quarantined rows: name, key, text in the menu, text of the confirmation, whether it is final, right.

    The key `every` applies the verb to all quarantined entries of the job.
    """

    name: str
    key: str
    every: str
    label: str
    means: tuple[str, ...]
    final: bool = False
    right: Right = Right.DISCARD


class EntryVerb(Enum):
    """The verbs of quarantined rows. Their values are the names in the shell."""

    REPLAY = OfEntry(
        "replay", "r", "R", "write to the target; rows that are rejected again stay here",
        (
            "writes each row to the target as the job does, while no step of the job runs on its DN",
            "a row that is rejected again stays here with its reason; resolved entries are not changed",
        ),
    )  # fmt: skip
    DISCARD = OfEntry(
        "discard", "d", "D", "final: never written to the target",
        (
            "FINAL: these rows are never written; the target lacks them until their keys change again",
            "the source is neither read nor written; the entries stay in the table, marked as discarded",
        ),
        final=True,
    )  # fmt: skip

    does: OfEntry

    def __new__(cls, *does: Any) -> EntryVerb:
        verb = object.__new__(cls)
        verb.does = OfEntry(*does)
        verb._value_ = verb.does.name
        return verb
