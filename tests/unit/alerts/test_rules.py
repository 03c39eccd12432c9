"""Which notifications a fault causes, and when. The test sets the clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from slotkeeper.core.alerts.rules import Evaluation, Kind, Notification, Remembered, evaluate, standing
from slotkeeper.core.domain.fault import Ack, Fault, Severity
from tests.unit.alerts.made import GAP, T0, a_fault, at

WARNING, CRITICAL, UNKNOWN = Severity.WARNING, Severity.CRITICAL, Severity.UNKNOWN
NO_ACKS: Mapping[str, Ack] = {}


class Told:
    """A sequence of evaluations, each of which starts from the memory of the one before."""

    def __init__(self) -> None:
        self.firing: Remembered = {}
        self.last = Evaluation({})

    def at(self, seconds: float, *faults: Fault, acks: Mapping[str, Ack] = NO_ACKS, gap: float = GAP) -> list[str]:
        self.last = evaluate(faults, self.firing, acks, gap, at(seconds))
        self.firing = self.last.firing
        return [one.kind.value for one in self.last.notifications]


def test_a_fault_is_reported_when_it_begins_again_after_the_gap_and_once_when_it_ends() -> None:
    told = Told()
    assert told.at(0, a_fault()) == ["fired"]
    assert [told.at(seconds, a_fault()) for seconds in (5, 300, 899)] == [[], [], []]
    assert told.at(900, a_fault()) == ["again"]
    assert told.at(905) == ["cleared"]
    assert told.at(910) == []
    assert told.at(5_000, a_fault()) == ["fired"]


def test_a_worsening_fault_is_reported_at_once_and_an_improving_one_is_not() -> None:
    told = Told()
    told.at(0, a_fault())
    assert told.at(5, a_fault(severity=CRITICAL)) == ["fired"]
    assert told.at(10, a_fault()) == []
    assert told.at(15, a_fault(severity=CRITICAL)) == [], "it has been reported within the interval"
    assert told.at(905, a_fault()) == ["again"]


def test_a_notification_has_a_start_time_even_if_none_was_recorded() -> None:
    told = Told()
    told.at(0, a_fault())
    told.at(40)
    assert [one.began for one in told.last.notifications] == [T0]
    told = Told()
    told.at(0, a_fault(since=at(-300)))
    assert [one.began for one in told.last.notifications] == [at(-300)]


def test_a_fault_that_returns_within_the_gap_is_reported_when_the_gap_has_passed() -> None:
    told = Told()
    told.at(0, a_fault())
    assert told.at(10) == ["cleared"]
    assert told.at(20, a_fault()) == [] and len(list(standing(told.firing))) == 1
    assert told.at(30) == [], "its return was not reported, so its end is not reported either"
    assert told.at(40, a_fault()) == []
    assert told.at(900, a_fault()) == ["fired"]
    assert told.at(905) == ["cleared"]


def test_one_that_comes_back_worse_within_the_gap_waits_as_well() -> None:
    told = Told()
    told.at(0, a_fault())
    told.at(10)
    assert told.at(20, a_fault(severity=CRITICAL)) == []
    assert told.at(900, a_fault(severity=CRITICAL)) == ["fired"]


def test_what_somebody_acknowledged_is_not_told_again_until_it_grows_worse() -> None:
    told, fault = Told(), a_fault()
    told.at(0, fault)
    acks = {fault.ack_keys[0]: Ack("li.wei", at(5))}
    assert told.at(1_000, fault, acks=acks) == []
    assert told.at(1_005, a_fault(severity=CRITICAL), acks=acks) == ["fired"]
    assert told.at(2_000, fault, acks=acks) == []
    assert told.at(2_005, acks=acks) == ["cleared"], "the end of a reported fault is reported"
    assert told.last.ended == {fault.key}


def test_an_acknowledgement_is_not_of_what_began_after_it_nor_of_one_row_more() -> None:
    told, fault = Told(), a_fault(since=at(0))
    acks = {fault.ack_keys[0]: Ack("li.wei", at(5))}
    assert told.at(6, fault, acks=acks) == []
    assert told.at(60, a_fault(since=at(50)), acks=acks) == ["fired"]
    told, three = Told(), a_fault("rows_quarantined", value="3")
    acks = {three.ack_keys[0]: Ack("li.wei", at(5))}
    assert told.at(6, three, acks=acks) == []
    assert told.at(11, a_fault("rows_quarantined", value="4"), acks=acks) == ["fired"]
    assert told.at(16, a_fault("rows_quarantined", value="5"), acks=acks) == [], "one alert, however many rows"


def test_the_end_of_a_silence_is_reported() -> None:
    told, fault = Told(), a_fault()
    acks = {fault.ack_keys[0]: Ack("li.wei", at(0), at(60))}
    assert told.at(5, fault, acks=acks) == []
    assert told.at(60, fault, acks=acks) == ["fired"]
    acks = {fault.ack_keys[0]: Ack("li.wei", at(65), at(7_200))}
    assert told.at(7_199, fault, acks=acks) == []
    assert told.at(7_200, fault, acks=acks) == ["again"]


def test_what_this_judgement_could_not_have_found_is_neither_told_nor_ended() -> None:
    mine, other = a_fault(job="orders"), a_fault(job="stock")
    first = evaluate([mine, other], {}, NO_ACKS, GAP, T0)
    unreadable = a_fault("store_unreadable", UNKNOWN, job="")
    second = evaluate([unreadable], first.firing, NO_ACKS, GAP, at(5), lambda one: one.rule == "store_unreadable")
    assert [(one.kind, one.fault.rule) for one in second.notifications] == [(Kind.FIRED, "store_unreadable")]
    assert second.firing.keys() == {mine.key, other.key, unreadable.key}
    third = evaluate([], second.firing, NO_ACKS, GAP, at(10), lambda one: one.job in ("orders", ""))
    assert [(one.kind, one.fault.key) for one in third.notifications] == [
        (Kind.CLEARED, mine.key), (Kind.CLEARED, unreadable.key),
    ]  # fmt: skip


def test_a_clock_that_was_set_back_tells_nothing_twice() -> None:
    told = Told()
    told.at(10_000, a_fault())
    assert [told.at(seconds, a_fault()) for seconds in (0, 5, 895)] == [[], [], []]
    assert told.at(900, a_fault()) == ["again"]


def test_a_fault_is_known_by_its_rule_job_table_and_thing() -> None:
    told = Told()
    assert told.at(0, a_fault(job="orders"), a_fault(job="stock"), a_fault("driver_crashed")) == ["fired"] * 3
    assert told.at(5, a_fault(job="stock", value="41 s")) == ["cleared"] * 2


RULES = ("lag", "slot_ttl", "sink_fails")
SEVERITIES = [WARNING, CRITICAL, UNKNOWN]
steps = st.lists(
    st.tuples(
        st.floats(0.5, 400), st.dictionaries(st.sampled_from(RULES), st.sampled_from(SEVERITIES)),
        st.sets(st.sampled_from(RULES)), st.booleans(),
    ),
    min_size=1, max_size=60,
)  # fmt: skip


@given(steps, st.sampled_from([5.0, 60.0, 900.0]))
@settings(max_examples=300, deadline=None)
def test_never_two_tellings_within_the_gap_and_always_one_cleared(
    history: list[tuple[float, dict[str, Severity], set[str], bool]], gap: float
) -> None:
    firing: Remembered = {}
    told: list[Notification] = []
    clock, acks = 0.0, dict[str, Ack]()
    for seconds, holding, acked, silent in history:
        clock += seconds
        faults = [a_fault(rule, severity) for rule, severity in holding.items()]
        until = at(clock) + timedelta(seconds=100) if silent else None
        acks |= {one.ack_keys[0]: Ack("li.wei", at(clock), until) for one in faults if one.rule in acked}
        found = evaluate(faults, firing, acks, gap, at(clock))
        firing = found.firing
        acks = {key: ack for key, ack in acks.items() if key.rsplit("\x1f", 2)[0] not in found.ended}
        told += found.notifications
        assert {one.fault.rule for one in standing(firing)} == set(holding)
    for rule in RULES:
        _check([one for one in told if one.fault.rule == rule], gap)


def _check(told: list[Notification], gap: float) -> None:
    last, worst, open_ = None, None, False
    for one in told:
        if one.kind is Kind.CLEARED:
            assert open_, "only a reported fault is reported as ended, once"
            open_ = False
            continue
        worse = open_ and worst is not None and SEVERITIES_BY_WEIGHT[one.fault.severity] > SEVERITIES_BY_WEIGHT[worst]
        assert last is None or worse or (one.at - last).total_seconds() >= gap - 1e-3
        assert open_ or one.kind is Kind.FIRED
        last, worst, open_ = one.at, one.fault.severity, True


SEVERITIES_BY_WEIGHT = {UNKNOWN: 0, WARNING: 1, CRITICAL: 2}
