"""COPY text is read as the rows that it was written from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.drivers.copy_text import copy_line, rows_of
from core.errors import RowRefused

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))


@given(st.lists(st.lists(st.none() | TEXTS | st.sampled_from(["\\N", "\\", "\t\n\r\b\f\v", ""]), min_size=1)))
def test_what_was_written_is_read(rows: list[list[str | None]]) -> None:
    text = b"".join(copy_line(tuple(row)) for row in rows)
    assert list(rows_of(_lines(text))) == [tuple(row) for row in rows]


def _lines(text: bytes) -> list[bytes]:
    """Lines as a file has them: only a line feed ends one."""
    return [line + b"\n" for line in text.split(b"\n")[:-1]]


def test_bytes_that_are_no_text_are_refused_without_being_shown() -> None:
    with pytest.raises(RowRefused, match="no UTF-8") as refused:
        list(rows_of([b"secret\xff\n"]))
    assert "secret" not in str(refused.value)
