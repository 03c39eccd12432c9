"""Every kind of failure has its rule; waits are documented and bounded, and never become shorter without a success."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slotkeeper.core import retry
from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.spec import BinlogOptions, ChannelSpec, JobSpec, RetryOptions, SinkOptions
from slotkeeper.core.domain.tries import NO_HISTORY, History
from slotkeeper.core.errors import KINDS, ErrorKind, TopologyTrouble
from slotkeeper.core.retry import Decision, EndQuietly, Failure, Halve, RetryAfter, RetryRules, Stop, after, decide

FIRST_DECISION: dict[ErrorKind, type[Decision]] = {
    ErrorKind.TRANSIENT: RetryAfter,
    ErrorKind.CONTENTION: RetryAfter,
    ErrorKind.ACCESS: RetryAfter,
    ErrorKind.LOGIN: RetryAfter,
    ErrorKind.UNKNOWN: RetryAfter,
    ErrorKind.OVERSIZE: Halve,
    ErrorKind.SUPERSEDED: EndQuietly,
    ErrorKind.TOPOLOGY: Stop,
    ErrorKind.DATA: Stop,
    ErrorKind.OPERATOR: Stop,
    ErrorKind.CONFIG: Stop,
    ErrorKind.DEFECT: Stop,
}
PASSING = (ErrorKind.TRANSIENT, ErrorKind.CONTENTION)
RULES = RetryRules()


def series(failures: list[Failure], rules: RetryRules = RULES, rand: float = 0.0) -> list[Decision]:
    """The decisions about failures that follow each other without a success."""
    history, decisions = NO_HISTORY, []
    for failure in failures:
        decisions.append(decide(failure, history, rules, rand))
        history = after(history, failure, rules)
    return decisions


def waits(failures: list[Failure], rules: RetryRules = RULES, rand: float = 0.0) -> list[float]:
    """The seconds of the decisions to wait."""
    return [d.seconds for d in series(failures, rules, rand) if isinstance(d, RetryAfter)]


@pytest.mark.parametrize("kind", ErrorKind)
def test_every_kind_has_its_row(kind: ErrorKind) -> None:
    assert set(FIRST_DECISION) == set(ErrorKind)
    decision = decide(Failure(kind, "source", 8), NO_HISTORY, RULES, 0.0)
    assert type(decision) is FIRST_DECISION[kind]
    if isinstance(decision, Stop):
        assert decision.reason


@pytest.mark.parametrize("kind", PASSING)
def test_the_source_s_quick_series_waits_interval_times_attempt_plus_random(kind: ErrorKind) -> None:
    rules = RetryRules(source_retries=3, source_interval=200)
    decisions = series([Failure(kind, "source")] * 3, rules, rand=0.5)
    assert decisions == [RetryAfter(0.25, 1), RetryAfter(0.45, 2), RetryAfter(cast(float, pytest.approx(0.65)), 3)]


def test_the_sink_s_quick_series_counts_tries_in_total() -> None:
    rules = RetryRules(flush_tries=3, wait_initial=5_000)
    assert waits([Failure(ErrorKind.CONTENTION, "sink")] * 4, rules, rand=0.9)[:2] == [1.0, 2.0]
    assert series([Failure(ErrorKind.CONTENTION, "sink")] * 3, rules)[2] == RetryAfter(5.0, 3)


@pytest.mark.parametrize("tries", [1, 2, 5])
def test_max_flush_retry_times_bounds_the_quick_series(tries: int) -> None:
    server = Endpoint("a", "h", 1, "d", "u")
    options = SinkOptions(max_flush_retry_times=tries)
    spec = JobSpec("j", server, server, "s", (ChannelSpec("a.b", "c.d"),), sink_options=options)
    rules = replace(RetryRules.of(spec), wait_initial=60_000, wait_max=60_000, wait_jitter=0)
    found = waits([Failure(ErrorKind.CONTENTION, "sink")] * tries, rules, rand=0.0)
    assert found == [*map(float, range(1, tries)), 60.0]


def test_after_the_quick_series_waits_double_up_to_the_longest_without_end() -> None:
    rules = RetryRules(source_retries=1, wait_initial=1_000, wait_max=30_000, wait_jitter=0)
    found = waits([Failure(ErrorKind.TRANSIENT, "source")] * 2_000, rules)
    assert found[:8] == [0.1, 1, 2, 4, 8, 16, 30, 30]
    assert len(found) == 2_000


def test_jitter_is_added_to_long_waits() -> None:
    rules = RetryRules(source_retries=0, wait_initial=1_000, wait_jitter=400)
    assert waits([Failure(ErrorKind.TRANSIENT, "source")], rules, rand=0.5) == [1.2]


def test_a_failure_of_neither_side_has_no_quick_series() -> None:
    assert waits([Failure(ErrorKind.TRANSIENT)]) == [1.0]


def test_a_documented_series_of_no_retries_goes_to_long_waits_at_once() -> None:
    assert waits([Failure(ErrorKind.TRANSIENT, "source")], RetryRules(source_retries=0)) == [1.0]
    assert waits([Failure(ErrorKind.TRANSIENT, "sink")], RetryRules(flush_tries=1)) == [1.0]


def test_give_up_after_ends_long_waits_only() -> None:
    rules = RetryRules(give_up_after=60_000)
    failure = Failure(ErrorKind.TRANSIENT, "source")
    assert isinstance(decide(failure, History(elapsed=90), rules, 0), RetryAfter)
    assert isinstance(decide(failure, History(1, source=1, elapsed=59.9), rules, 0), RetryAfter)
    stopped = decide(failure, History(1, source=1, elapsed=60.0), rules, 0)
    assert stopped == Stop("gave up after 60 s, as set by give_up_after")


def test_a_refused_login_is_tried_twice_whatever_happens_between() -> None:
    denied, lost = Failure(ErrorKind.ACCESS, "source"), Failure(ErrorKind.TRANSIENT, "source")
    first, second = series([denied, denied])
    assert first == RetryAfter(1.0, 1)
    assert isinstance(second, Stop)
    assert isinstance(series([denied, lost, lost, denied])[-1], Stop)


def test_an_unknown_cause_is_tried_ten_times() -> None:
    decisions = series([Failure(ErrorKind.UNKNOWN, "sink")] * 10)
    assert [type(d) for d in decisions] == [RetryAfter] * 9 + [Stop]


@pytest.mark.parametrize("width", [5_000, 4_097, 2])
def test_a_step_that_is_too_large_is_halved_down_to_one_sync_point(width: int) -> None:
    for _ in range(20):
        decision = decide(Failure(ErrorKind.OVERSIZE, "sink", width), NO_HISTORY, RULES, 0.0)
        if isinstance(decision, Stop):
            break
        assert isinstance(decision, Halve)
        assert decision.width == width // 2 >= 1
        width = decision.width
    assert width == 1
    assert "single sync point" in decision.reason  # type: ignore[union-attr]


def test_what_has_no_width_cannot_be_halved() -> None:
    assert isinstance(decide(Failure(ErrorKind.OVERSIZE), NO_HISTORY, RULES, 0), Stop)


def test_halving_takes_nothing_from_the_other_counts() -> None:
    history = after(NO_HISTORY, Failure(ErrorKind.UNKNOWN, "source"), RULES)
    assert after(history, Failure(ErrorKind.OVERSIZE, "source", 9), RULES) == history


def test_rules_and_failures_come_from_the_job_and_the_error() -> None:
    server = Endpoint("a", "h", 1, "d", "u")
    spec = JobSpec(
        "j",
        server,
        server,
        "s",
        (ChannelSpec("a.b", "c.d"),),
        binlog=BinlogOptions(binlog_max_retry_times=7, binlog_retry_interval=8),
        sink_options=SinkOptions(max_flush_retry_times=9),
        retry=RetryOptions(10, 11, 12, 13),
    )
    assert RetryRules.of(spec) == RetryRules(7, 8, 9, 10, 11, 12, 13)
    assert (
        RetryRules.of(replace(spec, binlog=BinlogOptions(), sink_options=SinkOptions(), retry=RetryOptions())) == RULES
    )
    error = KINDS[ErrorKind.CONTENTION]("x", where="sink")
    assert Failure.of(error, 3) == Failure(ErrorKind.CONTENTION, "sink", 3)
    assert Failure.of(TopologyTrouble("x")).kind is ErrorKind.TOPOLOGY


_FAILURES = st.builds(
    Failure, st.sampled_from([*PASSING, ErrorKind.UNKNOWN, ErrorKind.ACCESS]), st.sampled_from(["source", "sink", ""])
)
_RULES = st.builds(
    lambda retries, interval, tries, first, more, jitter: RetryRules(
        retries, interval, tries, first, first + more, jitter
    ),
    st.integers(0, 6),
    st.integers(0, 60_000),
    st.integers(1, 6),
    st.integers(1, 10_000),
    st.integers(0, 100_000),
    st.integers(0, 5_000),
)


@given(st.lists(_FAILURES, max_size=40), _RULES, st.floats(0, 1, exclude_max=True))
def test_waits_are_bounded_and_never_negative(failures: list[Failure], rules: RetryRules, rand: float) -> None:
    quick = max(rules.source_interval / 1000 * rules.source_retries, rules.flush_tries - 1)
    bound = max(quick, rules.wait_max / 1000) + max(0.1, rules.wait_jitter / 1000)
    for seconds in waits(failures, rules, rand):
        assert 0 <= seconds <= bound + 1e-9


@given(st.lists(_FAILURES, max_size=40), _RULES)
def test_waits_never_shrink_without_a_success(failures: list[Failure], rules: RetryRules) -> None:
    found = waits(failures, rules)
    assert found == sorted(found)


@given(st.lists(_FAILURES, max_size=40), _RULES)
def test_attempts_are_numbered_without_gaps(failures: list[Failure], rules: RetryRules) -> None:
    decisions = series(failures, rules)
    numbers = [(n, d.attempt) for n, d in enumerate(decisions, start=1) if isinstance(d, RetryAfter)]
    assert all(n == attempt for n, attempt in numbers)


@given(_FAILURES, _RULES, st.floats(0, 1, exclude_max=True))
def test_the_same_question_gets_the_same_answer(failure: Failure, rules: RetryRules, rand: float) -> None:
    assert decide(failure, NO_HISTORY, rules, rand) == decide(failure, NO_HISTORY, rules, rand)


def test_it_knows_no_clock_no_chance_and_no_driver() -> None:
    tree = ast.parse(Path(retry.__file__).read_text())
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    assert modules == {
        "__future__",
        "dataclasses",
        "typing",
        "slotkeeper.core.domain.tries",
        "slotkeeper.core.domain.spec",
        "slotkeeper.core.errors",
    }


def test_the_vendor_s_five_classes_are_in_the_docstring() -> None:
    for word in ("connection failure", "database read-only", "timeout", "too many connections", "lock failure"):
        assert f"| {word} |" in (retry.__doc__ or "")


def test_a_refused_password_is_compared_again_without_end_each_minute_and_a_first_start_ends_after_two_tries() -> None:
    refused, history, waits = Failure(ErrorKind.LOGIN, "sink"), NO_HISTORY, []
    for _ in range(20):
        decision = decide(refused, history, RetryRules(), 0.5)
        assert isinstance(decision, RetryAfter)
        waits.append(decision.seconds)
        history = after(history, refused, RetryRules())
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60] and set(waits[7:]) == {60}
    first = RetryRules(awaits_secret=False)
    once = after(NO_HISTORY, refused, first)
    assert isinstance(decide(refused, NO_HISTORY, first, 0.5), RetryAfter)
    assert isinstance(decide(refused, once, first, 0.5), Stop)
