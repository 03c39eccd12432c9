"""Each rule of the protocol switched off is found, with the shortest path to the violation.

Every test also explores the same space with all rules on and finds nothing there: the rule makes the difference, not
the space.
"""

from __future__ import annotations

from .bounds import (
    ALL_RULES,
    COORDINATORS,
    COPIES,
    CREATION_HIDDEN,
    EXCLUSIVE,
    FALLBACK,
    INCLUSIVE,
    KILLED,
    REGISTER,
    REVIVAL,
    STREAM,
    UNSUPPORTED,
    Bounds,
    Server,
)
from .findings import (
    HARM,
    WRONG_ROWS,
    Finding,
    creation_with_all_rules,
    creation_without,
    stream_violation,
    with_all_rules,
    without,
)
from .state import ALARM, HIDDEN, LEADS, LOST, TWICE, Setup
from .stream import run


def broken_without(
    rule: str | tuple[str, ...], bounds: Bounds, server: Server, kinds: frozenset[str] = HARM
) -> Finding:
    assert with_all_rules(bounds, server).verdict == ""
    return without(rule, bounds, server, kinds).tell()


def test_registering_before_the_commit_lets_the_slot_lead_the_row() -> None:
    found = broken_without("commit_before_register", STREAM, EXCLUSIVE)

    assert (found.verdict, found.moves) == (LEADS, 5)


def test_registering_before_the_commit_loses_what_was_not_committed() -> None:
    """Nothing is lost while checks compare row and points, because the job stops. Without that rule, it continues."""
    alone = without("commit_before_register", STREAM, EXCLUSIVE, WRONG_ROWS)
    rules = ("commit_before_register", "compare_row_with_points")
    found = broken_without(rules, STREAM, EXCLUSIVE, WRONG_ROWS)

    assert alone.verdict == "", alone.story
    assert (found.verdict, found.moves) == (LOST, 13)


def test_without_a_progress_row_a_restart_applies_twice() -> None:
    found = broken_without("progress_row", REGISTER, INCLUSIVE)

    assert (found.verdict, found.moves) == (TWICE, 5)


def test_without_a_progress_row_an_old_drivers_task_applies_twice() -> None:
    found = broken_without("progress_row", STREAM, INCLUSIVE)

    assert (found.verdict, found.moves) == (TWICE, 13)


def test_without_the_recheck_a_truncate_leaves_a_silent_hole() -> None:
    found = broken_without("recheck", STREAM, EXCLUSIVE)

    assert (found.verdict, found.moves) == (LOST, 6)


def test_without_a_look_between_the_two_registrations_a_wipe_is_hidden() -> None:
    found = broken_without("check_between", STREAM, EXCLUSIVE)

    assert (found.verdict, found.moves) == (HIDDEN, 5)


def test_a_wipe_hidden_by_two_registrations_loses_events() -> None:
    found = broken_without("check_between", STREAM, EXCLUSIVE, WRONG_ROWS)

    assert (found.verdict, found.moves) == (LOST, 10)


def test_without_the_rows_lock_an_old_and_a_new_driver_hide_a_wipe_together() -> None:
    found = broken_without("row_lock", STREAM, EXCLUSIVE)

    assert (found.verdict, found.moves) == (HIDDEN, 10)


def test_without_the_rows_lock_events_are_lost() -> None:
    found = broken_without("row_lock", STREAM, EXCLUSIVE, WRONG_ROWS)

    assert (found.verdict, found.moves) == (LOST, 15)


def test_a_killed_registrars_call_that_lands_later_hides_a_wipe() -> None:
    found = broken_without("wait_for_late_calls", KILLED, EXCLUSIVE)

    assert (found.verdict, found.moves) == (HIDDEN, 11)


def test_a_killed_registrars_call_that_lands_later_loses_events() -> None:
    found = broken_without("wait_for_late_calls", KILLED, EXCLUSIVE, WRONG_ROWS)

    assert (found.verdict, found.moves) == (LOST, 12)


def test_silence_believed_of_one_coordinators_view_hides_a_wipe() -> None:
    """If the queried coordinator shows every session, the same start is correct."""
    alone = without("silence_of_all_coordinators", KILLED, EXCLUSIVE)
    found = broken_without("silence_of_all_coordinators", COORDINATORS, EXCLUSIVE)

    assert alone.verdict == "", alone.story
    assert (found.verdict, found.moves) == (HIDDEN, 11)


def test_silence_believed_of_one_coordinators_view_loses_events() -> None:
    found = broken_without("silence_of_all_coordinators", COORDINATORS, EXCLUSIVE, WRONG_ROWS)

    assert (found.verdict, found.moves) == (LOST, 12)


def test_an_unanswered_call_that_lands_later_hides_a_wipe_from_its_own_driver() -> None:
    found = broken_without("wait_for_late_calls", REGISTER, EXCLUSIVE)

    assert (found.verdict, found.moves) == (HIDDEN, 10)


