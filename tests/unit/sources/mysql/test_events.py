"""Events that MySQL 8 writes and MariaDB does not, from bytes made by the published format; and malformed bytes."""

from __future__ import annotations

import struct
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as some

from slotkeeper.core.sources.mysql.events import (
    Commit,
    Header,
    Incident,
    Mapped,
    MariaGtid,
    MysqlGtid,
    Parser,
    Rows,
    XaPrepared,
)
from slotkeeper.core.sources.mysql.faults import BinlogError, Damaged, GoneBack, Unsupported
from slotkeeper.core.sources.mysql.position import MysqlPosition, MysqlSet, parse_gtids
from slotkeeper.core.sources.mysql.rows import Decoder, SchemaColumn, columns_of
from slotkeeper.core.sources.mysql.table_map import Type
from slotkeeper.core.sources.mysql.transactions import End, TableRows, Transactions
from tests.support import mysql_bytes as made

SOURCE = UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")
CHARSETS = {255: "utf8mb4", 8: "latin1", 63: "binary"}


def mapped(body: bytes) -> Mapped:
    event = Parser().parse(made.event(19, body))
    assert isinstance(event, Mapped)
    return event


def test_a_wrong_checksum_is_found() -> None:
    parser = Parser()
    parser.parse(made.format_description())
    right = made.event(16, bytes(8), checksum=True)
    assert isinstance(parser.parse(right), Commit)
    wrong = right[:25] + bytes([right[25] ^ 1]) + right[26:]
    with pytest.raises(Damaged, match="checksum"):
        parser.parse(wrong)


def test_a_file_without_checksums_is_read_as_its_first_event_says() -> None:
    parser = Parser()
    parser.parse(made.format_description(checksum=False))
    assert isinstance(parser.parse(made.event(16, bytes(8))), Commit)


def test_a_rotate_between_two_kinds_of_files_has_a_checksum_or_none() -> None:
    body = struct.pack("<Q", 4) + b"mysql-bin.000002"
    for checksum in (False, True):
        event = Parser().parse(made.event(4, body, checksum=checksum, flags=0x20))
        assert getattr(event, "file", "") == "mysql-bin.000002"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (39, "partial JSON"),
        (165, "compressed statement"),
        *((code, "compressed rows") for code in range(166, 172)),
        (20, "before version 5.1"),
        (9, "LOAD DATA"),
        (99, "unknown event type 99"),
    ],
)
def test_what_may_hide_rows_is_refused_by_name(code: int, words: str) -> None:
    """Another reader omitted compressed row events silently."""
    with pytest.raises(Unsupported, match=words):
        Parser().parse(made.event(code, bytes(20)))


def test_an_event_that_is_not_known_and_may_be_ignored_is_passed_over() -> None:
    assert type(Parser().parse(made.event(99, bytes(20), flags=0x80))).__name__ == "Event"


def test_a_gtid_of_mysql_is_read() -> None:
    event = Parser().parse(made.event(33, made.gtid(SOURCE, 23)))
    assert isinstance(event, MysqlGtid) and (event.source, event.number) == (SOURCE, 23)
    assert Parser().parse(made.event(34, made.gtid(UUID(int=0), 0))) == MysqlGtid(
        event.header.__class__(1_700_000_000, 34, 1, event.header.size, 0, 0), None, 0
    )


def test_a_transaction_of_mysql_8_ends_with_its_gtid_done() -> None:
    """GTID, BEGIN, TABLE_MAP, second-version rows with extra bytes, XID: MINIMAL metadata and information_schema."""
    body = made.table_map([Type.LONG, Type.VARCHAR], struct.pack("<H", 80), fields={1: b"\x80", 2: b"\xfc\xff\x00"})
    packets = [
        made.event(33, made.gtid(SOURCE, 6)),
        made.event(2, made.query("BEGIN")),
        made.event(19, body),
        made.event(30, made.rows(2, b"\x00\xff\xff\xff\xff\x02\xc3\xa9\x02\x05\x00\x00\x00", extra=b"\x00\x01\x02")),
        made.event(16, bytes(8)),
    ]
    start = MysqlPosition("binlog.000001", 4, parse_gtids(f"{SOURCE}:1-5"))
    transactions, parser, offset, items = Transactions(start, [("s", "t")]), Parser(), 4, []
    for packet in packets:
        offset += len(packet)
        header = bytearray(packet)
        header[13:17] = struct.pack("<I", offset)
        items.append(transactions.take(parser.parse(bytes(header))))
    rows = items[3]
    assert isinstance(rows, TableRows)
    text = SchemaColumn("v", "varchar", "varchar(20)", True, "utf8mb4", 80)
    described = (SchemaColumn("id", "int", "int unsigned", True), text)
    decoder = Decoder(columns_of(rows.table, described, CHARSETS))
    assert list(decoder.changes(rows.rows).after) == [(4294967295, "é"), (5, None)]
    assert items[4] == End(MysqlPosition("binlog.000001", offset, MysqlSet.parse(f"{SOURCE}:1-6")), 1_700_000_000, 1)


