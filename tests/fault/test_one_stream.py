"""Two channels of one stream whose server keeps one position for it, and purges everything before: nothing is lost."""

from __future__ import annotations

import json
import random
import sqlite3
import threading
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from slotkeeper.console.__main__ import main
from slotkeeper.core.domain.position import Position
from slotkeeper.core.errors import Trouble, TroubleName
from slotkeeper.core.ports.sink import Batch
from tests.support.mirror import At
from tests.support.resetting import Crash
from tests.support.sqlite_pair import kind, sink
from tests.support.sqlite_pair.binlog import Origin, SqlitePosition
from tests.support.sqlite_pair.kills import Case, Kills
from tests.support.sqlite_pair.pair import MakePair, SecondPair
from tests.support.waiting import until

ONE, OTHER = "ods.t", "ods.other"
LOADED = 20


@dataclass
class Tables:
    """Both tables; every transaction is followed by a purge of what the slot has passed."""

    origin: Origin
    chance: random.Random
    rows: dict[int, int] = field(default_factory=dict)

    @property
    def events(self) -> int:
        return sum(self.origin.events.values()) - 2 * LOADED

    def write(self) -> None:
        with self.origin.transaction() as writing:
            for table in self.chance.choice(((ONE,), (OTHER,), (ONE, OTHER))):
                for _ in range(self.chance.randint(1, 6)):
                    key = self.chance.randint(1, 40)
                    if self.chance.random() < 0.3:
                        writing.delete(table, id=key)
                    else:
                        writing.put(table, id=key, v=self.chance.randrange(1_000))
        self.origin.rotate()
        self.origin.purge_read()


def made(make_pair: MakePair) -> SecondPair:
    pair = make_pair(ONE, OTHER, source_kind=kind.KEEPS)
    with pair.origin.transaction() as writing:
        for table in (ONE, OTHER):
            for key in range(1, LOADED + 1):
                writing.put(table, id=key, v=key)
    return pair


def kept(pair: SecondPair) -> SqlitePosition | None:
    with closing(sqlite3.connect(pair.origin.path)) as connection:
        found = connection.execute("SELECT life, file, offset, tx FROM binlog_slots").fetchone()
    return SqlitePosition(*found) if found else None


def least(pair: SecondPair) -> Position:
    positions = [row.position for row in pair.mirror.rows()]
    return min(one for one in positions if one is not None)


def test_the_stream_is_confirmed_up_to_the_least_of_its_channels(make_pair: MakePair) -> None:
    pair = made(make_pair)
    pair.mirror.start().wait_running()
    for key in range(1, 6):
        with pair.origin.transaction() as writing:
            writing.put(ONE, id=key, v=-key)
        pair.origin.rotate()
        pair.wait_equal()
    # an idle channel is advanced as well, so that it does not retain the binlog
    until(lambda: kept(pair) == least(pair) == pair.origin.latest(), 60, "all of it to be confirmed")
    pair.mirror.stop()
    pair.origin.purge_read()
    with pair.origin.transaction() as writing:
        writing.put(ONE, id=1, v=77)
        writing.put(OTHER, id=1, v=77)
    pair.mirror.start().wait_running()
    pair.wait_equal()
    pair.mirror.stop()


