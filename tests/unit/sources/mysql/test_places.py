"""Places that are too large for those who compare them as text, or as 32 bits."""

from __future__ import annotations

from core.domain.position import Order
from core.sources.mysql import stream
from core.sources.mysql.position import FIRST_OFFSET, MysqlPosition


def test_a_file_behind_number_999999_comes_later() -> None:
    """Doris compared names as text: a roll to the seventh digit went back."""
    assert MysqlPosition("b.999999", 900).order(MysqlPosition("b.1000000", 4)) is Order.BEFORE


def test_a_step_of_more_than_2_gib_is_one_forward() -> None:
    """Doris cast the difference to an int of 32 bits."""
    assert MysqlPosition("b.000001", 4).order(MysqlPosition("b.000001", 3 << 30)) is Order.BEFORE


def test_a_place_beyond_4_gib_is_read_from_the_files_begin() -> None:
    """A dump names its offset in 32 bits."""
    far = MysqlPosition("b.000001", 5 << 30)
    assert stream._dumped_from(far) == MysqlPosition("b.000001", FIRST_OFFSET)
    assert stream._dumped_from(MysqlPosition("b.000001", 3 << 30)).offset == 3 << 30
