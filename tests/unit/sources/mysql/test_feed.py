"""Lanes that read from the job's feed get exactly the rows that their own streams return, whatever happens to the feed.

The oracle is the list of transactions from which every stream of these tests reads.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.drivers import my
from slotkeeper.core.errors import SlotkeeperError, Unreachable
from slotkeeper.core.sources.mysql import backlog, feed
from slotkeeper.core.sources.mysql.backlog import Backlog
from slotkeeper.core.sources.mysql.events import Action, Header, Rows
from slotkeeper.core.sources.mysql.faults import of_stream
from slotkeeper.core.sources.mysql.feed import Asked, Feed, News, Server
from slotkeeper.core.sources.mysql.joined import FeedLine, Joined, serve
from slotkeeper.core.sources.mysql.position import MysqlPosition
from slotkeeper.core.sources.mysql.statements import Effect, Statement, read
from slotkeeper.core.sources.mysql.stream import Follower, Reading, of_tables, same, there
from slotkeeper.core.sources.mysql.table_map import TableMap
from slotkeeper.core.sources.mysql.transactions import Alive, End, Item, Table, TableRows
from tests.support.waiting import until

SERVER = ("uuid", "1")
BORN = (1_700_000_000, 1)
BEGIN = MysqlPosition("b.000001", 4, born=BORN)


@dataclass
class Transaction:
    end: MysqlPosition
    items: list[TableRows | Statement]


@dataclass
class Binlog:
    """Transactions in order, and the streams that were opened on them."""

    transactions: list[Transaction] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    streams: list[FakeStream] = field(default_factory=list)
    at: MysqlPosition = BEGIN
    pace: threading.Semaphore | None = None
    """If given, the feed's stream waits for it before each item."""
    numbers: list[int] = field(default_factory=list)
    """The number of the server_id of each of the feed's streams."""

    def write(self, *items: TableRows | Statement, file: int = 1) -> MysqlPosition:
        with self.changed:
            begin = self.at.offset if self.at.number == file else 4
            end = MysqlPosition(f"b.{file:06d}", begin + 100, born=BORN)
            placed = [
                Statement(item.schema, item.text, item.effect, item.time, end, True, item.said)
                if isinstance(item, Statement)
                else item
                for item in items
            ]
            self.transactions.append(Transaction(end, placed))
            self.at = end
            self.changed.notify_all()
            return end

    def open(self, at: MysqlPosition, number: int) -> tuple[FakeStream, Server]:
        self.numbers.append(number)
        return self.stream(at), SERVER

    def stream(self, at: MysqlPosition, only: Table | None = None) -> FakeStream:
        made = FakeStream(self, at, only)
        self.streams.append(made)
        return made

    def rows_of(self, table: Table, up_to: MysqlPosition) -> list[bytes]:
        return [
            item.rows.body
            for one in self.transactions
            if there(up_to, one.end)
            for item in one.items
            if isinstance(item, TableRows) and (item.table.schema, item.table.table) == table
        ]


class FakeStream:
    """The items of a binlog after a position; `breaks` makes it fail at the next item."""

    def __init__(self, binlog: Binlog, at: MysqlPosition, only: Table | None) -> None:
        self._binlog, self._only, self.here, self.inside = binlog, only, at, False
        self.breaks = self.severed = False
        self.error: SlotkeeperError = Unreachable("the stream broke", where="source")

    def events(self, blocking: bool) -> Generator[Item | None]:
        yield None
        yield None
        place = 0
        while True:
            with self._binlog.changed:
                while place < len(self._binlog.transactions) and there(self.here, self._binlog.transactions[place].end):
                    place += 1
                if place == len(self._binlog.transactions):
                    self._binlog.changed.wait(0.01)
                found = self._binlog.transactions[place : place + 1]
            for one in found:
                self.inside = True
                for item in one.items:
                    self._check()
                    if isinstance(item, Statement):
                        self.inside, self.here = False, one.end
                    if not isinstance(item, TableRows) or self._only in (None, (item.table.schema, item.table.table)):
                        yield item
                if self.inside:
                    self.inside, self.here = False, one.end
                    yield End(one.end, 1, len(one.items))
            self._check()
            if not found:
                yield Alive(self.here, self.here)

    def _check(self) -> None:
        pace = self._binlog.pace if self._only is None else None
        while pace is not None and not self.severed and not pace.acquire(timeout=0.01):
            pass
        if self.breaks or self.severed:
            raise self.error

    def sever(self) -> None:
        self.severed = True

    def close(self) -> None:
        self.severed = True


