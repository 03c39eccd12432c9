"""The text of an action, which consists of imperative parts in the order of execution. Pure.

Parts are separated by "; then ", or by "; or " if the next part is an alternative for a reader who cannot perform the
previous part. Users type the text in backquotes exactly as shown: commands that start with `slotkeeper` in a shell, any
other text in an administrator's session at the server named in the part. The only placeholder in such a text is TEXT,
for a reason. A part without backquotes describes an action for which there is no Slotkeeper command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.position import Position
from slotkeeper.core.domain.spec import JobSpec
from slotkeeper.core.domain.text import typed

NOTHING = "No action needed"
THEN, OR = "; then ", "; or "
_DIVIDED = re.compile(f"{THEN}|{OR}")
_JOB = re.compile(r"(?<=\[jobs\.)JOB(?=[\].])|(?<![\w.\"'-])JOB(?![\w\"'-]|\.\w)")
"""Matches the placeholder for a job's name, but not a part of the name of a table or login ("ods"."JOB")."""
_START = "`slotkeeper jobs start"


def first_act(text: str) -> str:
    """Return the first part that needs no command, if no part before it starts the job; else "".

    >>> first_act("Drop the constraint, or wait; then `slotkeeper jobs start a`"), first_act("`slotkeeper x`")
    ('Drop the constraint, or wait', '')
    >>> first_act("`slotkeeper x`; then drop it; then `slotkeeper jobs start a`"), first_act(f"{NOTHING}: retrying")
    ('drop it', '')
    """
    if is_nothing(text):
        return ""
    before = _DIVIDED.split(text.partition(_START)[0].removesuffix(THEN))
    return next((part for part in before if part and "`" not in part), "")


def is_nothing(text: str) -> bool:
    """Return whether an action text states that no action is needed."""
    return text.lower().startswith((NOTHING.lower(), "nothing"))


def start(job: str) -> str:
    return f"{_START} {typed(job)}`"


def resume(job: str) -> str:
    """Return the action for a job that only needs to be started."""
    return f"{start(job)} resumes from the sink's progress rows"


def for_job(text: str, job: str) -> str:
    """Return the text with each JOB replaced by the job's name.

    >>> for_job("read `slotkeeper jobs logs JOB`", "my job")
    "read `slotkeeper jobs logs 'my job'`"
    >>> for_job('`GRANT SELECT ON "ods"."JOB" TO "JOB";` in [jobs.JOB.binlog]: JOB.', "a")
    '`GRANT SELECT ON "ods"."JOB" TO "JOB";` in [jobs.a.binlog]: a.'
    """
    return _JOB.sub(lambda _: typed(job), text)


def until_started(text: str, job: str) -> str:
    """Return the action for a job that has ended: the action that was given when it ended, then the start of the job.

    The start comes last, because the same cause would end the job again. An action that promises an automatic retry is
    ignored, because an ended job does not retry.

    >>> until_started("check user and password", "a")
    'check user and password; then `slotkeeper jobs start a`'
    >>> until_started("", "a") == until_started(f"{NOTHING}: it retries automatically", "a")
    True
    >>> until_started("", "a")
    "`slotkeeper jobs start a` resumes from the sink's progress rows"
    """
    said = for_job(text, job)
    if not said or said.startswith(f"{NOTHING}:"):
        return resume(job)
    if "slotkeeper jobs start" in said or is_nothing(said):
        return said
    return f"{said.rstrip('.')}{THEN}{start(job)}"


def new_snapshot(job: JobSpec) -> str:
    """Return the commands that copy a target from its source again, for a stopped job with one channel.

    The first command is a dry run: it shows what is lost, and prints the command that executes the reset.
    """
    how = " --on-existing replace" if job.on_existing == "refuse" else ""
    reset = f"`slotkeeper slots reset {typed(job.channel.source_table, job.slot)} --to snapshot{how}`"
    plans = "which plans a new snapshot and shows what the target would lose"
    return f"run {reset}, {plans}, and execute the plan{THEN}{start(job.name)}"


class ManualSql(Protocol):
    """SQL for users to run without Slotkeeper's safeguards (lease, plan, backup, audit); returned as text only."""

    def grants(self, endpoint: Endpoint, tables: Sequence[str]) -> list[str]:
        """Return GRANT statements with the least privileges for following and comparing these tables.

        `schema.*` stands for all tables of a schema, also those that are created later.
        """

    def status(self, table: str) -> str:
        """Return the SQL that shows all registered points of a table; the SQL contains no slot name."""

    def register(
        self, table: str, slot: str, shard: str, live: Position | None, durable: Position | None, xmin: int | None
    ) -> str:
        """Return the SQL that registers a DN's current points on that DN again."""
