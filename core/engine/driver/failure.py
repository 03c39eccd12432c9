"""A job's failures: which server is at fault, which action resolves them, and when an attempt is brought forward.

The action is based on `slotkeeper.core.judgement.servers`. An early retry counts like any other retry: every limit of
`slotkeeper.core.retry` still applies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

from slotkeeper.core import retry
from slotkeeper.core.domain.endpoint import SecretRef
from slotkeeper.core.domain.fault import Party
from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.lane import Lane
from slotkeeper.core.domain.progress import Activity
from slotkeeper.core.domain.refusals import UNDEFINED_COLUMN, UNDEFINED_TABLE
from slotkeeper.core.domain.remedy import NOTHING, OR
from slotkeeper.core.domain.report import GIVEN_UP, Condition, merged, server_of
from slotkeeper.core.domain.spec import ChannelSpec, JobSpec
from slotkeeper.core.domain.start import StartDecision
from slotkeeper.core.domain.text import many
from slotkeeper.core.domain.tries import History, TryAnswer
from slotkeeper.core.domain.watch import trouble
from slotkeeper.core.engine.driver.context import JobContext
from slotkeeper.core.errors import (
    ErrorKind,
    Refused,
    SlotkeeperError,
    TopologyTrouble,
    Trouble,
    TroubleName,
)
from slotkeeper.core.judgement.servers import RETRIES, UNKNOWN, Refusal, explain
from slotkeeper.core.retry import Failure, RetryRules

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

    An error whose code is not an SQLSTATE keeps its own hint, which for a server's error number names the account.
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


_LINE = ("08", "57P", "28")
"""SQLSTATE classes of connection and login errors: connection exception, operator intervention, authorization."""


def of_lanes(lanes: Iterable[Lane], now: float, utc: float, names: Mapping[str, str]) -> tuple[Condition, ...]:
    """Return the conditions of a job's lanes: the server or DN that causes an error, and the time of its start; pure.

    Source sessions connect to a coordinator, so a broken session is attributed to the source. An error that names one
    DN or concerns only some DNs is attributed to the DN, as is a broken session if only that DN was silent at the time.
    `now` is monotonic, `utc` the same time in seconds since 1970. `names` maps "source" and "sink" to the names of the
    job's source and sink, for errors that do not name their server.
    """
    living = [lane for lane in lanes if lane.activity is not Activity.STOPPED]
    troubled = [lane for lane in living if lane.error or lane.silent_since is not None]
    several = len({lane.shard.name for lane in living}) > 1
    return merged(_condition(lane, len(living), several, utc - now, names) for lane in troubled)


def _condition(lane: Lane, of: int, several: bool, apart: float, names: Mapping[str, str]) -> Condition:
    began = [at for at in (lane.failing_since if lane.error else None, lane.silent_since) if at is not None]
    party, name, cause = _blamed(lane, several, names)
    for known in (lane.name, lane.shard.name, lane.key.source_table):
        cause = cause.removeprefix(f"{known}: ")
    code = lane.code if lane.error and party is not Party.PROCESS else ""
    began_at = min(began) + apart
    return Condition(party.value, name, cause, began_at, (lane.name,), of, lane.history.failures, code)


def _blamed(lane: Lane, several: bool, names: Mapping[str, str]) -> tuple[Party, str, str]:
    """Return the party at fault, its name and its error; `several`: the lanes are on more than one DN."""
    said, called, cause = server_of(lane.error) if lane.error else ("source", "", lane.silent)
    side = said or lane.side
    if lane.silent_since is not None and not side:  # a step was abandoned: the lane's error does not name the cause
        side, cause = "source", lane.silent
    named = lane.shard.name in lane.error.removeprefix(f"{lane.name}: ")
    # in this case the connection to the server has failed, not a DN
    of_line = bool(lane.error) and not named and lane.code.startswith(_LINE)
    if side == "source" and several and (lane.silent_since is not None or not of_line):
        return Party.DN, lane.shard.name, cause
    party = {"source": Party.SOURCE, "sink": Party.SINK}.get(side, Party.PROCESS)
    return party, called or names.get(side, "Spark" if side == "spark" else "this job's driver"), cause


def with_others(sentence: str, others: int) -> str:
    """Return a sentence about one lane's shard, also with the number of other lanes that have the same problem.

    >>> with_others("dn_1: the slot holds 0/0", 3), with_others("dn_1: the slot holds 0/0", 0)
    ('dn_1 and 3 other lanes: the slot holds 0/0', 'dn_1: the slot holds 0/0')
    """
    name, _, said = sentence.partition(": ")
    return f"{name} and {many(others, 'other lane')}: {said}" if others else sentence


def of_several(found: Trouble, every: Iterable[Trouble | None]) -> Trouble:
    """Return the failure of one lane; a lost slot with the number of other lanes in `every` that have lost it, too."""
    others = sum(one is not None and one.name is TroubleName.SLOT_LOST for one in every) - 1
    if found.name is not TroubleName.SLOT_LOST or others < 1:
        return found
    return trouble(found.name, with_others(found.message, others))


def refuse(decision: StartDecision | None) -> None:
    if decision is None or decision.trouble is None:
        return
    kind = TopologyTrouble if decision.trouble is TroubleName.TOPOLOGY_CHANGED else Trouble
    raise kind(decision.sentence, decision.safe, name=decision.trouble)


READ_EVERY = 0.25
"""Seconds between two checks of whether a wait should end."""
PAUSED = "the job is paused: resume it"


def retry_early(
    lanes: Mapping[str, Lane], names: Mapping[str, Collection[str]], table: str, now: float, paused: bool
) -> tuple[dict[str, Lane], list[TryAnswer]]:
    """Return the lanes to retry at once, and the answer for each requested table of `names`; `table` "" means all.

    After a rejected login, no lane is retried early, because all lanes of a job use the same account. A lane with a
    registration that can still take effect is retried once it no longer can (`Lane.not_before`).
    """
    refused = next((why for lane in lanes.values() if (why := retry.why_not_now(lane.history))), "")
    why_none = PAUSED if paused else refused
    changed: dict[str, Lane] = {}
    answers = []
    for one, of_table in names.items():
        if table not in ("", one):
            continue
        if why_none:
            # the lanes that wait for a retry, or all lanes of the table if none waits
            waiting = [name for name in of_table if lanes[name].activity is Activity.WAITING] or list(of_table)
            answers.append(TryAnswer(one, refused=dict.fromkeys(waiting, why_none)))
            continue
        mine = {name: lanes[name] for name in of_table}
        forward = {name: lane for name, lane in mine.items() if lane.activity is Activity.WAITING}
        early = {name: lane for name, lane in forward.items() if lane.not_before <= now}
        changed |= {name: replace(lane, ready_at=max(now, lane.not_before)) for name, lane in forward.items()}
        polled = tuple(name for name, lane in mine.items() if lane.activity is Activity.IDLE)
        busy = tuple(name for name in mine if name not in forward and name not in polled)
        late = {
            name: f"the response was lost; the call may still take effect: retrying in {lane.not_before - now:.0f} s"
            for name, lane in forward.items()
            if name not in early
        }
        answers.append(TryAnswer(one, tuple(early), polled, busy, late))
    return changed, answers


def retry_sink_lanes(lanes: Mapping[str, Lane], now: float) -> dict[str, Lane]:
    """Return the lanes to retry at once when a silent sink answers again: the lanes that failed because of the sink.

    This includes lanes whose cancelled step hung in the sink, but not lanes that wait after a rejected login.
    """
    return {
        name: replace(lane, ready_at=max(now, lane.not_before))
        for name, lane in lanes.items()
        if lane.activity is Activity.WAITING
        and (lane.side == "sink" or GIVEN_UP in lane.error)
        and not retry.why_not_now(lane.history)
    }


def retry_login_lanes(lanes: Mapping[str, Lane], now: float) -> dict[str, Lane]:
    """Return the lanes to retry at once that waited after a rejected password; only a success resets their count."""
    return {
        name: replace(lane, ready_at=max(now, lane.not_before)) for name, lane in lanes.items() if lane.history.login
    }


def wait_after(
    ctx: JobContext, what: str, error: SlotkeeperError, history: History, since: float, rules: RetryRules
) -> History | None:
    """Report the failure of a phase of the job, `what`, and wait before its next attempt; return the new history.

    Returns None at once if `slotkeeper.core.retry` decides against another attempt. `since`: the start of the failures
    in monotonic seconds.
    """
    failure, history = Failure.of(error), replace(history, elapsed=ctx.clock.monotonic() - since)
    decision = retry.decide(failure, history, rules, ctx.clock.random())
    history = retry.after(history, failure, rules)
    if not isinstance(decision, retry.RetryAfter):
        return None
    text = f"retrying {decision.attempt}, next in {decision.seconds:.1f} s: {error.message}"
    ctx.narrator.retrying(text, error)
    wait_to_try(ctx, what, decision.seconds, history)
    return history


def wait_to_try(ctx: JobContext, what: str, seconds: float, history: History) -> None:
    """Wait before the retry of `what`; end the wait early if the desired state changes or a user requests the retry.

    A request made during a running attempt is answered with `busy`, and does not shorten the wait.
    """
    if not ctx.requests.possible:
        ctx.pause(seconds)
        return
    _answered(ctx, TryAnswer(busy=(what,)))
    why, end = retry.why_not_now(history), ctx.clock.monotonic() + seconds
    answer = TryAnswer(refused={what: why}) if why else TryAnswer(tried=(what,))
    while (left := end - ctx.clock.monotonic()) > 0 and ctx.wanted() is WantedState.RUN:
        ctx.pause(min(left, READ_EVERY))
        if _answered(ctx, answer) and not why:
            return


def _answered(ctx: JobContext, answer: TryAnswer) -> bool:
    """Answer the new requests, table by table; return whether any of them concerned a table of `ctx.job`."""
    tables, found = [channel.source_table for channel in ctx.job.channels], False
    for asked in ctx.requests.new():
        mine = [replace(answer, table=table) for table in tables if asked.table in ("", table)]
        ctx.requests.answer(asked, mine)
        found = found or bool(mine)
    return found
