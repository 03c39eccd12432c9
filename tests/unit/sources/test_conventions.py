"""The probe's conclusions from its observations, including inconclusive ones and ones that the stand-in cannot
cause."""

from __future__ import annotations

import doctest
from dataclasses import replace

import pytest

from slotkeeper.core.domain.probing import Answer, ProbeFinding, Reader
from slotkeeper.core.sources.dws.position import DwsPosition
from slotkeeper.core.sources.dws.probe import questions
from slotkeeper.core.sources.dws.probe import questions as decide
from slotkeeper.core.sources.dws.probe.questions import NEVER_ASKED, QUESTIONS, SWITCHED, Beside, Event, Written


def event(point: int, sequence: int, kind: str, key: tuple[int, int] = (1, 2), value: str | None = "a") -> Event:
    return Event(point, sequence, kind, None, key, value)


UPDATE = (event(12, 2, "B"), event(12, 3, "U", value="b"))
HISTORY = (event(10, 2, "I"), *UPDATE, event(14, 2, "d", value="b"))
WRITTEN = (
    Written((("I", (1, 2), "a"),)),
    Written((("B", (1, 2), "a"), ("U", (1, 2), "b"))),
    Written((("d", (1, 2), "b"),)),
)


@pytest.mark.parametrize("module", [decide, questions], ids=lambda one: one.__name__)
def test_the_examples_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_a_correct_history_is_judged_correct() -> None:
    assert decide.codes(HISTORY) == ProbeFinding("I d B U")
    finding = [decide.pairs(HISTORY), decide.old_keys(HISTORY, WRITTEN), decide.one_point(HISTORY, WRITTEN)]
    assert finding == [ProbeFinding("yes")] * 3 and decide.old_images(HISTORY) == ProbeFinding("yes")


@pytest.mark.parametrize(
    ("finding", "answer"),
    [
        (decide.codes([*HISTORY, event(15, 2, "D")]), "I d B U D"),
        (decide.pairs([event(12, 2, "B"), event(12, 4, "U")]), "no"),
        (decide.pairs([event(12, 2, "B"), event(13, 3, "U")]), "no"),
        (decide.pairs([event(12, 2, "B")]), "no"),
        (decide.old_keys([replace(UPDATE[0], key=(1, None))], WRITTEN[1:2]), "no"),
        (decide.one_point([replace(one, point=10) for one in HISTORY], WRITTEN), "no"),
        (decide.one_point(HISTORY, WRITTEN[::-1]), "no"),
        (decide.one_point([*HISTORY[:2], replace(HISTORY[2], point=13), HISTORY[3]], WRITTEN), "no"),
        (decide.exact(HISTORY, [[(10, 2, "I"), (12, 2, "B"), (12, 3, "U")]]), "no"),
        (decide.exact(HISTORY[:1], [[(10, 2, "I")], [(10, 2, "I"), (10, 2, "I")]]), "no"),
        (decide.purged([1, 2, 3], 2, [2], "yes")[0], "yes"),
        (decide.purged([1, 2, 3], 2, [3], None)[1], "no"),
    ],
)
def test_what_the_reader_cannot_stand_is_wrong_and_says_why(finding: ProbeFinding, answer: str) -> None:
    assert finding.answer == answer and finding.reader is Reader.WRONG and finding.because


@pytest.mark.parametrize(
    "finding",
    [
        decide.pairs(HISTORY[:1]),
        decide.old_images(HISTORY[:1]),
        decide.backward("", 9, 8, 5),
        decide.purged([1, 2], 2, [1, 2], "no")[1],
        decide.refreshes(None, None, None),
        decide.no_finding(),
        decide.xmin_kept(5, [4], [5], [5]),
    ],
)
def test_where_nothing_was_shown_nothing_is_reported(finding: ProbeFinding) -> None:
    assert finding.answer is None and finding.because and finding.reader is Reader.UNKNOWN


def test_other_writers_never_make_an_answer() -> None:
    kept, busy, quiet = Beside(-1, 0), Beside(-4, 3), Beside(-1, 0)
    assert decide.latest([kept, busy, kept, busy, busy, busy]) is None, "two of six stop at the job's own commit"
    assert decide.latest([busy] * 12) is None
    assert decide.latest([quiet, quiet, Beside(0, 1)]) == ProbeFinding("no"), "one proof outweighs indications"
    assert decide.moves([(5, 12)] * 9, 8) is None and decide.moves([(1, 9)] * 2, 8) is None
    assert decide.moves([(1, 9), (1, 9), (30, 8)], 8) == ProbeFinding("no"), "one proof outweighs indications"


def test_old_images_that_differ_are_told_as_they_are() -> None:
    mixed = decide.old_images([UPDATE[0], event(14, 2, "d", value=None)])
    assert mixed.answer == "some" and mixed.reader is Reader.RIGHT
    finding = questions.switches([Answer(QUESTIONS["full_old_images"], mixed)])
    assert finding == {"full_old_images": None}


def test_a_reader_stands_where_a_step_leaves_it() -> None:
    assert decide.reached(DwsPosition(9), 12, HISTORY) == DwsPosition(12, 3)
    assert decide.reached(DwsPosition(12, 3), 13, []) == DwsPosition(13)
    assert decide.reached(DwsPosition(12, 3), 12, []) == DwsPosition(12, 3)


@pytest.mark.parametrize(
    ("refused", "missing", "deletes", "answer"),
    [
        ("0A000", [False], 0, "refused"),
        ("", [True, True], 0, "clears"),
        ("", [True, False], 0, "clears some"),
        ("", [False, False], 3, "events"),
        ("", [False, False], 0, "neither"),
    ],
)
def test_a_partition_that_goes_leaves_a_trace_or_is_said_to_leave_none(
    refused: str, missing: list[bool], deletes: int, answer: str
) -> None:
    assert decide.partition(refused, missing, deletes).answer == answer


def test_what_is_never_asked_has_a_reason_and_no_switch() -> None:
    assert set(NEVER_ASKED) == {one.name for one in QUESTIONS.values() if one.topic == "not asked"}
    assert not SWITCHED & set(NEVER_ASKED)