def rows(table: Table, body: bytes) -> TableRows:
    header = Header(1, 0, 1, len(body), 0, 0)
    event = Rows(header, Action.INSERT, 7, 1, b"", b"", body, 0, len(body))
    return TableRows(TableMap(7, *table, (), None, b"layout"), event)


def ddl(text: str, schema: str) -> Statement:
    return Statement(schema, text, Effect.NONE, 1, MysqlPosition("b.000001", 4), True, read(text))


@dataclass
class Lane:
    """A lane that reads ranges until the end of the binlog; `got` contains the rows up to `at`."""

    table: Table
    binlog: Binlog
    joined: Joined
    at: MysqlPosition
    got: list[bytes] = field(default_factory=list)
    stopped: str = ""

    def step(self, draw: Random) -> None:
        up_to = self.binlog.at
        if draw.random() < 0.2:
            list(self.joined.read(self.at, up_to))  # a failed step is read again
        waiting, width = list[bytes](), draw.choice([1, 2, 5, 1000])
        for item in self.joined.read(self.at, up_to):
            if isinstance(item, Statement):
                self.stopped = item.text
                return
            if isinstance(item, TableRows):
                waiting.append(item.rows.body)
                continue
            self.got += waiting
            waiting, self.at = [], self.joined.stop()
            assert same(self.at, item.position)
            width -= 1
            if not width:
                return
        assert self.joined.here is not None
        assert not waiting, "a range ends at the end of a transaction"
        self.at = self.joined.here


@contextmanager
def served(reads: Feed) -> Iterator[Path]:
    """Serve a feed; yields its address."""
    folder = Path(tempfile.mkdtemp(prefix="feed-"))
    close = serve(reads, folder)
    try:
        yield folder
    finally:
        close()
        shutil.rmtree(folder)


def lane(binlog: Binlog, table: Table, address: str, at: MysqlPosition, opened: list[Joined | FeedLine]) -> Lane:
    reading = Reading(my.Replica(1, "", 1.0), [table])
    own = Follower(lambda at: binlog.stream(at, table))  # type: ignore[arg-type,return-value]
    line = FeedLine(address)
    joined = Joined(own, line, lambda: (SERVER, table), lambda item: of_tables(item, reading))
    opened += [joined, line]
    return Lane(table, binlog, joined, at)


