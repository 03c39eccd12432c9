"""Names in printed statements: a name that a server would not read as a column is quoted."""

from __future__ import annotations

import pytest

from slotkeeper.core.sqltext import dotted, quoted


@pytest.mark.parametrize("name", ["order", "user", "desc"])
def test_a_reserved_word_is_quoted_where_a_statement_is_printed(name: str) -> None:
    assert quoted(name) == f'"{name}"'
    assert dotted(f"ods.{name}") == f"ods.{name}", "after a schema it is a name, and calls are written as before"
