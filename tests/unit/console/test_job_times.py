"""Times since when a reported condition holds: `jobs show --json` prints UTC, as everywhere."""

from __future__ import annotations

import json

from jsonschema import Draft202012Validator

from bench.schemas.records import record
from slotkeeper.console.cli.output import json_text
from slotkeeper.core.domain.locks import Blocker, LockWait


def test_since_when_a_session_waits_is_a_time_and_so_is_what_is_in_front() -> None:
    known, hidden = Blocker(7, "eve", "psql", "active", 1_800_000_000.0), Blocker(8, "fin", "report")
    wait = LockWait(5, "slotkeeper/orders_rt/7", "mart.orders", "ShareLock", 1_800_000_058.0, None, (known, hidden))
    said = json.loads(json_text(wait))
    assert list(Draft202012Validator(record(LockWait)).iter_errors(said)) == []
    assert said["since"].startswith("2027-01-15T08:00:58")
    assert [one["since"] and one["since"][:19] for one in said["blockers"]] == ["2027-01-15T08:00:00", None]
