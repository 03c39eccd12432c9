"""A table is copied again while it streams: equal afterwards, under writes, faults, restarts and stalled tasks."""

from __future__ import annotations

import random
import threading
from collections.abc import Collection
from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.core.engine.driver import again
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.shapes import MemoryAudit
from tests.support.waiting import until

COLUMNS = "id INT, part INT, v VARCHAR(200), PRIMARY KEY (id, part)"
POINTS = ("after_chunk_read", "after_chunk_staged", "after_chunk_again")
ROWS = 400


class Requests:
    """The requests of one job in memory; implements `slotkeeper.core.ports.again.AgainRequests`."""

    def __init__(self) -> None:
        self.known: dict[str, bool] = {}
        self.told: list[str] = []

    def tables(self) -> Collection[str]:
        return tuple(self.known)

    def is_planned(self, table: str) -> bool:
        return self.known[table]

    def planned(self, table: str) -> None:
        self.known[table] = True

    def end(self, table: str) -> None:
        del self.known[table]

    def tell(self, table: str, text: str) -> None:
        self.told.append(text)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Requests:
    monkeypatch.setattr(again, "CHUNK_ROWS", 25)
    monkeypatch.setattr(again, "CHECK_EVERY", 0.05)
    return Requests()


def prepared(make_mysql_pair: MakeMysqlPair, requests: Requests, columns: str = COLUMNS) -> MysqlPair:
    pair = make_mysql_pair(columns)
    pair.mirror.job = replace(pair.mirror.job, channels=(ChannelSpec(TABLE, "mart.t", create_target=True),))
    pair.mirror.audit, pair.mirror.again = MemoryAudit(), requests
    pair.run(f"INSERT INTO {TABLE} SELECT seq, seq % 3, concat('v', seq) FROM seq_1_to_{ROWS}")
    return pair


def damage(pair: MysqlPair) -> None:
    """Remove, change and add rows of the target, also before its first row and after its last."""
    mirror = pair.mirror
    mirror.query(mirror.sink, "DELETE FROM mart.t WHERE id % 7 = 0 RETURNING id")
    mirror.query(mirror.sink, "UPDATE mart.t SET v = 'damaged' WHERE id % 5 = 0 RETURNING id")
    more = "SELECT n, 9, 'more' FROM generate_series(-3, 1000, 17) n"
    mirror.query(mirror.sink, f"INSERT INTO mart.t (id, part, v) {more} RETURNING id")


def write(pair: MysqlPair, chance: random.Random) -> None:
    """Run one transaction of a few changes; some of them change keys."""
    statements = []
    for _ in range(chance.randint(1, 6)):
        key = chance.randint(-5, ROWS + 50)
        statements.append(
            chance.choice(
                (
                    f"REPLACE INTO {TABLE} VALUES ({key}, {key % 3}, 'w{chance.random()}')",
                    f"DELETE FROM {TABLE} WHERE id = {key}",
                    f"UPDATE {TABLE} SET v = 'u{chance.random()}' WHERE id BETWEEN {key} AND {key + 3}",
                    f"UPDATE IGNORE {TABLE} SET part = part + 10 WHERE id = {key}",
                )
            )
        )
    pair.transaction(*statements)


