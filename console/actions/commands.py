"""What must be typed for an action, and its command line: as words for a child, as text for a person to copy. Pure.

What a person has typed goes in as `--name=value`, so that no text can be taken for an option. The core judges: what a
slot command asks for is what its dry run says (`to_type`), and `slotkeeper.core.slots.change` and
`slotkeeper.core.slots.reset_apply` judge it again.
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
    """What can be asked for; the values are the labels of the fields.

    `option` says it to a command, with `placeholder` where it is not typed yet; the number of jobs and a pid are for no
    command, and one table of a job is not asked for.
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
    """One thing to be typed: exactly `answer`, or anything at all where that is empty; `about` says of what."""

    part: Part
    answer: str = ""
    about: str = ""

    def met(self, typed: str) -> bool:
        """Whether this was typed."""
        return typed == self.answer if self.answer else bool(typed.strip())

    @property
    def pasted(self) -> bool:
        """Whether it may be pasted: only an answer that needs no check."""
        return self.part is Part.REASON


def slot_wants(to_type: Mapping[str, object]) -> tuple[Want, ...]:
    """What the dry run of a slot command says is asked for, in the order of typing.

    >>> [want.part.value for want in slot_wants({"confirm": "s", "confirm_table": None, "rows": "7"})]
    ['Reason', 'Name', 'Rows']
    """
    names = ((Part.NAME, "confirm", "the slot's name"), (Part.TABLE, "confirm_table", "the table's name"))
    wants = [Want(Part.REASON, about="why, for the audit")]
    wants += [Want(part, str(to_type[key]), about) for part, key, about in names if to_type.get(key) is not None]
    if to_type.get("rows") is not None:
        wants.append(Want(Part.ROWS, str(to_type["rows"]), "rows lost or skipped"))
    return tuple(wants)


def job_wants(jobs: Sequence[str], final: bool = False) -> tuple[Want, ...]:
    """What a command on jobs asks for: nothing but a key for one, their number for several, a name for the final one.

    >>> job_wants(["a"]), [want.answer for want in job_wants(["a", "b"])], len(job_wants(["a"], final=True))
    ((), ['2'], 2)
    """
    if final:
        return Want(Part.REASON, about="why, for the audit"), Want(Part.NAME, jobs[0], "the job's name")
    return (Want(Part.NUMBER, str(len(jobs)), "how many jobs"),) if len(jobs) > 1 else ()


def consent_wants(job: str) -> tuple[Want, ...]:
    """What a start asks for whose copy replaces rows: who types it agrees to that copy."""
    return Want(Part.REASON, about="why, for the audit"), Want(Part.NAME, job, "the job's name")


def entry_wants(job: str, number: int, final: bool = False) -> tuple[Want, ...]:
    """What a command on rows in quarantine asks for: a key to replay, to discard a reason, the job's name, how many.

    >>> entry_wants("a", 3), [want.answer for want in entry_wants("a", 3, final=True)]
    ((), ['', 'a', '3'])
    """
    if not final:
        return ()
    reason, name = Want(Part.REASON, about="why, for the audit"), Want(Part.NAME, job, "the job's name")
    return reason, name, Want(Part.ROWS, str(number), "entries to discard")


def session_wants(pid: int) -> tuple[Want, ...]:
    """What ending a session asks for: a reason and its pid, typed."""
    return Want(Part.REASON, about="why, for the audit"), Want(Part.PID, str(pid), "the session's pid")


def session_words(origin: Origin, server: tuple[str, str], pid: int, began: float, reason: str) -> tuple[str, ...]:
    """The words of the command that ends a session: the one that began then, no other of its pid.

    `server` is "sink" or "source", and its name.
    """
    said = (f"--began={moment(began)}", f"--{server[0]}={server[1]}", f"--reason={reason}")
    return (*origin.shared, "locks", "end", "--json", *said, str(pid))


def missing(wants: Sequence[Want], typed: Mapping[Part, str]) -> list[Want]:
    """The wants whose answer is not correct yet."""
    return [want for want in wants if not want.met(typed.get(want.part, ""))]


