"""Which rows of a step or a chunk a sink beside its store refuses: found by trials, before the range is planned.

A trial sends rows that nobody will ever see, and counts those that are refused; a set with some of them is halved down
to the row, whose reason is asked alone. So about log2(rows) trials find a bad row, and what is planned then is known to
fit, and known to whoever finds the plan: the rows left out are in quarantine in the plan's own transaction (ADR 50).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from slotkeeper.core.domain.quarantine import COPIED, LeftOut, Refusal, RowLeftOut
from slotkeeper.core.domain.start import SAFE
from slotkeeper.core.engine.worker.two_part import pair_of
from slotkeeper.core.errors import TooLarge, Trouble, TroubleName
from slotkeeper.core.ports.sink import Fields, LabelSink

LONGEST = 60.0
"""Seconds for all trials of a step: the next try is half as wide."""
_WRITES = frozenset({"I", "U"})
_EVENT = 3
"""Fields of an event before its columns."""

Rows = Callable[[], Iterator[Fields]]
Found = tuple[int, Refusal]
"""The number of a row in its step, and why it is refused."""


@dataclass(frozen=True, slots=True)
class Isolated:
    """What is left of a step or chunk: the numbers of the rows to be sent, one of a key, and what is left out."""

    keep: frozenset[int]
    left_out: LeftOut

    def rows(self, of: Rows) -> Iterator[Fields]:
        """The rows to be sent."""
        return (row for number, row in enumerate(of()) if number in self.keep)


class Isolation:
    """One step or chunk of `sink`; `limit` is that of the quarantine, `seconds` a clock of the caller's."""

    def __init__(self, sink: LabelSink, rows: Rows, limit: int, chunk: bool, seconds: Callable[[], float]) -> None:
        self._sink, self._rows, self._limit, self._chunk = sink, rows, limit, chunk
        self._seconds = seconds
        self._end = seconds() + LONGEST
        self._skip = 0 if chunk else _EVENT

    def isolated(self) -> Isolated:
        """Try the last event of each key; where that is refused, it is left out and the one before it counts."""
        stacks = self._stacks()
        left_out: list[RowLeftOut] = []
        last = {stack[-1]: key for key, stack in stacks.items()}
        first = True
        while last:
            found = dict(self._refused(sorted(last), self._limit if first else None))
            if first:
                left_out = list(self._left_out(found))
            for number in found:
                stacks[last[number]].pop()
            last = {stack[-1]: key for number in found if (stack := stacks[key := last[number]])}
            first = False
        keep = frozenset(stack[-1] for stack in stacks.values() if stack)
        touched = () if self._chunk else tuple(stacks)
        return Isolated(keep, LeftOut(self._sink.columns, tuple(left_out), touched, self._limit))

    def _stacks(self) -> dict[tuple[str, ...], list[int]]:
        """The numbers of each key's events, by point and sequence; a before-image that keeps its key is none.

        DWS: an update is B then U at one sync point with consecutive sequences; a range comes in any order.
        """
        events: dict[tuple[str, ...], list[tuple[int, int, int, str]]] = {}
        for number, row in enumerate(self._rows()):
            key = key_of(row, self._sink.key, self._skip)
            at = (0, number, number, COPIED) if self._chunk else (*pair_of(row), number, row[2] or "")
            events.setdefault(key, []).append(at)
        return {key: _those_that_count(sorted(some)) for key, some in events.items()}

    def _refused(self, numbers: Sequence[int], limit: int | None, known: int | None = None) -> Iterator[Found]:
        """Those of these rows that are refused; `known` is how many, where that is known."""
        if not numbers or known == 0:
            return
        if self._seconds() > self._end:
            what = f"finding the rows that the sink refuses took longer than {LONGEST:.0f} s: there are too many"
            raise TooLarge(what, where="sink")
        if len(numbers) == 1:
            yield from self._alone(numbers[0])
            return
        count = self._sink.trial(lambda: self._some(numbers), len(numbers), self._chunk) if known is None else known
        if limit is not None and count > limit:
            raise self._full(numbers, count)
        if count <= 0:
            return
        middle = len(numbers) // 2
        left = 0
        for one in self._refused(numbers[:middle], None, middle if count == len(numbers) else None):
            left += 1
            yield one
        yield from self._refused(numbers[middle:], None, count - left)

    def _alone(self, number: int) -> Iterator[Found]:
        row = next(self._some((number,)))
        found = self._sink.refusal(row, self._chunk)
        if found is not None:
            yield number, found

    def _some(self, numbers: Iterable[int]) -> Iterator[Fields]:
        wanted = frozenset(numbers)
        return (row for number, row in enumerate(self._rows()) if number in wanted)

    def _left_out(self, found: dict[int, Refusal]) -> Iterator[RowLeftOut]:
        """Writes go into quarantine; an end whose key the target cannot take ends nothing: there is no such row."""
        for number, row in enumerate(self._rows()):
            refusal = found.get(number)
            if refusal is None or not (self._chunk or row[2] in _WRITES):
                continue
            key, texts = key_of(row, self._sink.key, self._skip), tuple(row[self._skip :])
            if self._chunk:
                yield RowLeftOut(0, -1, COPIED, key, texts, refusal)
            else:
                yield RowLeftOut(int(row[0] or 0), int(row[1] or 0), row[2] or "", key, texts, refusal)

    def _full(self, numbers: Sequence[int], count: int) -> Trouble:
        """Too many at once: none of them is looked for but one, to be named."""
        what = f"the target refuses {count} rows at once, more than quarantine_limit = {self._limit} allows"
        one = next(iter(self._refused(numbers, None, count)), None)
        because = f"; one of them: {one[1].message}" if one else ""
        hint = SAFE[TroubleName.QUARANTINE_FULL]
        return Trouble(f"{what}{because}", hint, where="sink", name=TroubleName.QUARANTINE_FULL)


def key_of(row: Fields, places: Sequence[int], skip: int = _EVENT) -> tuple[str, ...]:
    """A row's key, as texts.

    >>> key_of(("1", "0", "I", "7", "x"), (0,))
    ('7',)
    """
    return tuple(row[skip + place] or "" for place in places)


def touched(rows: Rows, places: Sequence[int]) -> tuple[tuple[str, ...], ...]:
    """The keys of a step's events, each once."""
    return tuple(dict.fromkeys(key_of(row, places) for row in rows()))


def _those_that_count(events: Sequence[tuple[int, int, int, str]]) -> list[int]:
    """Of one key's events, as (point, sequence, number, kind) in their order, all but the before-images of others.

    >>> _those_that_count([(7, 0, 4, "I"), (9, 0, 2, "B"), (9, 1, 3, "U"), (9, 5, 8, "B"), (9, 7, 1, "U")])
    [4, 3, 8, 1]
    """
    found: list[int] = []
    before: tuple[int, int, int, str] | None = None
    for one in events:
        if before is not None and (before[3], one[3]) == ("B", "U") and one[:2] == (before[0], before[1] + 1):
            found.pop()
        found.append(one[2])
        before = one
    return found
