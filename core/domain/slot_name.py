"""What a slot may be called: a module of its own, because every configuration that is read asks."""

from __future__ import annotations

import re

SLOT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")
"""What we accept as a slot name: an identifier of at most 63 bytes, safe in every statement and file name."""


def slot_name(text: str) -> str:
    """The name itself where it is a valid slot name; raises ValueError with the rule otherwise.

    >>> slot_name("orders_rt")
    'orders_rt'
    """
    if not SLOT_NAME.fullmatch(text):
        raise ValueError(f"slot name {text!r}: letters, digits, _ and $ only, at most 63, not starting with a digit")
    return text
