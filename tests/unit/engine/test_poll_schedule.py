"""Polls of many tables use few connections; a DN or table that does not answer never delays the polls of others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from slotkeeper.core.domain.traits import Newest
from slotkeeper.core.engine.driver.gate import Gate
from slotkeeper.core.engine.driver.poll_schedule import (
    ALL_AGAIN,
    DN_AGAIN,
    EARLY,
    FEWEST_CHECKED,
    LINES,
    MOST_CHECKED,
    MOST_TOGETHER,
    Due,
    PollSchedule,
    poll_pause,
)
from slotkeeper.core.sources.dws.position import DwsPosition

LANES = ("dn_1", "dn_2", "dn_3")
ONE = {"t": {lane: place for place, lane in enumerate(LANES)}}


def lanes(table: str) -> tuple[str, ...]:
    return tuple(f"{table}/{lane}" for lane in LANES)


def tables(count: int) -> dict[str, dict[str, int]]:
    return {f"t{n}": {lane: place for place, lane in enumerate(lanes(f"t{n}"))} for n in range(count)}


def idle(*names: Iterable[str]) -> set[str]:
    return {lane for some in names for lane in some}


def together(found: list[Due]) -> list[str]:
    return [one.table for one in found if one.line is not None]


def alone(found: list[Due]) -> set[str]:
    return {lane for one in found for lane in one.lanes if one.line is None}


@pytest.mark.parametrize(
    ("rounds", "seconds"), [(0, 0.5), (1, 0.5), (2, 1.0), (7, 3.5), (19, 9.5), (20, 10.0), (21, 10.0), (5_000, 10.0)]
)
def test_the_pause_between_looks_grows_with_empty_rounds_up_to_its_limit(rounds: int, seconds: float) -> None:
    assert poll_pause(rounds, 500, 10_000) == seconds


def test_while_all_answer_one_query_looks_at_all_idle_lanes_and_no_second_one_beside_it() -> None:
    statuses = PollSchedule(ONE)
    assert statuses.due(idle(LANES), 0) == [Due("t", LANES, 0)]
    assert statuses.due(idle(LANES), 0) == []
    statuses.together_ended("t")
    statuses.paced("t", found=False, now=0, sleep_ms=500, max_sleep_ms=10_000)
    assert statuses.due(idle(LANES), 0.4) == []
    assert statuses.due(set(), 0.6) == [], "without idle lanes, nothing is polled"
    assert statuses.due(idle(LANES), 0.6) == [Due("t", LANES, 0)]


def test_after_a_failure_each_is_looked_at_by_itself_and_the_one_that_hangs_waits_alone() -> None:
    statuses = PollSchedule(ONE)
    statuses.due(idle(LANES), 0)
    statuses.together_failed("t", 2)
    assert alone(statuses.due(idle(LANES), 2)) == {*LANES}
    statuses.alone_ended("t", "dn_2", True, 2)
    statuses.alone_ended("t", "dn_3", True, 2)
    statuses.paced("t", found=False, now=2, sleep_ms=500, max_sleep_ms=10_000)
    assert alone(statuses.due(idle(LANES), 2.5)) == {"dn_2", "dn_3"}


def test_beside_that_it_is_tried_now_and_then_whether_all_answer_again() -> None:
    statuses = PollSchedule(ONE)
    statuses.due(idle(LANES), 0)
    statuses.together_failed("t", 0)
    assert together(statuses.due(set(), ALL_AGAIN - 1)) == []
    assert statuses.due(set(), ALL_AGAIN) == [Due("t", (), 0)]
    assert statuses.due(set(), ALL_AGAIN + 1) == [], "one such query at a time"
    statuses.together_failed("t", ALL_AGAIN + 2)
    assert alone(statuses.due({"dn_2"}, ALL_AGAIN + 3)) == {"dn_2"}
    assert together(statuses.due(set(), 2 * ALL_AGAIN + 2)) == ["t"]
    statuses.together_ended("t")
    found = statuses.due(idle(LANES), 2 * ALL_AGAIN + 3)
    assert found == [Due("t", ("dn_1", "dn_3"), 0)], "the poll of dn_2 is still in progress"


def test_pauses_grow_with_empty_rounds_and_shrink_when_a_lane_is_due() -> None:
    statuses, now, pauses = PollSchedule(ONE), 0.0, []
    statuses.due(idle(LANES), now)
    for found in (False, False, False, True):
        statuses.together_ended("t")
        statuses.paced("t", found, now, 500, 10_000)
        later = now
        while not statuses.due(idle(LANES), later):
            later += 0.25
        pauses.append(later - now)
        now = later
    assert pauses == [0.5, 1.0, 1.5, 0.5]


def test_looks_at_many_tables_take_turns_on_few_lines_the_longest_due_first() -> None:
    many, statuses, now = tables(12 * LINES), PollSchedule(tables(12 * LINES)), 0.0
    all_idle, counts = idle(*many.values()), dict.fromkeys(many, 0)
    for _ in range(20 * 12):
        found = statuses.due(all_idle, now)
        assert len({one.line for one in found}) == len(found) <= LINES
        for one in found:
            counts[one.table] += 1
            statuses.together_ended(one.table)
            statuses.paced(one.table, False, now, 100, 100)
        now += 0.05
    assert max(counts.values()) - min(counts.values()) <= 2, counts


def test_a_table_of_its_own_trouble_is_looked_at_dn_by_dn_and_the_others_are_not() -> None:
    many = tables(2 * LINES)
    statuses, all_idle = PollSchedule(many), idle(*many.values())
    statuses.due(all_idle, 0)
    statuses.together_failed("t0", 2)
    for other in ("t1", "t2", "t3"):
        statuses.together_ended(other)
        statuses.paced(other, False, 2, 500, 10_000)
    found = statuses.due(all_idle, 2)
    assert (together(found), alone(found)) == (["t4", "t5", "t6", "t7"], {*many["t0"]})
    statuses.together_failed("t5", 3)
    assert together(statuses.due(all_idle, 4)) == ["t1"], "others have answered between the two failures"


def test_a_dn_that_hangs_is_found_once_and_not_by_each_table() -> None:
    many = tables(100)
    statuses, all_idle = PollSchedule(many), idle(*many.values())
    statuses.due(all_idle, 0)
    statuses.together_failed("t0", 2)
    statuses.together_failed("t1", 2)
    found = statuses.due(all_idle, 2)
    assert (together(found), len(found)) == ([], len(LANES)), "one poll of each DN at a time"
    for one in found:
        statuses.alone_ended(one.table, one.lanes[0], not one.lanes[0].endswith("dn_3"), 2)
    later = alone(statuses.due(all_idle, 2.1))
    assert {lane[-4:] for lane in later} == {"dn_1", "dn_2"}, "the failed one pauses, and so does its connection"
    assert {lane[-4:] for lane in alone(statuses.due(all_idle, 2 + DN_AGAIN))} == {"dn_3"}


def test_while_a_dn_hangs_one_table_tries_for_all_whether_it_answers_again() -> None:
    many = tables(10)
    statuses, all_idle = PollSchedule(many), idle(*many.values())
    statuses.due(all_idle, 0)
    for table in ("t0", "t1", "t2", "t3"):
        statuses.together_failed(table, 0)
    first = together(statuses.due(all_idle, ALL_AGAIN))
    assert first == ["t2"], "not one of the two that reported before"
    statuses.together_failed(first[0], ALL_AGAIN)
    assert together(statuses.due(all_idle, ALL_AGAIN + 1)) == []
    assert together(statuses.due(all_idle, 2 * ALL_AGAIN)) == ["t3"], "another one, because the first may have a fault"
    statuses.together_ended("t3")
    assert len(together(statuses.due(all_idle, 2 * ALL_AGAIN))) == LINES, "all look together again"


def test_every_table_is_looked_at_dn_by_dn_in_its_turn_while_a_dn_hangs() -> None:
    many = tables(30)
    statuses, all_idle, now = PollSchedule(many), idle(*many.values()), 0.0
    statuses.due(all_idle, now)
    for table in ("t0", "t1", "t2", "t3"):
        statuses.together_failed(table, now)
    counts = dict.fromkeys(all_idle, 0)
    for _ in range(1_000):
        now += 0.01
        for one in statuses.due(all_idle, now):
            if one.line is not None or one.lanes[0].endswith("dn_3"):
                continue  # it hangs
            counts[one.lanes[0]] += 1
            statuses.alone_ended(one.table, one.lanes[0], True, now)
            statuses.paced(one.table, False, now, 100, 100)
    sound = [count for lane, count in counts.items() if not lane.endswith("dn_3")]
    assert min(sound) > 10
    assert max(sound) - min(sound) <= 2


SLEEP, LONGEST = 500, 10_000


class Gated:
    """Tables whose polls end at once, with a gate that is trusted; all lanes are idle but those in `busy`."""

    def __init__(self, count: int) -> None:
        self.tables = tables(count)
        self.schedule = PollSchedule(self.tables, Gate(Newest.COMMON))
        self.now, self.point, self.busy = 0.0, 100, set[str]()
        self.polled: list[str] = []
        self.checks: list[tuple[str, ...]] = []
        self.ends = self.several = True
        """Whether a check ends at once, and whether a poll of several tables succeeds."""
        self.messages = self.largest = 0
        self.wait(150.0)  # until each interval has its maximum
        self.polled.clear()

    def begin_check(self) -> tuple[str, ...]:
        """Move the position, and return the tables of the next check, which does not end."""
        self.point += 1
        self.ends = False
        before = len(self.checks)
        for _ in range(100):
            self.now += 0.05
            self.turn()
        self.ends = True
        (check,) = self.checks[before:]
        del self.checks[before:]
        return check

    def turn(self, found: frozenset[str] = frozenset(), check_takes: float = 0.0, paused: bool = False) -> bool:
        """Let the polls and the check that are due end; return whether there was one."""
        due = self.schedule.due(idle(*self.tables.values()) - self.busy, self.now, paused)
        for one in due:
            if one.checked:
                self.checks.append(one.checked)
                if not self.ends:
                    continue
                moves = self.schedule.gate.moves
                self.now += check_takes
                for table in set(one.checked) - found:
                    self.schedule.gate.clean(table, moves)
                self.schedule.check_ended(found & set(one.checked), self.now)
            elif one.beside and not self.several:
                self.schedule.several_failed([one.table, *(table for table, _ in one.beside)], self.now)
            else:
                self.messages += 1
                self.largest = max(self.largest, 1 + len(one.beside))
                if one.beside:
                    self.schedule.several_ended()
                for table in (one.table, *(table for table, _ in one.beside)):
                    self.polled.append(table)
                    latest = dict.fromkeys(("dn_1", "dn_2", "dn_3"), DwsPosition(self.point, None))
                    self.schedule.together_ended(table, self.now)
                    self.schedule.gate.see(table, latest, False, self.now, self.now)
                    self.schedule.paced(table, False, self.now, SLEEP, LONGEST)
        return bool(due)

    def wait(self, seconds: float, found: frozenset[str] = frozenset(), check_takes: float = 0.0) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 0.05
            self.turn(found, check_takes)


def test_while_nothing_moves_each_table_is_polled_after_its_longest_pause_and_one_each_shortest() -> None:
    gated = Gated(3)
    gated.wait(LONGEST / 1000)
    assert 18 <= len(gated.polled) <= 21, "one poll each shortest pause"
    assert gated.checks == []
    assert {gated.polled.count(table) for table in gated.tables} <= {6, 7}, "the tables take turns"


def test_many_tables_need_no_poll_but_those_after_their_longest_pause() -> None:
    gated = Gated(100)
    gated.wait(3 * LONGEST / 1000)
    assert {gated.polled.count(table) for table in gated.tables} <= {2, 3, 4}
    assert gated.checks == []


def test_a_move_makes_all_other_tables_due_for_one_check_and_those_with_rows_for_a_poll() -> None:
    gated = Gated(5)
    gated.wait(3.0)
    gated.polled.clear()
    gated.point += 1
    gated.wait(2.0, found=frozenset({"t2"}))
    checked = [table for check in gated.checks for table in check]
    assert sorted(checked) == sorted(gated.tables.keys() - {gated.polled[0]}), "all but the one that showed the move"
    assert "t2" in gated.polled


def test_checks_of_many_tables_grow_and_use_a_part_of_the_time() -> None:
    gated = Gated(200)
    gated.wait(LONGEST / 1000)
    began = gated.now
    for _ in range(40):
        gated.point += 1
        gated.wait(0.25, check_takes=0.1)
    sizes = [len(check) for check in gated.checks]
    assert sizes[0] == FEWEST_CHECKED
    assert max(sizes) == MOST_CHECKED
    assert len(sizes) * 0.1 <= (gated.now - began) / 2 + 0.1
    assert {table for check in gated.checks for table in check} == set(gated.tables)


def test_no_table_is_checked_twice_within_a_second() -> None:
    gated, last = Gated(20), dict[str, float]()
    for _ in range(100):
        gated.point += 1
        before = len(gated.checks)
        gated.now += 0.1
        gated.turn()
        for check in gated.checks[before:]:
            for table in check:
                assert gated.now - last.get(table, -9.0) >= EARLY - 0.001
                last[table] = gated.now
    assert last.keys() == gated.tables.keys()


def test_a_table_with_a_lane_in_a_task_is_in_no_check() -> None:
    gated = Gated(5)
    gated.busy = {"t3/dn_2"}
    gated.point += 1
    gated.wait(3.0)
    assert gated.checks
    assert not any("t3" in check for check in gated.checks)


def test_after_a_failed_check_tables_are_polled_after_their_own_pauses_and_checked_again_later() -> None:
    gated = Gated(5)
    gated.wait(3.0)
    check = gated.begin_check()
    gated.schedule.check_failed(gated.now)
    gated.polled.clear()
    gated.wait(8.0)
    assert set(check) <= set(gated.polled)
    assert gated.checks == []
    gated.wait(ALL_AGAIN - 8.0)
    gated.point += 1
    gated.wait(2.0)
    assert gated.checks


def test_a_source_without_such_a_check_has_early_polls_one_at_a_time() -> None:
    gated = Gated(9)
    gated.wait(12.0)
    gated.schedule.check_failed(gated.now, possible=False)
    gated.point += 1
    gated.polled.clear()
    gated.wait(2.0)
    assert set(gated.polled) == set(gated.tables)
    assert gated.checks == []


def test_a_paused_job_polls_as_without_a_gate() -> None:
    gated = Gated(2)
    gated.point += 1
    end = gated.now + LONGEST / 1000
    while gated.now < end:
        gated.now += 0.05
        gated.turn(paused=True)
    assert sorted(gated.polled) == ["t0", "t1"]
    assert gated.checks == []


def test_a_poll_that_was_asked_for_is_due_then_even_if_nothing_has_moved() -> None:
    gated = Gated(50)
    gated.wait(2.0)
    gated.polled.clear()
    gated.schedule.soon("t7", gated.now + 0.2)
    gated.schedule.now("t8", gated.now)
    gated.wait(0.3)
    assert gated.polled[0] == "t8"
    assert "t7" in gated.polled


def test_a_table_that_leaves_during_its_check_is_forgotten() -> None:
    gated = Gated(5)
    gone = gated.begin_check()[0]
    gated.schedule.drop(gone)
    gated.schedule.check_ended({gone}, gated.now)
    del gated.tables[gone]
    gated.wait(3.0)
    assert gone not in gated.polled[-20:]


def test_tables_without_a_move_share_polls_and_each_is_polled_within_its_longest_pause() -> None:
    gated = Gated(200)
    gated.wait(3 * LONGEST / 1000)
    gated.polled.clear()
    gated.messages = 0
    last, longest = dict.fromkeys(gated.tables, gated.now), 0.0
    end = gated.now + 3 * LONGEST / 1000
    while gated.now < end:
        gated.now += 0.05
        before = len(gated.polled)
        gated.turn()
        for table in gated.polled[before:]:
            longest, last[table] = max(longest, gated.now - last[table]), gated.now
    assert longest <= LONGEST / 1000 + 0.1
    assert gated.messages * 4 <= len(gated.polled)
    assert len(gated.polled) <= 200 * 3 * 1.3


def test_after_a_failed_poll_of_several_tables_each_is_polled_by_itself_for_a_while() -> None:
    gated = Gated(200)
    gated.several, gated.messages, gated.largest = False, 0, 0
    gated.wait(LONGEST / 1000 + 2.0)
    assert set(gated.polled) == set(gated.tables)
    assert gated.messages == len(gated.polled)
    gated.several = True
    while gated.largest == 1:
        gated.now += 0.05
        gated.turn()
    assert gated.largest <= MOST_TOGETHER // 2
    gated.wait(ALL_AGAIN)
    assert MOST_TOGETHER // 2 < gated.largest <= MOST_TOGETHER


def test_a_source_that_goes_back_ends_the_trust_and_each_table_is_polled_within_its_longest_pause() -> None:
    gated = Gated(20)
    gated.wait(5.0)
    gated.point -= 50
    gated.polled.clear()
    gated.wait(LONGEST / 1000 + 0.5)
    assert not gated.schedule.gate.trusted(gated.now)
    assert set(gated.polled) == set(gated.tables)
    gated.polled.clear()
    gated.wait(LONGEST / 1000 + 0.5)
    assert set(gated.polled) == set(gated.tables)


def test_the_table_that_showed_a_move_can_leave_and_the_others_are_checked() -> None:
    gated = Gated(5)
    gated.wait(3.0)
    gated.polled.clear()
    gated.point += 1
    while not gated.polled:
        gated.now += 0.05
        gated.turn()
    first = gated.polled[0]
    gated.schedule.drop(first)
    del gated.tables[first]
    gated.wait(2.0)
    assert {table for check in gated.checks for table in check} >= set(gated.tables)


def test_while_a_dn_hangs_no_check_or_shared_poll_begins_and_both_return_with_it() -> None:
    gated = Gated(40)
    gated.several = False
    due = [one for one in gated.schedule.due(idle(*gated.tables.values()), gated.now + LONGEST / 1000) if one.beside]
    gated.now += LONGEST / 1000 + 2.0
    names = [due[0].table, *(table for table, _ in due[0].beside)]
    gated.schedule.several_failed(names, gated.now)
    for other in due[1:]:
        gated.schedule.several_failed([other.table, *(table for table, _ in other.beside)], gated.now)
    failing = [one.table for one in gated.schedule.due(idle(*gated.tables.values()), gated.now) if one.line is not None]
    for table in failing[:2]:
        gated.schedule.together_failed(table, gated.now)
    found = gated.schedule.due(idle(*gated.tables.values()), gated.now)
    assert [one for one in found if one.checked or one.beside] == []
    assert alone(found), "each DN by itself"
