"""The background: how often a source is asked, by whom, and that a failing reading ends nothing."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

from textual.message import Message

from console.collector import Collector, LocalSeen, SlotsSeen
from console.looker import Looker
from console.reader import Reader
from core.config.load import load
from core.config.model import Loaded
from core.errors import Unreachable
from core.wiring_verbs import Looked
from tests.support.waiting import until
from tests.tui.filled import StillClock, planted
from tests.unit.config.samples import VALID

EVERY = 0.1


def _loaded(folder: Path) -> Loaded:
    path = folder / "c.toml"
    path.write_text(VALID.replace("[state]", f'[state]\ndir = "{folder / "state"}"'), encoding="utf-8")
    return load(path, {})


def test_a_source_is_asked_at_most_once_per_interval_and_only_while_slots_are_wanted(tmp_path: Path) -> None:
    loaded = _loaded(tmp_path)
    asked: list[float] = []
    got: list[Message] = []

    def look(given: Loaded, source: str, table: str) -> Looked:
        asked.append(time.monotonic())
        return planted()

    collector = Collector(Reader(loaded, loaded.state_dir, StillClock()), Looker(loaded, StillClock(), look), EVERY)
    collector.start(got.append)
    try:
        until(lambda: sum(isinstance(one, LocalSeen) for one in got) > 2, 10, "the store is read again and again")
        assert asked == []
        collector.want("", True)
        for _ in range(20):
            collector.now()
        until(lambda: len(asked) >= 5, 10, "slots are looked at")
        collector.want("", False)
    finally:
        collector.stop()
    assert min(b - a for a, b in itertools.pairwise(asked)) >= EVERY * 0.9
    assert any(isinstance(one, SlotsSeen) and one.table.slots is not None for one in got)


def test_a_source_that_fails_is_asked_again_and_its_reason_is_told(tmp_path: Path) -> None:
    loaded = _loaded(tmp_path)
    got: list[Message] = []
    down = threading.Event()
    down.set()

    def look(given: Loaded, source: str, table: str) -> Looked:
        if down.is_set():
            raise Unreachable("connection refused")
        return planted()

    collector = Collector(Reader(loaded, loaded.state_dir, StillClock()), Looker(loaded, StillClock(), look), EVERY)
    collector.want("", True)
    collector.start(got.append)
    try:
        faults = lambda: [one.table.fault for one in got if isinstance(one, SlotsSeen)]  # noqa: E731
        until(lambda: "connection refused" in faults(), 10, "the reason is told")
        down.clear()
        until(lambda: "" in faults(), 10, "it is asked again")
    finally:
        collector.stop()


def test_a_store_that_cannot_be_read_is_told_and_asked_again(tmp_path: Path) -> None:
    loaded = _loaded(tmp_path)
    loaded.state_dir.write_text("not a folder")
    got: list[Message] = []
    collector = Collector(Reader(loaded, loaded.state_dir, StillClock()), Looker(loaded, StillClock()), EVERY)
    collector.start(got.append)
    try:
        until(lambda: any(isinstance(one, LocalSeen) and one.local.fault for one in got), 10, "the fault is told")
        loaded.state_dir.unlink()
        until(lambda: any(isinstance(one, LocalSeen) and not one.local.fault for one in got), 10, "it is read again")
    finally:
        collector.stop()
