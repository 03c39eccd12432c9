"""SerialExecutor: each key's work runs one at a time and waits for no other key."""

from __future__ import annotations

import threading

from slotkeeper.core.engine.driver.threads import SHARED_FROM, SerialExecutor, line_of

SOON = 60.0


def test_work_of_one_line_is_done_in_order_and_a_line_that_hangs_retains_no_other() -> None:
    lines, hang, done = SerialExecutor(2), threading.Event(), threading.Event()
    order: list[str] = []

    def hangs() -> None:
        hang.wait(SOON)
        order.append("a1")

    def follows() -> None:
        order.append("a2")
        done.set()

    lines.submit("a", hangs)
    lines.submit("a", follows)
    other = threading.Event()
    lines.submit("b", other.set)
    assert other.wait(SOON)
    assert order == []
    hang.set()
    assert done.wait(SOON)
    assert order == ["a1", "a2"]
    lines.close()


def test_a_failure_ends_its_work_and_not_its_line() -> None:
    lines, gate, done = SerialExecutor(1), threading.Event(), threading.Event()

    def waits() -> None:
        gate.wait(SOON)

    def fails() -> None:
        raise ValueError("reported by no caller")

    lines.submit("a", waits)
    lines.submit("a", fails)
    lines.submit("a", done.set)
    gate.set()
    assert done.wait(SOON)
    lines.close()


def test_what_waits_is_dropped_when_all_is_closed() -> None:
    lines, began, gate = SerialExecutor(1), threading.Event(), threading.Event()
    never: list[str] = []

    def waits() -> None:
        began.set()
        gate.wait(SOON)

    lines.submit("a", waits)
    lines.submit("a", lambda: never.append("done"))
    assert began.wait(SOON)
    lines.close()
    gate.set()
    lines.submit("a", lambda: never.append("begun"))
    assert never == []


def test_many_dns_share_a_bounded_number_of_lines_and_few_have_their_own() -> None:
    ids = range(-32, 32)
    assert len({line_of(one, 64) for one in ids}) == SHARED_FROM
    assert len({line_of(one, 16) for one in list(ids)[:16]}) == 16
