"""The one place that takes known secrets out of text: every error of ours, all that is printed, logged or stored
passes it.

Whoever resolves a secret has its spellings remembered here, in this process's memory only. Pure but for that.
Next door: `core.config.secrets` resolves secrets and knows how they may be spelled; `core.errors`, `core.domain.text`,
`core.drivers.pg` and `core.state` call `masked`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

MASK = "***"


class Known:
    """Spellings that are masked, the longest first: of a secret with another one inside it nothing is left."""

    def __init__(self, spellings: Iterable[str] = ()) -> None:
        self.spellings = sorted(filter(None, set(spellings)), key=len, reverse=True)
        self.shortest = len(self.spellings[-1]) if self.spellings else 0
        self._pattern = re.compile("|".join(map(re.escape, self.spellings)))

    def without(self, text: str) -> str:
        """The text without them.

        >>> Known(["abc", "abcd"]).without("password=abcd;abc")
        'password=***;***'
        """
        # most texts are cells of tables, shorter than any secret
        return self._pattern.sub(MASK, text) if self.spellings and len(text) >= self.shortest else text


_known = [Known()]
"""What this process knows, as one element that is exchanged."""


def remember(spellings: Iterable[str]) -> None:
    """Mask these too from now on, in this process."""
    _known[0] = Known([*_known[0].spellings, *spellings])


def masked(text: str) -> str:
    """The text without the secrets that this process knows."""
    return _known[0].without(text)


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
