"""The texts for a MySQL source, which has no DNs and no slots that expire: stream, GTIDs, purged binlogs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone

from slotkeeper.console.commands import slots
from slotkeeper.console.commands.watch import list_lines
from slotkeeper.console.monitor.snapshot import JobFacts, Level, TableSeen
from slotkeeper.console.views.jobs import JOB_COLUMNS, part_in, parts, sync_line
from slotkeeper.console.views.lanes import lane_columns, lane_gtids
from slotkeeper.console.views.rows import named_by
from slotkeeper.console.views.slots import SlotFacts, shard_columns, slot_columns, slot_lines, slot_rows, ttl_line
from slotkeeper.core.domain.job import JobState
from slotkeeper.core.domain.report import JobReport, LaneReport
from slotkeeper.core.domain.ttl import Purge, Ttl
from slotkeeper.core.slots.status import OwnLane, SlotView, TableRetained, TableSlots, put_together
from slotkeeper.core.sources.mysql.position import POSITIONS, WORDS, parse_position

NOON = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)
PLACE = parse_position("mysql-bin.000003/1234/3-77-200")
DAY = 86_400
PURGE = Purge(
    10 * DAY, "binlog_expire_logs_seconds", "mysql-bin.000002", NOON, PLACE.file, closed_at=NOON - timedelta(days=3),
    gtids=PLACE.gtids_text,
)  # fmt: skip


def lane() -> LaneReport:
    return LaneReport(
        "binlog", 1, "running", "idle", PLACE.text, "3:1234", None, 10, 1.0, shown=PLACE.shown, gtids=PLACE.gtids_text
    )


def job() -> JobFacts:
    report = JobReport("j", "r", "RUNNING", lanes=(lane(),), unit="bytes", place="binlog position", part=POSITIONS.part)
    return JobFacts("j", Level.FINE, JobState.RUNNING, report=report, current=True)


def retained(purge: Purge | None = PURGE) -> TableRetained:
    found = put_together(Ttl(None), None, NOON, None, None, {"s": [OwnLane("binlog", PLACE, PLACE, None)]}, WORDS)
    return replace(found, purges={"s": purge} if purge else {})


def slot(purge: Purge | None = PURGE) -> SlotFacts:
    found = retained(purge)
    slots = TableSlots("maria", "ods.t", (SlotView("s", "j", None),))
    return SlotFacts(TableSeen("maria", "ods.t", NOON, slots, found), slots.slot("s"), found.slot("s"))


def test_no_screen_of_a_mysql_job_or_slot_says_dn() -> None:
    one, facts = job(), slot()
    labels = [column.label for column in lane_columns(one)]
    labels += [column.label for column in named_by(JOB_COLUMNS, {"bytes"}, (), parts([one]))]
    labels += [column.label for column in (*shard_columns(facts), *slot_columns([facts.seen]))]
    behind = list_lines(one, (), NOON)[3][1]
    said = [sync_line(one), behind, *(text for _, text in slot_lines(facts, NOON))]
    assert {"STREAM", "WORST STREAM", "OLDEST STREAM"} <= set(labels)
    assert [text for text in (*labels, *said) if "DN" in text.replace("DNS", "DN").split()] == []
    assert part_in(one) == "stream" and "worst stream binlog of 1" in behind


def test_jobs_of_several_kinds_of_source_have_lanes() -> None:
    other = replace(job(), report=JobReport("k", "r", "RUNNING"))
    labels = [column.label for column in named_by(JOB_COLUMNS, (), (), parts([job(), other]))]
    assert "WORST LANE" in labels and "WORST DN" not in labels


def test_the_gtids_of_a_lanes_position_are_shown_where_its_source_has_some() -> None:
    assert lane_gtids(job(), "binlog") == "GTIDs  3-77-200 at 3:1234"
    assert lane_gtids(job(), "another") == ""
    without = replace(lane(), gtids="")
    assert lane_gtids(replace(job(), report=JobReport("j", "r", "RUNNING", lanes=(without,))), "binlog") == ""


def test_a_slots_screen_says_after_how_many_hours_binlogs_are_purged_and_which_is_still_needed() -> None:
    facts = slot()
    assert ttl_line(facts, NOON) == "binlogs are purged after 240 h (binlog_expire_logs_seconds)"
    said = [text for _, text in slot_lines(facts, NOON)]
    needed = "the oldest binlog that the job needs is mysql-bin.000003"
    assert f"{needed}: it can be purged from 2026-11-28 12:00:00 UTC on (in 7d00h)" in said
    assert "GTIDs of the position: 3-77-200" in said


def test_a_binlog_that_is_needed_and_gone_or_soon_gone_colours_its_slot() -> None:
    for purge, level in (
        (replace(PURGE, there=False, closed_at=None), Level.CRITICAL),
        (replace(PURGE, closed_at=NOON - timedelta(days=9)), Level.CRITICAL),
        (replace(PURGE, closed_at=NOON - timedelta(days=6)), Level.WARNING),
        (replace(PURGE, closed_at=None, written=True), Level.FINE),
        (None, Level.FINE),
    ):
        (row,) = slot_rows([slot(purge).seen], NOON)
        assert row.level is level, purge


def test_slots_show_says_it_in_lines_and_as_json() -> None:
    found = retained()
    assert [*found.purges["s"].lines()] == [
        "binlogs are purged after 240 h (binlog_expire_logs_seconds)",
        "the oldest binlog that the job needs is mysql-bin.000003:"
        " it can be purged from 2026-11-28 12:00:00 UTC on (in 7d00h)",
        "GTIDs of the position: 3-77-200",
    ]
    made = slots.purge_values("s", found)
    assert made is not None and made["needed_file"] == "mysql-bin.000003" and made["gtids"] == "3-77-200"
    assert (made["after_seconds"], made["seconds_left"]) == (10 * DAY, 7 * DAY)
    assert slots.purge_values("s", retained(None)) is None and retained(None).purges == {}


def test_what_is_not_known_or_never_happens_is_said_so() -> None:
    assert replace(PURGE, seconds=None).age_text == "the server's binlog retention is unknown"
    never = replace(PURGE, seconds=0)
    assert never.age_text == "binlogs are purged only by PURGE BINARY LOGS (binlog_expire_logs_seconds is 0)"
    assert never.file_text == "the oldest binlog that the job needs is mysql-bin.000003"
    assert "the server has purged it (oldest now: mysql-bin.000002)" in replace(PURGE, there=False).file_text
    assert "it is not purged" in replace(PURGE, written=True).file_text
    due = PURGE.counted_to(NOON + timedelta(days=8))
    assert "the server purges it when it next starts a new binlog" in due.file_text and due.left == 0
