"""Mask known secrets in text: every error, and all text that is printed, logged or stored, passes through here.

The code that resolves a secret registers its spellings here, in this process's memory only. Otherwise pure.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

MASK = "***"
LEAST = 3
"""Minimum length of a part of a secret that is masked at the ends of a piece; many pieces end in shorter parts."""
STRIDE, PIECE = 32, 8
"""For a long spelling of a secret, the 32 pieces of 8 characters that start at its first 32 positions are stored. If a
text contains the spelling, one of these pieces starts at a multiple of 32 in the text. So only these positions are
compared, instead of searching the text for each spelling."""


class Known:
    """The spellings to mask, the longest first, so that a secret that contains another secret is masked completely."""

    def __init__(self, spellings: Iterable[str] = ()) -> None:
        self.spellings = sorted(filter(None, set(spellings)), key=len, reverse=True)
        self.shortest = len(self.spellings[-1]) if self.spellings else 0
        self._sizes = [-len(one) for one in self.spellings]
        self._long = bisect_right(self._sizes, 1 - STRIDE - PIECE)
        self._pieces = {one[at : at + PIECE] for one in self.spellings[: self._long] for at in range(STRIDE)}

    def without(self, text: str) -> str:
        """Return the text with the spellings masked.

        >>> Known(["abc", "abcd"]).without("password=abcd;abc")
        'password=***;***'
        """
        if not self.spellings or len(text) < self.shortest:  # most texts are short, such as the cells of tables
            return text
        first = bisect_left(self._sizes, -len(text))
        if first < self._long:
            pieces = [text[at : at + PIECE] for at in range(0, len(text), STRIDE)]
            first = self._long if self._pieces.isdisjoint(pieces) else first
        # search for each spelling: one pattern for all is slower, and compiling it took seconds for long tokens
        for one in self.spellings[first:]:
            if one in text:
                text = text.replace(one, MASK)
        return text

    def within(self, piece: str) -> str:
        """Return a piece of a longer text with the spellings masked, including spellings that either end cuts off.

        >>> Known(["abcdef"]).within("def, abcdef, ab, abc"), Known(["abcdef"]).within("f, ab")
        ('***, ***, ab, ***', 'f, ab')
        """
        text = self.without(piece)
        begins = max((_end_at_front(one, text) for one in self.spellings), default=0)
        text = MASK + text[begins:] if begins else text
        ends = max((_end_at_front(one[::-1], text[::-1]) for one in self.spellings), default=0)
        return text[: len(text) - ends] + MASK if ends else text


def _end_at_front(spelling: str, text: str) -> int:
    """Return the length of the longest incomplete end of a spelling with which the text begins; 0 if below LEAST.

    >>> _end_at_front("abcdef", "cdef, ab"), _end_at_front("abcdef", "ef"), _end_at_front("abab", "ab")
    (4, 0, 0)
    """
    front, at = text[:LEAST], max(0, len(spelling) - len(text) - 1)
    while len(front) == LEAST and (at := spelling.find(front, at + 1)) > 0:
        if text.startswith(spelling[at:]):
            return len(spelling) - at
    return 0


_known = [Known()]
"""The spellings that this process masks, in a list so that they can be replaced."""


def know(spellings: Iterable[str]) -> None:
    """Mask these spellings from now on in this process; they replace the previous ones."""
    _known[0] = Known(spellings)


def masked(text: str) -> str:
    return _known[0].without(text)


def masked_piece(piece: str) -> str:
    """Return a piece of a longer text with known secrets masked, including secrets that either end cuts off."""
    return _known[0].within(piece)


def masked_values(value: object) -> object:
    """Mask values in JSON form: strings are masked, numbers and the keys of objects stay as they are.

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


def masked_json(value: object) -> str:
    """Return values in JSON form as text, with their strings masked.

    JSON encodes each character separately, so a string contains a secret only if the text contains the secret's JSON
    form. Therefore the text is first searched as a whole; nearly every text contains no secret.

    >>> masked_json({"rows": 7, "said": ["fine", None]})
    '{"rows": 7, "said": ["fine", null]}'
    """
    text = json.dumps(value)
    if any(json.dumps(one)[1:-1] in text for one in _known[0].spellings):
        return json.dumps(masked_values(value))
    return text
