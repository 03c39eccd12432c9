"""Every verb, declared once: the shell's command, the line of the menu, what `:` does, the last question, the outcome.

To add one to a job that takes no more than a wait and a reason: a member here, and the function of its name in
`slotkeeper.core.launch.control`. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from slotkeeper.core.domain.job import JobEvent, JobState, transition
from slotkeeper.core.errors import Refused

if TYPE_CHECKING:
    from slotkeeper.console.monitor.snapshot import JobFacts
    from slotkeeper.core.domain.report import JobStatus

ELSEWHERE = "it may run on another machine: ask there"
NOT_CONFIGURED = "this configuration has no such job"
NEVER_STARTED = "it was never started"
_STREAMING = (JobState.RUNNING, JobState.CATCHING_UP)


class OfJob(NamedTuple):
    """What is done to a job."""

    name: str
    """The word of the shell and behind `:`."""
    key: str
    """Its letter in the menu."""
    label: str
    """Its line of the menu."""
    requested: str
    """What its outcome is held against."""
    bound: str = ""
    """What the list of keys says, where that is not its name."""
    typed: str = ""
    """What is said of it behind `:`, where it cannot be typed, nothing."""
    means: str = ""
    """What the last question says; nothing where it changes nothing and starts at once."""
    why_not: Callable[[JobState, bool], str] = lambda state, lives: ""
    """Why a job in that state, whose process lives here or does not, cannot have it; nothing where it can."""
    before_first_start: str = NEVER_STARTED
    """The same of a job that was never started."""
    anywhere: bool = False
    """Whether it can be had of a job that may run on another host."""
    configured: bool = False
    """Whether the job has to be in this configuration."""
    many: bool = False
    """Whether several jobs can have it at once."""
    final: bool = False
    """Whether it cannot be undone: a reason and the job's name are typed."""
    copies: bool = False
    """Whether a copy may follow, whose progress is shown."""
    command: tuple[str, ...] = ("jobs",)
    """What stands before its name in the shell."""
    help: str = ""
    """What the shell's `--help` says, where the verb takes no more than a wait and a reason."""
    reached: Callable[[JobStatus], bool] = lambda view: True
    """Whether its effect is seen, where the shell waits for it."""


def _refused(state: JobState, event: JobEvent) -> str:
    try:
        transition(state, event)
    except Refused as error:
        return error.message.rpartition(": ")[2]
    return ""


