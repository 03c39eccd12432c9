"""A gate is trusted only after polls of one table have shown commits on other tables, and never if they did not."""

from __future__ import annotations

import random

import pytest

from slotkeeper.core.domain.traits import Newest
from slotkeeper.core.engine.driver.gate import DISTRUST, STRIKES, Gate
from slotkeeper.core.sources.dws.position import DwsPosition


def at(point: int, *names: str) -> dict[str, DwsPosition]:
    return {name: DwsPosition(point, None) for name in names or ("dn_1", "dn_2")}


class Polls:
    """A gate of three tables, and polls that take no time."""

    def __init__(self, newest: Newest = Newest.OBSERVED) -> None:
        self.gate, self.now = Gate(newest), 0.0

    def poll(self, table: str, point: int, rows: bool | None = False) -> None:
        self.now += 1.0
        self.gate.see(table, at(point), rows, self.now, self.now)

    def trusted(self) -> bool:
        return self.gate.trusted(self.now)

    def moved(self) -> set[str]:
        return {table for table in ("a", "b", "c") if self.gate.moved(table)}


def confirmed() -> Polls:
    polls = Polls()
    for table in ("a", "b", "c"):
        polls.poll(table, 100)
    polls.poll("a", 105, rows=True)
    polls.poll("b", 105)
    assert polls.trusted()
    return polls


def test_nothing_is_trusted_before_a_table_without_rows_has_shown_a_commit_on_another() -> None:
    polls = Polls()
    for table in ("a", "b", "c", "a", "b", "c"):
        polls.poll(table, 100)
    assert not polls.trusted()
    polls.poll("a", 105, rows=True)
    assert not polls.trusted(), "only the table has shown its commit"
    polls.poll("b", 105)
    assert polls.trusted()


@pytest.mark.parametrize("rows", [True, None])
def test_a_table_with_rows_of_its_own_confirms_nothing(rows: bool | None) -> None:
    polls = Polls()
    for table in ("a", "b"):
        polls.poll(table, 100)
    polls.poll("a", 105, rows=True)
    polls.poll("b", 107, rows=rows)
    polls.poll("b", 109)
    assert not polls.trusted()


def test_a_table_whose_rows_a_task_applied_confirms_nothing() -> None:
    polls = Polls()
    for table in ("a", "b"):
        polls.poll(table, 100)
    polls.poll("a", 105, rows=True)
    polls.gate.busy("b")
    polls.poll("b", 107)
    assert not polls.trusted()


def test_a_move_concerns_all_tables_but_the_one_that_showed_it_until_they_are_polled() -> None:
    polls = confirmed()
    assert polls.moved() == {"c"}
    polls.poll("c", 105)
    assert polls.moved() == set()
    polls.poll("a", 110, rows=True)
    assert polls.moved() == {"b", "c"}
    polls.gate.clean("b", polls.gate.moves)
    assert polls.moved() == {"c"}
    polls.gate.clean("c", polls.gate.moves - 1)
    assert polls.moved() == {"c"}, "its check began before the move"


def test_a_poll_of_some_shards_leaves_the_table_to_be_polled() -> None:
    polls = confirmed()
    polls.poll("c", 105)
    polls.gate.see_part("c", at(110, "dn_1"), polls.now)
    assert polls.moved() == {"a", "b", "c"}


def test_positions_before_what_another_poll_has_shown_end_the_trust_for_a_while() -> None:
    polls = confirmed()
    for _ in range(STRIKES - 1):
        polls.poll("c", 104)
    assert polls.trusted(), "a server can be slightly behind what it reported to another session"
    polls.poll("c", 104)
    assert not polls.trusted()
    for table in ("a", "b", "c"):
        polls.poll(table, 120)
    polls.poll("a", 125, rows=True)
    polls.poll("b", 125)
    assert not polls.trusted(), "no answer counts for a while"
    polls.now += DISTRUST
    for table in ("a", "b", "c"):
        polls.poll(table, 120)
    polls.poll("a", 125, rows=True)
    polls.poll("b", 125)
    assert polls.trusted()


def test_a_poll_that_was_sent_before_the_answer_of_another_refutes_nothing() -> None:
    polls = confirmed()
    polls.poll("a", 110, rows=True)
    for _ in range(2 * STRIKES):
        polls.gate.see("c", at(105), False, polls.now - 0.5, polls.now)
    assert polls.trusted()
    assert polls.gate.moved("c")


def test_a_confirmation_clears_earlier_strikes() -> None:
    polls, point = confirmed(), 105
    for _ in range(20):
        polls.poll("c", point - 1)
        polls.poll("c", point)
        polls.poll("a", point + 5, rows=True)
        polls.poll("c", point + 5)
        point += 5
    assert polls.trusted()


def test_one_common_position_is_trusted_at_once_and_distrusted_like_any_other() -> None:
    polls = Polls(Newest.COMMON)
    assert polls.trusted()
    polls.poll("a", 100)
    for _ in range(STRIKES):
        polls.poll("b", 90)
    assert not polls.trusted()
    polls.now += DISTRUST
    assert polls.trusted()
    assert polls.moved() == {"a", "b", "c"}, "earlier answers of the server no longer count"


def test_positions_of_single_tables_are_never_trusted() -> None:
    polls = Polls(Newest.OWN)
    for table in ("a", "b", "a", "b"):
        polls.poll(table, int(polls.now))
    assert not polls.trusted()


def test_a_dropped_table_is_forgotten_and_the_others_stay() -> None:
    polls = confirmed()
    polls.poll("c", 105)
    polls.gate.drop("a")
    assert polls.moved() == {"a"}
    assert polls.trusted()


@pytest.mark.parametrize("seed", range(50))
def test_tables_with_positions_of_their_own_are_never_trusted(seed: int) -> None:
    chance, polls = random.Random(seed), Polls()
    newest, applied, point = dict.fromkeys("abc", 100), dict.fromkeys("abc", 100), 100
    for _ in range(300):
        table = chance.choice("abc")
        if chance.random() < 0.3:
            point += chance.randrange(1, 4)
            newest[table] = point
            continue
        rows = newest[table] > applied[table]
        polls.poll(table, newest[table], rows)
        applied[table] = newest[table]
        if rows:
            polls.gate.busy(table)
        assert not polls.trusted(), f"seed {seed}"


@pytest.mark.parametrize("seed", range(50))
def test_in_a_cluster_with_one_position_each_change_makes_its_table_due(seed: int) -> None:
    chance, polls = random.Random(seed), Polls()
    point, unread = 100, dict[str, int]()
    trusted = 0
    for _ in range(300):
        if chance.random() < 0.3:
            point += 1
            unread[chance.choice("abc")] = point
            continue
        table = chance.choice("abc")
        polls.poll(table, point, table in unread)
        if unread.pop(table, None):
            polls.gate.busy(table)
        if polls.trusted():
            trusted += 1
            assert unread.keys() <= polls.moved(), f"seed {seed}"
    assert trusted > 100, f"seed {seed}"
