"""Stopping, resetting and starting a channel does not harm another one; each rule switched off is found."""

from __future__ import annotations

import pytest

from .channels import (
    ALARM,
    ALL_JOB_RULES,
    BESIDE,
    INTERRUPTED,
    JOBS,
    LEADS,
    LOST,
    STOPPED,
    JobBounds,
    JobSetup,
    is_goal,
    run,
    story,
)
from .space import cannot_reach, found, refuse_broken

SHORT = JobBounds("one event each", events=1)


@pytest.mark.parametrize("bounds", JOBS, ids=lambda bounds: bounds.name)
def test_a_reset_of_one_channel_neither_loses_nor_doubles_nor_disturbs_the_other(bounds: JobBounds) -> None:
    space, setup = run(bounds, ALL_JOB_RULES), JobSetup(bounds, ALL_JOB_RULES)
    refuse_broken(space, lambda at: story(space, setup, at), lambda job: is_goal(setup, job))


@pytest.mark.parametrize(
    ("rule", "harm", "moves"),
    [
        ("own_epoch", STOPPED, 4),
        ("ends_only_its_own", INTERRUPTED, 5),
        ("silence_first", LEADS, 12),
        ("named_before_lock", LEADS, 12),
        ("registration_compares_epoch", LEADS, 11),
    ],
)
def test_each_rule_of_channels_that_go_alone_switched_off_is_found(rule: str, harm: str, moves: int) -> None:
    without = ALL_JOB_RULES.without(rule)
    space = run(BESIDE, without)
    assert found(space, lambda at: story(space, JobSetup(BESIDE, without), at)) == (harm, moves)


@pytest.mark.parametrize("rule", ["silence_first", "named_before_lock"])
def test_a_late_registration_of_the_reset_channel_loses_or_stops_it_in_the_end(rule: str) -> None:
    space = run(BESIDE, ALL_JOB_RULES.without(rule), frozenset({LOST, ALARM}))

    assert space.verdict in (LOST, ALARM), space.summary()


@pytest.mark.parametrize("rule", ["lease_given_back", "lease_needed"])
def test_a_channel_whose_lease_is_kept_or_not_asked_for_never_streams_again(rule: str) -> None:
    rules = ALL_JOB_RULES.without(rule)
    space, setup = run(SHORT, rules), JobSetup(SHORT, rules)
    print(f"\n{space.summary()}")

    assert space.broken is None
    assert cannot_reach(space, lambda job: is_goal(setup, job)) != []


def test_a_worker_left_behind_is_fenced_by_the_position_alone_where_a_reset_puts_the_row_back() -> None:
    """The epoch protects what has no position to compare: a copy's chunks, which this model does not contain."""
    assert run(BESIDE, ALL_JOB_RULES.without("commit_compares_epoch")).broken is None
