"""The background collector: how often it polls a source, when it closes the session, and that a failed read ends
nothing."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

from textual.message import Message

from slotkeeper.console.monitor.poller import Collector, LocalSeen, SlotPoller, SlotsSeen
from slotkeeper.console.monitor.store_reader import Reader
from slotkeeper.core.clock import Clock
from slotkeeper.core.config.load import load
from slotkeeper.core.config.model import Loaded
from slotkeeper.core.errors import Unreachable
from slotkeeper.core.slots.status import PolledTable, PollTurn
from tests.support.waiting import until
from tests.tui.filled import NOW, StillClock, planted
from tests.unit.config.samples import VALID

EVERY = 0.1
TABLE = "ods.orders"


class Planted:
    """A watch of one table that records when it was polled, and how often its session was closed."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.closed = 0
        self.down = threading.Event()

    def __call__(self, loaded: Loaded, source: str, clock: Clock) -> Planted:
        return self

    def turn(self) -> PollTurn:
        self.asked.append(time.monotonic())
        if self.down.is_set():
            return PollTurn(TABLE, None, Unreachable("connection refused"))
        found = planted()
        return PollTurn(TABLE, PolledTable(found.slots, found.retained, NOW, NOW))

    def close(self) -> None:
        self.closed += 1


def _loaded(folder: Path) -> Loaded:
    path = folder / "c.toml"
    path.write_text(VALID.replace("[state]", f'[state]\ndir = "{folder / "state"}"'), encoding="utf-8")
    return load(path, {})


def test_a_source_is_asked_at_most_once_per_interval_and_only_while_slots_are_wanted(tmp_path: Path) -> None:
    loaded, watch = _loaded(tmp_path), Planted()
    got: list[Message] = []
    slot_poller = SlotPoller(loaded, StillClock(), watch)
    collector = Collector(Reader(loaded, loaded.state_dir, StillClock()), slot_poller, EVERY)
    collector.start(got.append)
    try:
        until(lambda: sum(isinstance(one, LocalSeen) for one in got) > 2, 10, "the store is read again and again")
        assert watch.asked == []
        collector.want("", True)
        for _ in range(20):
            collector.now()
        until(lambda: len(watch.asked) >= 5, 10, "slots are looked at")
        collector.want("", False)
    finally:
        collector.stop()
    assert min(b - a for a, b in itertools.pairwise(watch.asked)) >= EVERY * 0.9
    assert any(isinstance(one, SlotsSeen) and one.tables[0].slots is not None for one in got)


def test_the_session_is_given_back_once_slots_have_not_been_shown_for_a_while(tmp_path: Path) -> None:
    loaded, watch = _loaded(tmp_path), Planted()
    slot_poller = SlotPoller(loaded, StillClock(), watch)
    collector = Collector(Reader(loaded, loaded.state_dir, StillClock()), slot_poller, EVERY, linger=0.2)
    collector.want("", True)
    collector.start(lambda message: None)
    try:
        until(lambda: len(watch.asked) >= 2, 10, "slots are looked at")
        assert watch.closed == 0
        collector.want("", False)
        until(lambda: watch.closed == 1, 10, "the session is given back")
        asked = len(watch.asked)
        collector.want("", True)
        until(lambda: len(watch.asked) > asked, 10, "it is asked again when slots are shown again")
    finally:
        collector.stop()
    until(lambda: watch.closed == 2, 10, "the session is given back at the end")


def test_a_failing_source_is_polled_ever_less_often_and_its_reason_is_reported(tmp_path: Path) -> None:
    loaded, watch = _loaded(tmp_path), Planted()
    got: list[Message] = []
    watch.down.set()
    slot_poller = SlotPoller(loaded, StillClock(), watch)
    collector = Collector(Reader(loaded, loaded.state_dir, StillClock()), slot_poller, EVERY)
    collector.want("", True)
    collector.start(got.append)
    try:

        def faults() -> list[str]:
            return [one.tables[0].fault for one in got if isinstance(one, SlotsSeen)]

        until(lambda: len(watch.asked) >= 4, 10, "it is asked again")
        watch.down.clear()
        until(lambda: "" in faults(), 10, "it answers again")
        assert faults()[0] == "connection refused"
    finally:
        collector.stop()
    gaps = [b - a for a, b in itertools.pairwise(watch.asked)][:3]
    assert gaps[0] >= EVERY * 1.9 and gaps[1] >= EVERY * 3.9 and gaps[2] >= EVERY * 7.9


def test_an_unreadable_store_is_reported_and_read_again(tmp_path: Path) -> None:
    loaded = _loaded(tmp_path)
    loaded.state_dir.write_text("not a folder")
    got: list[Message] = []
    collector = Collector(Reader(loaded, loaded.state_dir, StillClock()), SlotPoller(loaded, StillClock()), EVERY)
    collector.start(got.append)
    try:
        until(lambda: any(isinstance(one, LocalSeen) and one.local.fault for one in got), 10, "a reported fault")
        loaded.state_dir.unlink()
        until(lambda: any(isinstance(one, LocalSeen) and not one.local.fault for one in got), 10, "it is read again")
    finally:
        collector.stop()


def test_a_read_that_a_slow_screen_has_not_shown_gives_way_to_a_later_read_only(tmp_path: Path) -> None:
    loaded = _loaded(tmp_path)
    seen = LocalSeen(Reader(loaded, loaded.state_dir, StillClock()).local())
    assert seen.can_replace(LocalSeen(seen.local)) and not seen.can_replace(SlotsSeen())
