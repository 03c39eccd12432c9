"""What is safe to do, in words: what a person does by hand, and what is typed word for word. Pure.

A remedy is done from its left to its right. Its parts are divided by "; then ", and by "; or " where the part behind is
for those who cannot do the part before. A part that begins with "by hand: " is an act that no command of ours does, and
says whose it is. What stands in backquotes is typed as it stands: what begins with `slotkeeper` into a shell, anything
else into a session of an administrator at the server that the part names. TEXT in it stands for a reason, and no
other word stands for anything.
"""

from __future__ import annotations

import re
from typing import Protocol

from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import typed

BY_HAND = "by hand: "
THEN, OR = "; then ", "; or "
_DIVIDED = re.compile(f"{THEN}|{OR}")
_JOB = re.compile(r"(?<=\[jobs\.)JOB(?=[\].])|(?<![\w.\"'-])JOB(?![\w\"'-]|\.\w)")
"""The word that stands for a job's name, and no part of the name of a table or a login ("ods"."JOB")."""


def by_hand(act: str, *then: str) -> str:
    """An act of a person, and what is done behind it.

    >>> by_hand("free some space there", "`slotkeeper jobs start a`")
    'by hand: free some space there; then `slotkeeper jobs start a`'
    """
    return THEN.join((f"{BY_HAND}{act}", *then))


def first_act(text: str) -> str:
    """What a person has to do before anything that is typed helps; "" where nothing of the kind is said.

    >>> first_act("by hand: drop the constraint, or wait; then `slotkeeper jobs start a`"), first_act("`slotkeeper x`")
    ('drop the constraint, or wait', '')
    """
    return _DIVIDED.split(text)[0].removeprefix(BY_HAND) if text.startswith(BY_HAND) else ""


def start(job: str) -> str:
    """The command that starts a job."""
    return f"`slotkeeper jobs start {typed(job)}`"


def goes_on(job: str) -> str:
    """The same for one that can go on at once."""
    return f"{start(job)} goes on where the sink's progress rows stand"


def for_job(text: str, job: str) -> str:
    """A text that was written for any job, for this one.

    >>> for_job("read `slotkeeper jobs logs JOB`", "my job")
    "read `slotkeeper jobs logs 'my job'`"
    >>> for_job('`GRANT SELECT ON "ods"."JOB" TO "JOB";` in [jobs.JOB.binlog]: JOB.', "a")
    '`GRANT SELECT ON "ods"."JOB" TO "JOB";` in [jobs.a.binlog]: a.'
    """
    return _JOB.sub(lambda _: typed(job), text)


def until_started(text: str, job: str) -> str:
    """What is to be done about a job that has ended: what was said when it ended, and then its start.

    A cause that nobody has taken away ends it again, so that what names no command of ours is somebody's act.

    >>> until_started("check user and password", "a")
    'by hand: check user and password; then `slotkeeper jobs start a`'
    >>> until_started("", "a")
    "`slotkeeper jobs start a` goes on where the sink's progress rows stand"
    """
    said = for_job(text, job)
    if not said:
        return goes_on(job)
    if "slotkeeper jobs start" in said or said.startswith("nothing"):
        return said
    said = said.rstrip(".") if said.startswith((BY_HAND, "`")) or said[0].isupper() else by_hand(said)
    return f"{said}{THEN}{start(job)}"


def copy_anew(job: JobSpec) -> str:
    """The commands that make a target anew out of its source, for a job of one channel that is at rest.

    The first is a dry run: it shows what is lost, and prints the line that does it.
    """
    how = " --on-existing replace" if job.on_existing == "refuse" else ""
    reset = f"`slotkeeper slots reset {typed(job.channel.source_table, job.slot)} --to snapshot{how}`"
    prints = "plans a new copy, says what the target loses by it, and prints the line that makes it"
    return f"{reset} {prints}{THEN}{start(job.name)}"


class ManualSql(Protocol):
    """They go round every guard: no lease, no plan, no backup, no audit. Text only."""

    def status(self, table: str) -> str:
        """Every registered point of a table; names no slot."""

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        """Registers again on one DN what is registered there."""
