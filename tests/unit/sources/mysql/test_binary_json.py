"""MySQL's binary JSON, which MariaDB does not have: documents made by the published grammar are decoded as MySQL shows
them."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from slotkeeper.core.sources.mysql.faults import BinlogError
from slotkeeper.core.sources.mysql.values import text_of

Value = Any


def document(value: Value, large: bool = False) -> bytes:
    """A document by the grammar of json_binary.h: its type's byte, then the value."""
    kind, raw, inline = encoded(value, large)
    return bytes([kind]) + (raw if inline is None else inline)


def encoded(value: Value, large: bool) -> tuple[int, bytes, bytes | None]:
    """(type, value outside an entry, value inside an entry if it fits there)."""
    wide = "<I" if large else "<H"
    if value is None or isinstance(value, bool):
        number = 0 if value is None else 1 if value else 2
        return 4, bytes([number]), struct.pack(wide, number)
    if isinstance(value, int):
        for kind, form in ((5, "<h"), (6, "<H"), (7, "<i"), (8, "<I"), (9, "<q"), (10, "<Q")):
            try:
                raw = struct.pack(form, value)
            except struct.error:
                continue
            fits = len(raw) == 2 or (large and len(raw) == 4)
            return kind, raw, raw.ljust(4 if large else 2, b"\0") if fits else None
        raise ValueError(value)
    if isinstance(value, float):
        return 11, struct.pack("<d", value), None
    if isinstance(value, str):
        return 12, varying(len(value.encode())) + value.encode(), None
    return (container(value, large), None)[0] + (None,)


def varying(number: int) -> bytes:
    parts = []
    while True:
        parts.append(number & 0x7F | (0x80 if number > 0x7F else 0))
        number >>= 7
        if not number:
            return bytes(parts)


def container(value: Value, large: bool) -> tuple[int, bytes]:
    wide, size = ("<I", 4) if large else ("<H", 2)
    is_object = isinstance(value, dict)
    members = list(value.values()) if is_object else list(value)
    keys = [key.encode() for key in value] if is_object else []
    at = 2 * size + len(keys) * (size + 2) + len(members) * (1 + size)
    table, entries, behind = b"", b"", b""
    for key in keys:
        table += struct.pack(wide, at) + struct.pack("<H", len(key))
        behind += key
        at += len(key)
    for member in members:
        kind, raw, inline = encoded(member, large)
        entries += bytes([kind]) + (struct.pack(wide, at) if inline is None else inline)
        if inline is None:
            behind += raw
            at += len(raw)
    body = struct.pack(wide, len(members)) + struct.pack(wide, at) + table + entries + behind
    return (1 if large else 0) + (0 if is_object else 2), body


LEAVES = some.none() | some.booleans() | some.integers(-(2**63), 2**64 - 1) | some.text(max_size=40)
TREES = some.recursive(
    LEAVES, lambda inner: some.lists(inner, max_size=5) | some.dictionaries(some.text(max_size=8), inner, max_size=5)
)


@given(TREES, some.booleans())
def test_every_document_reads_as_the_value_that_it_was_made_of(value: Value, large: bool) -> None:
    assert json.loads(text_of(document(value, large))) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.5, None, True], "bb": {"c": "d"}}, '{"a": [1, 2.5, null, true], "bb": {"c": "d"}}'),
        ([], "[]"),
        ({}, "{}"),
        ('it\'s "q" \\ é \n', '"it\'s \\"q\\" \\\\ é \\n"'),
        (2.0, "2.0"),
        (18446744073709551615, "18446744073709551615"),
        (-32769, "-32769"),
    ],
)
def test_text_is_spelled_as_mysql_spells_it(value: Value, text: str) -> None:
    assert text_of(document(value)) == text


@pytest.mark.parametrize(
    ("kind", "raw", "text"),
    [
        (246, bytes([4, 2, 0x8C, 0x22]), "12.34"),
        (10, struct.pack("<q", ((2024 * 13 + 2) << 5 | 29) << 41), '"2024-02-29"'),
        (
            12,
            struct.pack("<q", ((2024 * 13 + 2) << 5 | 29) << 41 | (1 << 12 | 2 << 6 | 3) << 24 | 4),
            '"2024-02-29 01:02:03.000004"',
        ),
        (11, struct.pack("<q", -((12 << 12 | 34 << 6 | 56) << 24 | 789012)), '"-12:34:56.789012"'),
        (252, b"\x00\xff", '"base64:type252:AP8="'),
    ],
)
def test_opaque_values_are_spelled_as_mysql_spells_them(kind: int, raw: bytes, text: str) -> None:
    assert text_of(bytes([15, kind]) + varying(len(raw)) + raw) == text


def test_an_empty_document_is_null() -> None:
    assert text_of(b"") == "null"


@given(TREES, some.integers(0, 400))
def test_a_document_that_is_cut_short_is_refused_and_never_read_in_part(value: Value, cut: int) -> None:
    whole = document(value)
    if cut >= len(whole) or not cut:
        return
    try:
        found = text_of(whole[:cut])
    except BinlogError:
        return
    assert found == text_of(whole)  # only bytes that no entry refers to were cut


def test_a_type_that_is_not_known_is_refused() -> None:
    with pytest.raises(BinlogError, match="type 14"):
        text_of(b"\x0e\x00")


def test_a_document_without_a_bottom_is_refused() -> None:
    inner = b"\x01\x00\x08\x00\x02\x00\x00\x00"  # an array whose only member is itself
    with pytest.raises(BinlogError):
        text_of(b"\x02" + inner)


def test_a_document_whose_values_lie_over_one_another_is_refused_and_not_read_for_ever() -> None:
    """Sixty arrays; both members of each are the next array: 2^60 values in 600 bytes."""
    size = 10
    arrays = [struct.pack("<HHBHBH", 2, 600 - size * at, 2, size, 2, size) for at in range(59)]
    with pytest.raises(BinlogError, match="overlapping"):
        text_of(b"\x02" + b"".join(arrays) + struct.pack("<HHBHBH", 2, size, 4, 1, 4, 1))


def test_a_key_that_all_members_share_is_refused() -> None:
    key, count = b"k" * 60_000, 100
    at = 4 + count * (4 + 3)
    table = struct.pack("<HH", at, len(key)) * count
    body = struct.pack("<HH", count, at + len(key)) + table + struct.pack("<BH", 4, 1) * count + key
    with pytest.raises(BinlogError, match="overlapping"):
        text_of(b"\x00" + body)
