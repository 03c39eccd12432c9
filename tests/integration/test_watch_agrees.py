"""`slotkeeper watch` shows the same judgement as `status`, including a job's slot and this host."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from slotkeeper.console.commands import watch
from slotkeeper.core.judgement.facts import SlotSeen
from slotkeeper.core.launch import seen
from slotkeeper.core.state import observed
from tests.support.jobs import Jobs


def test_what_is_of_its_slot_and_of_this_machine_is_watched_too(
    jobs: Jobs, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs.start("orders")
    now = datetime.fromtimestamp(jobs.store.now(), timezone.utc)
    ends = now + timedelta(seconds=60)
    observed.put(jobs.store, [SlotSeen("dws1", "ods.orders", "orders_rt", "orders", now, True, ends, 7_200.0)])
    monkeypatch.setattr(seen, "full", lambda path: "no room on /state")
    watch.follow(jobs.store, "orders", False, lambda view: True)
    said = capsys.readouterr().out
    assert said.startswith("x orders  RUNNING")
    assert "no room on /state" in said and "slot orders_rt of ods.orders" in said
