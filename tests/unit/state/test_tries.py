"""Requests for an early retry, and their answers, through the store."""

from __future__ import annotations

from pathlib import Path

from slotkeeper.core.domain.tries import Requests, TryAnswer, TryAsked
from slotkeeper.core.state import steering
from slotkeeper.core.state.sqlite import Store
from slotkeeper.core.state.steering import KEPT, StoredTries


class Ticks:
    """A clock that the test advances."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_each_request_is_seen_once_by_everybody_who_began_before_it_and_its_answer_comes_back(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for job in ("orders", "stock"):
            store.register_job(job, "c.toml")
        steering.ask(store, "orders")
        clock = Ticks()
        there = StoredTries(store, "orders", clock)  # type: ignore[arg-type]
        one, other = Requests(there), Requests(there)
        assert one.new() == []
        steering.ask(store, "stock")
        number = steering.ask(store, "orders", "ods.a")
        assert one.new() == [], "read four times a second at most"
        clock.now += 0.3
        assert one.new() == other.new() == [TryAsked(number, "ods.a")]
        assert one.new() == []
        answer = TryAnswer("ods.a", ("dn_1",), ("dn_2",), ("dn_3",), {"dn_4": "its login was refused"})
        one.answer(TryAsked(number, "ods.a"), [answer])
        assert steering.answers(store, number) == [answer]


def test_old_ones_are_forgotten_with_their_answers_and_a_number_never_comes_again(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.register_job("orders", "c.toml")
        there = StoredTries(store, "orders")
        first = steering.ask(store, "orders")
        there.answer(first, [TryAnswer(tried=("dn_1",))])
        numbers = [steering.ask(store, "orders") for _ in range(KEPT + 5)]
        assert numbers == sorted({*numbers}) and numbers[0] > first
        assert steering.answers(store, first) == []
        (row,) = store.read("SELECT count(*) AS n FROM tries_asked")
        assert row["n"] == KEPT
        assert there.last() == numbers[-1]