def test_a_call_that_lands_later_also_raises_a_false_alarm() -> None:
    found = broken_without("wait_for_late_calls", REGISTER, EXCLUSIVE, frozenset({ALARM}))

    assert (found.verdict, found.moves) == (ALARM, 6)


def test_taking_an_exclusive_latest_as_inclusive_loses_the_boundary() -> None:
    found = broken_without("reread_boundary", STREAM, EXCLUSIVE)

    assert (found.verdict, found.moves) == (LOST, 5)


def test_an_inclusive_latest_needs_no_second_reading_of_the_boundary() -> None:
    found = without("reread_boundary", STREAM, INCLUSIVE)

    assert found.verdict == "", found.story


def test_two_copies_of_one_task_fenced_by_epoch_only_apply_twice() -> None:
    found = broken_without("compare_position", COPIES, EXCLUSIVE)

    assert (found.verdict, found.moves) == (TWICE, 12)


def test_a_sink_that_falls_back_is_not_noticed_unless_looks_compare_row_and_points() -> None:
    """Finding 1 of README.md: a start compares them, a step of a running job must as well."""
    found = broken_without("compare_row_with_points", FALLBACK, EXCLUSIVE)

    assert (found.verdict, found.moves) == (LOST, 17)


def test_while_the_sink_never_falls_back_the_starts_comparison_suffices() -> None:
    found = without("compare_row_with_points", REGISTER, EXCLUSIVE)

    assert found.verdict == "", found.story


def test_a_stalled_registrar_that_resumes_without_its_lock_hides_a_wipe() -> None:
    """Finding 2 of README.md: waiting until a call has ended does not cover a driver that sleeps."""
    found = broken_without("silent_without_lock", REGISTER, EXCLUSIVE)

    assert (found.verdict, found.moves) == (HIDDEN, 11)


def test_a_driver_revived_by_a_sink_that_fell_back_must_wait_as_at_a_start() -> None:
    """Finding 3 of README.md: the fence is part of the state that fell back."""
    found = broken_without("wait_on_new_session", REVIVAL, EXCLUSIVE)

    assert (found.verdict, found.moves) == (HIDDEN, 12)


def test_an_epoch_that_is_given_twice_fences_no_writer() -> None:
    """Finding 4 of README.md: row.epoch + 1 repeats once the row has fallen back."""
    found = broken_without("epochs_never_repeat", REVIVAL, EXCLUSIVE)

    assert (found.verdict, found.moves) == (HIDDEN, 14)


def test_without_the_wait_after_registering_what_was_in_flight_is_lost() -> None:
    assert creation_with_all_rules(EXCLUSIVE).verdict == ""
    found = creation_without("wait_after_registering", EXCLUSIVE).tell()

    assert (found.verdict != "", found.moves) == (True, 11)


def test_a_wait_that_trusts_a_list_with_hidden_sessions_loses_what_was_in_flight() -> None:
    """An ordinary login of DWS sees its own sessions only; if the list shows all sessions, it suffices."""
    alone = creation_without("wait_for_the_snapshots_xmin", EXCLUSIVE)
    assert alone.verdict == "", alone.story
    assert creation_with_all_rules(EXCLUSIVE, CREATION_HIDDEN).verdict == ""
    found = creation_without("wait_for_the_snapshots_xmin", EXCLUSIVE, CREATION_HIDDEN).tell()

    assert (found.verdict != "", found.moves) == (True, 12)


def test_without_the_second_wait_running_is_claimed_too_early() -> None:
    assert creation_with_all_rules(EXCLUSIVE).verdict == ""
    found = creation_without("wait_before_noting", EXCLUSIVE).tell()

    assert (found.verdict != "", found.moves) == (True, 16)


def test_chunks_planned_before_the_wait_miss_the_largest_keys() -> None:
    assert creation_with_all_rules(EXCLUSIVE).verdict == ""
    found = creation_without("plan_after_wait", EXCLUSIVE).tell()

    assert (found.verdict != "", found.moves) == (True, 12)


def test_a_slot_made_after_the_copy_misses_what_was_committed_meanwhile() -> None:
    assert creation_with_all_rules(EXCLUSIVE).verdict == ""
    found = creation_without("register_before_copy", EXCLUSIVE).tell()

    assert (found.verdict != "", found.moves) == (True, 9)


def test_a_server_that_hides_and_purges_the_newest_point_loses_under_all_rules() -> None:
    """Not a fault of the protocol: section 4.2 refuses such a server, and probes for it."""
    space = run(STREAM, UNSUPPORTED, ALL_RULES)

    assert space.broken is not None
    found = stream_violation(space, Setup(STREAM, UNSUPPORTED, ALL_RULES), space.broken).tell()
    assert (found.verdict, found.moves) == (LOST, 15)
