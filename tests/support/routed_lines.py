"""Random lines of steps, and the results of the compiled router and of Python for them."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from slotkeeper.core.sinks.postgres.write import _routing
from slotkeeper.core.sinks.postgres.write.routing import Apart, _bodies

PLACES = ((1,), (1, 2), (2,), (3, 1), (2, 1), (1, 2, 3))
VALUES = (
    b"",
    b"\\N",
    b"1",
    b"2",
    b"10",
    b"a",
    b"ab",
    b"abcdefgh",
    b"abcdefghi",
    b"abcdefgh\0",
    b"\xff",
    b"I",
    b"x" * 70,
)
ODD = (b"", b"1", b"1\t", b"1\t2\tI", b"\tI\t", b"1\t2\tII\ta", b"\t\t\t\t", b"1\t1\t?\ta\tb\tc", b" 1\t1\tB\ta\tb")
"""Lines that are no events, or events of an unknown kind."""
NUMBERS = (b" 1", b"+1", b"1_0", b"9223372036854775808", b"")
"""Numbers that the router leaves to Python."""
_PLAIN = re.compile(rb"-?[0-9]{1,19}")


def line(point: bytes, sequence: int, kind: bytes, values: Sequence[bytes]) -> bytes:
    return b"\t".join((point, b"%d" % sequence, kind, *values)) + b"\n"


def step(chance: random.Random) -> bytes:
    """The lines of a step: each position occurs once, and an old image is anywhere before its new image, or after."""
    keys = chance.choice((2, 40, 1_000_000))
    found: list[bytes] = []
    for number in range(chance.choice((0, 1, 5, 60, 300))):
        point = b"%d" % chance.choice((0, 7, 7, 8, -3, 9223372036854775807))
        values = [b"%d" % chance.randrange(keys) if chance.random() < 0.8 else chance.choice(VALUES) for _ in range(4)]
        values = values[: chance.choice((4, 4, 4, 1, 2))]
        kind = chance.choice((b"I", b"U", b"d", b"x", b"BU", b"BU", b"BU"))
        if kind == b"BU":
            old = values if chance.random() < 0.8 else values[::-1]
            found.insert(chance.randrange(len(found) + 1), line(point, 3 * number, b"B", old))
            kind = chance.choice((b"U", b"U", b"U", b"x"))
        found.append(line(point, 3 * number + 1, kind, values))
        if chance.random() < 0.02:
            found.append(chance.choice(ODD) + b"\n")
    return b"".join(found)


def _pairs(text: bytes, places: tuple[int, ...]) -> Counter[bytes]:
    """The old images that precede a new image with the same key."""

    def key(parts: list[bytes]) -> list[bytes] | None:
        return [parts[n + 2] for n in places] if len(parts) > max(places) + 2 else None

    olds: dict[tuple[int, int], tuple[bytes, list[bytes] | None]] = {}
    found: Counter[bytes] = Counter()
    for one in text.splitlines(True):
        parts = one[:-1].split(b"\t")
        if len(parts) < 4 or parts[2] not in (b"B", b"U") or not all(map(_PLAIN.fullmatch, parts[:2])):
            continue
        position = int(parts[0]), int(parts[1])
        if parts[2] == b"B":
            olds[position] = one, key(parts)
        elif (known := olds.get((position[0], position[1] - 1))) and known[1] is not None and known[1] == key(parts):
            found[known[0]] += 1
    return found


def differences(text: bytes, places: tuple[int, ...], watched: int, chance: random.Random) -> str:
    """How the router and Python differ in a step that both get in the same blocks; "" if they agree."""
    router, apart, rests, staged, left_out = _routing.Router(places, watched), Apart(places, watched), b"", b"", 0
    lines = text.splitlines(True)
    while lines:
        size = chance.choice((1, 3, 50))
        block, lines = b"".join(lines[:size]), lines[size:]
        if not lines and chance.random() < 0.2:
            block += chance.choice((b"5\t5\tI\tcut", b"5", b"5\t5\tB\ta\tb\tc"))
        found, (rest, inserts, count) = router.take(block), apart.take(block)
        if found is None:
            return "the router left a block of plain numbers to Python"
        if (found[1], found[2], router.reached(), router.repeats()) != (
            *(inserts, count, (apart.first, apart.second), apart.repeated),
        ):
            return f"{block!r}: {found}, {router.reached()}, {router.repeats()}; {inserts!r}, {apart.first}"
        staged, rests, left_out = staged + found[0], rests + rest, left_out + found[3]
        if apart.repeated:
            break
    staged = router.left() + staged
    wanted = Counter(rests.splitlines(True)) - _pairs(rests, places)
    if Counter(staged.splitlines(True)) != wanted or left_out != rests.count(b"\n") - staged.count(b"\n"):
        return f"{places}: staged {staged!r}, of {rests!r}, left out {left_out}"
    return disorder(staged, places)


def disorder(text: bytes, places: tuple[int, ...]) -> str:
    """How the router's order differs from the sorted keys, or its rows from Python's; "" if they do not."""
    *lines, last = text.split(b"\n")

    def key(line: bytes) -> Any:
        row = line.split(b"\t", 3)[-1]
        values = row.split(b"\t", max(places))
        return row if places == tuple(range(1, len(places) + 1)) else [values[n - 1 : n] for n in places]

    router = _routing.Router(places, 0)
    wanted = b"".join(line + b"\n" for line in sorted(lines, key=key)) + last
    if (found := router.ordered(text, True)) != wanted:
        return f"{places}: {found!r}\n{wanted!r}"
    rows = b"".join(line + b"\n" for line in lines if line.count(b"\t") > 2)
    if (found := router.ordered(rows, False)) != (wanted := b"".join(_bodies(rows, places))):
        return f"{places}, only rows: {found!r}\n{wanted!r}"
    return ""


def compare(chance: random.Random, lines: int, seconds: float = 1e9) -> int:
    """Compare random steps for up to `seconds`; raise AssertionError with the difference. Return how many lines."""
    count, end = 0, time.monotonic() + seconds
    while count < lines and time.monotonic() < end:
        text, places = step(chance), chance.choice(PLACES)
        found = differences(text, places, chance.choice((0, 3, 25_000)), chance)
        assert not found, found
        broken = bytearray(text)
        for _ in range(3 if text else 0):
            broken[chance.randrange(len(text))] = chance.choice(b"\t\n\0I9B\xff")
        router = _routing.Router(places, 25_000)
        router.take(bytes(broken))
        router.left()
        found = disorder(bytes(broken), places)
        assert not found, found
        count += text.count(b"\n") + 1
    return count
