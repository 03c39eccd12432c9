"""The contract of any source, whatever its kind of positions and whether it retains any."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from slotkeeper.core.domain.inspection import Filter, Range
from slotkeeper.core.domain.position import Order, Position
from slotkeeper.core.domain.slot import Shard, SlotStatus
from slotkeeper.core.domain.spec import TableAsked
from slotkeeper.core.drivers.pipe import rows_of
from slotkeeper.core.engine.worker.step import nothing
from slotkeeper.core.errors import Refused
from slotkeeper.core.ports.kinds import WHOLE, SourceSession
from slotkeeper.core.ports.sink import Fields
from slotkeeper.core.ports.source import Confirmation, SourceTable
from slotkeeper.core.slots.status import read_table
from tests.contract.pairs import (
    BY_SLOT,
    BY_STREAM,
    FIRST,
    KEEPS,
    MYSQL,
    OF_HOLOGRES,
    SECOND,
    TABLE,
    Pair,
    pair,
    read,
    top,
)
from tests.support.waiting import until

__all__ = ["pair"]
# the parts that only a stream or only a slot has are covered by their fault tests
_MORE = [pytest.param(one, marks=pytest.mark.chaos) for one in (BY_STREAM, BY_SLOT)]
pytestmark = pytest.mark.parametrize("pair", [FIRST, SECOND, KEEPS, MYSQL, OF_HOLOGRES, *_MORE], indirect=True)
LOADED = 30


@dataclass
class Followed:
    """A recorded table, and the statuses at the start of recording."""

    pair: Pair
    session: SourceSession
    table: SourceTable
    began: dict[Shard, SlotStatus] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.source = self.session.table(TableAsked.of(self.pair.job)).source
        self.began = {status.shard: status for status in self.table.source.read_status(None)}

    def now(self) -> list[SlotStatus]:
        return sorted(self.source.read_status(None), key=lambda status: status.shard)

    def after(self, status: SlotStatus) -> Position:
        """The first position of a lane that was created when recording started."""
        return self.began[status.shard].latest.from_here


@pytest.fixture
def followed(pair: Pair) -> Iterator[Followed]:
    pair.write(*((key, key) for key in range(LOADED)))
    session = pair.session()
    with closing(session):
        session.table(TableAsked.of(pair.job)).source.admit()
        table = session.table(TableAsked.of(pair.job))
        for status in table.source.open_lanes():
            if table.slot is not None:
                table.slot.put(status.shard, status.kept.at(status.latest), nothing)
        yield Followed(pair, session, table)


def written(pair: Pair, seed: int, count: int = 25) -> dict[int, int]:
    """Write transactions of a few changes; return the rows afterwards."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    rows = {key: key for key in range(LOADED)}
    for _ in range(count):
        changes: list[tuple[int, int | None]] = []
        for key in {chance.randrange(LOADED * 2) for _ in range(chance.randint(1, 6))}:
            value = None if key in rows and chance.random() < 0.3 else chance.randrange(1_000)
            changes.append((key, value))
            if value is None:
                del rows[key]
            else:
                rows[key] = value
        pair.write(*changes)
    return rows


def test_each_shard_has_a_status_of_this_very_table(followed: Followed) -> None:
    source = followed.source
    statuses = followed.now()
    assert [status.shard for status in statuses] == sorted(source.nodes())
    for status in statuses:
        assert [one.shard for one in source.read_status(status.shard)] == [status.shard]
        assert status.fingerprint == source.identify().text
        assert status.oldest is None or status.oldest <= status.latest


def test_texts_of_positions_are_read_back(followed: Followed, seed: int) -> None:
    written(followed.pair, seed)
    positions = followed.pair.kind.positions
    for status in followed.now():
        standing = followed.source.reached(followed.after(status), None, None, status)
        for position in (status.latest.from_here, followed.after(status), standing):
            assert positions.position(position.text) == position
            assert positions.place(position.text) == position
        for place in (status.latest, status.latest.place, standing.place):
            assert positions.place(place.text) == place
            assert positions.place(place.shown).order(place) is Order.SAME
            assert len(place.shown) <= 16
        assert positions.kept(status.kept.text) == status.kept
    for damaged in ("", "x", "1:2", "-1", "1/2/3/4/5"):
        for read_text in (positions.position, positions.place):
            with pytest.raises(ValueError):
                read_text(damaged)


def test_positions_are_in_one_order(followed: Followed, seed: int) -> None:
    met: dict[Shard, list[Position]] = {}
    for turn in range(4):
        for status in followed.now():
            met.setdefault(status.shard, []).append(status.latest)
        written(followed.pair, seed + turn, 3)
    for places in met.values():
        for one, other in pairwise(places):
            assert one <= other and not other < one
            assert one.order(other) is not Order.UNKNOWN
            assert (one < other) == (other > one) == (not other <= one)
            assert one.pair[0] <= other.pair[0]
            assert (other.ahead_of(one) or 0) >= 0 and not one.ahead_of(other)
        assert places[0] < places[-1]
        for one in places:
            assert one.order(one.place) is one.order(one.from_here.place) is Order.SAME


