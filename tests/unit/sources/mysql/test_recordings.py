"""Events recorded from real MySQL servers (5.7, 8.0, Aurora) are read as MySQL's own tools read them.

The vectors in `tests/fixtures/recordings` name their origin. SLOTKEEPER_RECORDINGS may name a folder whose files are
all read.
"""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from slotkeeper.core.domain.slot import Column, TableIdentity
from slotkeeper.core.drivers.pipe import SWITCH
from slotkeeper.core.sources.mysql.events import Commit, Mapped, Parser, Payload, Query, Rows
from slotkeeper.core.sources.mysql.events import events as unpacked
from slotkeeper.core.sources.mysql.faults import Damaged, Unsupported
from slotkeeper.core.sources.mysql.filters import Selection
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.rows import Decoder, columns_of
from slotkeeper.core.sources.mysql.source import _Writer
from slotkeeper.core.sources.mysql.tables import TableSeen, image_of
from slotkeeper.core.sources.mysql.transactions import End, Item, TableRows, Transactions
from tests.support import mysql_bytes as made
from tests.support import recordings
from tests.support.mysql_bytes import Padding


@pytest.fixture(autouse=True, params=["on", "off"], ids=["kernel", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel decodes, or Python."""
    monkeypatch.setenv(SWITCH, request.param)


VECTORS = sorted(path.stem for path in recordings.VECTORS.glob("*.txt"))


@pytest.mark.parametrize("name", VECTORS)
def test_recorded_rows_are_what_the_servers_tool_prints(name: str) -> None:
    vectors = recordings.load(recordings.VECTORS / f"{name}.txt")
    assert recordings.lines(vectors.events) == vectors.printed


def test_the_vectors_have_rows_of_each_kind() -> None:
    lines = [line for name in VECTORS for line in recordings.load(recordings.VECTORS / f"{name}.txt").printed]
    counts = [sum(line.startswith(f"### {word}") for line in lines) for word in ("INSERT", "UPDATE", "DELETE")]
    assert all(counts) and sum(counts) > 90


@pytest.mark.parametrize("name", VECTORS)
def test_the_committed_lines_are_the_tools_own(name: str, tmp_path: Path) -> None:
    program = recordings.tool()
    vectors = recordings.load(recordings.VECTORS / f"{name}.txt")
    assert recordings.printed(vectors.events, tmp_path, program) == vectors.printed


def test_every_row_of_further_recordings_is_what_the_servers_tool_prints(tmp_path: Path) -> None:
    folder = os.environ.get(recordings.FOLDER, "")
    if not folder:
        pytest.skip(f"{recordings.FOLDER} names no folder of further binlogs")
    program, read = recordings.tool(), 0
    for path in sorted(Path(folder).iterdir()):
        binlog = path.read_bytes()
        if not binlog.startswith(recordings.MAGIC):
            continue
        events = list(recordings.events_of(binlog))
        assert recordings.lines(events) == recordings.printed(events, tmp_path, program), path.name
        read += 1
    assert read, f"{folder} has no binlog"


# -- padding ----------------------------------------------------------------------------------------------------------


def _decoder(width: int, padding: Padding) -> Decoder:
    body = made.table_map([1] * width, fields={1: b"\0\0"}, padding=padding)
    event = Parser().parse(made.event(19, body))
    assert isinstance(event, Mapped)
    return Decoder(columns_of(event.table, recordings.described(event.table), recordings.CHARSETS))


@pytest.mark.parametrize("padding", list(Padding))
@pytest.mark.parametrize("width", [1, 5, 7, 8, 9, 15])
def test_rows_are_read_whatever_a_server_writes_after_the_last_column_of_a_bitmap(width: int, padding: Padding) -> None:
    """MySQL sets the bits after the last column, MariaDB does not."""
    null = width // 2
    body = made.bitmap(1 << null, width, padding) + bytes(place for place in range(width) if place != null)
    event = Parser().parse(made.event(30, made.rows(width, body, padding=padding)))
    assert isinstance(event, Rows)
    (row,) = _decoder(width, padding).changes(event).after
    assert row == tuple(None if place == null else place for place in range(width))


@pytest.mark.parametrize("padding", list(Padding))
def test_rows_without_a_column_are_refused_whatever_the_padding(padding: Padding) -> None:
    event = Parser().parse(made.event(30, made.rows(9, bytes(10), present=0b1_1110_1111, padding=padding)))
    assert isinstance(event, Rows)
    with pytest.raises(Unsupported, match="binlog_row_image was not FULL"):
        _decoder(9, padding).changes(event)


# -- compressed transactions ------------------------------------------------------------------------------------------

_BEGIN, _COMMIT = made.event(2, made.query("BEGIN")), made.event(16, bytes(8))
_MAP = made.event(19, made.table_map([3], fields={1: b"\x80"}))


def _rows(*numbers: int) -> bytes:
    body = b"".join(b"\xfe" + number.to_bytes(4, "little") for number in numbers)
    return made.event(30, made.rows(1, body, padding=Padding.MYSQL))


def _taken(packets: list[bytes]) -> list[Item]:
    """The items of a stream of these events, each at its position in a file."""
    start = MysqlPosition("binlog.000001", 4, None)
    transactions, parser, at, found = Transactions(start, [("s", "t")]), Parser(), 4, list[Item | None]()
    for packet in packets:
        at += len(packet)
        event = parser.parse(packet[:13] + at.to_bytes(4, "little") + packet[17:])
        found.append(transactions.take(event))
        if isinstance(event, Payload):
            assert transactions.inside
            found += [transactions.take(part, inside) for inside, part in unpacked(event)]
    return [item for item in found if item is not None]


@pytest.mark.parametrize("compressed", [True, False])
def test_a_compressed_transaction_ends_where_its_event_ends(compressed: bool) -> None:
    """Its rows have increasing numbers, and no position is inside it."""
    gtid = made.event(34, made.gtid(UUID(int=0), 0))
    whole = made.payload([_BEGIN, _MAP, _rows(1, 2), _MAP, _rows(3), _COMMIT], compressed)
    end = 4 + len(gtid) + len(whole)
    one, two, last = _taken([gtid, whole])
    assert isinstance(one, TableRows) and isinstance(two, TableRows)
    assert one.at == two.at == 4 + len(gtid) and 0 < one.first < one.first + 2 <= two.first
    assert last == End(MysqlPosition("binlog.000001", end, None), made.TIME, 2)


def test_rows_of_a_compressed_transaction_have_numbers_that_rise() -> None:
    """A sink applies the changes to a key in the order of these numbers."""
    rows = _taken([made.payload([_BEGIN, _MAP, _rows(*range(40)), _MAP, _rows(7, 8), _COMMIT])])
    found = list[tuple[int, int]]()
    for item in rows:
        if not isinstance(item, TableRows):
            continue
        described = recordings.described(item.table)
        images, columns = tuple(map(image_of, described)), (Column("c1", "integer", False),)
        seen = TableSeen("s", "t", described, images, TableIdentity(0, columns, ("c1",), "one"))
        decoder = Decoder(columns_of(item.table, described, recordings.CHARSETS))
        out = io.BytesIO()
        _Writer(decoder, seen, Selection(), None, False).write(item, out)
        texts = [line.decode().split("\t")[:2] for line in out.getvalue().splitlines()]
        found += [(int(first), int(second)) for first, second in texts]
    assert len(found) == 42 and found == sorted(set(found))


def _events(*packets: bytes, size: int | None = None, compressed: bool = True) -> list[object]:
    event = Parser().parse(made.event(40, made.payload(list(packets), compressed)[19:]))
    assert isinstance(event, Payload)
    whole = event if size is None else replace(event, size=size)
    return [one for _, one in unpacked(whole)]


def test_events_in_a_payload_have_no_checksums_and_no_end_in_a_file() -> None:
    begin, commit = _events(made.event(2, made.query("BEGIN"), end=900), _COMMIT)
    assert isinstance(begin, Query) and begin.header.end == 0 and isinstance(commit, Commit)


@pytest.mark.parametrize(
    ("packets", "size", "words"),
    [
        ([_BEGIN, _COMMIT], 1_000_000, "decompresses to"),
        ([_BEGIN, _COMMIT], len(_BEGIN), "past the payload's end"),
        ([_BEGIN, _COMMIT[:10]], None, "ends inside an event's header"),
        ([_BEGIN, made.event(4, bytes(8) + b"binlog.000009")], None, "type 4, which is not part"),
        ([_BEGIN, made.event(33, made.gtid(UUID(int=1), 1))], None, "type 33, which is not part"),
        ([_BEGIN, made.payload([_COMMIT])], None, "type 40, which is not part"),
    ],
)
def test_a_payload_that_is_not_a_transaction_is_rejected(packets: list[bytes], size: int | None, words: str) -> None:
    with pytest.raises(Damaged, match=words):
        _events(*packets, size=size)


def test_a_payload_that_cannot_be_inflated_is_refused() -> None:
    event = Parser().parse(made.payload([_BEGIN, _COMMIT]))
    assert isinstance(event, Payload)
    body = event.body[: event.begin + 8] + bytes(event.stop - event.begin - 8)
    with pytest.raises(Damaged, match="decompress"):
        list(unpacked(replace(event, body=body)))
    with pytest.raises(Unsupported, match="method 7"):
        list(unpacked(replace(event, method=7)))


def test_a_payload_that_says_another_size_of_itself_is_refused() -> None:
    whole = made.payload([_BEGIN, _COMMIT])
    with pytest.raises(Damaged, match="claims"):
        Parser().parse(made.event(40, whole[19:] + b"\0"))


def test_a_file_that_was_in_use_has_the_checksum_of_a_closed_one() -> None:
    """A server sets the flag without updating the checksum; a file copied from a running server has the flag."""
    raw = made.format_description()
    assert Parser().parse(raw[:17] + b"\x01" + raw[18:])
    with pytest.raises(Damaged, match="checksum"):
        Parser().parse(raw[:17] + b"\x02" + raw[18:])