def close(opened: list[Joined | FeedLine]) -> None:
    for one in opened:
        one.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and files of a few rows, and short waits."""
    monkeypatch.setattr(backlog, "BLOCK_BYTES", 300)
    monkeypatch.setattr(backlog, "IN_MEMORY", 900)
    monkeypatch.setattr(backlog, "FILE_BYTES", 2_000)
    monkeypatch.setattr(feed, "ANSWER_BYTES", 500)
    monkeypatch.setattr(feed, "APART_SECONDS", 0.02)
    monkeypatch.setattr(feed, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(feed, "MARKS", 40)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("number", range(6))
def test_every_lane_gets_the_rows_of_its_own_stream_in_order(seed: int, number: int) -> None:
    """While streams break, lanes are slow, tables are discarded, and steps are read again."""
    draw = Random(seed + number)
    print(f"seed {seed + number}")
    tables = [("s", f"t{n}") for n in range(draw.randint(2, 5))]
    binlog, opened = Binlog(), list[Joined | FeedLine]()
    most = draw.choice([1_000, 5_000, 1 << 20])
    with served(Feed(binlog.open, tables, BEGIN, most_bytes=most)) as folder:
        lanes = [lane(binlog, table, str(folder), BEGIN, opened) for table in tables]
        slow = draw.choice(tables)
        written = 0
        for _ in range(100):
            for _ in range(draw.choice([0, 1, 1, 3, 30])):
                items = []
                for _ in range(draw.choice([0, 1, 1, 2, 40])):
                    written += 1
                    body = f"{written:06d}".encode() * draw.choice([1, 1, 5, 40])
                    items.append(rows(draw.choice([*tables, ("s", "other")]), body))
                binlog.write(*items, file=1 + written // 500)
            one = draw.choice(lanes)
            if one.table != slow or draw.random() < 0.1:
                one.step(draw)
            if draw.random() < 0.05 and binlog.streams:
                draw.choice(binlog.streams[-3:]).breaks = True
        for one in lanes:
            while not there(one.at, binlog.at):
                one.step(draw)
            assert one.got == binlog.rows_of(one.table, one.at), one.table
        close(opened)


def test_a_feed_knows_which_tables_have_later_items(seed: int) -> None:
    draw = Random(seed)
    print(f"seed {seed}")
    tables = [("s", f"t{n}") for n in range(6)]
    binlog = Binlog()
    ends = [BEGIN]
    for number in range(60):
        chosen = draw.sample(tables[:5], draw.randint(0, 3))
        items: list[TableRows | Statement] = [rows(table, b"1") for table in chosen]
        ends.append(binlog.write(*([ddl("CREATE TABLE x (a INT)", "s")] if number == 20 else items)))
    with served(Feed(binlog.open, tables, BEGIN)) as folder:
        line = FeedLine(str(folder))
        for _ in range(40):
            places = {table: draw.choice(ends) for table in tables}
            later = {
                table
                for table, after in places.items()
                for one in binlog.transactions
                if not there(after, one.end)
                if any(isinstance(item, Statement) or item.table.table == table[1] for item in one.items)
            }
            assert line.find_news(News(SERVER, binlog.at, places)) == later
        assert line.find_news(News(("another",), binlog.at, {})) is None
        assert line.find_news(News(SERVER, binlog.at, {("s", "other"): BEGIN})) == {("s", "other")}
        line.close()


@pytest.mark.usefixtures("small")
def test_a_feed_that_has_not_read_up_to_a_position_does_not_know_what_is_before_it() -> None:
    binlog = Binlog()
    binlog.write(rows(("s", "a"), b"1"))
    with served(Feed(binlog.open, [("s", "a"), ("s", "b")], BEGIN)) as folder:
        line = FeedLine(str(folder))
        assert line.find_news(News(SERVER, binlog.at.moved(binlog.at.file, 999), {("s", "b"): BEGIN})) is None
        line.close()


@pytest.mark.usefixtures("small")
def test_rows_passed_on_before_a_discard_end_with_their_own_transaction() -> None:
    table, other, opened = ("s", "a"), ("s", "b"), list[Joined | FeedLine]()
    binlog = Binlog()
    binlog.write(rows(other, b"before"))
    binlog.write(*(rows(table, b"%d" % n * 50) for n in range(100)))
    reads = Feed(binlog.open, [table, other], BEGIN)
    with served(reads) as folder:
        one, got, ends = lane(binlog, table, str(folder), BEGIN, opened), list[bytes](), list[MysqlPosition]()
        for item in one.joined.read(BEGIN, binlog.at):
            if isinstance(item, TableRows):
                got.append(item.rows.body)
            elif got:
                ends.append(item.position)
            if len(got) == 7:
                with reads._changed:
                    reads._discard(table)
        assert got == binlog.rows_of(table, binlog.at)
        assert ends == [binlog.at]
        close(opened)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("progress", [True, False])
def test_a_lane_waits_for_a_long_transaction_as_long_as_the_feed_reads_it(
    progress: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, opened, pace = ("s", "a"), list[Joined | FeedLine](), threading.Semaphore(0)
    binlog = Binlog(pace=pace)
    waits = list[float]()
    reaches = Feed._reaches

    def wait(self: Feed, place: MysqlPosition, until: float) -> bool:
        if progress:  # during each wait, the stream reads one item
            pace.release()
        waits.append(until)
        return reaches(self, place, until)

    monkeypatch.setattr(Feed, "_reaches", wait)
    with served(Feed(binlog.open, [table, ("s", "b")], BEGIN)) as folder:
        one = lane(binlog, table, str(folder), BEGIN, opened)
        binlog.write(*(rows(("s", "b"), b"%d" % n) for n in range(20)), rows(table, b"last"))
        while not there(one.at, binlog.at):
            one.step(Random(3))
        assert one.got == [b"last"]
        assert len(binlog.streams) == (1 if progress else 2)
        assert not progress or len(waits) > 10
        close(opened)


def test_a_feed_is_the_only_stream_of_lanes_that_keep_up() -> None:
    tables = [("s", f"t{n}") for n in range(20)]
    binlog, opened = Binlog(), list[Joined | FeedLine]()
    with served(Feed(binlog.open, tables, BEGIN)) as folder:
        lanes = [lane(binlog, table, str(folder), BEGIN, opened) for table in tables]
        draw = Random(1)
        for n in range(30):
            binlog.write(*(rows(table, b"%d" % n) for table in tables))
            for one in lanes:
                one.step(draw)
        for one in lanes:
            while not there(one.at, binlog.at):
                one.step(draw)
            assert one.got == binlog.rows_of(one.table, one.at)
        assert len(binlog.streams) == 1
        close(opened)


def test_a_statement_stops_only_the_table_that_it_may_affect() -> None:
    tables = [("s", "a"), ("s", "b")]
    binlog, opened = Binlog(), list[Joined | FeedLine]()
    with served(Feed(binlog.open, tables, BEGIN)) as folder:
        lanes = [lane(binlog, table, str(folder), BEGIN, opened) for table in tables]
        binlog.write(rows(tables[0], b"1"), rows(tables[1], b"1"))
        binlog.write(ddl("TRUNCATE TABLE a", "s"))
        binlog.write(rows(tables[0], b"2"), rows(tables[1], b"2"))
        for one in lanes:
            while not one.stopped and not there(one.at, binlog.at):
                one.step(Random(1))
        assert [(one.stopped, one.got) for one in lanes] == [("TRUNCATE TABLE a", [b"1"]), ("", [b"1", b"2"])]
        close(opened)


def test_a_lane_before_the_feed_reads_for_itself_and_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    table = ("s", "a")
    binlog, opened = Binlog(), list[Joined | FeedLine]()
    ends = [binlog.write(rows(table, b"%d" % n)) for n in range(5)]
    with served(Feed(binlog.open, [table, ("s", "b")], ends[2])) as folder:
        late = lane(binlog, table, str(folder), BEGIN, opened)
        late.step(Random(3))
        while not there(late.at, binlog.at):
            late.step(Random(3))
        assert len(binlog.streams) == 2, "the feed's and its own"
        binlog.write(rows(table, b"5"))
        while not there(late.at, binlog.at):
            late.step(Random(3))
        assert late.got == binlog.rows_of(table, late.at)
        assert len(binlog.streams) == 2
        assert binlog.streams[-1].severed, "its own stream ends once the feed supplies its rows"
        close(opened)


def test_a_folder_without_a_feed_leaves_each_lane_to_its_own_stream(tmp_path: Path) -> None:
    table, opened = ("s", "a"), list[Joined | FeedLine]()
    binlog = Binlog()
    binlog.write(rows(table, b"1"))
    one = lane(binlog, table, str(tmp_path), BEGIN, opened)
    one.step(Random(1))
    assert one.got == [b"1"]
    close(opened)


def test_a_client_without_the_key_gets_no_rows() -> None:
    binlog = Binlog()
    table = ("s", "a")
    end = binlog.write(rows(table, b"1"))
    with served(Feed(binlog.open, [table, ("s", "b")], BEGIN)) as folder:
        (folder / "feed.key").write_bytes(b"another key")
        line = FeedLine(str(folder))
        assert line.ask(Asked(SERVER, table, BEGIN, end)) is None
        line.close()


def test_other_users_cannot_read_the_key() -> None:
    with served(Feed(Binlog().open, [("s", "a"), ("s", "b")], BEGIN)) as folder:
        assert (folder / "feed.key").stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("small")
def test_a_table_discarded_in_the_middle_of_a_transaction_gives_each_of_its_rows_once() -> None:
    table, other, opened = ("s", "a"), ("s", "b"), list[Joined | FeedLine]()
    binlog = Binlog()
    binlog.write(rows(table, b"first"))
    binlog.write(*(rows(table, b"%d" % n * 50) for n in range(100)))
    binlog.write(rows(table, b"last"))
    reads = Feed(binlog.open, [table, other], BEGIN)
    with served(reads) as folder:
        one = lane(binlog, table, str(folder), BEGIN, opened)
        got = list[bytes]()
        for n, item in enumerate(one.joined.read(BEGIN, binlog.at)):
            got += [item.rows.body] if isinstance(item, TableRows) else []
            if n == 7:
                with reads._changed:
                    reads._discard(table)
        assert got == binlog.rows_of(table, binlog.at)
        assert len(binlog.streams) == 2
        close(opened)


def test_a_lane_at_another_server_gets_no_rows() -> None:
    table = ("s", "a")
    binlog = Binlog()
    end = binlog.write(rows(table, b"1"))
    with served(Feed(binlog.open, [table, ("s", "b")], BEGIN)) as folder:
        line = FeedLine(str(folder))
        assert line.ask(Asked(("another", "1"), table, BEGIN, end)) is None
        assert line.ask(Asked(SERVER, table, BEGIN, end)) is not None
        line.close()


def test_an_ended_transaction_is_readable_while_a_large_one_is_open() -> None:
    table, begin, end = ("s", "a"), BEGIN, MysqlPosition("b.000001", 104, born=BORN)
    kept = Backlog(begin)
    kept.add(rows(table, b"first"))
    kept.add(End(end, 1, 1))
    for _ in range(3):
        kept.add(rows(table, bytes(200_000)))
    found = kept.read(begin, end, 0, 1 << 20)
    assert found is not None
    pieces, following = found
    bodies = [item.rows.body for one in pieces for item in one.items(begin, end) if isinstance(item, TableRows)]
    assert (bodies, following) == ([b"first"], None)
    kept.close()


def test_a_range_continues_only_in_the_blocks_in_which_it_began() -> None:
    table, begin = ("s", "a"), BEGIN
    first, second = Backlog(begin), Backlog(begin)
    ends = [MysqlPosition("b.000001", 104 + 100 * n, born=BORN) for n in range(3)]
    for kept in (first, second):
        for end in ends:
            kept.add(rows(table, bytes(300_000)))
            kept.add(End(end, 1, 1))
    found = first.read(begin, ends[-1], 0, 1)
    assert found is not None
    assert found[1]
    assert second.read(begin, ends[-1], found[1], 1) is None
    for kept in (first, second):
        kept.close()


def test_a_lane_uses_no_folder_that_others_can_enter() -> None:
    table, binlog = ("s", "a"), Binlog()
    end = binlog.write(rows(table, b"1"))
    with served(Feed(binlog.open, [table, ("s", "b")], BEGIN)) as folder:
        folder.chmod(0o755)
        line = FeedLine(str(folder))
        assert line.ask(Asked(SERVER, table, BEGIN, end)) is None
        folder.chmod(0o700)
        assert line.ask(Asked(SERVER, table, BEGIN, end)) is not None
        line.close()


@dataclass
class SetClock(SystemClock):
    """A clock that a test sets."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


