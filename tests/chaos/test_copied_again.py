"""A large table is copied again under writes: equal afterwards, and its changes arrive about as soon as before."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.spec import ChannelSpec
from slotkeeper.demo.markers import percentile
from tests.fault.test_copied_again import Requests
from tests.support import maria as marias
from tests.support.pairs import TABLE, MakeMysqlPair, MysqlPair
from tests.support.pairs import make_mysql_pair as make_mysql_pair
from tests.support.shapes import MemoryAudit
from tests.support.waiting import until

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1_200)]
ROWS = 500_000
BEFORE = 400
"""The number of changes whose delay is measured before the copy."""
MOST = 2.0
"""The maximum ratio of the delays' 99th percentile during the copy to that before it."""


@dataclass
class Delays:
    """Seconds from the commit of a change at the source until the sink shows it or a later one."""

    found: list[float] = field(default_factory=list)
    committed: dict[int, float] = field(default_factory=dict)

    def p99(self) -> float:
        seconds = percentile(sorted(self.found), 0.99)
        assert seconds is not None
        return seconds


@contextmanager
def measured(pair: MysqlPair, first: int) -> Iterator[Delays]:
    """Change one row ten times per second, and 20 others with it, and wait for each change in the sink."""
    delays, ended, last = Delays(), threading.Event(), first

    def write() -> None:
        nonlocal last
        with closing(marias.log_in(pair.server)) as writer:
            while not ended.wait(0.1):
                others = range(last * 7_919 % ROWS, ROWS, ROWS // 20)
                writer.rows(f"UPDATE {TABLE} SET v = {last} WHERE id IN (1, {', '.join(map(str, others))})")
                delays.committed[last] = time.monotonic()
                last += 1

    def watch() -> None:
        seen = first - 1
        with closing(pair.mirror.sink()) as sink, sink.cursor() as cursor:
            sink.autocommit = True
            while not ended.wait(0.02):
                cursor.execute("SELECT v FROM mart.t WHERE id = 1")
                ((value,),), now = cursor.fetchall(), time.monotonic()
                for number in range(seen + 1, int(value) + 1):
                    delays.found.append(now - delays.committed.get(number, now))
                seen = max(seen, int(value))

    threads = [threading.Thread(target=one) for one in (write, watch)]
    for thread in threads:
        thread.start()
    try:
        yield delays
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def test_a_large_table_is_copied_again_beside_its_changes(make_mysql_pair: MakeMysqlPair) -> None:
    pair, requests = make_mysql_pair("id INT PRIMARY KEY, v INT"), Requests()
    mirror = pair.mirror
    mirror.job = replace(mirror.job, channels=(ChannelSpec(TABLE, "mart.t", create_target=True),))
    mirror.audit, mirror.again = MemoryAudit(), requests
    pair.run(f"INSERT INTO {TABLE} SELECT seq, 0 FROM seq_1_to_{ROWS}")
    mirror.start().wait_running(600)
    with measured(pair, 1) as before:
        until(lambda: len(before.found) >= BEFORE, 120, "the changes before the copy")
    mirror.query(mirror.sink, "DELETE FROM mart.t WHERE id % 9 = 0 RETURNING id")
    began = time.monotonic()
    requests.known[TABLE] = False
    with measured(pair, 1_000_000) as beside:
        pair.wait(lambda: TABLE not in requests.known, 600, "the copy to end")
    seconds = time.monotonic() - began
    pair.wait_equal(120)
    assert JobEvent.COPIED_AGAIN in mirror.heard.events and mirror.heard.events.count(JobEvent.COPY_BEGAN) == 1
    mirror.stop()
    print(f"{ROWS} rows in {seconds:.0f} s; p99 {before.p99():.2f} s before, {beside.p99():.2f} s beside")
    assert beside.p99() <= MOST * before.p99()
