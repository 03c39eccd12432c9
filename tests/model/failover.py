"""The model of a source behind one address that leads to another server, at any moment (`core/engine/driver/switch.py`,
ADR 88).

Contents: two servers, of which the second has executed a prefix of the first one's transactions and then continues
with its own; a session that reads the status, a stream, the rows in memory, the progress row with its epoch, a start
that translates the row, and a worker of the run before it, which may still commit. Every connection stays at its server
until it breaks, and each new one reaches the server to which the address leads at that time. Not included: how a
position is translated (`tests/unit/sources/mysql/test_failover.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from .space import Space, explore, trace

WRONG = "the row stands for transactions that were not applied, or not for one that was"
EVENTS = 2
"""The transactions of the first server. The second one has those that it has executed, then one of its own."""
FIRST = (0, 1)
"""The position of each server before the first of these transactions: their files are not the same."""


@dataclass(frozen=True, slots=True)
class SwitchRules:
    """The rules; each switched off is one seeded fault."""

    # The status before and the status after the rows compare the server with the row's.
    status: bool = True
    # A stream is opened only at the server of the session that reads the status.
    stream: bool = True
    # A stream is opened only where the position's file and GTIDs are those of the position.
    opening: bool = True
    # A worker uses no stream of an earlier run.
    own: bool = True
    # The start raises the epoch before it translates, and the worker's commit compares the epoch.
    fence: bool = True
    # The translation is a compare-and-swap of position and server together.
    whole: bool = True
    # The server's binlog has to contain the row's transactions.
    contains: bool = True


class World(NamedTuple):
    """Servers are 0 and 1; a position is the number of transactions before it in its server's files."""

    alike: bool = False
    """Whether no status can distinguish the servers, because both have the same server_id."""
    leads: int = 0
    common: int = EVENTS
    """How many of the first server's transactions the second one has."""
    session: int = 0
    stream: int = -1
    opened: int = 0
    """The epoch of the worker that opened the stream."""
    row: tuple[int, int] = (0, 0)
    """Server and position."""
    applied: tuple[str, ...] = ()
    epoch: int = 1
    worker: tuple[int, int, int, int, str] = (0, 0, 0, 0, "")
    """The worker's phase (0 none, 1 first status, 2 rows, 3 second status), epoch, the row it read, and its rows."""
    translating: int = -1
    """The server at which a start has found the row's position, and not written it yet."""
    refused: bool = False
    switches: int = 0


def log(at: World, server: int) -> tuple[str, ...]:
    """The transactions in a server's files, in order; "o" is older than the row."""
    first = tuple("ab"[:EVENTS])
    return first if server == 0 else ("o", *first[: at.common], "x")


def before(at: World, server: int, place: int) -> tuple[str, ...] | None:
    """The transactions before a position that are not older than the row; None for an older position."""
    return log(at, server)[FIRST[server] : place] if place >= FIRST[server] else None


def successors(rules: SwitchRules, at: World) -> Iterator[tuple[str, World]]:
    """Every next move."""
    if at.switches < 2:
        yield "the address leads to the other server", at._replace(leads=1 - at.leads, switches=at.switches + 1)
    if at.session != at.leads:
        yield "the session breaks and connects again", at._replace(session=at.leads)
    if at.stream >= 0:
        yield "the stream breaks", at._replace(stream=-1)
    if at.refused:
        return
    yield from _step(rules, at)
    yield from _start(rules, at)


def _step(rules: SwitchRules, at: World) -> Iterator[tuple[str, World]]:
    phase, epoch, server, place, rows = at.worker
    right = not rules.status or at.alike or at.session == server
    if phase == 0 and at.translating < 0:
        stream = at.stream if at.opened == at.epoch or not rules.own else -1
        yield "a worker reads the row", at._replace(worker=(1, at.epoch, *at.row, ""), stream=stream)
    elif phase == 1 and not right:
        yield "the first status shows another server", at._replace(worker=World().worker)
    elif phase == 1:
        if at.stream < 0:
            same = at.alike or at.leads == at.session
            if (same or not rules.stream) and (at.leads == server or not rules.opening):
                yield "the worker opens a stream", at._replace(stream=at.leads, opened=epoch)
        elif place < len(log(at, at.stream)):
            found = log(at, at.stream)[place]
            yield "the worker reads a transaction", at._replace(worker=(2, epoch, server, place, found))
    elif phase == 2 and not right:
        yield "the second status shows another server", at._replace(worker=World().worker)
    elif phase == 2:
        yield "the second status is right", at._replace(worker=(3, epoch, server, place, rows))
    elif phase == 3:
        fenced = at.row == (server, place) and (not rules.fence or at.epoch == epoch)
        if fenced:
            yield (
                "the worker commits",
                at._replace(row=(server, place + 1), applied=(*at.applied, rows), worker=World().worker),
            )
        else:
            yield "the fence rejects the commit", at._replace(worker=World().worker)


def _start(rules: SwitchRules, at: World) -> Iterator[tuple[str, World]]:
    """A start with a new session; a worker of the previous run may be anywhere."""
    server, place = at.row
    if at.translating < 0 and at.leads != server:
        if rules.contains and not _has(at, at.leads):
            yield "the start refuses the server", at._replace(refused=True)
        else:
            epoch = at.epoch + 1 if rules.fence else at.epoch
            moved = at._replace(session=at.leads, stream=-1, epoch=epoch, translating=at.leads)
            yield "a start finds the position at the other server", moved if at.epoch < 4 else at
    elif at.translating >= 0:
        yield "the start ends before it writes", at._replace(translating=-1)
        there = at.translating
        found = min(len(log(at, there)), FIRST[there] + len(at.applied))
        if rules.whole:
            yield "the start writes position and server", at._replace(row=(there, found), translating=-1)
        else:
            yield "the start writes only the server", at._replace(row=(there, place), translating=-1)
            yield "the start writes only the position", at._replace(row=(server, found), translating=-1)


def _has(at: World, server: int) -> bool:
    return log(at, server)[FIRST[server] :][: len(at.applied)] == at.applied


def verdict(at: World) -> str:
    """The violation in a state, or nothing: what was applied has to be what precedes the row's position at its
    server."""
    return "" if before(at, *at.row) == at.applied else WRONG


def run(rules: SwitchRules, common: int, alike: bool = False) -> Space[World]:
    """Every state that can be reached if the second server has `common` transactions of the first one."""
    begin = World(common=common, alike=alike)
    return explore(
        f"failover, {common} in common, alike {alike}, {rules}", begin, lambda at: successors(rules, at), verdict
    )


def story(space: Space[World], rules: SwitchRules, number: int) -> str:
    """The shortest way to a state."""
    return "\n".join(trace(space, number, lambda at: successors(rules, at), str))


def without(*rules: str) -> SwitchRules:
    """All rules but these."""
    return replace(SwitchRules(), **dict.fromkeys(rules, False))
