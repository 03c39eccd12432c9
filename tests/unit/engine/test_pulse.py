"""A server that does not answer is reported while it does not answer, and only then."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from slotkeeper.core.clock import SystemClock
from slotkeeper.core.domain.report import Condition
from slotkeeper.core.engine.driver import upkeep
from slotkeeper.core.engine.driver.upkeep import Pinged, Pulse
from slotkeeper.core.errors import AccessRefused, Unreachable
from tests.support.waiting import until

PLACE = "source dws1 (h:1)"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds are hundredths of a second."""
    for name, value in (("EVERY", 0.01), ("SAID_AFTER", 0.05), ("_TURN", 0.01)):
        monkeypatch.setattr(upkeep, name, value)


class Heard:
    """The reported texts, and a server whose behaviour a test sets."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.does: Callable[[], None] = lambda: None
        self.asked = 0
        self.severed = threading.Event()

    def hear(self, text: str, silences: tuple[Condition, ...]) -> None:
        self.texts.append(text)
        assert [one.name for one in silences] == (["source dws1"] if text else [])

    def ask(self) -> None:
        self.asked += 1
        self.does()

    @property
    def last(self) -> str:
        return self.texts[-1] if self.texts else ""


@pytest.fixture
def heard() -> Iterator[Heard]:
    made = Heard()
    running = Pulse([Pinged("source", "source dws1", PLACE, made.ask, made.severed.set)], SystemClock(), made.hear)
    running.start()
    yield made
    running.stop()
    assert made.severed.is_set()


def test_an_unanswered_query_is_reported_while_it_hangs_and_its_end_too(heard: Heard) -> None:
    go_on = threading.Event()

    def hang() -> None:
        go_on.wait(60)

    heard.does = hang
    until(lambda: heard.last.startswith(f"{PLACE} does not answer (for "), 20, "it to be told")
    go_on.set()
    until(lambda: heard.last == "", 20, "its end to be told")


def test_the_time_counts_from_the_first_question_that_got_no_answer(heard: Heard) -> None:
    def silent() -> None:
        raise Unreachable(f"{PLACE} does not answer within 4 s", code="08006").after_limit()

    heard.does = silent
    until(lambda: heard.last.startswith(f"{PLACE} does not answer (for "), 20, "it to be told")
    asked = heard.asked
    until(lambda: heard.asked > asked + 3, 20, "it to be asked again")
    assert heard.last.startswith(f"{PLACE} does not answer (for ")


def test_a_servers_statement_about_itself_is_reported_at_once(heard: Heard) -> None:
    def starting() -> None:
        raise Unreachable(f"{PLACE}: the database system is starting up")

    heard.does = starting
    until(lambda: heard.last.startswith(f"{PLACE}: the database system is starting up (for "), 20, "it to be told")


def test_a_refusal_is_an_answer_and_a_driver_without_news_reports_that_it_lives(heard: Heard) -> None:
    def refused() -> None:
        raise AccessRefused("no")

    heard.does = refused
    until(lambda: len(heard.texts) > 2, 20, "it to report")
    assert set(heard.texts) == {""}
