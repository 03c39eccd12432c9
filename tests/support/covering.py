"""A few rows of values in which every setting of any two (or three, four, ...) parameters occurs at least once.

Greedy: each row begins with a group that is still missing and takes for every other parameter the value that covers
most of what is left. Not minimal, but small, and the same for the same seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import TypeVar, cast

V = TypeVar("V")
Group = frozenset[tuple[str, object]]


def covering(parameters: Mapping[str, Sequence[V]], together: int = 2, seed: int = 0) -> list[dict[str, V]]:
    """Rows that cover every setting of any `together` parameters.

    >>> twelve = {name: (True, False) for name in "abcdefghijkl"}
    >>> len(covering(twelve)) < 13, len(covering(twelve, 3)) < 40
    (True, True)
    """
    chance = random.Random(seed)
    left = set(_all_groups(parameters, together))
    order = {group: chance.random() for group in sorted(left, key=lambda group: sorted(map(str, group)))}
    rows: list[dict[str, V]] = []
    while left:
        row: dict[str, V] = dict(cast("frozenset[tuple[str, V]]", min(left, key=lambda group: order[group])))
        names = [name for name in parameters if name not in row]
        chance.shuffle(names)
        for name in names:
            best = {
                value: sum(group in left for group in _with(row, name, value, together)) for value in parameters[name]
            }
            most = max(best.values())
            row[name] = chance.choice([value for value in parameters[name] if best[value] == most])
        left -= set(groups_of(row, together))
        rows.append({name: row[name] for name in parameters})
    return rows


def groups_of(row: Mapping[str, object], together: int) -> Iterator[Group]:
    """Every setting of `together` parameters that a row shows."""
    return map(frozenset, combinations(row.items(), together))


def _all_groups(parameters: Mapping[str, Sequence[object]], together: int) -> Iterator[Group]:
    for names in combinations(parameters, together):
        for values in product(*(parameters[name] for name in names)):
            yield frozenset(zip(names, values, strict=True))


def _with(row: Mapping[str, object], name: str, value: object, together: int) -> Iterator[Group]:
    for others in combinations(row.items(), together - 1):
        yield frozenset((*others, (name, value)))
