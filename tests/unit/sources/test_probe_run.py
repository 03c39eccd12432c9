"""The order of the probe's questions, and which are still asked after a failed group, a lost server, or a timeout."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence

import pytest

from slotkeeper.core.domain.endpoint import Endpoint
from slotkeeper.core.domain.probing import TIME_LIMIT, Answer, Found, Group, ProbeFinding, Questionnaire, short
from slotkeeper.core.domain.slot import Shard
from slotkeeper.core.errors import AccessRefused, Busy, SlotkeeperError, Unclassified, Unreachable
from slotkeeper.core.sources.dws.probe.questions import NEVER_ASKED, QUESTIONS
from slotkeeper.core.sources.dws.probe.scratch import ProbeContext, Scratch
from slotkeeper.core.sources.dws.session import DwsSession

Ask = Callable[[ProbeContext], Iterator[Found]]


def ctx(home: str = "dn_1") -> ProbeContext:
    session = DwsSession(Endpoint("dws1", "h", 1, "d", "u"), "", "test")
    made = ProbeContext(session, Scratch("s", "t", stand_in=False), "s.t")
    made.home = Shard(home, 7)
    return made


def tells(*names: str) -> Ask:
    def group(at: ProbeContext) -> Iterator[Found]:
        for name in names:
            yield name, ProbeFinding("yes"), f"seen by {at.table}"

    return group


def fails(error: SlotkeeperError, *names: str) -> Ask:
    def group(at: ProbeContext) -> Iterator[Found]:
        yield from tells(*names)(at)
        raise error

    return group


def asked(
    groups: Sequence[Group[ProbeContext]], at: ProbeContext | None = None, ticks: float = 0.0
) -> dict[str, Answer]:
    times = itertools.count(0.0, ticks)
    made = at or ctx()
    asks = Questionnaire(QUESTIONS, NEVER_ASKED, groups)
    found = asks.run(made, lambda said: None, lambda: next(times), made.lacks)
    return {one.question.name: one for one in found}


@pytest.mark.parametrize(
    "error",
    [
        Busy("all places are taken"),
        Unclassified("all places are taken"),
        Unreachable("all places are taken", code="57014"),
    ],
)
def test_a_group_that_fails_keeps_what_it_told(error: SlotkeeperError) -> None:
    groups = [
        ("one", ("pairs", "old_keys"), fails(error, "pairs")),
        ("two", ("xc_node_id",), tells("xc_node_id")),
    ]
    found = asked(groups)
    assert found["pairs"].finding == ProbeFinding("yes") and found["pairs"].evidence == ("seen by s.t",)
    assert found["old_keys"].finding == ProbeFinding(None, because="all places are taken")
    assert found["xc_node_id"].finding == ProbeFinding("yes")
    assert {name: found[name].finding.because for name in NEVER_ASKED} == dict(NEVER_ASKED)


@pytest.mark.parametrize("error", [Unreachable("gone", code="08006"), AccessRefused("refused", code="28P01")])
def test_a_server_that_is_gone_ends_it(error: SlotkeeperError) -> None:
    with pytest.raises(type(error)):
        asked([("one", ("pairs",), fails(error)), ("two", ("xc_node_id",), tells("xc_node_id"))])


def test_a_right_that_is_missing_ends_its_group_only() -> None:
    found = asked([("one", ("pairs",), fails(AccessRefused("no right", code="42501")))])
    assert found["pairs"].finding.because == "no right"


def test_after_the_time_nothing_more_is_begun() -> None:
    groups = [(name, (name,), tells(name)) for name in ("pairs", "old_keys", "xc_node_id")]
    found = asked(groups, ticks=0.4 * TIME_LIMIT)
    assert [found[name].finding.answer for name in ("pairs", "old_keys", "xc_node_id")] == ["yes", "yes", None]
    assert found["xc_node_id"].finding.because == "the probe reached its limit of 120 s"


def test_without_our_own_records_only_the_first_groups_are_asked() -> None:
    groups = [(name, (name,), tells(name)) for name in ("pairs", "old_keys", "xc_node_id")]
    found = asked(groups, ctx(home=""))
    assert [found[name].finding.answer for name in ("pairs", "old_keys", "xc_node_id")] == ["yes", "yes", None]
    assert "no DN returned" in found["xc_node_id"].finding.because


def test_what_a_server_says_is_shown_without_its_functions() -> None:
    assert short(Busy("no\x1b[2J point CONTEXT: PL/pgSQL function f() line 6")) == "no\\x1b[2J point"
