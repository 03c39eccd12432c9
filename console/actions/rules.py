"""How much must be typed before something is done: nothing, a reason and a name, on top a number or the table. Pure.

The core judges: what a slot command asks for is what its dry run says (`to_type`), and it is judged there again. Next
door: `slotkeeper.console.actions.commands` puts what was typed into a command; `slotkeeper.core.slots.change` and
`slotkeeper.core.slots.reset_apply` are the gates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class Part(Enum):
    """What can be asked for; the values are the labels of the fields.

    `option` says it to a command, with `placeholder` where it is not typed yet; the number of jobs is for no command.
    """

    REASON = "Reason", "--reason", "REASON"
    NAME = "Name", "--confirm", "NAME"
    TABLE = "Table", "--confirm-table", "TABLE"
    ROWS = "Rows", "--rows", "N"
    NUMBER = "Number", "", ""

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
        """Whether it may be pasted: only what needs no looking at."""
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
        wants.append(Want(Part.ROWS, str(to_type["rows"]), "rows that are lost or skipped"))
    return tuple(wants)


def job_wants(jobs: Sequence[str], final: bool = False) -> tuple[Want, ...]:
    """What a command on jobs asks for: nothing but a key for one, their number for several, a name for the final one.

    >>> job_wants(["a"]), [want.answer for want in job_wants(["a", "b"])], len(job_wants(["a"], final=True))
    ((), ['2'], 2)
    """
    if final:
        return Want(Part.REASON, about="why, for the audit"), Want(Part.NAME, jobs[0], "the job's name")
    return (Want(Part.NUMBER, str(len(jobs)), "how many jobs"),) if len(jobs) > 1 else ()


def entry_wants(job: str, number: int, final: bool = False) -> tuple[Want, ...]:
    """What a command on rows in quarantine asks for: a key to replay, to discard a reason, the job's name, how many.

    >>> entry_wants("a", 3), [want.answer for want in entry_wants("a", 3, final=True)]
    ((), ['', 'a', '3'])
    """
    if not final:
        return ()
    reason, name = Want(Part.REASON, about="why, for the audit"), Want(Part.NAME, job, "the job's name")
    return reason, name, Want(Part.ROWS, str(number), "entries that are given up")


def missing(wants: Sequence[Want], typed: Mapping[Part, str]) -> list[Want]:
    """What is not typed right yet."""
    return [want for want in wants if not want.met(typed.get(want.part, ""))]
