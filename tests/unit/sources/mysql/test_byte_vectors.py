"""The value of each byte vector of `tests.support.mysql_types` is read by the kernel and by both ways of Python."""

from __future__ import annotations

from typing import Any

import pytest

from slotkeeper.core.drivers.pipe import SWITCH
from slotkeeper.core.sources.mysql import kernel, rows
from slotkeeper.core.sources.mysql.faults import BinlogError, Damaged
from slotkeeper.core.sources.mysql.rows import Decoder
from slotkeeper.core.sources.mysql.table_map import length_encoded
from tests.support import mysql_bytes as made
from tests.support.mysql_types import LABELS, TABLE, UTF8, Kind, decoder

KERNEL, SHARED, OWN = "the kernel", "the shared function", "the function of its bitmap"


@pytest.fixture(params=[KERNEL, SHARED, OWN])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How a row is read. With OWN, it is the second row of its bitmap; the first row had a function made for both."""
    if request.param == KERNEL and not kernel.BUILT:
        pytest.skip("the kernel was not built")
    monkeypatch.setenv(SWITCH, "on" if request.param == KERNEL else "off")
    monkeypatch.setattr(rows, "OFTEN", 1 if request.param == OWN else 1 << 30)
    return str(request.param)


def read(table: Decoder, body: bytes, way: str) -> list[Any]:
    """The last of two equal rows, from a decoder that has read no other rows."""
    decodes = Decoder(table.columns)
    _, row = decodes.rows(body * 2, 0, len(body) * 2)
    assert (bool(decodes._seen), bool(decodes._functions)) == (way != KERNEL, way == OWN)
    return list(row)


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_the_bytes_of_a_value_are_read_as_the_value(kind: Kind, way: str) -> None:
    table = decoder([kind])
    for raw, value in (*kind.vectors, ("", None)):
        (found,) = read(table, (b"\xff" if value is None else b"\xfe") + bytes.fromhex(raw), way)
        assert repr(found) == repr(value)


def test_a_row_of_all_types_is_read_with_its_nulls(way: str) -> None:
    """The integers are last, so that a column without its bit of signedness moves theirs."""
    kinds = TABLE[::-1]
    table, width = decoder(kinds), len(kinds)
    for number in range(max(len(kind.vectors) for kind in kinds)):
        chosen = [kind.vectors[number % len(kind.vectors)] for kind in kinds]
        # each column is NULL in some rows in which others are not
        nulls = {place for place in range(width) if number and (place * 7 + number) % 5 == 0}
        body = made.bitmap(sum(1 << place for place in nulls), width)
        body += b"".join(bytes.fromhex(raw) for place, (raw, _) in enumerate(chosen) if place not in nulls)
        wanted = [None if place in nulls else value for place, (_, value) in enumerate(chosen)]
        assert list(map(repr, read(table, body, way))) == list(map(repr, wanted))


@pytest.mark.parametrize("kind", [one for one in TABLE if one.code in (18, 246)], ids=lambda kind: kind.name)
def test_an_expression_and_the_function_that_it_replaces_read_the_same(kind: Kind) -> None:
    convert = decoder([kind]).columns[0].form.convert
    assert convert is not None
    assert [convert(bytes.fromhex(raw)) for raw, _ in kind.vectors] == [value for _, value in kind.vectors]


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.name)
def test_a_value_without_its_last_byte_is_damaged(kind: Kind) -> None:
    raw = bytes.fromhex(kind.vectors[-1][0])
    with pytest.raises(Damaged):
        decoder([kind]).rows(b"\xfe" + raw[:-1], 0, len(raw))


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (Kind("enum", 254, "f701", (), collation=UTF8, labels=("a",)), "02"),
        (Kind("set", 254, "f801", (), collation=UTF8, labels=("a", "b")), "04"),
        (Kind("set", 254, "f808", (), collation=UTF8, labels=LABELS[:63]), "0000000000000080"),
    ],
)
def test_a_number_beyond_the_labels_is_damaged(kind: Kind, raw: str) -> None:
    with pytest.raises(Damaged, match="label"):
        decoder([kind]).rows(b"\xfe" + bytes.fromhex(raw), 0, 1 + len(raw) // 2)


@pytest.mark.parametrize(
    ("code", "meta", "ok"),
    [
        (246, "4100", True), (246, "411e", True), (246, "4126", True), (246, "4200", False), (246, "4127", False),
        (246, "0000", False), (246, "0203", False), (16, "0008", True), (16, "0000", False), (16, "0108", False),
        (19, "06", True), (19, "07", False), (18, "06", True), (18, "07", False), (17, "06", True), (17, "07", False),
    ],
)  # fmt: skip
def test_only_a_type_that_a_server_has_is_decoded(code: int, meta: str, ok: bool) -> None:
    """DECIMAL has 65 digits, 38 of them after the point; BIT has 64 bits; a second has 6 digits."""
    if ok:
        assert decoder([Kind("c", code, meta, ())]).names == ("c",)
        return
    with pytest.raises(BinlogError, match="is not a valid server type"):
        decoder([Kind("c", code, meta, ())])


@pytest.mark.parametrize(
    ("raw", "number"), [("fa", 250), ("fc0102", 513), ("fd010203", 197_121), ("fe0102030405060708", 578437695752307201)]
)
def test_a_length_has_as_many_bytes_as_its_first_byte_says(raw: str, number: int) -> None:
    assert length_encoded(bytes.fromhex("00" + raw + "ff"), 1) == (number, 1 + len(raw) // 2)