@pytest.mark.parametrize("width", [1, 3, 1_000_000])
def test_ranges_end_in_the_stream_and_are_read_again_the_same(followed: Followed, width: int, seed: int) -> None:
    written(followed.pair, seed)
    source = followed.source
    for status in followed.now():
        after, pieces = followed.after(status), []
        while after < status.latest:
            end = source.next_range(after, status, width)
            assert after < end <= status.latest
            rows = read(source, status, after, end)
            assert read(source, status, after, end) == rows
            assert source.has_changes(status.shard, after, end) == bool(rows)
            stands = source.reached(after, end, top(rows, end), status)
            assert all(pair_of_row <= stands.pair for pair_of_row in map(_pair, rows))
            assert stands.order(end) is Order.SAME
            stored = followed.pair.kind.positions.position(stands.text)
            assert not source.has_changes(status.shard, stored, end)
            pieces += rows
            after = stands
        assert pieces == read(source, status, followed.after(status), status.latest)


def _pair(row: Fields) -> tuple[int, int]:
    return int(row[0] or 0), int(row[1] or 0)


def test_the_events_make_the_table_out_of_its_copy(followed: Followed, seed: int) -> None:
    wanted = written(followed.pair, seed)
    rows = {key: key for key in range(LOADED)}
    for status in followed.now():
        for _, _, kind, key, value in read(followed.source, status, followed.after(status), status.latest):
            if kind in ("d", "B"):
                rows.pop(int(key or 0), None)
            else:
                assert kind in ("I", "U")
                rows[int(key or 0)] = int(value or 0)
    assert rows == wanted


def test_chunks_hold_each_row_once(followed: Followed) -> None:
    for size in (1, 7, LOADED, LOADED * 10):
        found = []
        for chunk in followed.source.plan_chunks(size):
            out = io.BytesIO()
            count = followed.source.copy_chunk(chunk, out)
            out.seek(0)
            rows = list(rows_of(out))
            assert len(rows) == count
            found += rows
        assert sorted(int(key or 0) for key, _ in found) == list(range(LOADED)), size


def test_a_status_shows_what_was_confirmed(followed: Followed, seed: int) -> None:
    written(followed.pair, seed)
    for first in followed.now():
        position = followed.source.reached(followed.after(first), None, None, first)
        asked = Confirmation(position, first.kept, first.fingerprint, lambda: None, nothing)
        slot = followed.table.slot
        kept = first.kept
        if slot is not None:
            with followed.table.pinned():
                kept = slot.confirm(first, asked)
        (seen,) = followed.table.source.read_status(first.shard)
        assert seen.kept == kept == first.kept.at(position)
        assert kept.settled and not kept.missing
        assert followed.pair.kind.traits.shares_position == kept.shared
        assert followed.pair.kind.traits.keeps_positions == bool(kept.marks) == (kept.furthest is not None)
        if kept.furthest is not None:
            assert kept.furthest.order(position) is Order.SAME


def test_no_session_is_waited_for_where_no_session_writes(followed: Followed) -> None:
    opened = followed.source.open_now()
    until(lambda: opened is None or opened.left() == "", 20, "no transaction to be open")


def test_rows_shown_to_people_are_those_that_are_read(followed: Followed, seed: int) -> None:
    written(followed.pair, seed)
    inspector = followed.session.table(TableAsked(TABLE, "", followed.pair.job.binlog)).inspector
    identity, shown, count = inspector.describe(), 0, 0
    for status in followed.now():
        after = followed.after(status)
        for most in (10_000, 4):
            newest = (inspector.latest(status.shard) or {})[status.shard.name]
            found = inspector.rows(identity, status.shard, Range(after, newest, most, lambda: False), Filter())
            rows = read(followed.source, status, after, status.latest)
            assert [row.kind for row in found.rows] == [row[2] for row in rows][: len(found.rows)]
            assert found.whole == (len(found.rows) == len(rows)) or len(found.rows) >= most
        shown, count = shown + len(found.rows), count + len(rows)
    assert shown and count


def test_looking_makes_no_slot_and_names_the_newest_place(pair: Pair) -> None:
    with closing(pair.session()) as session:
        table = session.table(TableAsked(TABLE, "", pair.job.binlog))
        before = read_table(table.inspector, TABLE)
        assert not before.points and before.ttl is not None
        nodes = {shard.name for shard in table.source.nodes()}
        assert set(table.inspector.latest() or nodes) >= nodes
        assert not read_table(table.inspector, TABLE).points
        try:
            assert (
                read_table(session.table(TableAsked("ods.none", "", pair.job.binlog)).inspector, "ods.none").ttl is None
            )
        except Refused as error:
            assert "ods.none" in error.message


def test_the_whole_table_is_read_for_a_comparison(followed: Followed) -> None:
    with closing(followed.pair.source_tables()) as tables:
        table = tables.table(TABLE)
        assert (table.count(WHOLE), table.checksum(WHOLE).rows) == (LOADED, LOADED)
        parts = WHOLE.cut(table.split(WHOLE, 7))
        assert len(parts) > 2
        assert sum(table.checksum(part).total for part in parts) == table.checksum(WHOLE).total
        assert [one.name for one in table.key] == ["id"]
