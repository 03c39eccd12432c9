"""The tables of jobs that several hosts share; each call is one short transaction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slotkeeper.core.domain.job import WantedState
from slotkeeper.core.domain.placement import HostSeen, Order, Placement
from slotkeeper.core.domain.text import safe
from slotkeeper.core.drivers import pg
from slotkeeper.core.drivers.session import Book
from slotkeeper.core.errors import Superseded
from slotkeeper.core.sinks.postgres import own_tables
from slotkeeper.core.sinks.postgres.session import SinkSession

_SQL: Book = ("slotkeeper.core.sinks.postgres.progress", "placement.sql")


class PostgresPlacements:
    """Implements `slotkeeper.core.ports.driver.Placements`."""

    def __init__(self, session: SinkSession, limit_ms: int) -> None:
        self._session, self._limit_ms = session, limit_ms

    def create(self) -> None:
        with self._session.transaction() as cursor:
            pg.limit_transaction(cursor, self._limit_ms)
            own_tables.prepare(self._session, cursor, "hosts")
            self._run(cursor, "forget", {})
            self._run(cursor, "forget_orders", {})

    def read(self) -> tuple[list[Placement], list[HostSeen]]:
        with self._session.transaction() as cursor:
            pg.limit_transaction(cursor, self._limit_ms)
            if not self._session.has(cursor, "exists", _SQL):
                return [], []
            jobs = self._run(cursor, "jobs", {}).fetchall()
            hosts = self._run(cursor, "hosts", {}).fetchall()
        return [_placement(*row) for row in jobs], [_host(*row) for row in hosts]

    def report(
        self, owner: str, host: str, sources: Mapping[str, bool], jobs: Sequence[Mapping[str, str]]
    ) -> list[Order]:
        with self._session.transaction() as cursor:
            pg.limit_transaction(cursor, self._limit_ms)
            self._run(cursor, "here", {"owner": owner, "host": host, "sources": json.dumps(dict(sources))})
            if jobs:
                text = json.dumps(list(jobs)).replace("\\u0000", "\\ufffd")
                self._run(cursor, "beat", {"owner": owner, "host": host, "jobs": text})
            return [_order_from(*row) for row in self._run(cursor, "orders", {"owner": owner}).fetchall()]

    def add(self, row: Placement) -> bool:
        return self._changed("add", _values(row))

    def claim(self, read: Placement, row: Placement) -> bool:
        return self._changed("claim", {**_values(row), **_seen(read)})

    def hand_over(self, read: Placement, why: str) -> bool:
        return self._changed("hand_over", {**_seen(read), "owner": read.owner, "text": why})

    def ask(self, read: Placement, owner: str, desired: WantedState, by: str, why: str) -> bool:
        asked = {"owner": owner, "desired": desired.value, "asked_by": by, "asked_why": why}
        return self._changed("ask", {**_seen(read), **asked})

    def answer(self, read: Placement, answer: str) -> bool:
        return self._changed("answer", {**_seen(read), "owner": read.owner, "answer": answer})

    def order(self, order: Order) -> None:
        names = ("id", "job", "verb", "plan", "asked_by", "asked_why")
        values = {name: getattr(order, name) for name in names}
        self._changed("order", {**values, "options": json.dumps(dict(order.options))})

    def ordered(self, order: Order) -> Order | None:
        with self._session.transaction() as cursor:
            pg.limit_transaction(cursor, self._limit_ms)
            row = self._run(cursor, "ordered", {"id": order.id}).fetchone()
        return None if row is None else _order_from(*row)

    def take(self, order: Order, owner: str) -> bool:
        return self._changed("take", {"id": order.id, "owner": owner})

    def withdraw(self, order: Order) -> bool:
        return self._changed("withdraw", {"id": order.id})

    def close_order(self, order: Order, code: int, said: str) -> None:
        self._changed("close", {"id": order.id, "code": code, "said": said.replace("\0", "\ufffd")})

    def _changed(self, name: str, values: Mapping[str, Any]) -> bool:
        with self._session.transaction() as cursor:
            pg.limit_transaction(cursor, self._limit_ms)
            return bool(self._run(cursor, name, values).rowcount)

    def _run(self, cursor: pg.Cursor, name: str, values: Mapping[str, Any]) -> pg.Cursor:
        return self._session.run(cursor, name, values, _SQL)


def refuse_owned(session: SinkSession, cursor: pg.Cursor, job: str, owner: str) -> None:
    """Lock the owner of a job in the open transaction; raises Superseded, which names the host of another owner."""
    if not session.has(cursor, "exists", _SQL):
        return
    found = session.run(cursor, "owned", {"job": job}, _SQL).fetchone()
    if found is not None and found[0] != owner:
        whose = f"host {found[1]}" if found[0] else "no host, because this host has released it"
        raise Superseded(f"the job belongs to {whose}", where="sink")


def _values(row: Placement) -> dict[str, Any]:
    names = ("job", "settings", "owner", "host", "state")
    return {**{name: getattr(row, name) for name in names}, "desired": row.desired.value}


def _seen(row: Placement) -> dict[str, Any]:
    return {name: getattr(row, name) for name in ("job", "term", "beats", "version")}


def _order_from(id: str, job: str, verb: str, options: Any, *rest: Any) -> Order:
    """Return an order, without its verb if its options are no values of a command line."""
    try:
        whole = isinstance(options, dict) and all(b"\0" not in value.encode() for value in options.values())
    except (AttributeError, UnicodeError):
        whole = False
    return Order(id, job, verb, options, *rest) if whole else Order(id, job, "", {}, *rest)


def _placement(job: str, desired: str, *rest: Any) -> Placement:
    try:
        return Placement(job, WantedState(desired), *rest)
    except ValueError:
        why = f"the desired state {safe(desired, 20)!r} is unknown"
        return replace(Placement(job, WantedState.STOP, *rest), away=why)


def _host(owner: str, host: str, age: float, sources: object) -> HostSeen:
    known = sources if isinstance(sources, dict) else {}
    return HostSeen(owner, host, age, frozenset(name for name, reached in known.items() if reached is True))
