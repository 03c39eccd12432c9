"""The one-line verdict of every screen except Overview."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local, TableSeen
from slotkeeper.console.views import headlines
from slotkeeper.console.views.errors import error_rows, message_first
from slotkeeper.console.views.slots import all_slots, shard_rows, slot_lines, slot_risk, slot_rows, ttl_line
from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.services.slot_commands import Polled
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.state.rows import ErrorRow
from tests.tui.filled import NOW, planted, polled, slot

APART = " \u00b7 "
LATE = ErrorRow("orders_rt", "s", 1, NOW, NOW - timedelta(seconds=2), "source", "08006", "dn_3: refused")
FAILED = JobFacts("orders_rt", Level.CRITICAL, JobState.FAILED, alive=False)


def seen(found: Polled) -> TableSeen:
    return TableSeen("dws1", "ods.orders", NOW, found.slots, found.retained)


ANSWERS = seen(planted())


def test_the_slot_in_most_danger_is_named_with_what_is_lost_and_when() -> None:
    rows = slot_rows([ANSWERS], NOW, Local(NOW))
    worst = next(one for one in all_slots([ANSWERS]) if one.key == rows[0].key)
    found = headlines.of_slots(rows, worst, True, NOW, Local(NOW), APART)
    assert found.level is Level.CRITICAL and found.words.startswith("1 of "), found.words
    assert "orders_slot" in found.words and "unless confirmed" in found.words and "changes unread" in found.words
    assert headlines.of_slots([], None, False, NOW, Local(NOW), APART).words == headlines.NOT_ASKED
    assert headlines.of_slots([], None, True, NOW, Local(NOW), APART).words == headlines.NO_SLOT


def test_a_slot_without_a_position_is_not_at_ease_and_has_neither_time_left_nor_unread_rows() -> None:
    none = {"live": DwsPosition(0, None), "durable": DwsPosition(0, None)}
    awaits = JobFacts("orders_rt", Level.WARNING, JobState.AWAITS_COPY, alive=False)
    lost = replace(FAILED, trouble="SLOT LOST", wrong="SLOT LOST: dn_1: gone")
    empty = slot("orders_slot", 0.1, 66_700, "orders_rt", **none)
    for job, level, left, words in (
        (
            awaits,
            Level.WARNING,
            "-",
            "no confirmed position on 2 of 2 DNs: it retains nothing there until job",
        ),
        (lost, Level.CRITICAL, "LOST", "its unread changes are no longer in any binlog"),
    ):
        local, (one,) = Local(NOW, (job,)), all_slots([seen(polled("ods.orders", empty))])
        (row,) = slot_rows([one.seen], NOW, local)
        assert (row.level, row.cells["left"], row.cells["unread"], row.cells["oldest"]) == (level, left, "-", "-")
        found = headlines.of_slots([row], one, True, NOW, local, APART)
        assert found.level is level and words in found.words
        assert {each.cells["unread"] for each in shard_rows(one, NOW, local=local)} == {"-"}
        said = " ".join(text for _, text in slot_lines(one, NOW, local)) + ttl_line(one, NOW, local=local)
        assert "lost" not in said.replace("slots reset", "") or level is Level.CRITICAL
        assert "% left" not in said and "oldest reader" not in said
        assert slot_risk(one, NOW, local)[0] is level


def test_an_error_comes_with_its_message_and_without_one_the_last_day_is_said_to_be_clear() -> None:
    local = Local(NOW, (FAILED,), errors=(LATE,))
    rows = error_rows(local, {}, NOW)
    found = headlines.of_errors(rows, LATE, local.errors, NOW, APART)
    assert (found.level, found.words, found.job) == (Level.CRITICAL, "orders_rt: dn_3: refused", "orders_rt")
    assert headlines.of_errors([], None, (), NOW, APART).words == "No errors in the last 24 h"
    running = replace(FAILED, level=Level.FINE, state=JobState.RUNNING)
    over = headlines.of_errors(error_rows(Local(NOW, (running,), errors=(LATE,)), {}, NOW), LATE, (LATE,), NOW, APART)
    assert (over.level, over.words) == (Level.FINE, f"No open errors{APART}1 kind recorded, the last 2 s ago")
    old = replace(LATE, last_at=NOW - timedelta(days=2))
    assert headlines.of_errors([], None, (old,), NOW, APART).words == "No errors in the last 24 h"


def test_the_audit_says_who_acted_last_and_what_it_is_for_where_it_is_empty() -> None:
    line = AuditLine(
        NOW - timedelta(hours=1), Actor("eve", "h1", 1), "jobs stop", "1", Phase.OUTCOME, "orders_rt", outcome="done"
    )
    assert headlines.of_audit([line], 0, NOW).words == "Last change 1 h ago: eve (claimed) jobs stop orders_rt"
    assert headlines.of_audit([], 0, NOW).words.startswith("No changes from this host")
    assert headlines.of_audit([line], 2, NOW).level is Level.WARNING


def test_graphs_say_the_most_lag_of_their_time() -> None:
    local = Local(NOW, (replace(FAILED, wrong="gone"),))
    found = headlines.of_graphs("orders_rt", local, (0.4, None, 12.0), "10 minutes", APART)
    assert found.level is Level.CRITICAL
    assert found.words == f"orders_rt FAILED{APART}lag at most 12 s in the last 10 minutes{APART}gone"
    assert headlines.of_graphs("x", local, (), "10 minutes", APART).level is Level.UNKNOWN


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (
            'sink mart (h:5432/m as etl): connection to server at "h" (::1), port 5432 failed: FATAL:  no login x',
            "no login x: sink mart (h:5432/m as etl)",
        ),
        (
            'connection to server on socket "/run/p/.s.PGSQL.5432" failed: Connection refused',
            "Connection refused",
        ),
        ("dn_1: source dws1 (h:8000/d as r) did not answer", "dn_1: did not answer: source dws1 (h:8000/d as r)"),
        ("SLOT LOST: dn_1: the point is gone", "SLOT LOST: dn_1: the point is gone"),
        ("", ""),
    ],
)
def test_a_message_comes_before_the_address_of_its_server(message: str, shown: str) -> None:
    assert message_first(message) == shown


def test_no_name_of_others_reaches_a_line_raw() -> None:
    evil = "a\x1b[31m\u202e[bold]\x07"
    view, retained = slot(evil, 1, 5, evil)
    (one,) = all_slots([seen(polled("t", (view, retained)))])
    said = [
        headlines.of_slot(one, NOW, Local(NOW))[1],
        headlines.of_errors(
            error_rows(Local(NOW, (FAILED,), errors=(LATE,)), {}, NOW), replace(LATE, message=evil), (LATE,), NOW, APART
        ).words,
        headlines.of_audit([AuditLine(NOW, Actor(evil, evil, 1), evil, evil, Phase.OUTCOME, evil)], 0, NOW).words,
        headlines.of_graphs(evil, Local(NOW, (replace(FAILED, name=evil),)), (), "1 hour", APART).words,
    ]
    assert all(not {"\x1b", "\x07", "\u202e"} & set(one) for one in said)
