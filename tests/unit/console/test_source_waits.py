"""Sessions that wait at a source and what they wait for, on screens and in `--json`; hidden ones are shown as such."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any, cast

from slotkeeper.console.cli.output import json_text
from slotkeeper.console.monitor.snapshot import JobFacts, Level
from slotkeeper.console.tui.screens.locks import of_server
from slotkeeper.console.views.locks import (
    NONE_WAITS_AT_SOURCE,
    ServerWaits,
    blocking_lines,
    jobs_of,
    lock_rows,
    of_reports,
    seen_lines,
    source_values,
    wait_lines,
    wait_of,
)
from slotkeeper.core.domain.locks import Blocker
from slotkeeper.core.domain.report import JobReport
from slotkeeper.core.domain.source_waits import DDL, VACUUM_FULL, SlotBehind, SourceWait
from slotkeeper.core.services.looking import LocksSeen

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
AT = NOW.timestamp()
EVE = Blocker(4711, "eve", "gsql", "active", statement="VACUUM FULL ods.orders")
OURS = Blocker(99, "etl", "slotkeeper/orders/3.ab/copy", "idle in transaction")
VACUUM = SourceWait(EVE, VACUUM_FULL, "ods.orders", AT - 20, (SlotBehind("s1", "orders", ("dn_1",)),), behind=2)
ALTER = SourceWait(Blocker(5, "bob", None), DDL, "ods.items", AT - 5, sessions=(OURS,))
PLACE = "dws1 (h:8000)"


def seen(*waits: SourceWait, hidden: str = "") -> ServerWaits:
    return of_server(LocksSeen("dws1", PLACE, is_source=True, source_waits=waits, hidden=hidden), "")


def test_each_wait_is_a_row_and_the_longest_is_first() -> None:
    first, second = lock_rows([seen(ALTER, VACUUM)], NOW)
    assert (first.cells["waiting"], first.cells["thing"], first.cells["pid"]) == (
        "VACUUM FULL, pid 4711", "ods.orders", "slot",
    )  # fmt: skip
    assert (second.cells["waiting"], second.cells["pid"], second.cells["user"]) == ("DDL, pid 5", "99", "etl")
    assert wait_of([seen(ALTER, VACUUM)], first.key) is VACUUM and jobs_of(ALTER) == ("orders",)


def test_the_panel_says_who_waits_for_whom_who_follows_and_what_ends_it() -> None:
    (problem, after, act) = (text for _, text in wait_lines(VACUUM, NOW))
    assert "waits for slot s1 (job orders) on dn_1 for 20 s" in problem
    assert after == "Impact   2 sessions wait after it" and "slotkeeper jobs drain orders" in act


def test_a_login_that_sees_nothing_says_hidden_and_never_that_no_session_waits() -> None:
    ((level, text),) = seen_lines([seen(hidden="hidden: other logins' sessions cannot be seen")])
    assert level is Level.UNKNOWN and "hidden" in text and NONE_WAITS_AT_SOURCE not in text
    ((calm, text),) = seen_lines([seen()])
    assert calm is Level.FINE and text == f"{NONE_WAITS_AT_SOURCE}: source {PLACE}"
    ((_, text),) = seen_lines([seen(VACUUM, hidden="hidden: x")])
    assert text.startswith("1 session waits for slots or sessions of jobs") and text.endswith("; hidden: x")


def job(**report: Any) -> JobFacts:
    made = SimpleNamespace(
        name="orders", report=JobReport("orders", "r1", "RUNNING", **report), current=True, last_known=False
    )
    return cast("JobFacts", made)


def test_reports_tell_the_same_and_a_slot_is_shown_with_who_waits_for_it() -> None:
    told = job(source_waits=(VACUUM,), source_untold="hidden: x")
    (one,) = of_reports([told])
    assert (one.at_source, one.waits, one.hidden) == (True, (VACUUM,), "hidden: x")
    ((level, text),) = blocking_lines([told, told], "ods.orders", "s1", NOW)
    assert level is Level.WARNING and text.startswith("VACUUM FULL on ods.orders (pid 4711")
    assert blocking_lines([told], "ods.orders", "s2", NOW) == blocking_lines([told], "ods.items", "s1", NOW) == []
    told.last_known = True  # type: ignore[misc]
    assert blocking_lines([told], "ods.orders", "s1", NOW) == [], "nothing waits for a job without a process"


def test_json_has_null_for_what_is_hidden() -> None:
    found = json.loads(json_text(source_values(ALTER, AT)))
    assert (found["behind"], found["fails_at"], found["limit"], found["waiter"]["statement"]) == (
        None,
        None,
        None,
        None,
    )
    assert found["sessions"][0]["job"] == "orders" and found["seconds"] == 5.0
