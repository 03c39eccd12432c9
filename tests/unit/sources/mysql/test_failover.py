"""The position of a lane at another server: where exactly its transactions end there, or the transactions that prevent
it.

`Written` is a server's binlog in memory. The oracle of the random histories ignores files: it searches for the number
of transactions after which exactly the lane's transactions are executed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from uuid import UUID

import pytest

from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.sources.mysql.events import Header, MariaGtid, MysqlGtid, Parser
from slotkeeper.core.sources.mysql.failover import FileStart, Group, Walk, contains, translate
from slotkeeper.core.sources.mysql.position import Gtids, MariaState, Mark, MysqlPosition, MysqlSet, parse_position
from tests.support import mysql_bytes as made

A, B = UUID("3e11fa47-71ca-11e1-9e33-c80aa9429562"), UUID("4e11fa47-71ca-11e1-9e33-c80aa9429562")
HEADER = Header(1_700_000_000, 162, 1, 40, 0, 0)
Event = MariaGtid | MysqlGtid


def maria(text: str) -> MariaGtid:
    domain, server, sequence = map(int, text.split("-"))
    return MariaGtid(HEADER, domain, server, sequence, False, False, False)


def mysql(source: UUID, number: int, tag: str = "") -> MysqlGtid:
    return MysqlGtid(HEADER, source, number, tag)


def state_of(events: Sequence[Event], kind: type[Gtids]) -> Gtids:
    """The state after these transactions, by the definition of each kind."""
    if kind is MariaState:
        found = MariaState({}, whole=True)
        for one in events:
            assert isinstance(one, MariaGtid)
            found = found.after(one.domain, one.server, one.sequence)
        return found
    done = MysqlSet({})
    for one in events:
        assert isinstance(one, MysqlGtid) and one.source is not None
        done = done.after(one.source, one.number, one.tag)
    return done


class Written:
    """A binlog of `events` in files of `per_file` transactions, of which the first `purged` files were purged."""

    def __init__(self, events: Sequence[Event], per_file: int = 3, purged: int = 0, times: int = 100) -> None:
        self.events, self.per_file, self.purged = list(events), per_file, purged
        self.kind: type[Gtids] = MysqlSet if events and isinstance(events[0], MysqlGtid) else MariaState
        self.times = times

    def files(self) -> list[str]:
        return [f"other.{n + 1:06d}" for n in range(self.purged, len(self.events) // self.per_file + 1)]

    def _before(self, file: str) -> int:
        return (int(file.rpartition(".")[2]) - 1) * self.per_file

    def start(self, file: str) -> FileStart:
        return FileStart(file, (int(file[-6:]), 2), state_of(self.events[: self._before(file)], self.kind))

    def groups(self, file: str) -> Iterator[FileStart | Group]:
        for name in self.files()[self.files().index(file) :]:
            yield self.start(name)
            first = self._before(name)
            for n, event in enumerate(self.events[first : first + self.per_file]):
                yield Group(event, self.times + first + n, name, 100 * n + 4, 100 * n + 104)

    def executed(self) -> Gtids:
        return state_of(self.events, self.kind)

    def after(self, position: MysqlPosition) -> int:
        """The number of transactions before a position of this binlog."""
        return self._before(position.file) + position.offset // 100


def lane(events: Sequence[Event], mark: Mark | None = None, kind: type[Gtids] = MariaState) -> MysqlPosition:
    return MysqlPosition("first.000009", 5_000, state_of(events, kind), born=(9, 1), mark=mark)


def history(*gtids: str) -> list[Event]:
    return [maria(one) for one in gtids]


HISTORY = history(*(f"0-1-{n}" for n in range(1, 11)))


def moved(position: MysqlPosition, log: Written) -> MysqlPosition:
    return translate(position, log.executed(), log)


def refused(
    position: MysqlPosition, log: Written, words: str, name: TroubleName = TroubleName.POSITIONS_DIFFER
) -> None:
    with pytest.raises(Trouble) as raised:
        moved(position, log)
    assert raised.value.name is name and words in raised.value.message, raised.value


@pytest.mark.parametrize("count", range(1, 11))
@pytest.mark.parametrize("per_file", [1, 3, 20])
def test_the_position_is_after_exactly_the_lanes_transactions(count: int, per_file: int) -> None:
    log = Written([*HISTORY, *history("0-2-11", "0-2-12")], per_file)
    position = lane(HISTORY[:count], Mark(f"0-1-{count}", 99 + count))
    found = moved(position, log)
    assert log.after(found) == count and found.gtids == position.gtids
    assert found.born == (int(found.file[-6:]), 2) and found.mark == position.mark


def test_prepared_transactions_are_searched_for_again_because_they_are_elsewhere_there() -> None:
    from slotkeeper.core.sources.mysql.position import PendingXa

    position = replace(lane(HISTORY[:3], Mark("0-1-3", 102)), pending=(PendingXa("1-61-", 9, 40),))
    assert moved(position, Written(HISTORY)).pending == ()


def test_what_the_server_lacks_is_named() -> None:
    refused(lane(HISTORY, Mark("0-1-10", 109)), Written(HISTORY[:7]), "that the job has applied: 0-1-8 to 0-1-10")
    refused(lane(HISTORY, Mark("0-1-10", 109)), Written(HISTORY[:9]), "that the job has applied: 0-1-10 ")
    other = history("0-7-1", "0-7-2")
    refused(lane(HISTORY, Mark("0-1-10", 109)), Written(other), "that the job has applied: up to 0-1-10")


def test_what_the_server_has_purged_is_named() -> None:
    log = Written(HISTORY, purged=2)
    refused(lane(HISTORY[:4], Mark("0-1-4", 103)), log, "not applied: 0-1-5 to 0-1-6", TroubleName.SLOT_LOST)
    mark = Mark("0-1-7", 106)
    assert log.after(moved(lane(HISTORY[:7], mark), log)) == 7, "the first available one"
    refused(lane(HISTORY[:6], Mark("0-1-6", 105)), log, "has purged 0-1-6, by which its history")


def test_a_transaction_of_its_own_before_the_lanes_last_one_is_named() -> None:
    errant = [*HISTORY[:5], *history("0-2-6", "0-2-7"), *HISTORY[5:]]
    refused(lane(HISTORY[:8], Mark("0-1-8", 109)), Written(errant), "that the job lacks: 0-2-6, 0-2-7")
    assert Written(errant).after(moved(lane(HISTORY[:5], Mark("0-1-5", 104)), Written(errant))) == 5, "its future"
    refused(lane(HISTORY[:8], Mark("0-1-8", 109)), Written(errant, 1, 6), "0-2-6", TroubleName.SLOT_LOST)


def test_domains_in_another_order_are_refused_and_a_domain_that_follows_is_read() -> None:
    ours = history("0-1-1", "5-1-1", "0-1-2")
    there = history("0-1-1", "0-1-2", "5-1-1", "0-1-3")
    refused(lane(ours[:2], Mark("5-1-1", 102)), Written(there), "that the job lacks: 0-1-2")
    log = Written([*ours, *history("7-3-1")])
    assert log.after(moved(lane(ours, Mark("0-1-2", 102)), log)) == 3
    refused(lane([*ours, *history("7-3-1")], Mark("7-3-1", 103)), Written(ours), "applied: up to 7-3-1")


def test_gaps_in_the_numbers_are_no_missing_transactions() -> None:
    gaps = history("0-1-1", "0-1-5", "0-1-100", "0-2-101")
    log = Written(gaps)
    assert log.after(moved(lane(gaps[:2], Mark("0-1-5", 101)), log)) == 2
    assert log.after(moved(lane(gaps, Mark("0-2-101", 103)), log)) == 4


def test_numbers_that_fall_in_a_domain_are_read_in_their_order() -> None:
    """Without gtid_strict_mode, a server can write a lower number after a higher number of another server."""
    falling = history("0-1-10", "0-2-5", "0-2-6", "0-1-11")
    for count in range(1, 5):
        log = Written(falling, 2)
        assert log.after(moved(lane(falling[:count], Mark("0-1-10", 100)), log)) == count


def test_a_server_that_was_set_up_from_a_backup_need_not_show_what_was_before_it() -> None:
    """It was once the source, as server 2; its binlog starts after a restored copy of the data."""
    ours = history("0-2-1", "0-2-2", "0-1-3", "0-1-4", "0-1-5")
    log = Written(history("0-1-4", "0-1-5", "0-2-6", "0-2-7"))
    assert log.after(moved(lane(ours, Mark("0-1-5", 101)), log)) == 2
    reversed_ = Written(history("0-1-4", "0-1-5", "0-2-2", "0-2-7"), 10)
    refused(lane(ours, Mark("0-1-5", 101)), reversed_, "executed 0-2-2 after the job's last transaction")


def test_the_same_gtids_at_another_time_are_another_history() -> None:
    refused(lane(HISTORY[:4], Mark("0-1-4", 103)), Written(HISTORY, times=500), "another history with the same GTIDs")
    refused(lane(HISTORY[:6], Mark("0-1-4", 103)), Written(HISTORY, times=500), "another history with the same GTIDs")


def test_without_gtids_or_a_mark_no_other_server_is_accepted() -> None:
    refused(replace(lane(HISTORY[:4]), gtids=None), Written(HISTORY), "contains no GTIDs")
    refused(lane(HISTORY[:4]), Written(HISTORY), "cannot be recognized")
    unknown = replace(lane(HISTORY[:4], Mark("0-1-4", 103)), gtids=MariaState({0: (1, 4)}))
    refused(unknown, Written(HISTORY), "unknown which servers have written before")


def test_sets_of_mysql_are_translated_with_their_tags() -> None:
    events: list[Event] = [mysql(A, 1), mysql(A, 1, "red"), mysql(A, 2), mysql(B, 7), mysql(A, 2, "red"), mysql(A, 3)]
    for count in range(1, 7):
        log = Written(events, 2)
        assert log.after(moved(lane(events[:count], kind=MysqlSet), log)) == count
    red = lane(events[:5], kind=MysqlSet)
    refused(red, Written(events[:4]), f"applied: {A}:red:2 ")
    errant: list[Event] = [*events[:2], mysql(B, 1), *events[2:]]
    refused(red, Written(errant), f"that the job lacks: {B}:1")
    refused(red, Written([*events[:2], MysqlGtid(HEADER, None, 0), *events[2:]][:0] or events[:0]), "lacks")


def drawn(chance: random.Random, kind: type[Gtids]) -> list[Event]:
    """A history of several sources, each with rising numbers."""
    sources = [(domain, server) for domain in range(chance.randint(1, 2)) for server in range(1, 3)]
    last, found = dict.fromkeys(sources, 0), list[Event]()
    for _ in range(chance.randint(1, 12)):
        one = chance.choice(sources)
        last[one] += chance.choice([1, 1, 3]) if kind is MariaState else 1
        if kind is MariaState:
            found.append(maria(f"{one[0]}-{one[1]}-{last[one]}"))
        else:
            found.append(mysql((A, B)[one[1] - 1], last[one], ("", "red")[one[0]]))
    return found


@pytest.mark.parametrize("kind", [MariaState, MysqlSet])
def test_drawn_histories_are_translated_as_the_definition_says(kind: type[Gtids], seed: int) -> None:
    print(f"seed {seed}")
    chance, found, without = random.Random(f"{seed} {kind.__name__}"), 0, 0
    for _ in range(600):
        mine = drawn(chance, kind)
        count = chance.randint(1, len(mine))
        there = list(mine)
        # transactions that are moved, missing, or written by the server itself
        for _ in range(chance.choice([0, 0, 1, 2])):
            act, at = chance.randrange(3), chance.randrange(len(there) + 1)
            if act == 0 and len(there) > 1:
                last = there.pop()
                at = min(at, len(there))
                # the numbers of a server increase: no transaction moves before another one of the same source
                at = max(at, *(n + 1 for n, one in enumerate(there) if _source(one) == _source(last)), 0)
                there.insert(at, last)
            elif act == 1 and there:
                del there[min(at, len(there) - 1)]
            else:
                there.insert(at, maria(f"9-9-{chance.randrange(9) + 1}") if kind is MariaState else mysql(B, 90))
        if not there:
            continue
        position = lane(mine[:count], Mark(_gtid(mine[0]), 0), kind)
        log = Written(there, chance.randint(1, 4))
        log.purged = min(chance.choice([0, 0, 0, 1]), len(log.files()) - 1)
        position = replace(position, mark=None if kind is MysqlSet else _mark(log, mine))
        expected = _by_definition(position.gtids, mine[:count], there, log)
        try:
            assert log.after(moved(position, log)) == expected, (position.text, there)
            found += 1
        except Trouble:
            assert expected is None, (position.text, [_gtid(one) for one in there], log.per_file, log.purged)
            without += 1
    assert found > 100 and without > 100, (found, without)


def _source(event: Event) -> tuple[object, object]:
    return (event.domain, event.server) if isinstance(event, MariaGtid) else (event.source, event.tag)


def _gtid(event: Event) -> str:
    from slotkeeper.core.sources.mysql.transactions import gtid_text

    return gtid_text(event)


def _mark(log: Written, mine: Sequence[Event]) -> Mark:
    """A mark that is in the log; these tests do not search for it."""
    kept = log.events[log.purged * log.per_file :]
    shared = [n for n, one in enumerate(log.events) if one in kept and one in mine]
    if not shared:
        return Mark(_gtid(mine[0]), 0)
    return Mark(_gtid(log.events[shared[0]]), log.times + shared[0])


def _by_definition(wanted: Gtids | None, mine: Sequence[Event], there: Sequence[Event], log: Written) -> int | None:
    """The number of transactions after which exactly `mine` are executed, none if there is no such number.

    A state of MariaDB does not show a transaction that a replica left out before others of the same server, or before
    its binlog began.
    """
    assert wanted is not None
    mark_is_there = log.kind is MysqlSet or any(one in mine for one in there[log.purged * log.per_file :])
    for count in range(log.purged * log.per_file, len(there) + 1):
        state = state_of(there[:count], log.kind)
        if not {_gtid(one) for one in there[:count]} <= {_gtid(one) for one in mine} or state != wanted:
            continue
        if isinstance(state, MariaState) and isinstance(wanted, MariaState):
            if any(one in mine for one in there[count:]):
                return None
            if any(wanted.each[source] != last for source, last in state.each.items()):
                continue
        marked = not isinstance(wanted, MariaState) or _finds_mark(log, mine, count)
        return count if marked and mark_is_there else None
    return None


def _finds_mark(log: Written, mine: Sequence[Event], count: int) -> bool:
    mark = _mark(log, mine)
    numbers = [n for n, one in enumerate(log.events) if _gtid(one) == mark.gtid]
    return bool(numbers) and log.purged * log.per_file <= numbers[0] < count


# -- bytes ------------------------------------------------------------------------------------------------------------

FORMAT = bytes.fromhex(
    "8540e7620f010000007a0000007e00000001000400382e302e3239000000000000000000000000000000000000000000000000000000"
    "00000000000000000000000000000000000000000013000d0008000000000400040000006200041a08000000080808020000000a0a0a"
    "2a2a001234000a28000138291d26"
)
PREVIOUS = bytes.fromhex(
    "8540e762230100000047000000c50000008000010000000000000083759871114111edb12d0242ac1300030100000000000000010000"
    "00000000000600000000000000af1059cc"
)
FIRST = bytes.fromhex(
    "a040e76221010000004f0000001401000000000183759871114111edb12d0242ac130003060000000000000002000000000000000001"
    "000000000000004c9ce52125e505fc31019d380100f8e32278"
)
"""The first events of maxwell.binlog.000004, which MySQL 8.0.29 wrote; the events between the last two are left out."""


def test_a_file_of_a_real_mysql_starts_with_the_set_before_it() -> None:
    first, group = Walk("maxwell.000004").items(iter(b"\0" + one for one in (FORMAT, PREVIOUS, FIRST)))
    assert isinstance(first, FileStart) and isinstance(group, Group)
    assert first.before.text == "83759871-1141-11ed-b12d-0242ac130003:1-5" and first.born == (1_659_322_501, 1)
    assert (group.gtid, group.time) == ("83759871-1141-11ed-b12d-0242ac130003:6", 1_659_322_528_799_820)


def numbers(*values: int) -> bytes:
    """Numbers in the format of MySQL's serialization library."""
    found = b""
    for value in values:
        more = max(0, (value.bit_length() - 1) // 7)
        found += (value << more + 1 | (1 << more) - 1).to_bytes(more + 1, "little")
    return found


def tagged(source: UUID, number: int, tag: str, original: int = 0) -> bytes:
    """The body of a GTID with a tag: version, size, last field that counts, then fields and values."""
    fields = numbers(0, 1, 1, *source.bytes, 2, number << 1, 3, len(tag)) + tag.encode()
    fields += numbers(4, 0, 5, 2, 6, 1_700_000_000_000_009) + (numbers(7, original) if original else b"")
    fields += numbers(8, 300, 9, 80_400)
    return numbers(1, len(fields) + 4, 9) + fields


@pytest.mark.parametrize("original", [0, 1_700_000_000_000_001])
def test_a_gtid_with_a_tag_is_read_with_its_time(original: int) -> None:
    parser = Parser()
    parser.parse(made.format_description(version="8.4.8"))
    found = parser.parse(made.event(42, tagged(A, 77, "daily_load", original), checksum=True))
    assert isinstance(found, MysqlGtid)
    time = original or 1_700_000_000_000_009
    assert (found.source, found.number, found.tag, found.committed) == (A, 77, "daily_load", time)


def test_a_set_with_tags_has_the_servers_encoding() -> None:
    done = MysqlSet.parse(f"{A}:1-5:tag_a:1:tag_b:1")
    untagged = A.bytes.hex() + "00" + "01" + "00" * 7 + "01" + "00" * 7 + "06" + "00" * 7
    entries = [A.bytes.hex() + f"0a7461675f6{n}" + "01" + "00" * 7 + "01" + "00" * 7 + "02" + "00" * 7 for n in (1, 2)]
    assert done.encoded.hex() == "0103000000000001" + untagged + "".join(entries)
    assert MysqlSet.decode(done.encoded) == done
    plain = MysqlSet.parse(f"{A}:1-5:9,{B}:3")
    assert MysqlSet.decode(plain.encoded) == plain and plain.encoded[:8] == b"\2" + bytes(7)


def test_sets_are_what_sets_of_numbers_are(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(300):
        drawn_sets = [{(chance.choice("ab"), chance.randint(1, 9)) for _ in range(chance.randint(0, 9))} for _ in "xy"]
        one, other = (state_of([mysql(A, n, tag) for tag, n in sorted(some)], MysqlSet) for some in drawn_sets)
        assert isinstance(one, MysqlSet) and isinstance(other, MysqlSet)
        left = {(tag, n) for tag, n in drawn_sets[0] if one.minus(other).contains(A, n, tag)}
        assert left == drawn_sets[0] - drawn_sets[1] and one.covers(other) == (drawn_sets[0] >= drawn_sets[1])
        assert not one.done or MysqlSet.parse(one.text) == one == MysqlSet.decode(one.encoded)
        assert all(contains(one, mysql(A, n, tag)) == ((tag, n) in drawn_sets[0]) for tag in "ab" for n in range(1, 10))


def test_a_position_is_read_back_with_its_history_and_its_mark() -> None:
    state = MariaState.of_list([(0, 2, 5), (0, 1, 7), (3, 9, 1)])
    for gtids in (state, MariaState({}, whole=True), MysqlSet.parse(f"{A}:1-5:red:2"), None):
        position = MysqlPosition("b.000003", 99, gtids, born=(5, 1), mark=Mark(f"{A}:red:2", 17) if gtids else None)
        again = parse_position(position.text)
        assert (again.text, again.mark, again.born) == (position.text, position.mark, position.born)
        if isinstance(gtids, MariaState) and isinstance(again.gtids, MariaState):
            assert (again.gtids.whole, again.gtids.others) == (True, gtids.others)
        assert "~" not in position.plain and "!" not in position.plain
