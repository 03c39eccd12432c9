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
_known: list[str] = []
"""The longest first, so that a secret inside another one leaves nothing of the longer one."""


def remember(spellings: Iterable[str]) -> None:
    """Mask these from now on, in this process."""
    _known[:] = sorted({*_known, *filter(None, spellings)}, key=len, reverse=True)


def masked(text: str) -> str:
    """The text without the secrets that this process knows."""
    if not _known or len(text) < len(_known[-1]):  # most texts are cells of tables, shorter than any secret
        return text
    for each in _known:
        if each in text:
            return without(text, _known)
    return text


def without(text: str, spellings: Iterable[str]) -> str:
    """The text without these spellings, which begin with the longest.

    >>> without("password=abcd;abc", ["abcd", "abc"])
    'password=***;***'
    """
    found = [each for each in spellings if each in text]
    return re.sub("|".join(map(re.escape, found)), MASK, text) if found else text


def masked_values(value: object) -> object:
    """The same for values as JSON has them: texts are masked, numbers and the keys of objects stay as they are.

    >>> masked_values({"rows": 7, "said": ["fine", None]})
    {'rows': 7, 'said': ['fine', None]}
    """
    if not _known:
        return value
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        return {key: masked_values(each) for key, each in value.items()}
    return [masked_values(each) for each in value] if isinstance(value, list | tuple) else value
