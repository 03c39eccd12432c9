"""COPY text is read as the rows that it was written from."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core.drivers.pipe import copy_line, rows_of
from slotkeeper.core.errors import RowRefused

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(st.lists(st.none() | TEXTS | st.sampled_from(["\\N", "\\", "\t\n\r\b\f\v", ""]), min_size=1)))
def test_what_was_written_is_read(rows: list[list[str | None]]) -> None:
    text = b"".join(copy_line(tuple(row)) for row in rows)
    assert list(rows_of(_lines(text))) == [tuple(row) for row in rows]


def test_a_large_bytea_costs_little_more_than_its_characters() -> None:
    """Checking each character took 3.7 s of CPU for 16 MB; a search takes a few milliseconds."""
    text = "\\x" + bytes(2 << 20).hex()

    def taken(make: Callable[[], bytes]) -> float:
        begun = time.process_time()
        make()
        return time.process_time() - begun

    plain = min(taken(lambda: text.replace("y", "").encode()) for _ in range(5))
    assert copy_line(("1", text)) == f"1\t\\{text}\n".encode()
    assert min(taken(lambda: copy_line(("1", text))) for _ in range(5)) < 0.01 + 40 * plain


def _lines(text: bytes) -> list[bytes]:
    """Lines as in a file: only a line feed ends one."""
    return [line + b"\n" for line in text.split(b"\n")[:-1]]


def test_bytes_that_are_no_text_are_refused_without_being_shown() -> None:
    with pytest.raises(RowRefused, match="not UTF-8") as refused:
        list(rows_of([b"secret\xff\n"]))
    assert "secret" not in str(refused.value)
