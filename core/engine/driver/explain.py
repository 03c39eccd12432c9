"""Chooses the suggested action for a server's error in a job, based on `slotkeeper.core.judgement.servers`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.refusals import UNDEFINED_COLUMN, UNDEFINED_TABLE
from slotkeeper.core.domain.remedy import NOTHING, OR
from slotkeeper.core.domain.report import Condition, server_of
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.errors import ErrorKind, Refused, SlotkeeperError
from slotkeeper.core.judgement.servers import RETRIES, UNKNOWN, Refusal, explain

_OF_SERVERS = {
    ErrorKind.TRANSIENT, ErrorKind.CONTENTION, ErrorKind.ACCESS, ErrorKind.LOGIN, ErrorKind.OVERSIZE, ErrorKind.DATA,
    ErrorKind.UNKNOWN,
}  # fmt: skip
"""Error kinds for which the suggested action depends on the server's error; other errors define their own action."""
_SQLSTATE = 5
_TWICE = ("SK-1101", "SK-1104", "SK-1706")
"""Codes for rejected access, tried only twice because waiting does not help; after a rejected password, jobs wait."""
_PASSWORD = "SK-1102"  # noqa: S105  (not a secret)
_NEW_PASSWORD = "the job tries a changed password automatically, position held, nothing skipped"  # noqa: S105
"""After a rejected password: waiting does not help, because the same password is not tried again for hours."""
_SIDES = {Party.SOURCE.value: "source", Party.DN.value: "source", Party.SINK.value: "sink"}


def explained(condition: Condition, job: JobSpec) -> Condition:
    """Return the condition with its code and action; return it unchanged if its party is not a server."""
    side = _SIDES.get(condition.party)
    if side is None:
        return condition
    refusal = _refusal(job, side, condition.code, condition.cause, job.channels[0] if len(job.channels) == 1 else None)
    if job.store is not None and condition.name == f"sink {job.store.name}":  # the store has no target table
        at = job.store
        refusal = replace(refusal, kind=job.store_kind, user=at.user, database=at.database, table="")
        refusal = replace(refusal, address=f"{at.host}:{at.port}", secret=partial(secret_in_words, at.password))
    said = explain(replace(refusal, server=condition.name))
    if said.code == UNKNOWN.code:
        condition = replace(condition, cause=said.problem)
    waits = not said.action.startswith(NOTHING) and said.code not in _TWICE
    meanwhile = f"; {_NEW_PASSWORD}" if said.code == _PASSWORD else f"{OR}{RETRIES}"
    act = f"{said.action.rstrip('.')}{meanwhile}" if waits else said.action
    return replace(condition, message=said.code, act=act)


def act_of(error: SlotkeeperError, job: JobSpec) -> str:
    """Return the action for an error that ended a job or a table: derived from the server's error, or its hint.

    An error whose code is not an SQLSTATE keeps its own hint, because for a server's error number the hint names the
    account.
    """
    names_object = type(error) is Refused and error.code in (UNDEFINED_COLUMN, UNDEFINED_TABLE)  # a server error
    if error.where not in ("source", "sink") or not (error.kind in _OF_SERVERS or names_object):
        return error.hint
    if error.hint and len(error.code) != _SQLSTATE:
        return error.hint
    channel = next((one for one in job.channels if one.source_table == error.table), None)
    channel = channel or (job.channels[0] if len(job.channels) == 1 else None)
    cause = server_of(error.message)[2]
    said = explain(_refusal(job, error.where, error.code, cause, channel))
    if said.code == UNKNOWN.code and error.hint:
        return error.hint
    return "" if said.action.startswith(NOTHING) else said.action


def _refusal(job: JobSpec, side: str, code: str, text: str, channel: ChannelSpec | None) -> Refusal:
    at = job.source if side == "source" else job.sink
    table = "" if channel is None else channel.source_table if side == "source" else channel.target
    return Refusal(
        text,
        code,
        side,
        kind=job.source_kind if side == "source" else job.sink_kind,
        server=f"{side} {at.name}",
        user=at.user,
        database=at.database,
        address=f"{at.host}:{at.port}",
        job=job.name,
        table=table,
        own_schema=job.progress_schema,
        secret=partial(secret_in_words, at.password),
    )


def secret_in_words(reference: SecretRef) -> str:
    """Describe the source of a password, including a file's modification time; "" if there is no password.

    >>> secret_in_words(SecretRef("env", "PGPW")), secret_in_words(SecretRef())
    ('password_env PGPW', '')
    """
    if not reference.how:
        return ""
    if reference.how == "command":  # the command's arguments may contain a token
        return f"the source that {reference.word}_command reads"
    said = f"{reference.word}_{reference.how} {reference.ref}"
    if reference.how == "file":
        with suppress(OSError):
            changed = datetime.fromtimestamp(Path(reference.ref).stat().st_mtime, timezone.utc)
            said += f" (changed {changed:%Y-%m-%d %H:%M:%S}Z)"
    return said
