"""XA in the binlog: rows precede XA_PREPARE; the decision is in a separate transaction with its own GTID."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.sources.mysql import transactions
from slotkeeper.core.sources.mysql.events import Parser
from slotkeeper.core.sources.mysql.faults import Damaged, Unsupported
from slotkeeper.core.sources.mysql.position import FIRST_OFFSET, MysqlPosition, MysqlSet, PendingXa, parse_position
from slotkeeper.core.sources.mysql.starts import BinlogFile
from slotkeeper.core.sources.mysql.table_map import Type
from slotkeeper.core.sources.mysql.transactions import MOST_PENDING, End, Item, PreparedRows, TableRows, Transactions
from tests.support import mysql_bytes as made

SOURCE = UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562")
FILE = "binlog.000001"
START = MysqlPosition(FILE, FIRST_OFFSET, MysqlSet({}))


def inserted(*numbers: int) -> list[bytes]:
    rows = b"".join(b"\x00" + number.to_bytes(4, "little") for number in numbers)
    return [made.event(19, made.table_map([Type.LONG])), made.event(30, made.rows(1, rows))]


def prepared(number: int, *statements: list[bytes], gtrid: bytes = b"ab", one_phase: bool = False) -> list[bytes]:
    xid = f"X'{gtrid.hex()}',X'',1"
    return [
        made.event(33, made.gtid(SOURCE, number)),
        made.event(2, made.query(f"XA START {xid}")),
        *(packet for statement in statements for packet in statement),
        made.event(2, made.query(f"XA END {xid}")),
        made.event(38, made.xa_prepare(gtrid, one_phase=one_phase)),
    ]


def decided(number: int, verb: str, gtrid: bytes = b"ab") -> list[bytes]:
    text = f"XA {verb} X'{gtrid.hex()}',X'',1"
    return [made.event(33, made.gtid(SOURCE, number)), made.event(2, made.query(text))]


def plain(number: int, *statements: list[bytes]) -> list[bytes]:
    first = [made.event(33, made.gtid(SOURCE, number)), made.event(2, made.query("BEGIN"))]
    return [*first, *(packet for one in statements for packet in one), made.event(16, bytes(8))]


class Binlog:
    """Files of events, read like a stream; `asked` contains the positions that were read separately."""

    def __init__(self, *packets: bytes, file: str = FILE) -> None:
        self.files = {file: made.placed(packets)}
        self.asked: list[MysqlPosition] = []

    def read_aside(self, begin: MysqlPosition) -> Iterator[Transactions | Item | None]:
        self.asked.append(begin)
        return self.read(begin)

    def read(self, begin: MysqlPosition) -> Iterator[Transactions | Item | None]:
        transactions, parser, offset = Transactions(begin, [("s", "t")]), Parser(), FIRST_OFFSET
        yield transactions
        for packet in self.files[begin.file]:
            if offset >= begin.offset:
                yield transactions.take(parser.parse(packet))
            offset += len(packet)

    def items(self, begin: MysqlPosition = START) -> list[TableRows | End]:
        """The changes in the order in which they take effect."""
        names = [BinlogFile(name, 0) for name in self.files]
        rows, found = PreparedRows(self.read_aside, lambda: names, "db1"), list[TableRows | End]()
        for item in self.read(begin):
            if isinstance(item, TableRows) and not item.prepared:
                found.append(item)
            elif isinstance(item, TableRows | End):
                found += [one for one in rows.take(item) if one is not None]
        return found


def numbers(items: list[TableRows | End]) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for item in items:
        if isinstance(item, End):
            found.append([])
            continue
        body = item.rows.body[item.rows.begin : item.rows.stop]
        found[-1] += [int.from_bytes(body[at + 1 : at + 5], "little") for at in range(0, len(body), 5)]
    return found[:-1]


def test_rows_come_with_the_commit_and_its_gtid_is_done() -> None:
    binlog = Binlog(*prepared(1, inserted(7), inserted(8)), *plain(2, inserted(9)), *decided(3, "COMMIT"))
    items = binlog.items()
    assert numbers(items) == [[], [9], [7, 8]] and not binlog.asked
    ends = [item for item in items if isinstance(item, End)]
    assert [end.position.gtids for end in ends][-1] == MysqlSet.parse(f"{SOURCE}:1-3")
    assert [len(end.position.pending) for end in ends] == [1, 1, 0]
    assert ends[0].position.pending == (PendingXa("1-6162-", 1, FIRST_OFFSET),)
    places = [(item.number, item.at, item.first) for item in items if isinstance(item, TableRows)]
    assert places == sorted(places) and len(set(places)) == 3


def test_rows_that_roll_back_do_not_come() -> None:
    assert numbers(Binlog(*prepared(1, inserted(7)), *decided(2, "ROLLBACK")).items()) == [[], []]


def test_a_commit_in_one_phase_is_a_commit() -> None:
    binlog = Binlog(*prepared(1, inserted(7, 8), one_phase=True), *plain(2, inserted(9)))
    assert numbers(binlog.items()) == [[7, 8], [9]]
    assert all(not item.position.pending for item in binlog.items() if isinstance(item, End))


@pytest.mark.parametrize("one_phase", [False, True])
def test_rows_beyond_what_is_held_are_read_again(one_phase: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "KEPT_BYTES", 60)
    first = prepared(1, inserted(1), inserted(2), inserted(3), one_phase=one_phase)
    binlog = Binlog(*first, *([] if one_phase else decided(2, "COMMIT")), *plain(3, inserted(4)))
    assert [one for one in numbers(binlog.items()) if one] == [[1, 2, 3], [4]]
    assert [one.offset for one in binlog.asked] == [FIRST_OFFSET]


def test_a_stream_that_begins_between_reads_the_rows_again() -> None:
    binlog = Binlog(*prepared(1, inserted(7)), *plain(2, inserted(9)), *decided(3, "COMMIT"))
    between = next(item.position for item in binlog.items() if isinstance(item, End))
    for start in (between, parse_position(between.plain)):
        assert numbers(binlog.items(start)) == [[9], [7]]
    assert parse_position(between.text).pending == between.pending


def test_a_transaction_that_was_prepared_before_all_files_is_named() -> None:
    with pytest.raises(Trouble, match="1-6162- commits at") as trouble:
        Binlog(*plain(1, inserted(9)), *decided(2, "COMMIT")).items()
    assert trouble.value.name is TroubleName.SLOT_LOST
    assert numbers(Binlog(*plain(1, inserted(9)), *decided(2, "ROLLBACK")).items()) == [[9], []]


def test_a_place_where_something_else_is_now_gives_no_rows() -> None:
    binlog = Binlog(*plain(1, inserted(9)), *decided(2, "COMMIT"))
    start = MysqlPosition(FILE, FIRST_OFFSET, None, pending=(PendingXa("1-6162-", 1, FIRST_OFFSET),))
    with pytest.raises(Damaged, match="was not prepared at"):
        binlog.items(start)


def test_an_identifier_that_cannot_be_read_is_refused() -> None:
    text = made.event(2, made.query("XA COMMIT 'ab'"))
    with pytest.raises(Unsupported, match="XA identifier"):
        Binlog(made.event(33, made.gtid(SOURCE, 1)), text).items()


def test_a_position_names_some_prepared_transactions_and_the_others_are_found() -> None:
    names = [number.to_bytes(2, "big") for number in range(MOST_PENDING + 5)]
    packets = [packet for name in names for packet in prepared(1, inserted(int.from_bytes(name, "big")), gtrid=name)]
    binlog = Binlog(*packets, *decided(2, "COMMIT", names[-1]), *decided(3, "COMMIT", names[-2]))
    ends = [item for item in binlog.items() if isinstance(item, End)]
    assert len(ends[-3].position.pending) == MOST_PENDING
    binlog.asked.clear()
    found = numbers(binlog.items(ends[-3].position))
    assert found == [[MOST_PENDING + 4], [MOST_PENDING + 3]]
    assert [one.offset == FIRST_OFFSET for one in binlog.asked] == [True, False, False]
