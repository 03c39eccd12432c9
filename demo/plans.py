"""The next actions of a writer, as values generated from a seed: the same seed gives the same transactions.

Pure. Keys are drawn from the loaded orders and the writer's own recent ones, without reading the table: a statement on
a deleted key changes nothing, and an upsert inserts it again, so the table never becomes empty.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import count

from slotkeeper.demo.orders import CUSTS, Order

HOT_KEYS = 300
"""The number of first orders, which every writer changes often, so that writers conflict, wait and deadlock there."""

NEW_NUMBERS = 1_000_000_000_000
"""Writer w takes new order numbers from (w + 1) times this number on, so that two writers never use the same one."""

NOTES = (
    None, "", " ", "NULL", "\\N", "\\.", "tab\there", "two\nlines\r\n", 'quote " and \' and \\', "a,b|c;{}",
    "Gr\u00fc\u00dfe \u4f60\u597d \U0001f680", "e\u0301 \u202e right to left", "\x1b[31mred\x07", "x" * 3_000,
)  # fmt: skip
"""Notes as users and programs write them; all must arrive unchanged."""

STATUSES = ("new", "paid", "sent", "returned")


RECENT = 200
"""The number of latest new keys that a writer keeps changing: short-lived keys are the hardest test of ordering."""


class Verb(Enum):
    """Kinds of statement."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    UPSERT = "upsert"
    CHANGE_KEY = "change key"


WEIGHTS = {Verb.INSERT: 22, Verb.UPDATE: 36, Verb.DELETE: 10, Verb.UPSERT: 24, Verb.CHANGE_KEY: 8}


@dataclass(frozen=True, slots=True)
class Step:
    """One statement; `undone` puts it in a savepoint that is rolled back."""

    verb: Verb
    orders: tuple[Order, ...] = ()
    keys: tuple[tuple[int, int], ...] = ()
    numbers: tuple[int, ...] = ()
    status: str = ""
    note: str | None = None
    undone: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """One transaction; the writer waits `delay_s` before ending it; `repeatable` selects REPEATABLE READ."""

    steps: tuple[Step, ...]
    rolled_back: bool
    repeatable: bool
    delay_s: float


@dataclass(frozen=True, slots=True)
class Mix:
    """The behavior of a writer: `rows` is the number of loaded orders; chances are in [0, 1], delays in seconds."""

    rows: int = 10_000
    most_steps: int = 4
    most_rows: int = 5
    rollback: float = 0.06
    savepoint: float = 0.08
    repeatable: float = 0.15
    delay: float = 0.2
    longest_delay_s: float = 0.02


class Planner:
    """Makes plans for writer number `writer`."""

    def __init__(self, seed: int, writer: int, mix: Mix) -> None:
        self._chance = random.Random(f"{seed}/{writer}")  # noqa: S311  repeatable, not secret
        self._mix = mix
        self._numbers = count((writer + 1) * NEW_NUMBERS)
        self._recent: deque[tuple[int, int]] = deque(maxlen=RECENT)

    def __iter__(self) -> Iterator[Plan]:
        while True:
            yield self.plan()

    def plan(self) -> Plan:
        """Return the next transaction."""
        mix, chance = self._mix, self._chance
        steps = tuple(self._step() for _ in range(chance.randint(1, mix.most_steps)))
        return Plan(
            steps=steps,
            rolled_back=chance.random() < mix.rollback,
            repeatable=chance.random() < mix.repeatable,
            delay_s=chance.random() * mix.longest_delay_s if chance.random() < mix.delay else 0.0,
        )

    def _step(self) -> Step:
        chance = self._chance
        verb = chance.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        rows = chance.randint(1, self._mix.most_rows)
        undone = chance.random() < self._mix.savepoint
        if verb is Verb.INSERT:
            fresh = tuple(self._order(chance.randint(1, CUSTS), next(self._numbers)) for _ in range(rows))
            self._recent.extend((order.cust, order.order_no) for order in fresh)
            return Step(verb, orders=fresh, undone=undone)
        # Each key once: a statement must not overwrite one row twice, and can change a key only once.
        keys = tuple(dict.fromkeys(self._key() for _ in range(rows)))
        if verb is Verb.UPSERT:
            return Step(verb, orders=tuple(self._order(*key) for key in keys), undone=undone)
        if verb is Verb.CHANGE_KEY:
            numbers = tuple(next(self._numbers) for _ in keys)
            self._recent.extend((cust, number) for (cust, _), number in zip(keys, numbers, strict=True))
            return Step(verb, keys=keys, numbers=numbers, undone=undone)
        return Step(verb, keys=keys, status=chance.choice(STATUSES), note=chance.choice(NOTES), undone=undone)

    def _key(self) -> tuple[int, int]:
        if self._recent and self._chance.random() < 0.3:
            return self._chance.choice(self._recent)
        hot = self._chance.random() < 0.3
        number = self._chance.randint(1, min(HOT_KEYS, self._mix.rows) if hot else self._mix.rows)
        return number % CUSTS + 1, number

    def _order(self, cust: int, number: int) -> Order:
        chance = self._chance
        attrs = {"n": chance.randint(0, 99), "tags": ["a", None], "text": chance.choice(NOTES[:11])}
        return Order(
            cust=cust,
            order_no=number,
            status=chance.choice(STATUSES),
            amount=f"{chance.randint(-100_000, 99_999_999) / 100:.2f}",
            note=chance.choice(NOTES),
            created=f"2026-02-{chance.randint(1, 28):02d} 12:00:00.{chance.randint(0, 999_999):06d}+00",
            paid=chance.choice((True, False, None)),
            attrs=None if chance.random() < 0.1 else json.dumps(attrs),
        )
