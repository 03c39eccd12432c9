"""Wrong sizes in a source's bytes cause a named error, and use no more memory than the claimed size."""

from __future__ import annotations

import tracemalloc
import zlib
from collections.abc import Callable

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as some

from slotkeeper.core.sources.mysql import events, values
from slotkeeper.core.sources.mysql.events import Mapped, Parser, Payload
from slotkeeper.core.sources.mysql.faults import BinlogError, Damaged
from slotkeeper.core.sources.mysql.rows import Decoder, columns_of
from slotkeeper.core.sources.mysql.table_map import Type
from tests.support import kernel_rows
from tests.support import mysql_bytes as made

CHARSETS = {255: "utf8mb4", 8: "latin1", 63: "binary"}
BOMB_BYTES = 16 << 20
MOST_BYTES = 1 << 20
PAIRS = [(precision, scale) for precision in range(70) for scale in range(70)]


def zipped(claims: int, data: bytes, cut: int = 0) -> bytes:
    """A value of a COMPRESSED column that claims to have `claims` bytes."""
    size = max(1, (claims.bit_length() + 7) // 8)
    press = zlib.compressobj(1, wbits=-zlib.MAX_WBITS)
    body = press.compress(data) + press.flush()
    return bytes([0x88 | size]) + claims.to_bytes(size, "big") + body[: len(body) - cut]


def peak_of(read: Callable[[], object]) -> int:
    """The peak of Python's memory during the call, in bytes."""
    tracemalloc.start()
    try:
        read()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_compressed_value_is_inflated_no_further_than_the_size_that_it_claims() -> None:
    bomb = zipped(16, bytes(BOMB_BYTES))

    def read() -> None:
        with pytest.raises(Damaged, match="claims 16"):
            values.unzipped(bomb)

    assert peak_of(read) < MOST_BYTES


@pytest.mark.parametrize("claims", [(1 << 30) + 1, 1 << 40, (1 << 56) - 1])
def test_a_compressed_value_that_claims_more_than_a_row_can_hold_is_not_inflated(claims: int) -> None:
    bomb = zipped(claims, bytes(BOMB_BYTES))

    def read() -> None:
        with pytest.raises(Damaged, match=f"claims {claims}"):
            values.unzipped(bomb)

    assert peak_of(read) < MOST_BYTES


@pytest.mark.parametrize("data", [b"", b"a", b"abc" * 5_000, bytes(1 << 20)])
def test_a_compressed_value_of_the_size_that_it_claims_is_read_whole(data: bytes) -> None:
    assert values.unzipped(zipped(len(data), data)) == data


@pytest.mark.parametrize("cut", [1, 5])
def test_a_compressed_value_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(Damaged):
        values.unzipped(zipped(15_000, b"abc" * 5_000, cut))


def test_a_compressed_transaction_is_inflated_no_further_than_the_size_that_it_claims() -> None:
    body = zstandard.ZstdCompressor().compress(bytes(BOMB_BYTES))
    event = made.event(2, made.query("BEGIN"))
    held = zstandard.ZstdCompressor().compress(event + bytes(BOMB_BYTES))
    header = Parser().parse(made.event(16, bytes(8))).header
    for raw, claims in ((body, 16), (held, len(event))):
        liar = Payload(header, 0, claims, raw, 0, len(raw))

        def read(liar: Payload = liar) -> None:
            with pytest.raises(Damaged, match="past the payload's end"):
                list(events.events(liar))

        assert peak_of(read) < 4 * MOST_BYTES


def test_each_precision_and_scale_of_a_decimal_is_read_or_refused_by_name() -> None:
    refused = set()
    for precision, scale in PAIRS:
        event = mapped(made.table_map([Type.NEWDECIMAL], bytes([precision, scale]), fields={4: made.named("c")}))
        try:
            columns_of(event.table, None, CHARSETS)
        except Damaged as error:
            assert f"decimal({precision},{scale})" in error.message and "s.t, column c" in error.message
            refused.add((precision, scale))
        with_document = bytes([15, 246, 2, precision, scale])
        try:
            values.text_of(with_document)
        except BinlogError:
            continue
    assert refused == {pair for pair in PAIRS if not 1 <= pair[0] <= 65 or pair[1] > min(pair[0], 38)}


METADATA = some.one_of(some.binary(max_size=24), some.lists(some.integers(0, 10), max_size=24).map(bytes))
CODES = some.lists(some.sampled_from([*range(21), 140, 141, *range(242, 256)]), max_size=8)
FIELDS = some.dictionaries(some.integers(0, 12), some.binary(max_size=24), max_size=5)


def mapped(body: bytes) -> Mapped:
    event = Parser().parse(made.event(19, body))
    assert isinstance(event, Mapped)
    return event


@given(CODES, METADATA, FIELDS, some.booleans(), some.binary(max_size=80))
def test_rows_of_any_table_map_are_read_to_their_end_or_refused_by_name(
    codes: list[int], meta: bytes, fields: dict[int, bytes], named: bool, body: bytes
) -> None:
    names = {4: b"".join(made.named(f"c{n}") for n in range(len(codes)))} if named else {}
    signs = {1: b"\x00" * 2, 2: b"\xfc\xff\x00"} if named else {}
    found = []
    for way in ("on", "off"):
        with kernel_rows.switched(way):
            try:
                event = mapped(made.table_map(codes, meta, fields={**signs, **fields, **names}))
                decodes = Decoder(columns_of(event.table, None, CHARSETS))
                found.append(repr(decodes.rows(body, 0, len(body))))
            except BinlogError as error:
                found.append(repr(error))
    assert found[0] == found[1], "the kernel and Python differ"


def test_a_table_map_of_more_columns_than_a_server_has_is_refused() -> None:
    event = mapped(made.table_map([Type.DATE] * 4097))
    with pytest.raises(BinlogError, match="4,097 columns"):
        columns_of(event.table, None, CHARSETS)
