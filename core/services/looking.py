"""Asks several servers at once for a command that looks, and bounds how long the command waits for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from slotkeeper.core.config.secrets import resolve
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.errors import SlotkeeperError, Unreachable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
Question = tuple[K, Callable[[], V]]

SECONDS = 7.0
"""For all servers together: with its own start, a command that looks ends within 10 s."""


def asked(lanes: Mapping[str, Sequence[Question[K, V]]], seconds: float | None = None) -> dict[K, V | SlotkeeperError]:
    """The answer to each question, or its error; Unreachable in place of an answer that is late.

    A lane is one server, by the name for messages. Its questions follow one another in one thread, which is left
    behind where it is late. Any other exception of a question is raised here.
    """
    seconds = SECONDS if seconds is None else seconds
    found: dict[K, V | SlotkeeperError] = {}
    defects: list[Exception] = []

    def work(questions: Sequence[Question[K, V]]) -> None:
        try:
            for key, ask in questions:
                try:
                    found[key] = ask()
                except SlotkeeperError as error:
                    found[key] = error
        except Exception as error:  # the top of a thread: the command must not take it for silence
            defects.append(error)

    threads = [threading.Thread(target=work, args=(one,), daemon=True) for one in lanes.values()]
    for thread in threads:
        thread.start()
    end = time.monotonic() + seconds
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    there = dict(found)
    if defects:
        raise defects[0]
    for lane, questions in lanes.items():
        there |= {key: late(lane, seconds) for key, _ in questions if key not in there}
    return there


def answer(lane: str, ask: Callable[[], V], seconds: float | None = None) -> V:
    """The answer to one question; raises its error, or Unreachable where it is late."""
    found = asked({lane: [(lane, ask)]}, seconds)[lane]
    if isinstance(found, SlotkeeperError):
        raise found
    return found


def late(lane: str, seconds: float) -> Unreachable:
    """What is raised or reported for a server that does not answer in time."""
    return Unreachable(f"{lane} does not answer within {seconds:g} s", "check the server and the network to it")


def passwords(endpoints: Iterable[Endpoint]) -> None:
    """Run the password commands of these endpoints now: one may ask a person, whose time is not the server's."""
    for ref in {ref for one in endpoints for ref in (one.password, one.sslpassword) if ref.how == "command"}:
        with suppress(SlotkeeperError):  # the login reports it
            resolve(ref)
