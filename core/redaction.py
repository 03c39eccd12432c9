"""The one place that takes known secrets out of text: every error, all that is printed, logged or stored
passes it.

The code that resolves a secret has its spellings remembered here, in this process's memory only. Pure but for that.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

MASK = "***"
LEAST = 3
"""Characters of a part of a secret that is masked at the ends of a piece; fewer stand at the ends of many."""
STRIDE, PIECE = 32, 8
"""A long spelling's first pieces of 8 characters, at 32 positions in a row, are known: wherever a text holds it, one of
them stands at a multiple of 32. A text is cut there, in place of a search for each spelling."""


class Known:
    """Spellings that are masked, the longest first: of a secret with another one inside it nothing is left."""

    def __init__(self, spellings: Iterable[str] = ()) -> None:
        self.spellings = sorted(filter(None, set(spellings)), key=len, reverse=True)
        self.shortest = len(self.spellings[-1]) if self.spellings else 0
        self._sizes = [-len(one) for one in self.spellings]
        self._long = bisect_right(self._sizes, 1 - STRIDE - PIECE)
        self._pieces = {one[at : at + PIECE] for one in self.spellings[: self._long] for at in range(STRIDE)}

    def without(self, text: str) -> str:
        """The text without them.

        >>> Known(["abc", "abcd"]).without("password=abcd;abc")
        'password=***;***'
        """
        if not self.spellings or len(text) < self.shortest:  # most texts are cells of tables
            return text
        first = bisect_left(self._sizes, -len(text))
        if first < self._long:
            pieces = [text[at : at + PIECE] for at in range(0, len(text), STRIDE)]
            first = self._long if self._pieces.isdisjoint(pieces) else first
        # one search for each: a pattern of them all is slower, and compiling it took seconds for long tokens
        for one in self.spellings[first:]:
            if one in text:
                text = text.replace(one, MASK)
        return text

    def within(self, piece: str) -> str:
        """The same of a piece that was cut out of a text: an end of it that is a part of one is masked, too.

        >>> Known(["abcdef"]).within("def, abcdef, ab, abc"), Known(["abcdef"]).within("f, ab")
        ('***, ***, ab, ***', 'f, ab')
        """
        text = self.without(piece)
        begins = max((_end_at_front(one, text) for one in self.spellings), default=0)
        text = MASK + text[begins:] if begins else text
        ends = max((_end_at_front(one[::-1], text[::-1]) for one in self.spellings), default=0)
        return text[: len(text) - ends] + MASK if ends else text


def _end_at_front(spelling: str, text: str) -> int:
    """How many characters of a spelling's end, but not all of it, the text begins with; 0 for fewer than LEAST.

    >>> _end_at_front("abcdef", "cdef, ab"), _end_at_front("abcdef", "ef"), _end_at_front("abab", "ab")
    (4, 0, 0)
    """
    front, at = text[:LEAST], max(0, len(spelling) - len(text) - 1)
    while len(front) == LEAST and (at := spelling.find(front, at + 1)) > 0:
        if text.startswith(spelling[at:]):
            return len(spelling) - at
    return 0


_known = [Known()]
"""What this process knows, as one element that is exchanged."""


def know(spellings: Iterable[str]) -> None:
    """Mask these from now on, in this process, in place of those of before."""
    _known[0] = Known(spellings)


def masked(text: str) -> str:
    """The text without the secrets that this process knows."""
    return _known[0].without(text)


def masked_piece(piece: str) -> str:
    """A piece that was cut out of a text, without the secrets that this process knows, and without a cut one's part."""
    return _known[0].within(piece)


def masked_values(value: object) -> object:
    """The same for values as JSON has them: texts are masked, numbers and the keys of objects stay as they are.

    >>> masked_values({"rows": 7, "said": ["fine", None]})
    {'rows': 7, 'said': ['fine', None]}
    """
    if not _known[0].spellings:
        return value
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {key: masked_values(each) for key, each in value.items()}
    return [masked_values(each) for each in value] if isinstance(value, list | tuple) else value