def test_a_json_column_of_mysql_is_text() -> None:
    raw = b"\x00\x01\x00\x0c\x00\x0b\x00\x01\x00\x05\x01\x00a"
    event = mapped(made.table_map([Type.JSON], b"\x04", fields={4: made.named("j")}))
    decoder = Decoder(columns_of(event.table, None, CHARSETS))
    body = b"\x00" + struct.pack("<I", len(raw)) + raw
    rows = Parser().parse(made.event(30, made.rows(1, body)))
    assert isinstance(rows, Rows)
    assert list(decoder.changes(rows).after) == [('{"a": 1}',)]


def test_xa_in_one_phase_commits_and_in_two_does_not() -> None:
    assert isinstance(Parser().parse(made.event(38, b"\x01" + bytes(12))), Commit)
    assert isinstance(Parser().parse(made.event(38, b"\x00" + bytes(12))), XaPrepared)


def test_a_year_has_a_sign_bit_too() -> None:
    """A reader that does not count it gives every number after a YEAR the sign of the number next to it."""
    names = b"".join(map(made.named, ("a", "y", "b")))
    event = mapped(made.table_map([Type.LONG, Type.YEAR, Type.LONG], fields={1: b"\x20", 4: names}))
    assert [one.unsigned for one in event.table.columns] == [False, False, True]


def test_a_geometry_that_may_or_may_not_be_counted_leaves_character_sets_open() -> None:
    codes = [Type.GEOMETRY, Type.VARCHAR, Type.VARCHAR]
    meta = b"\x04" + struct.pack("<HH", 80, 80)
    names = b"".join(map(made.named, ("g", "a", "b")))
    counted = mapped(made.table_map(codes, meta, fields={3: b"\x3f\xfc\xff\x00\x08", 4: names}))
    assert [one.collation for one in counted.table.columns] == [None, 255, 8]
    apart = mapped(made.table_map(codes, meta, fields={3: b"\xfc\xff\x00\x08", 4: names}))
    assert [one.collation for one in apart.table.columns] == [None, 255, 8]
    either = mapped(made.table_map(codes, meta, fields={2: b"\x3f\x01\x08", 4: names}))
    assert [one.collation for one in either.table.columns] == [None, None, None]
    with pytest.raises(Unsupported, match="column a: the binlog does not record its character set"):
        columns_of(either.table, None, CHARSETS)


def test_without_names_a_table_that_information_schema_does_not_fit_is_refused() -> None:
    event = mapped(made.table_map([Type.LONG]))
    fits = (SchemaColumn("id", "int", "int(11) unsigned", True),)
    assert columns_of(event.table, fits, CHARSETS)[0].shown == "int unsigned"
    for other, words in (
        ((SchemaColumn("id", "bigint", "bigint", True),), "column id is now bigint"),
        ((*fits, SchemaColumn("w", "int", "int", True)), "1 columns in the binlog, 2 now"),
        (None, "the table has been dropped"),
    ):
        with pytest.raises(Unsupported, match=words):
            columns_of(event.table, other, CHARSETS)


def test_a_type_that_is_not_read_ends_no_other_tables_stream() -> None:
    """One table with a COMPRESSED column ended another reader's whole stream, at the table's description."""
    event = mapped(made.table_map([Type.LONG, Type.VECTOR], b"\x04"))
    assert (event.table.schema, event.table.table) == ("s", "t")
    with pytest.raises(Unsupported, match="type 242"):
        columns_of(event.table, None, CHARSETS)