def used_twice() -> SlotkeeperError:
    """The error of a stream that another replica ended."""
    said = "A slave with the same server_uuid/server_id as this slave has connected to the master"
    return of_stream(my.DriverError(1236, said), "m", "'u'@'h'", 77)


def test_a_feed_that_other_replicas_end_takes_other_ids_and_pauses_after_five_of_them() -> None:
    table, clock, binlog = ("s", "a"), SetClock(), Binlog()
    reads = Feed(binlog.open, [table, ("s", "b")], BEGIN, clock)
    with served(reads):
        asked = Asked(SERVER, table, BEGIN, BEGIN)
        for number in range(feed.MOST_RIVALS):
            until(lambda: reads.answer(asked) is not None, 10, "the feed to read")
            assert binlog.numbers == list(range(number + 1))
            assert (reads.error is None) == (number == 0), "reported once the next stream starts"
            binlog.streams[-1].error, binlog.streams[-1].breaks = used_twice(), True
            until(lambda: reads.answer(asked) is None, 10, "the feed to stop")
            clock.now += feed.APART_SECONDS + 1
        assert reads.answer(asked) is None
        assert reads.error is not None
        assert "server_id, 77" in reads.error.message
        clock.now += feed.RIVALS_SECONDS
        until(lambda: reads.answer(asked) is not None, 10, "the feed to read again")
        assert binlog.numbers == list(range(feed.MOST_RIVALS + 1))
        clock.now += feed.STEADY_SECONDS
        until(lambda: reads.error is None, 10, "the error to end")


def test_a_feed_reports_other_errors_only_if_they_repeat() -> None:
    table, clock, binlog = ("s", "a"), SetClock(), Binlog()
    reads = Feed(binlog.open, [table, ("s", "b")], BEGIN, clock)
    with served(reads):
        asked = Asked(SERVER, table, BEGIN, BEGIN)
        for number in range(feed.FEW_FAILURES):
            until(lambda: reads.answer(asked) is not None, 10, "the feed to read")
            assert reads.error is None
            assert binlog.numbers == [0] * (number + 1)
            binlog.streams[-1].breaks = True
            until(lambda: reads.answer(asked) is None, 10, "the feed to stop")
            clock.now += feed.APART_SECONDS + 1
        assert isinstance(reads.error, Unreachable)
