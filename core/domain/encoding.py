"""How the rows of a batch are written down between a source and a sink, and which way of it a pair takes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from slotkeeper.core.errors import Refused


class Encoding(Enum):
    """The encodings, the fastest first; the text is what messages say."""

    COPY_TEXT = "COPY text"
    """PostgreSQL's text format, moved by a pipe that nothing of ours looks into."""
    ROWS = "rows"
    """Tuples of text, None for NULL, with the same columns in the same order."""


def chosen(gives: Sequence[Encoding], takes: Sequence[Encoding], pair: str) -> Encoding:
    """In which encoding a batch reaches the sink: the best that both have, else the sink's best, converted on the way.

    `pair` names the two; raises Refused by what they have where one of them has nothing.

    >>> chosen((Encoding.COPY_TEXT, Encoding.ROWS), (Encoding.ROWS,), "a to b").value
    'rows'
    >>> chosen((Encoding.ROWS,), (Encoding.COPY_TEXT,), "a to b").value
    'COPY text'
    """
    for both in (gives, takes):
        for encoding in Encoding:
            if gives and encoding in both and encoding in takes:
                return encoding
    given, taken = (" or ".join(one.value for one in few) or "nothing" for few in (gives, takes))
    raise Refused(f"{pair}: the source gives {given}, the sink takes {taken}", "choose another kind of sink")
