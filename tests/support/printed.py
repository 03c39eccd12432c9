"""What commands print without the configuration that they were given: paths of a test are longer than a screen."""

from __future__ import annotations

import re

_GIVEN = re.compile(r" --config (?:'[^']*'|[^\s`]+)")


def bare(text: str) -> str:
    """The text with its commands as they read where the configuration is the default one.

    >>> bare("do `slotkeeper --config /tmp/a/c.toml jobs start a`; see slotkeeper --config '/tmp/my a' doctor")
    'do `slotkeeper jobs start a`; see slotkeeper doctor'
    """
    return _GIVEN.sub("", text)