def wrong(wants: Sequence[Want], typed: Mapping[Part, str]) -> str:
    """Answers that are wrong, in words; "" where each may be one that is only half typed.

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
    """Where the console took its configuration from, and the state folder it uses where there is none."""

    config: str = ""
    state_dir: str = ""

    @property
    def shared(self) -> tuple[str, ...]:
        """The options that come before a command."""
        return (f"--config={self.config}",) if self.config else ()


@dataclass(frozen=True, slots=True)
class Place:
    """A slot: its source, table and name; `job` is the configured job that owns it, "" where none does."""

    source: str
    table: str
    slot: str
    job: str = ""

    @property
    def text(self) -> str:
        """As the screens name it."""
        return f"{self.table}/{self.slot}"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a reset goes: one of the words of `--to`, and its value where it has one.

    That of a snapshot is what the next copy does with the target's rows, none for what the configuration says.
    """

    to: str
    value: str = ""

    @property
    def words(self) -> tuple[str, ...]:
        """The options."""
        found = [f"--to={self.to}"]
        if self.to == "point":
            found += [f"--point={one}" for one in self.value.split()]
        elif self.to in ("time", "backup"):
            found.append(f"--{self.to}={self.value}")
        elif self.to == "snapshot" and self.value:
            found.append(f"--on-existing={self.value}")
        return tuple(found)


ON_EXISTING = ("", "replace", "merge")
"""What a snapshot may be asked to do with the target's rows, in the order of one key."""


@dataclass(frozen=True, slots=True)
class Doing:
    """A slot command: what, where, and for a reset whereto, for an undo which backup."""

    verb: SlotVerb
    place: Place
    target: Target | None = None
    backup: str = ""
    ending: bool = False
    """A reset that ends an unfinished one."""


@dataclass(frozen=True, slots=True)
class Typed:
    """What a person typed to have a plan carried out."""

    plan: str = ""
    parts: Mapping[Part, str] = field(default_factory=dict)


def job_words(origin: Origin, verb: JobVerb, job: str, parts: Mapping[Part, str] | None = None) -> tuple[str, ...]:
    """The words of a command on a job."""
    words = [*origin.shared, *verb.does.command, verb.value, "--json"]
    if not origin.config and origin.state_dir and not verb.does.configured:
        words.append(f"--state-dir={origin.state_dir}")
    words += [f"{part.option}={text}" for part, text in (parts or {}).items()]
    return (*words, *_names(job))


def entry_words(
    origin: Origin, verb: EntryVerb, job: str, ids: Sequence[int], parts: Mapping[Part, str] | None = None
) -> tuple[str, ...]:
    """The words of a command on a job's rows in quarantine: on these entries, or without any on all that are held."""
    words = [*origin.shared, "errors", verb.value, "--json"]
    words += ["--execute"] if verb.does.final else []
    words += [f"{part.option}={text}" for part, text in (parts or {}).items()]
    words += [] if ids else ["--all"]
    return (*words, *_names(job, *map(str, ids)))


def slot_words(origin: Origin, doing: Doing, typed: Typed | None = None) -> tuple[str, ...]:
    """The words of a command on a slot: a dry run unless something was typed."""
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
    """What was typed, and a placeholder for each thing that was not typed right yet."""
    return {
        want.part: typed[want.part] if want.met(typed.get(want.part, "")) else want.part.placeholder
        for want in wants
        if want.part.option
    }


def shell_text(words: Sequence[str]) -> str:
    """The words as a person types them into a shell, for people: without `--json`.

    >>> shell_text(["jobs", "cancel", "--json", "--reason=no more", "orders_rt"])
    "slotkeeper jobs cancel --reason='no more' orders_rt"
    """
    return " ".join([PROGRAM, *(_quoted(word) for word in words if word != "--json")])


def _quoted(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{name}={shlex.quote(value)}" if equals and name.startswith("--") and name.isascii() else shlex.quote(word)


def _names(*names: str) -> tuple[str, ...]:
    """Names, which are no options even where they look like one."""
    return ("--", *names) if any(name.startswith("-") for name in names) else names