class JobVerb(Enum):
    """The verbs of a job, in the order of the menu; their values are their names."""

    STOP = OfJob(
        name="stop",
        key="s",
        label="stop: resumes later at its position, while its binlog is retained",
        typed="stop it: resumes later at its position",
        means="its processes end; a later start resumes at its position, while its binlog is retained",
        requested="STOPPED",
        why_not=lambda state, lives: "" if lives or state.is_open else f"it is {state.value}",
        many=True,
        help="Stop a job and its processes; a later start resumes at its position, while the source retains the"
        " binlog.",
        reached=lambda view: not view.state.is_open and not view.lives,
    )
    START = OfJob(
        name="start",
        key="g",
        label="start",
        typed="start the job of this row, or those that are named",
        means="resumes at the sink's progress rows; a job that never ran starts with its copy",
        requested="a living process",
        why_not=lambda state, lives: (
            f"it is {state.value}"
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
        label="restart with the configuration as it is now",
        typed="restart it with the configuration as it is now",
        means="its processes end, then it starts with the configuration as it is now",
        requested="a living process",
        why_not=lambda state, lives: "CANCELLED is final" if state is JobState.CANCELLED else "",
        configured=True,
        copies=True,
    )
    PAUSE = OfJob(
        name="pause",
        key="p",
        bound="pause or resume",
        label="pause: its process lives and applies nothing",
        typed="its process lives and applies nothing",
        means="its process lives and applies nothing; what it has not read may expire at the source",
        requested="PAUSED",
        why_not=lambda state, lives: (
            f"it is {state.value}: no process"
            if not lives
            else f"it is {state.value}"
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
        typed="it applies again",
        means="it applies again from where it is",
        requested="not PAUSED",
        why_not=lambda state, lives: (
            f"it is {state.value}: no process"
            if not lives
            else ""
            if state is JobState.PAUSED
            else f"it is {state.value}"
        ),
        many=True,
        help="Resume a paused job, and wait until it runs or copies.",
        reached=lambda view: view.goes_on,
    )
    RETRY = OfJob(
        name="retry",
        key="t",
        bound="try now",
        label="try now: what waits for its next try, or its next poll",
        means="what waits is tried at once; the try counts as any other, and a refused login waits its time",
        requested="a try at once",
        why_not=lambda state, lives: (
            "" if lives and state is not JobState.PAUSED else f"it is {state.value}: it tries nothing"
        ),
        many=True,
    )
    DRAIN = OfJob(
        name="drain",
        key="d",
        label="drain: wait until nothing is unread; changes nothing",
        typed="wait until nothing is unread; changes nothing",
        requested="drained",
        why_not=lambda state, lives: (
            "" if lives and state in _STREAMING else f"it is {state.value}: only a job that follows can drain"
        ),
        configured=True,
    )
    VERIFY = OfJob(
        name="verify",
        key="v",
        label="verify: compare source and target, all rows of both; changes nothing",
        typed="compare source and target, all rows of both; changes nothing",
        requested="compared",
        before_first_start="it was never started: there is nothing to compare",
        anywhere=True,
        configured=True,
        command=(),
    )
    CANCEL = OfJob(
        name="cancel",
        key="c",
        label="cancel for good: can never be started again",
        typed="for good: it can never be started again",
        means="FINAL: it can never be started again under this name; slot and rows stay as they are",
        requested="CANCELLED",
        why_not=lambda state, lives: (
            "a process of it lives: stop it first" if lives else _refused(state, JobEvent.CANCELLED)
        ),
        final=True,
    )

    does: OfJob

    def __new__(cls, *does: Any) -> JobVerb:
        verb = object.__new__(cls)
        verb.does = OfJob(*does)
        verb._value_ = verb.does.name
        return verb


def why_not(verb: JobVerb, job: JobFacts, configured: Collection[str]) -> str:
    """Why a verb cannot be had of a job now; nothing where it can."""
    from slotkeeper.console.views.queries import refusal  # the shell declares its commands without the views

    does = verb.does
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
    """What is done to a slot: its name, its letter and line in the menu, and what is said of it behind `:`."""

    name: str
    key: str = ""
    label: str = ""
    typed: str = ""


class SlotVerb(Enum):
    """The verbs of a slot, in the order of the menu; their values are the words of the shell."""

    RESET = OfSlot(
        "reset", "r", "reset: plan first, backed up, can be undone",
        "reset the slot of this row: plan first, backed up, can be undone",
    )  # fmt: skip
    UNDO = OfSlot("undo", "u", "undo its last reset", "plan the way back of its last reset")
    REGISTER = OfSlot(
        "register", "f", "register full-sync point: skips what is unread",
        "register a full-sync point: skips what is unread",
    )  # fmt: skip
    DROP = OfSlot("drop", "d", "drop", "drop it")
    CREATE = OfSlot("create", "c", "create", "create it")
    PREFLIGHT = OfSlot(
        "preflight", "p", "preflight: may I VACUUM, scale out, alter? changes nothing",
        "may a VACUUM FULL, scaling out or an ALTER begin?",
    )  # fmt: skip
    HISTORY = OfSlot("history")

    does: OfSlot

    def __new__(cls, *does: Any) -> SlotVerb:
        verb = object.__new__(cls)
        verb.does = OfSlot(*does)
        verb._value_ = verb.does.name
        return verb


class OfEntry(NamedTuple):
    """What is done to rows in quarantine: name, letter, line in the menu, what the last question says, if it is final.

    With `every` key it is done to all that are held.
    """

    name: str
    key: str
    every: str
    label: str
    means: tuple[str, ...]
    final: bool = False


class EntryVerb(Enum):
    """The verbs of rows in quarantine; their values are the words of the shell."""

    REPLAY = OfEntry(
        "replay", "r", "R", "write into the target; what is still refused stays here",
        (
            "each row is written into the target as the job writes, while no step of the job runs on its DN",
            "a row that is still refused stays here with its reason; one that is over by then is left alone",
        ),
    )  # fmt: skip
    DISCARD = OfEntry(
        "discard", "d", "D", "give up for good; the target never gets it",
        (
            "FINAL: the target never gets these rows, and lacks them until a later change of their keys",
            "nothing is read or written at the source; the entries stay in the table as discarded",
        ),
        final=True,
    )  # fmt: skip

    does: OfEntry

    def __new__(cls, *does: Any) -> EntryVerb:
        verb = object.__new__(cls)
        verb.does = OfEntry(*does)
        verb._value_ = verb.does.name
        return verb
