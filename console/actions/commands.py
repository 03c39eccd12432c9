"""The confirmations and the command line of an action: as arguments for a child process, or as text to copy. Pure.

Typed text is passed as `--name=value`, so that it is never parsed as an option. The core decides which confirmations
are required: the dry run of a slot command reports them (`to_type`), and `slotkeeper.core.slots.change` and
`slotkeeper.core.slots.reset_apply` check them again.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from slotkeeper.console.actions.verbs import EntryVerb, JobVerb, SlotVerb
from slotkeeper.core.domain.ending import moment
from slotkeeper.core.domain.text import safe


class Part(Enum):
    """A field to be typed. The values are the labels of the fields.

    `option` passes the text to a command, and `placeholder` stands in for the text until it is typed. The number of
    jobs and a pid are not passed to any command. The name of a job's table does not have to be typed.
    """

    REASON = "Reason", "--reason", "REASON"
    NAME = "Name", "--confirm", "NAME"
    TABLE = "Table", "--confirm-table", "TABLE"
    ROWS = "Rows", "--rows", "N"
    NUMBER = "Number", "", ""
    PID = "Pid", "", ""
    ONE_TABLE = "One table", "--table", "TABLE"

    option: str
    placeholder: str

    def __new__(cls, label: str, option: str, placeholder: str) -> Part:
        part = object.__new__(cls)
        part._value_ = label
        part.option, part.placeholder = option, placeholder
        return part


@dataclass(frozen=True, slots=True)
class Want:
    """One confirmation: exactly `answer`, or any text if `answer` is empty. `about` describes the text to type."""

    part: Part
    answer: str = ""
    about: str = ""

    def met(self, typed: str) -> bool:
        """Return whether `typed` satisfies this confirmation."""
        return typed == self.answer if self.answer else bool(typed.strip())

    @property
    def pasted(self) -> bool:
        """Whether the text can be pasted: true only if it is not compared with an answer."""
        return self.part is Part.REASON


def slot_wants(to_type: Mapping[str, object]) -> tuple[Want, ...]:
    """Return the confirmations that the dry run of a slot command requires, in typing order.

    >>> [want.part.value for want in slot_wants({"confirm": "s", "confirm_table": None, "rows": "7"})]
    ['Reason', 'Name', 'Rows']
    """
    names = ((Part.NAME, "confirm", "the slot's name"), (Part.TABLE, "confirm_table", "the table's name"))
    wants = [Want(Part.REASON, about="reason, for the audit")]
    wants += [Want(part, str(to_type[key]), about) for part, key, about in names if to_type.get(key) is not None]
    if to_type.get("rows") is not None:
        wants.append(Want(Part.ROWS, str(to_type["rows"]), "rows lost or skipped"))
    return tuple(wants)


def job_wants(jobs: Sequence[str], final: bool = False) -> tuple[Want, ...]:
    """Return the confirmations for a command on jobs.

    One job requires only a key, several jobs require their number, and a final command requires a reason and the job's
    name.

    >>> job_wants(["a"]), [want.answer for want in job_wants(["a", "b"])], len(job_wants(["a"], final=True))
    ((), ['2'], 2)
    """
    if final:
        return Want(Part.REASON, about="reason, for the audit"), Want(Part.NAME, jobs[0], "the job's name")
    return (Want(Part.NUMBER, str(len(jobs)), "number of jobs"),) if len(jobs) > 1 else ()


def consent_wants(job: str) -> tuple[Want, ...]:
    """Return the confirmations for a start whose copy replaces rows. Typing them consents to that copy."""
    return Want(Part.REASON, about="reason, for the audit"), Want(Part.NAME, job, "the job's name")


def entry_wants(job: str, number: int, final: bool = False) -> tuple[Want, ...]:
    """Return the confirmations for a command on quarantined rows.

    A replay requires only a key. A discard requires a reason, the job's name and the number of entries.

    >>> entry_wants("a", 3), [want.answer for want in entry_wants("a", 3, final=True)]
    ((), ['', 'a', '3'])
    """
    if not final:
        return ()
    reason, name = Want(Part.REASON, about="reason, for the audit"), Want(Part.NAME, job, "the job's name")
    return reason, name, Want(Part.ROWS, str(number), "entries to discard")


def session_wants(pid: int) -> tuple[Want, ...]:
    """Return the confirmations for ending a session: a reason and the session's pid."""
    return Want(Part.REASON, about="reason, for the audit"), Want(Part.PID, str(pid), "the session's pid")


def session_words(origin: Origin, server: tuple[str, str], pid: int, began: float, reason: str) -> tuple[str, ...]:
    """Return the arguments of the command that ends a session.

    `began` identifies the session if its pid is reused. `server` is "sink" or "source", followed by the server's name.
    """
    said = (f"--began={moment(began)}", f"--{server[0]}={server[1]}", f"--reason={reason}")
    return (*origin.shared, "locks", "end", "--json", *said, str(pid))


def view_words(origin: Origin, job: str, view: str, reason: str) -> tuple[str, ...]:
    """Return the arguments of the command that builds a SQL view again."""
    return (*origin.shared, "views", "rebuild", "--json", f"--reason={reason}", *_names(job, view))


def missing(wants: Sequence[Want], typed: Mapping[Part, str]) -> list[Want]:
    """Return the confirmations that have not been typed correctly yet."""
    return [want for want in wants if not want.met(typed.get(want.part, ""))]


