"""The net effect of a range on each key equals that of its events one after another, with every option of Hologres.

Random histories with changed and re-used keys, arrivals out of order, and targets that do not agree with their source.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from itertools import product

import pytest

from slotkeeper.core.domain.spec import SinkOptions
from slotkeeper.core.ports.sink import Fields
from slotkeeper.core.sinks.hologres.sink import net_effect, selected
from tests.support.oracle import COLUMNS, Event, Image, Key, Oracle, Rules, Value, history

OTHERS = {"own": "default"}
OPTIONS = list(product(("update", "replace", "ignore"), (True, False), (True, False), (True, False)))


def fields(event: Event) -> Fields:
    image: Mapping[str, Value] = event.image or {"h": event.key[0], "k": event.key[1], "a": -1, "b": "old"}
    values = (image.get(name) for name in COLUMNS)
    return (str(event.point), str(event.sequence), event.kind, *(None if one is None else str(one) for one in values))


class Target:
    """A table that executes the statements: deletes by key, then inserts with ON CONFLICT."""

    def __init__(self, rows: Mapping[Key, Image], strategy: str, others: Mapping[str, Value]) -> None:
        self.rows = {key: {**row, **others} for key, row in rows.items()}
        self.strategy, self.others = strategy, others

    def step(self, events: list[Event], options: SinkOptions, whole: bool) -> None:
        rows = [fields(event) for event in events]
        effect = net_effect(rows, (0, 1), options, whole)
        for key in effect.ended:
            self.rows.pop(_key(key), None)
        for row in selected(lambda: iter(rows), effect):
            self._insert(_key(row[:2]), dict(zip(COLUMNS, row, strict=True)))

    def _insert(self, key: Key, image: dict[str, str | None]) -> None:
        nulled = dict.fromkeys(self.others) if self.strategy == "replace" else {}
        if key not in self.rows:
            self.rows[key] = {**image, **self.others, **nulled}
        elif self.strategy != "ignore":
            self.rows[key] |= {**image, **nulled}


def _key(texts: tuple[str | None, ...]) -> Key:
    return tuple(int(text or 0) for text in texts)


def texts(rows: Mapping[Key, Image]) -> dict[Key, dict[str, str | None]]:
    return {k: {name: None if v is None else str(v) for name, v in row.items()} for k, row in rows.items()}


@pytest.mark.parametrize("count", [20, pytest.param(3_000, marks=pytest.mark.chaos)])
@pytest.mark.parametrize(("strategy", "ignores_before", "ignores_deletes", "has_others"), OPTIONS)
def test_the_net_effect_is_that_of_one_event_after_another(
    strategy: str, ignores_before: bool, ignores_deletes: bool, has_others: bool, count: int, seed: int
) -> None:
    print(f"seed {seed}")
    draw = random.Random(f"{seed}{strategy}{ignores_before}{ignores_deletes}{has_others}")
    others = OTHERS if has_others else {}
    options = SinkOptions(
        conflict_strategy=strategy, ignore_update_before=ignores_before, ignore_delete=ignores_deletes
    )
    rules = Rules(
        conflict_strategy=strategy, ignore_update_before=ignores_before, ignore_delete=ignores_deletes, others=others
    )
    for number in range(count):
        made = history(draw, number)
        oracle = Oracle(rules, {key: {**row, **others} for key, row in made.target.items()})
        target = Target(made.target, strategy, others)
        for step in made.steps:
            oracle.apply(step)
            arrived = list(step)
            draw.shuffle(arrived)
            repeats = 1 + (draw.random() < 0.3)
            for _ in range(repeats):
                target.step(arrived, options, not has_others or strategy == "replace")
        assert texts(target.rows) == texts(oracle.rows), number
