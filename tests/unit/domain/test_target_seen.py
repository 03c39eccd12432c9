"""What one reading of a target proves about the next reading."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slotkeeper.core.domain.target_seen import PARTS, TargetSeen, altered, changed, counts_to, newest, read, renewed

SHAPE = dict.fromkeys(PARTS, "a")
RECORD = TargetSeen(1, 2, "f1", SHAPE, "p", 300, 40, "100:100:")
SAME = replace(RECORD, older=True)


def test_the_same_table_with_a_row_of_old_passes_and_its_reading_is_the_next_record() -> None:
    assert changed(RECORD, SAME) == ""
    assert read(renewed(SAME).text) == RECORD


@pytest.mark.parametrize("text", [None, "", "{}", "[]", "no json", '{"home":1,"later":2}'])
def test_a_record_that_is_not_there_or_of_a_later_version_says_nothing(text: str | None) -> None:
    assert read(text) is None
    assert changed(read(text), replace(SAME, older=False)) == ""


def test_the_newest_record_of_a_tables_lanes_counts() -> None:
    later = replace(RECORD, changes=41, snapshot="99:99:")
    assert newest([RECORD.text, None, later.text]) == later
    again = replace(RECORD, snapshot="1000:1000:")
    assert newest([again.text, RECORD.text]) == again


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (replace(SAME, oid=0), "no longer exists"),
        (replace(SAME, oid=3), "different table of the same name"),
        (replace(SAME, places="q"), "dropped and added again"),
        (replace(SAME, older=False, files="f2"), "was emptied"),
        (replace(SAME, older=False, rows=0), "lost its rows"),
        (replace(SAME, older=False, changes=339, rows=0), "lost its rows"),
        (replace(SAME, older=False, changes=340, files="f2"), "likely emptied"),
    ],
)
def test_what_no_event_of_the_job_explains_is_named(seen: TargetSeen, says: str) -> None:
    assert says in changed(RECORD, seen)


@pytest.mark.parametrize(
    "seen",
    [
        replace(SAME, files="f2"),  # VACUUM FULL, CLUSTER: rows keep their xmin
        replace(SAME, older=False),  # another session rewrote each row in place
        replace(SAME, older=False, changes=340),  # the job may have changed or deleted all 300
        replace(SAME, older=False, changes=340, files="f2", counted=True),  # the same, and VACUUM FULL behind it
        replace(SAME, older=False, changes=39),  # progress went back: SINK OLDER is named elsewhere
        replace(SAME, home=9, oid=9, older=False),  # a store that was restored with its target
    ],
)
def test_what_the_job_or_a_harmless_act_explains_passes(seen: TargetSeen) -> None:
    assert changed(RECORD, seen) == ""


def test_a_target_that_was_empty_needs_no_row_of_old() -> None:
    empty = replace(RECORD, rows=0)
    assert changed(empty, replace(SAME, older=False)) == ""
    assert changed(empty, replace(SAME, older=False, files="f2")) == ""
    assert "likely emptied" in changed(empty, replace(SAME, older=False, files="f2", changes=41))


def test_a_copy_under_way_passes_unless_its_storage_is_new_and_empty() -> None:
    copying = replace(RECORD, copying="merge")
    assert changed(copying, replace(SAME, older=False)) == ""
    assert changed(copying, replace(SAME, older=False, files="f2", counted=True)) == ""
    assert "while it was copied" in changed(copying, replace(SAME, older=False, files="f2"))
    assert changed(replace(RECORD, copying="shadow"), replace(SAME, older=False, files="f2")) == ""


def test_a_check_that_did_not_pass_is_said_again_until_a_reset() -> None:
    assert changed(replace(RECORD, why="had a trigger"), SAME) == "had a trigger"


def test_the_parts_of_a_changed_shape_are_named() -> None:
    assert altered(RECORD, SAME) == ""
    assert altered(RECORD, replace(SAME, shape={**SHAPE, "rules": "b"})) == "rules"


def test_a_check_counts_more_than_can_go_between_two_of_them() -> None:
    assert all(counts_to(applied) > applied for applied in (0, 999, 5_000, 49_999))