def wrong(wants: Sequence[Want], typed: Mapping[Part, str]) -> str:
    """Describe the wrong answers; "" if more typing can still make each of them correct.

    >>> name = [Want(Part.NAME, "orders_rt")]
    >>> wrong(name, {Part.NAME: "wrong_rt"}), wrong(name, {Part.NAME: "ord"})
    ('`wrong_rt` is not `orders_rt`', '')
    """
    found = [(typed.get(want.part, ""), want.answer) for want in wants if want.answer]
    names = ((safe(text, 80), safe(answer, 80)) for text, answer in found if not answer.startswith(text))
    return "; ".join(f"`{text}` is not `{answer}`" for text, answer in names)


PROGRAM = "slotkeeper"


@dataclass(frozen=True, slots=True)
class Origin:
    """The console's configuration file or, if there is none, its state folder."""

    config: str = ""
    state_dir: str = ""

    @property
    def shared(self) -> tuple[str, ...]:
        """The options that precede the command."""
        return (f"--config={self.config}",) if self.config else ()


@dataclass(frozen=True, slots=True)
class Place:
    """A slot: its source, table and name. `job` is the configured job that owns it, "" if none does."""

    source: str
    table: str
    slot: str
    job: str = ""

    @property
    def text(self) -> str:
        """The slot as displayed on screens."""
        return f"{self.table}/{self.slot}"


@dataclass(frozen=True, slots=True)
class Target:
    """The destination of a reset: a value of `--to`, and its argument if it has one.

    For a snapshot, the argument is the action on existing rows in the target; if empty, the configuration decides.
    """

    to: str
    value: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The command-line options."""
        found = [f"--to={self.to}"]
        if self.to == "point":
            found += [f"--point={one}" for one in self.value.split()]
        elif self.to in ("time", "backup"):
            found.append(f"--{self.to}={self.value}")
        elif self.to == "snapshot" and self.value:
            found.append(f"--on-existing={self.value}")
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Doing:
    """A slot command: its verb and slot, the destination of a reset, and the backup of an undo."""

    verb: SlotVerb
    place: Place
    target: Target | None = None
    backup: str = ""
    ending: bool = False
    """Whether this reset ends an unfinished one."""


@dataclass(frozen=True, slots=True)
class Typed:
    """The confirmations that a user typed to execute a plan."""

    plan: str = ""
    parts: Mapping[Part, str] = field(default_factory=dict)


def job_words(origin: Origin, verb: JobVerb, job: str, parts: Mapping[Part, str] | None = None) -> tuple[str, ...]:
    """Return the arguments of a command on a job."""
    words = [*origin.shared, *verb.does.command, verb.value, "--json"]
    if not origin.config and origin.state_dir and not verb.does.configured:
        words.append(f"--state-dir={origin.state_dir}")
    words += [f"{part.option}={text}" for part, text in (parts or {}).items()]
    return (*words, *_names(job))


def entry_words(
    origin: Origin, verb: EntryVerb, job: str, ids: Sequence[int], parts: Mapping[Part, str] | None = None
) -> tuple[str, ...]:
    """Return the arguments of a command on a job's quarantined rows; on all of them if `ids` is empty."""
    words = [*origin.shared, "errors", verb.value, "--json"]
    words += ["--execute"] if verb.does.final else []
    words += [f"{part.option}={text}" for part, text in (parts or {}).items()]
    words += [] if ids else ["--all"]
    return (*words, *_names(job, *map(str, ids)))


def slot_words(origin: Origin, doing: Doing, typed: Typed | None = None) -> tuple[str, ...]:
    """Return the arguments of a command on a slot: a dry run if nothing was typed."""
    place, words = doing.place, [*origin.shared, "slots", doing.verb.value, "--json"]
    if doing.verb not in (SlotVerb.RESET, SlotVerb.UNDO, SlotVerb.HISTORY):
        words.append(f"--source={place.source}")
    if doing.ending:
        words.append("--resume")
    elif doing.target is not None and typed is None:
        words += doing.target.words
    if typed is not None:
        words.append("--execute")
        words += [f"--plan={typed.plan}"] if typed.plan else []
        words += [f"{part.option}={text}" for part, text in typed.parts.items()]
    if doing.verb is SlotVerb.UNDO:
        return (*words, *_names(doing.backup))
    if doing.verb is SlotVerb.PREFLIGHT:
        return (*words, *_names(place.table))
    return (*words, *_names(place.table, place.slot))


def with_placeholders(wants: Sequence[Want], typed: Mapping[Part, str]) -> dict[Part, str]:
    """Return the typed text of each correct confirmation, and a placeholder for every other confirmation."""
    return {
        want.part: typed[want.part] if want.met(typed.get(want.part, "")) else want.part.placeholder
        for want in wants
        if want.part.option
    }


def shell_text(words: Sequence[str]) -> str:
    """Return the command line as a user would type it into a shell, without `--json`.

    >>> shell_text(["jobs", "cancel", "--json", "--reason=no more", "orders_rt"])
    "slotkeeper jobs cancel --reason='no more' orders_rt"
    """
    return " ".join([PROGRAM, *(_quoted(word) for word in words if word != "--json")])


def _quoted(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{name}={shlex.quote(value)}" if equals and name.startswith("--") and name.isascii() else shlex.quote(word)


def _names(*names: str) -> tuple[str, ...]:
    """Return the names, preceded by `--` if one of them starts with a dash."""
    return ("--", *names) if any(name.startswith("-") for name in names) else names
