"""A few rows of values in which every pair of values of two parameters occurs together at least once.

Greedy: each row begins with a pair that is still missing and takes for every other parameter the value that covers
most of what is left. Not minimal, but small, and the same for the same seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import TypeVar

V = TypeVar("V")
Pair = frozenset[tuple[str, object]]


def pairwise(parameters: Mapping[str, Sequence[V]], seed: int = 0) -> list[dict[str, V]]:
    """Rows that cover every pair of values.

    >>> len(pairwise({name: (True, False) for name in "abcdefghijkl"})) < 13
    True
    """
    chance = random.Random(seed)
    left = set(_all_pairs(parameters))
    order = {pair: chance.random() for pair in sorted(left, key=lambda pair: sorted(map(str, pair)))}
    rows: list[dict[str, V]] = []
    while left:
        row: dict[str, V] = dict(min(left, key=lambda pair: order[pair]))  # type: ignore[arg-type]
        names = [name for name in parameters if name not in row]
        chance.shuffle(names)
        for name in names:
            best = {value: sum(pair in left for pair in _with(row, name, value)) for value in parameters[name]}
            most = max(best.values())
            row[name] = chance.choice([value for value in parameters[name] if best[value] == most])
        left -= set(pairs_of(row))
        rows.append({name: row[name] for name in parameters})
    return rows


def pairs_of(row: Mapping[str, object]) -> Iterator[Pair]:
    """Every pair of values that a row shows."""
    for one, other in combinations(row.items(), 2):
        yield frozenset((one, other))


def _all_pairs(parameters: Mapping[str, Sequence[object]]) -> Iterator[Pair]:
    for one, other in combinations(parameters, 2):
        for a, b in product(parameters[one], parameters[other]):
            yield frozenset(((one, a), (other, b)))


def _with(row: Mapping[str, object], name: str, value: object) -> Iterator[Pair]:
    for pair in row.items():
        yield frozenset((pair, (name, value)))
