"""The text of a value that a cursor returned: the same as COPY would write."""

from __future__ import annotations

import pytest

from slotkeeper.core.domain.slot import Column, TableIdentity, UserType
from slotkeeper.core.sources.dws.chunks import column_list


@pytest.mark.parametrize(("type_", "out"), [("bpchar", True), ("a.padded", True), ("a.padded[]", False)])
def test_a_domain_is_written_as_its_base_type(type_: str, out: bool) -> None:
    kinds = (UserType("a.padded", "d", "a.inner"), UserType("a.inner", "d", "character(4)"))
    identity = TableIdentity(1, (Column("c", type_),), ("c",), "db1", kinds)
    assert ("bpcharout" in repr(column_list(identity, identity.columns, as_text=True))) is out