class Faults:
    """Fails, or stalls tasks until `release`, at the points of a chunk."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._lock = chance, threading.Lock()
        self._stalled = threading.Event()
        self.stalls = True
        """Whether another task can stall; it would only wait for the limits of the first."""
        self.count = dict.fromkeys(("failed", "stalled"), 0)

    def __call__(self, point: str) -> None:
        if point not in POINTS:
            return
        with self._lock:
            drawn, stalled = self._chance.random(), self._stalled
            kind = "failed" if drawn < 0.2 else "stalled" if drawn < 0.4 and self.stalls else ""
            self.stalls &= kind != "stalled"
            if kind:
                self.count[kind] += 1
        if kind == "failed":
            raise RuntimeError(f"a fault {point}")
        if kind:
            stalled.wait(60)

    def release(self) -> None:
        """Let the stalled tasks continue, as if they belonged to an earlier start."""
        self._stalled.set()
        self._stalled, self.stalls = threading.Event(), True


def test_a_damaged_target_equals_its_source_after_a_copy_beside_the_stream(
    make_mysql_pair: MakeMysqlPair, requests: Requests, seed: int
) -> None:
    print(f"seed {seed}")
    chance, pair = random.Random(seed), prepared(make_mysql_pair, requests)
    mirror = pair.mirror
    mirror.start().wait_running()
    pair.wait_equal()
    before = mirror.rows()[0].changes
    damage(pair)
    assert not pair.equal()
    requests.known[TABLE] = False
    written = 0
    while TABLE in requests.known and written < 2_000:
        write(pair, chance)
        written += 1
        if mirror.error is not None:
            raise mirror.error
    pair.wait(lambda: TABLE not in requests.known, 60, f"the copy to end; {requests.told[-3:]}")
    pair.wait_equal()
    assert JobEvent.COPIED_AGAIN in mirror.heard.events and mirror.heard.events.count(JobEvent.COPY_BEGAN) == 1
    assert written and mirror.rows()[0].changes > before
    mirror.stop()
    assert [line.action for line in mirror.audit.lines][:1] == [again.ACTION]  # type: ignore[union-attr]


@pytest.mark.parametrize("restarts", [2, pytest.param(40, marks=pytest.mark.chaos)])
def test_faults_restarts_and_stalled_tasks_lose_nothing_while_a_table_is_copied_again(
    make_mysql_pair: MakeMysqlPair, requests: Requests, seed: int, restarts: int
) -> None:
    print(f"seed {seed}")
    chance, pair = random.Random(seed), prepared(make_mysql_pair, requests)
    mirror, faults = pair.mirror, Faults(random.Random(seed + 1))
    mirror.start().wait_running()
    pair.wait_equal()
    damage(pair)
    for _ in range(restarts):
        requests.known.setdefault(TABLE, False)
        mirror.stop()
        mirror.start(probe=faults).wait_running()
        faults.release()

        def disturbed() -> bool:
            write(pair, chance)
            return not faults.stalls or not requests.known

        pair.wait(disturbed, 60, f"faults; {faults.count} {requests.told[-3:]}")
    mirror.stop()
    mirror.start()
    faults.release()
    pair.wait(lambda: TABLE not in requests.known, 60, f"the copy to end; {requests.told[-3:]}")
    pair.wait_equal()
    mirror.stop()
    print(faults.count)


def test_a_key_that_is_no_number_is_refused_and_the_stream_continues(
    make_mysql_pair: MakeMysqlPair, requests: Requests
) -> None:
    pair = prepared(make_mysql_pair, requests, "id VARCHAR(20) PRIMARY KEY, part INT, v VARCHAR(200)")
    pair.mirror.start().wait_running()
    requests.known[TABLE] = False
    until(lambda: not requests.known, 30, "the request to be refused")
    pair.run(f"DELETE FROM {TABLE} WHERE part = 1")
    pair.wait_equal()
    pair.mirror.stop()
    assert "key column id" in " ".join(requests.told)


def test_a_quarantined_row_that_the_target_accepts_by_now_is_superseded_by_its_chunk(
    make_mysql_pair: MakeMysqlPair, requests: Requests
) -> None:
    pair = prepared(make_mysql_pair, requests)
    mirror = pair.mirror
    mirror.job = replace(mirror.job, sink_options=replace(mirror.job.sink_options, on_bad_row="quarantine"))
    mirror.start().wait_running()
    pair.wait_equal()
    mirror.query(mirror.sink, "ALTER TABLE mart.t ADD CONSTRAINT no_bad CHECK (v <> 'bad'); SELECT 1")
    pair.run(f"UPDATE {TABLE} SET v = 'bad' WHERE id = 7", f"UPDATE {TABLE} SET part = 50, v = 'bad' WHERE id = 8")
    pair.wait(lambda: mirror.heard.rows_quarantined == 2, 60, "two rows to be quarantined")
    mirror.query(mirror.sink, "ALTER TABLE mart.t DROP CONSTRAINT no_bad; SELECT 1")
    damage(pair)
    requests.known[TABLE] = False
    pair.wait(lambda: TABLE not in requests.known, 60, f"the copy to end; {requests.told[-3:]}")
    pair.wait_equal()
    pair.wait(lambda: mirror.heard.rows_quarantined == 0, 60, "no row to be quarantined")
    assert mirror.rows()[0].repeats >= ROWS > mirror.rows()[0].changes, "a chunk's rows are no changes"
    mirror.stop()
    mirror.start().wait_running()
    pair.wait_equal()
    mirror.stop()
