"""Text that a screen wraps over several rows can be read back word for word at any width."""

from __future__ import annotations

import random

import pytest
from rich.cells import cell_len

from slotkeeper.console.views.fitting import wrapped
from tests.support.printed import paragraphs

COMMAND = (
    "do     `slotkeeper --config /srv/etl/orders.toml slots reset ods.orders orders_rt --to snapshot --on-existing"
    " replace` plans a new copy; then `slotkeeper jobs start orders_rt`"
)
TEXTS = (
    COMMAND,
    f"do     `slotkeeper --config /{'a-long/folder-' * 12}c.toml jobs start orders_rt`",
    "Action   1  type `ALTER TABLE mart.\u6ce8\u6587 ADD COLUMN \u5217 text`; then `slotkeeper doctor`",
    "x",
    "",
)


@pytest.mark.parametrize("width", [59, 79, 99])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_whole_again_once_its_rows_are_joined(text: str, width: int) -> None:
    rows = wrapped(text, width, " ", "   ")
    assert paragraphs(rows) == ([text] if text else [])
    assert all(cell_len(row) <= width for row in rows)


def test_no_row_ends_within_an_option() -> None:
    for width in range(40, 100):
        words = [word for row in wrapped(COMMAND, width, " ", "   ") for word in row.split()]
        assert words == COMMAND.split(), width


def test_any_words_are_whole_again(seed: int) -> None:
    made = random.Random(seed)
    for _ in range(300):
        words = ["".join(made.choices("ab-/.`\u6ce8", k=made.randint(1, 60))) for _ in range(made.randint(1, 12))]
        text, width = " ".join(words), made.randint(20, 100)
        rows = wrapped(text, width, " ", "   ")
        assert paragraphs(rows) == [text], (seed, text, width)
        assert all(cell_len(row) <= width for row in rows)