def test_old_temporal_types_are_refused_by_name() -> None:
    """mysql56_temporal_format = OFF: another reader decoded a TIMESTAMP as a date with an impossible year."""
    names = made.named("at")
    for code in (Type.TIMESTAMP, Type.DATETIME, Type.TIME):
        event = mapped(made.table_map([code], fields={4: names}))
        with pytest.raises(Unsupported, match=r"column at: .*mysql56_temporal_format"):
            columns_of(event.table, None, CHARSETS)


@given(some.binary(max_size=60), some.sampled_from([2, 4, 15, 16, 19, 23, 24, 30, 31, 32, 33, 38, 162, 163]))
def test_no_bytes_break_the_parser_otherwise_than_by_a_named_error(body: bytes, code: int) -> None:
    try:
        Parser().parse(made.event(code, body))
    except BinlogError:
        pass


@given(some.binary(max_size=80), some.integers(1, 4))
def test_rows_of_any_bytes_are_read_to_their_end_or_refused(body: bytes, fields: int) -> None:
    codes = [Type.LONG, Type.VARCHAR, Type.NEWDECIMAL, Type.DATETIME2][:fields]
    meta = (
        (struct.pack("<H", 400) if fields > 1 else b"") + (b"\x0a\x02" if fields > 2 else b"") + b"\x06" * (fields > 3)
    )
    names = b"".join(made.named(f"c{n}") for n in range(fields))
    event = mapped(made.table_map(codes, meta, fields={1: b"\x00", 2: b"\xfc\xff\x00", 4: names}))
    decoder = Decoder(columns_of(event.table, None, CHARSETS))
    try:
        decoder.rows(body, 0, len(body))
    except BinlogError:
        pass


def test_rows_have_the_columns_of_the_last_table_map_of_their_number() -> None:
    parser, stream = Parser(), Transactions(MysqlPosition("b.000001", 4), {("s", "t")}, by_gtid=True)
    widths = []
    for packet in (
        made.event(2, made.query("BEGIN")),
        made.event(19, made.table_map([Type.LONG], fields={1: b"\0", 4: made.named("a")})),
        made.event(30, made.rows(1, b"\x00\x01\x00\x00\x00")),
        made.event(19, made.table_map([Type.LONG] * 2, fields={1: b"\0", 4: made.named("a") + made.named("b")})),
        made.event(30, made.rows(2, b"\x00\x01\x00\x00\x00\x02\x00\x00\x00")),
        made.event(19, made.table_map([Type.LONG], table="other")),
        made.event(30, made.rows(1, b"\x00\x01\x00\x00\x00")),
    ):
        item = stream.take(parser.parse(packet))
        if isinstance(item, TableRows):
            widths.append(len(Decoder(columns_of(item.table, None, CHARSETS)).changes(item.rows).after[0]))
    assert widths == [1, 2]


def test_a_gap_between_two_events_of_a_file_ends_the_stream() -> None:
    first, *rest = made.placed([made.event(2, made.query("BEGIN")), made.event(16, bytes(8)), made.event(16, bytes(8))])
    for events in ([first, *rest], [first, rest[1]]):
        parser, stream = Parser(), Transactions(MysqlPosition("b.000001", 4), set())
        stream.take(parser.parse(events[0]))
        if events[1] is rest[0]:
            assert isinstance(stream.take(parser.parse(events[1])), End)
        else:
            with pytest.raises(Damaged, match="has an event that ends at"):
                stream.take(parser.parse(events[1]))


def test_a_gtid_of_mariadb_that_was_applied_already_ends_the_stream() -> None:
    for number, repeats in ((7, True), (6, True), (8, False)):
        stream = Transactions(MysqlPosition("b.000001", 4, parse_gtids("0-1-7")), set())
        event = MariaGtid(Header(0, 162, 1, 0, 0, 0), 0, 1, number, standalone=False, ddl=False, prepared_xa=False)
        if repeats:
            with pytest.raises(GoneBack, match="already applied"):
                stream.take(event)
        else:
            stream.take(event)
            assert stream.inside


def test_an_incident_of_the_server_ends_the_stream() -> None:
    with pytest.raises(Unsupported, match="the source lost events: disk full"):
        Transactions(MysqlPosition("b.000001", 4), set()).take(Incident(Header(0, 26, 1, 0, 0, 0), "disk full"))
