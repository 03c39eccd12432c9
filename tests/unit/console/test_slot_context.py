"""The context of a slot: its job, an unfinished reset, the last operations, and the SQL for psql."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from slotkeeper.console.monitor.snapshot import JobFacts, Level, Local, TableSeen
from slotkeeper.console.views import slot_history
from slotkeeper.console.views.slots import all_slots, slot_lines, slot_rows
from slotkeeper.core.domain.audit import Actor, AuditLine, Phase
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.reset import Backup, OpenReset
from slotkeeper.core.services.slot_commands import Polled
from slotkeeper.core.slots.status import TableRetained, TableSlots
from slotkeeper.core.sources.dws import words as dws_words
from slotkeeper.core.sources.dws.position import DwsPosition
from tests.tui.filled import NOW, planted, polled, slot

ACTOR = Actor("li.wei", "host1", 7, uid=1000)
INTENT = AuditLine(
    NOW - timedelta(days=2), ACTOR, "slots reset", "a1", Phase.INTENT, "dws1 ods.orders slot orders_slot", "INC-7"
)
OUTCOME = replace(INTENT, phase=Phase.OUTCOME, outcome="done", reason="")
OTHER = replace(INTENT, action_id="a2", what="dws1 ods.orders slot orders_slot2")
JOB = JobFacts("orders_rt", Level.CRITICAL, JobState.FAILED, wrong="SLOT LOST")


def seen() -> TableSeen:
    found = planted()
    return TableSeen(
        "dws1",
        "ods.orders",
        NOW,
        found.slots,
        found.retained,
        counted_at=NOW - timedelta(seconds=30),
        manual=dws_words,
    )


def test_the_holder_is_named_with_its_state() -> None:
    rows = {row.cells["slot"]: row for row in slot_rows([seen()], NOW, Local(NOW, jobs=(JOB,)))}
    holders = {name.partition("/")[2]: row.cells["holder"] for name, row in rows.items()}
    assert holders == {"orders_slot": "job ERR", "orders_dr": "external", "dr_copy": "external", "second": "job ?"}
    assert set(slot_history._SHORT) == set(JobState)


def test_numbers_sort_as_numbers_and_what_is_unknown_is_none() -> None:
    rows = {row.cells["slot"].partition("/")[2]: row for row in slot_rows([seen()], NOW)}
    assert rows["orders_slot"].order["unread"] == 24_806_236.0 and rows["dr_copy"].order["left"] is None
    assert rows["orders_slot"].order["age"] == 30.0 and rows["orders_slot"].cells["age"] == "30s"
    assert rows["orders_slot"].cells["bar"] == "#......." and rows["dr_copy"].cells["bar"] == ""


def test_an_unfinished_reset_is_critical_and_says_what_to_type() -> None:
    local = Local(NOW, open_resets=(OpenReset("r1", "j", "ods.orders", "orders_dr"),))
    row = next(one for one in slot_rows([seen()], NOW, local) if one.cells["slot"].endswith("orders_dr"))
    assert row.level is Level.CRITICAL and row.cells["mark"] == "x"
    one = next(each for each in all_slots([seen()]) if each.slot.name == "orders_dr")
    level, said = slot_lines(one, NOW, local)[0]
    assert level is Level.CRITICAL and said.endswith("slotkeeper slots reset --resume ods.orders orders_dr`")
    damaged = Local(NOW, open_resets=(OpenReset("r1", "?", "?", "?"),))
    assert slot_history.open_reset_of(damaged, "a", "b") is not None


def test_the_last_operation_is_this_slots_own_with_its_reason() -> None:
    said = slot_history.last_line([OUTCOME, OTHER, INTENT], "ods.orders", "orders_slot", NOW)
    assert said == 'last operation  2d00h ago  li.wei uid 1000  slots reset "INC-7"  done'
    assert "none from this host" in slot_history.last_line([], "ods.orders", "orders_slot", NOW)
    lost = slot_history.last_line([INTENT], "ods.orders", "orders_slot", NOW)
    assert "no outcome recorded" in lost


def test_the_sql_is_for_the_dn_that_is_meant_and_says_that_it_goes_round_the_guards() -> None:
    view, _ = slot("it's", 1, 5)
    lines = slot_history.manual_sql_lines(dws_words, "ods.orders", view, "dn_2")
    assert "bypasses every guard" in lines[0]
    text = "\n".join(lines)
    assert "pgxc_register_binlog_sync_point('ods.orders', 'it''s', n.node_id, 88512330, false, 88512290)" in text
    assert "n.node_id, 88512300, true, 88512290)" in text and text.endswith("n.node_name = 'dn_2';")
    table = TableSeen("dws1", "t", NOW, *_parts(polled("t", slot("s", 1, 5))), manual=dws_words)
    one = next(iter(all_slots([table])))
    assert [level for level, text in slot_lines(one, NOW) if "pgxc_register" in text] == [Level.REST, Level.REST]


def _parts(found: Polled) -> tuple[TableSlots, TableRetained]:
    return found.slots, found.retained


def test_the_history_has_audit_lines_and_backups_the_newest_first() -> None:
    rest = ("orders_rt", "t", (), (), "li.wei", "2026-11-20T01:00:00+00:00")
    backups = [
        Backup("b1", "dws", "dws1", "ods.orders", "orders_slot", *rest, "INC-1", "p1"),
        Backup("b2", "dws", "dws1", "ods.orders", "elsewhere", *rest, "", "p2"),
    ]
    rows = slot_history.history_rows([OUTCOME, INTENT, OTHER], backups, "ods.orders", "orders_slot")
    assert [row.key for row in rows] == ["backup b1", "a1/outcome", "a1/intent"]
    assert rows[0].cells["said"] == "b1  INC-1" and rows[2].cells["said"] == "reason: INC-7"


def test_what_was_not_counted_yet_is_said() -> None:
    one = next(iter(all_slots([replace(seen(), counted_at=None)])))
    assert (Level.UNKNOWN, "unread rows not counted yet") in slot_lines(one, NOW)


def test_where_nothing_is_registered_the_sql_only_looks_and_speaks_of_no_ttl() -> None:
    class Nothing:
        def status(self, table: str) -> str:
            return "SHOW MASTER STATUS;"

        def register(self, *place: object) -> str:
            return "-- nothing is registered there"

        def grants(self, *server: object) -> list[str]:
            return []

    view, _ = slot("s", 1, 5)
    said = slot_history.manual_sql_lines(Nothing(), "shop.orders", view, None)
    assert said == [slot_history.ONLY_READS, "  SHOW MASTER STATUS;", "  nothing is registered there"]


def test_a_dn_where_nothing_is_registered_retains_nothing_and_uncounted_rows_have_no_number() -> None:
    none = DwsPosition(0, None)
    found = polled("ods.orders", slot("orders_slot", 1, None, live=none, durable=none))
    one = next(iter(all_slots([replace(seen(), slots=found.slots, retained=found.retained)])))
    said = [text for _, text in slot_lines(one, NOW)]
    assert "no confirmed position on dn_1: it retains nothing there" in said
    assert any("its unread rows are lost" in text for text in said), said
