"""A column is added to a large source table under writes: the target is altered, and no reader waits long."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest

from slotkeeper.core.domain.job import JobEvent
from slotkeeper.core.domain.spec import APPLY, ChannelSpec
from tests.support import maria as marias
from tests.support.pairs import TABLE, MakeMysqlPair
from tests.support.pairs import make_mysql_pair as make_mysql_pair
from tests.support.shapes import MemoryAudit

pytestmark = pytest.mark.chaos
ROWS = 1_000_000
LONGEST_GAP = 10.0


def test_a_column_added_to_a_million_rows_leaves_no_gap_over_ten_seconds(make_mysql_pair: MakeMysqlPair) -> None:
    pair = make_mysql_pair()
    channel = ChannelSpec(TABLE, "mart.t", create_target=True, on_schema_change=APPLY)
    pair.mirror.job = replace(pair.mirror.job, channels=(channel,))
    pair.mirror.audit = MemoryAudit()
    pair.run(f"INSERT INTO {TABLE} SELECT seq, seq FROM seq_1_to_{ROWS}")
    pair.mirror.start().wait_running(600)
    ended = threading.Event()
    writer = marias.log_in(pair.server)

    def write() -> None:
        count = 0
        while not ended.wait(0.05):
            count += 1
            writer.rows(f"UPDATE {TABLE} SET v = {-count} WHERE id = 1")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen, moved, gap, altered = 0, time.monotonic(), 0.0, False
        end = moved + 60
        while time.monotonic() < end:
            ((value,),) = pair.mirror.query(pair.mirror.sink, "SELECT v FROM mart.t WHERE id = 1")
            now = time.monotonic()
            if value != seen:
                gap, seen, moved = max(gap, now - moved), value, now
            if not altered and now > end - 50:
                altered = True
                pair.run(f"ALTER TABLE {TABLE} ADD added INT NOT NULL DEFAULT 7")
        gap = max(gap, time.monotonic() - moved)
    finally:
        ended.set()
        thread.join()
        writer.close()
    print(f"longest gap {gap:.1f} s")
    pair.wait_equal(120)
    events = pair.mirror.heard.events
    pair.mirror.stop()
    assert (events.count(JobEvent.COPY_BEGAN), events.count(JobEvent.RESHAPED)) == (1, 1)
    assert gap < LONGEST_GAP
