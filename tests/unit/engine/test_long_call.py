"""A call in a thread: its error is raised in the driver, and it is cancelled repeatedly until it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from slotkeeper.core.engine.driver import threads as module
from slotkeeper.core.engine.driver.threads import beside


def waits(let_go: threading.Event) -> Callable[[], None]:
    """A call that ends when the event is set."""

    def call() -> None:
        let_go.wait(20)

    return call


def test_a_call_that_raises_raises_where_it_is_waited_for() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with beside(fail, lambda: None) as going, pytest.raises(ZeroDivisionError):
        while not going.ended(5):
            pass


def test_leaving_the_block_asks_again_until_the_call_ends() -> None:
    let_go, asked = threading.Event(), []

    def cancel() -> None:
        asked.append(let_go)
        if len(asked) == 2:
            let_go.set()

    with beside(waits(let_go), cancel) as going:
        assert not going.ended(0)
    assert let_go.is_set()
    assert len(asked) >= 2, "one request ends one statement, and a call has several"


def test_a_call_that_does_not_end_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GIVEN_UP", 0.0)
    let_go = threading.Event()
    with beside(waits(let_go), lambda: None) as going:
        pass
    assert going.is_alive()
    let_go.set()
    going.join(20)


def test_a_call_that_was_left_behind_once_is_not_waited_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GIVEN_UP", 0.0)
    let_go = threading.Event()
    with beside(waits(let_go), lambda: None) as going:
        going.end()
        before = threading.active_count()
        going.end()
        assert threading.active_count() == before, "a second call requests the end and waits again"
    assert threading.active_count() == before
    let_go.set()
    going.join(20)


def test_a_call_that_answers_no_cancel_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GIVEN_UP", 0.0)
    let_go = threading.Event()
    with beside(waits(let_go), lambda: None, let_go.set) as going:
        pass
    assert let_go.is_set()
    going.join(20)
