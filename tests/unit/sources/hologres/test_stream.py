"""A shard's stream of messages: new rows, updates that wait for their second half, and invalid messages."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

import pytest

from slotkeeper.core.domain.slot import Column
from slotkeeper.core.errors import Defect, Refused, Trouble, TroubleName, Unclassified
from slotkeeper.core.sources.hologres.changes import AFTER, BEFORE, DELETE, HEARTBEAT, INSERT
from slotkeeper.core.sources.hologres.stream.shard import START, Delivered, ShardStream, payload
from slotkeeper.core.sources.hologres.stream.values import field_of
from slotkeeper.demo.hologres.stream_rows import message, row

COLUMNS = (Column("id", "bigint"), Column("v", "text"))
TYPES = [column.type for column in COLUMNS]


def logged(lsn: int, event: int = INSERT, v: str | None = "a", at_us: int = 1_000) -> bytes:
    return row(lsn, event, at_us, TYPES, (lsn, None if v is None else v.encode()))


def shard(after: int = START, compressed: bool = False) -> ShardStream:
    return ShardStream(3, lambda: (1, COLUMNS), after, compressed)


def lsns(delivered: Delivered) -> list[int]:
    return [one.lsn for one in delivered.rows]


def fed(stream: ShardStream, *rows: bytes) -> Delivered:
    return stream.feed(message(rows))


def test_rows_come_in_their_order_with_their_columns() -> None:
    delivered = fed(shard(), logged(5), logged(9, DELETE, None))
    assert [(one.lsn, one.type, one.us, one.values) for one in delivered.rows] == [
        (5, 5, 1_000, ("5", "a")),
        (9, 2, 1_000, ("9", None)),
    ]
    assert (delivered.lsn, delivered.caught_up) == (9, False)


def test_an_empty_message_says_that_there_is_no_more_and_moves_nothing() -> None:
    stream = shard(after=7)
    assert stream.feed(message()) == Delivered((), 7, caught_up=True)
    assert len(message()) == 24


def test_rows_that_the_server_left_out_are_no_end_of_the_shard() -> None:
    stream = shard(after=7)
    assert fed(stream, b"", b"") == Delivered((), 7)
    assert lsns(fed(stream, b"", logged(8), b"")) == [8]


def test_a_message_that_comes_twice_brings_nothing_twice() -> None:
    stream = shard()
    assert lsns(fed(stream, logged(1), logged(2))) == [1, 2]
    assert lsns(fed(stream, logged(1), logged(2))) == []
    assert lsns(fed(stream, logged(2), logged(3))) == [3]
    assert stream.lsn == 3


def test_the_halves_of_an_update_come_together_though_messages_part_them() -> None:
    stream = shard()
    first = fed(stream, logged(1), logged(2, BEFORE))
    assert (lsns(first), first.lsn) == ([1], 1)
    assert stream.feed(message()) == Delivered((), 1), (
        "an empty message, but not at the end, because half of an update waits"
    )
    assert lsns(fed(stream, logged(1), logged(2, BEFORE))) == [], "the same once more"
    second = fed(stream, logged(3, AFTER), logged(4))
    assert (lsns(second), second.lsn) == ([2, 3, 4], 4)


def test_a_new_connection_begins_before_an_update_whose_half_was_seen() -> None:
    stream = shard()
    fed(stream, logged(1), logged(2, BEFORE))
    assert stream.connected() == 1
    assert lsns(fed(stream, logged(2, BEFORE), logged(3, AFTER))) == [2, 3]


def test_a_half_without_its_other_half_stops_the_stream_and_moves_nothing() -> None:
    stream = shard()
    fed(stream, logged(2, BEFORE))
    with pytest.raises(Defect, match="the before-row of an update at LSN 2"):
        fed(stream, logged(3, INSERT))
    assert stream.lsn == START


def test_an_update_may_be_a_delete_and_an_insert() -> None:
    assert lsns(fed(shard(), logged(2, DELETE), logged(3, INSERT))) == [2, 3]


def test_a_heartbeat_tells_a_time_and_moves_no_position() -> None:
    stream = shard(after=4)
    delivered = fed(stream, logged(900, HEARTBEAT, None, at_us=77))
    assert delivered == Delivered((), 4, complete_us=77, beats=(900,))
    assert lsns(fed(stream, logged(5), logged(900, HEARTBEAT, None, at_us=78), logged(6))) == [5, 6]


def test_a_heartbeat_is_not_complete_while_a_half_waits() -> None:
    stream = shard()
    assert fed(stream, logged(5, BEFORE), logged(6, HEARTBEAT, None, at_us=78)).complete_us is None
    assert lsns(fed(stream, logged(6, AFTER))) == [5, 6]


def test_an_unknown_event_is_refused_by_its_number() -> None:
    stream = shard()
    with pytest.raises(Refused, match="unknown type 11 at LSN 2"):
        fed(stream, logged(1), logged(2, 11))
    assert stream.lsn == START


def test_rows_out_of_order_are_a_defect() -> None:
    with pytest.raises(Defect, match="LSN 4 after 5"):
        fed(shard(), logged(5), logged(4))


def test_a_newer_version_of_the_table_has_its_columns_asked_for() -> None:
    asked: list[int] = []
    wide = (*COLUMNS, Column("w", "integer"))

    def columns() -> tuple[int, Sequence[Column]]:
        asked.append(1)
        return (1, COLUMNS) if len(asked) < 3 else (2, wide)

    stream = ShardStream(0, columns)
    rows = [row(4, INSERT, 1, [one.type for one in wide], (1, b"a", 5))]
    assert stream.feed(message(rows, version=2)).rows[0].values == ("1", "a", "5")
    assert len(asked) == 3, "once at the start, and twice because the first answer was old"


@pytest.mark.parametrize("version", [0, 3])
def test_an_unknown_version_is_a_changed_schema(version: int) -> None:
    stream = shard()
    with pytest.raises(Trouble) as told:
        stream.feed(message([logged(1)], version=version))
    assert told.value.name is TroubleName.SCHEMA_CHANGED
    assert stream.lsn == START
    assert stream.feed(message(version=version)).caught_up, "an empty message has no rows of another version"


def test_a_compressed_stream_is_read() -> None:
    stream = shard(compressed=True)
    rows = [logged(lsn, v="ab" * lsn) for lsn in range(1, 200)]
    raw = message(rows, compressed=True)
    assert len(raw) < len(message(rows))
    assert lsns(stream.feed(raw)) == list(range(1, 200))
    assert stream.feed(message(compressed=True)).caught_up


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        message()[:23],
        struct.pack(">qq", 0, 1) + struct.pack("<ii", 7, -1),
        struct.pack(">qq", 0, 1) + struct.pack("<ii", 7, 2**30),
        struct.pack(">qq", 0, 1) + struct.pack("<iiii", 7, 2, 16, 4),
        struct.pack(">qq", 0, 1) + struct.pack("<iii", 7, 1, 2**30),
        message([logged(1)[:20]]),
        message([b"\xff" + b"\xff" * len(logged(1))]),
    ],
)
def test_bytes_that_are_not_a_message_are_reported_as_such(raw: bytes) -> None:
    with pytest.raises(Unclassified, match="the binlog stream sent"):
        shard().feed(raw)


@pytest.mark.parametrize("raw", [b"", b"\0\0\0\x01", struct.pack(">i", -1) + b"abcd", b"\x7f\xff\xff\xff" + b"a" * 9])
def test_what_cannot_be_inflated_is_said_so(raw: bytes) -> None:
    with pytest.raises(Unclassified, match="compressed message"):
        payload(raw, compressed=True)


def test_a_compressed_message_of_another_size_is_refused() -> None:
    raw = bytearray(message([logged(1)], compressed=True))
    raw[3] += 1
    with pytest.raises(Unclassified):
        payload(bytes(raw), compressed=True)


def test_another_protocol_is_refused_by_its_number() -> None:
    with pytest.raises(Refused, match="protocol version 1"):
        payload(message(protocol=1))


def test_damaged_messages_are_named_errors_or_messages(seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    whole = message([logged(lsn, v="text that is long enough") for lsn in range(1, 6)])
    for _ in range(3_000):
        raw = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            raw[chance.randrange(len(raw))] = chance.randrange(256)
        try:
            shard().feed(bytes(raw[: chance.randint(0, len(raw))]))
        except (Unclassified, Refused, Defect, Trouble):
            continue


def test_a_size_that_no_message_may_have_is_refused_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slotkeeper.core.sources.hologres.stream.shard.MOST_BYTES", 1_000)
    raw = message([logged(1, v="ab" * 1_000)], compressed=True)
    with pytest.raises(Unclassified, match=r"a compressed message of \d+ bytes that claims"):
        payload(raw, compressed=True)


def test_a_numeric_of_more_digits_than_any_has_is_garbled() -> None:
    with pytest.raises(Unclassified, match="a numeric of 4000 bytes"):
        field_of(Column("n", "numeric(38,2)")).text(b"\1" * 4_000)


def test_elements_that_lie_over_one_another_are_garbled() -> None:
    """A thousand elements that each contain the whole array: a server's 9 KB would become 9 MB here, and a GB would
    never end."""
    whole = 4 + 128 + 8 * 1_000
    raw = struct.pack("<i", 1_000) + bytes(128) + struct.pack("<Q", whole) * 1_000
    with pytest.raises(Unclassified, match="overlapping"):
        field_of(Column("a", "text[]")).text(raw)


@pytest.mark.parametrize("type_", ["interval", "uuid", "inet", "bit(3)", "money", "numeric", "date[]", "x.mood"])
def test_a_type_that_the_stream_has_not_is_refused_by_name(type_: str) -> None:
    with pytest.raises(Refused, match="column 'odd' is "):
        field_of(Column("odd", type_))