def test_a_channel_that_stands_holds_the_binlog_for_itself(
    make_pair: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, goes_on, stands = made(make_pair), threading.Event(), threading.Event()
    write = sink.SqliteSink.write

    def held(self: sink.SqliteSink, batch: Batch) -> None:
        if self.target == "mart.other" and not goes_on.is_set():
            stands.set()
            goes_on.wait(60)
        write(self, batch)

    monkeypatch.setattr(sink.SqliteSink, "write", held)
    pair.mirror.start().wait_running()
    with pair.origin.transaction() as writing:
        writing.put(OTHER, id=1, v=5)
    assert stands.wait(60)
    for key in range(1, 6):
        with pair.origin.transaction() as writing:
            writing.put(ONE, id=key, v=-key)
        pair.origin.rotate()
        until(lambda: pair.compare(pair.mirror.job.channels[0]).equal, 60, "the other channel to go on")
        pair.origin.purge_read()
        confirmed = kept(pair)
        assert confirmed is not None and confirmed <= least(pair) < pair.origin.latest()
    goes_on.set()
    pair.wait_equal()
    pair.mirror.stop()


@pytest.mark.parametrize("point", ["after_first_confirm", "before_first_registration"])
def test_a_first_start_that_is_killed_between_its_channels_begins_again(make_pair: MakePair, point: str) -> None:
    pair = made(make_pair)

    def kill() -> None:
        raise Crash("killed")

    pair.mirror.start(driver_probe=At(point, kill))
    assert isinstance(pair.mirror.wait_error(), Crash)
    pair.mirror.start().wait_running()
    with pair.origin.transaction() as writing:
        writing.put(OTHER, id=1, v=5)
    pair.wait_equal()
    pair.mirror.stop()


@pytest.mark.parametrize("where", ["ahead", "gone"])
def test_a_position_that_somebody_else_moved_is_reported(make_pair: MakePair, where: str) -> None:
    pair = made(make_pair)
    pair.mirror.start().wait_running()
    pair.mirror.stop()
    with closing(sqlite3.connect(pair.origin.path)) as connection, connection:
        ahead = "UPDATE binlog_slots SET file = file + 1, tx = tx + 9"
        connection.execute(ahead if where == "ahead" else "DELETE FROM binlog_slots")
    pair.mirror.start()
    error = pair.mirror.wait_error()
    assert isinstance(error, Trouble)
    assert error.name is (TroubleName.SLOT_MOVED if where == "ahead" else TroubleName.SLOT_LOST)


def test_a_start_that_would_move_it_for_all_channels_is_refused(make_pair: MakePair) -> None:
    pair = made(make_pair)
    pair.mirror.job = replace(pair.mirror.job, start="latest")
    assert "would move the only position" in str(pair.mirror.start().wait_error())
    assert kept(pair) is None


@pytest.mark.parametrize("words", ["reset --to earliest", "register", "drop"])
def test_nothing_is_done_to_a_shared_slot_for_one_of_its_channels(
    make_pair: MakePair, tmp_path: Path, capfd: pytest.CaptureFixture[str], words: str
) -> None:
    pair = made(make_pair)
    pair.mirror.start().wait_running()
    pair.mirror.stop()
    before, (verb, *more) = kept(pair), words.split()
    code = main(["slots", verb, ONE, pair.mirror.job.slot, *more, "--config", str(pair.config(tmp_path))])
    assert (code, kept(pair)) == (3, before)
    assert "one position for all 2 channels" in capfd.readouterr().err


@pytest.mark.parametrize("goal", ["latest", "point", "snapshot"])
def test_a_slot_of_one_channel_is_reset_and_resumes(
    make_pair: MakePair, tmp_path: Path, capfd: pytest.CaptureFixture[str], goal: str
) -> None:
    pair = make_pair(ONE, source_kind=kind.KEEPS)
    with pair.origin.transaction() as writing:
        writing.put(ONE, id=1, v=1)
    pair.mirror.start().wait_running()
    with pair.origin.transaction() as writing:
        writing.put(ONE, id=2, v=2)
    pair.wait_equal()
    pair.mirror.stop()
    path, slot = pair.config(tmp_path), pair.mirror.job.slot
    path.write_text(path.read_text("utf-8").replace('slot = "', 'on_existing = "merge"\nslot = "', 1), encoding="utf-8")
    where = ["--point", str(least(pair).text)] if goal == "point" else []
    asked = ["slots", "reset", ONE, slot, "--config", str(path), "--json"]
    assert main([*asked, "--to", goal, *where]) == 0
    plan = json.loads(capfd.readouterr().out)
    consent = ["--execute", "--plan", plan["id"], "--reason", "a test", "--confirm", slot]
    assert main([*asked, *consent]) == 0, capfd.readouterr().err
    pair.mirror.job = replace(pair.mirror.job, on_existing="merge")
    pair.mirror.start().wait_running()
    with pair.origin.transaction() as writing:
        writing.put(ONE, id=3, v=3)
    pair.wait_equal()
    pair.mirror.stop()


@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.chaos)])
def test_kills_lose_nothing_though_the_server_purges_what_is_confirmed(
    make_pair: MakePair, monkeypatch: pytest.MonkeyPatch, count: int, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    pair, kills = made(make_pair), Kills(chance)
    mirror = pair.mirror
    mirror.job = replace(mirror.job, binlog=replace(mirror.job.binlog, full_sync_binlog_batch_read_size=9))
    mirror.make_runner = lambda: kills.runner(mirror.capacity)
    monkeypatch.setattr(sink, "hook", kills.here)
    tables = Tables(pair.origin, chance)
    case = Case(mirror, tables, kills, pair.file)
    case.start()
    mirror.wait_running()
    case.kill(count)
    found, _ = case.end()
    assert len(found.read) == tables.events
    assert all(pair.compare(channel).equal for channel in mirror.job.channels)
    stands = kept(pair)
    assert stands is not None and stands <= least(pair)
